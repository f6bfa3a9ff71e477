//! The tables of a standing, for a terminal and for pages.

use crate::grid::Grid;
use crate::peers::Peer;
use crate::releases::{released, version};
use crate::standing::{Against, FamilyStanding, Standing, WORSE, is_ours};

/// One of the figures of a family, for each peer.
pub type FamilyFigure = fn(&FamilyStanding) -> &Vec<Option<f64>>;

impl Standing {
    /// The means: a row for each peer, the fastest first. With the peers of the run each row also
    /// has the version and the day of its release.
    pub fn means(&self, peers: Option<&[Peer]>) -> Grid {
        let base = &self.base;
        let dates: &[&str] = if peers.is_some() { &["version", "released"] } else { &[] };
        let columns = [
            format!("time, × {base}"),
            "× best".to_owned(),
            format!("above {WORSE}"),
            "worst case".to_owned(),
            format!("peak memory, × {base}"),
            "× tightest".to_owned(),
            format!("above {WORSE}"),
            "worst case".to_owned(),
            "failed".to_owned(),
        ];
        let first = [""].iter().chain(dates).map(|text| (*text).to_owned());
        let mut grid = Grid::new(1 + dates.len(), first.chain(columns));
        for one in self.fastest_first() {
            let peer = peers.and_then(|peers| peers.iter().find(|peer| peer.name == one.name));
            let mut cells = match peer {
                Some(peer) => vec![bold_if_ours(&one.name), version(peer), released(peer).into()],
                None => vec![one.name.clone()],
            };
            for (base, best) in
                [(&one.time, &one.time_to_best), (&one.memory, &one.memory_to_tightest)]
            {
                cells.extend([mean(base.as_ref()), mean(best.as_ref())]);
                cells.push(best.as_ref().map_or_else(none, |best| best.worse.to_string()));
                cells.push(best.as_ref().map_or_else(none, |best| best.worst.text()));
            }
            cells.push(one.failed.to_string());
            grid.push(cells);
        }
        grid
    }

    /// A figure family by family: a row for each family that has it, a column for each peer but the
    /// base. With the peers of the run each column also has the day of the release.
    pub fn by_family(&self, figure: FamilyFigure, peers: Option<&[Peer]>) -> Grid {
        let shown: Vec<usize> =
            (0..self.peers.len()).filter(|&peer| self.peers[peer].name != self.base).collect();
        let name = |&peer: &usize| match peers {
            Some(peers) => {
                format!("{} {}", bold_if_ours(&peers[peer].name), released(&peers[peer]))
            }
            None => self.peers[peer].name.clone(),
        };
        let first = ["family".to_owned(), "cases".to_owned()];
        let mut grid = Grid::new(1, first.into_iter().chain(shown.iter().map(name)));
        for row in &self.families {
            let figures = figure(row);
            if shown.iter().any(|&peer| figures[peer].is_some()) {
                let first = [row.family.clone(), row.cases.to_string()];
                let text = |&peer: &usize| figures[peer].map_or_else(none, |f| format!("{f:.2}"));
                grid.push(first.into_iter().chain(shown.iter().map(text)));
            }
        }
        grid
    }
}

/// The means of each standing but the first, which has a table to itself: a row for each peer.
pub fn by_group(standings: &[Standing], peers: &[Peer]) -> Grid {
    let Some((first, groups)) = standings.split_first() else { return Grid::new(0, [""; 0]) };
    let title = |what: &str| {
        let title = move |group: &Standing| format!("{}, {what}", group.title());
        groups.iter().map(title).collect::<Vec<_>>()
    };
    let head = [String::new(), "released".to_owned()];
    let mut grid = Grid::new(2, head.into_iter().chain(title("time")).chain(title("peak memory")));
    for one in first.fastest_first() {
        let Some(at) = peers.iter().position(|peer| peer.name == one.name) else { continue };
        let times = groups.iter().map(|group| mean(group.peers[at].time.as_ref()));
        let peaks = groups.iter().map(|group| mean(group.peers[at].memory.as_ref()));
        let first = [bold_if_ours(&one.name), released(&peers[at]).to_owned()];
        grid.push(first.into_iter().chain(times).chain(peaks));
    }
    grid
}

/// A name, in bold if it is that of a build of Toft.
pub fn bold_if_ours(name: &str) -> String {
    if is_ours(name) { format!("**{name}**") } else { name.to_owned() }
}

/// A mean, its interval and its families.
fn mean(against: Option<&Against>) -> String {
    against.map_or_else(none, |one| match (one.low, one.high) {
        (Some(low), Some(high)) if low < high => {
            format!("{:.2} ({low:.2}–{high:.2}; {})", one.mean, one.families)
        }
        _ => format!("{:.2} ({})", one.mean, one.families),
    })
}

fn none() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Scope;
    use crate::standing::tests::four;

    /// The row that begins with a word, without spaces.
    fn row(grid: &Grid, first: &str) -> String {
        let drawn = grid.to_string();
        let line = drawn.lines().find(|line| line.starts_with(&format!("| {first} ")));
        line.unwrap_or_else(|| panic!("{first} in {drawn}")).replace(' ', "")
    }

    #[test]
    fn the_families_have_a_row_each_and_what_failed_has_no_figure() {
        let (measured, peers) = four();
        let standing = Standing::of(&measured, &peers, Scope::Headline);
        let families = standing.by_family(|row| &row.time, None);
        assert_eq!(row(&families, "malloc-thread"), "|malloc-thread|1|0.50|0.40|2.00|");
        assert_eq!(row(&families, "cfrac"), "|cfrac|1|1.50|–|1.00|");
        assert!(!families.to_string().contains("espresso"), "it is about memory alone");
    }
}
