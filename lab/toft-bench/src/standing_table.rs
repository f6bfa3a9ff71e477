//! The tables of a standing: a row for each peer, and a row for each family.

use crate::standing::{Against, Standing, WORSE};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

impl Standing {
    /// The table that stands below that of the cases.
    #[must_use]
    pub fn draw(&self) -> String {
        let mut table = plain_table();
        let base = &self.base;
        table.set_header([
            self.title(),
            format!("time x {base}"),
            "x best other".to_owned(),
            format!("> {WORSE}"),
            "worst".to_owned(),
            format!("peak x {base}"),
            "x tightest fast".to_owned(),
            format!("> {WORSE}"),
            "worst".to_owned(),
            "failed".to_owned(),
        ]);
        for peer in self.fastest_first() {
            let mut cells = vec![peer.name.clone()];
            let columns =
                [(&peer.time, &peer.time_to_best), (&peer.memory, &peer.memory_to_tightest)];
            for (base, best) in columns {
                cells.extend([mean(base.as_ref()), mean(best.as_ref())]);
                cells.push(best.as_ref().map_or_else(none, |best| best.worse.to_string()));
                cells.push(best.as_ref().map_or_else(none, |best| best.worst.text()));
            }
            cells.push(peer.failed.to_string());
            table.add_row(cells);
        }
        to_the_right(&mut table);
        table.to_string()
    }

    /// The time of every peer against the base, family by family.
    #[must_use]
    pub fn draw_families(&self) -> String {
        let mut table = plain_table();
        let first = format!("time x {}, {}", self.base, self.over.title());
        let names = self.peers.iter().map(|peer| peer.name.clone());
        table.set_header([first, "cases".to_owned()].into_iter().chain(names));
        for row in &self.families {
            let figures = row.time.iter().map(|time| time.map_or_else(none, |t| format!("{t:.2}")));
            let head = [row.family.clone(), row.cases.to_string()];
            table.add_row(head.into_iter().chain(figures));
        }
        to_the_right(&mut table);
        table.to_string()
    }
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// All columns but the first.
fn to_the_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn mean(against: Option<&Against>) -> String {
    against.map_or_else(none, |one| format!("{} of {}", one.text(), one.families))
}

fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Scope;
    use crate::standing::tests::four;

    #[test]
    fn the_table_has_a_row_for_each_peer_and_says_of_how_many_families() {
        let (measured, peers) = four();
        let standing = Standing::of(&measured, &peers, Scope::Headline);
        let drawn = standing.draw();
        let toft = drawn.lines().find(|line| line.contains("| toft")).unwrap();
        for part in [") of 3", "1.14 (", "1.96 (", "4.00 x rpmalloc, larson-2", "2.00 ("] {
            assert!(toft.contains(part), "{part} in {drawn}");
        }
        let rpmalloc = drawn.lines().find(|line| line.contains("| rpmalloc")).unwrap();
        assert!(rpmalloc.contains(" - |") && rpmalloc.ends_with("1 |"), "{drawn}");
        assert_eq!(Standing::of(&[], &[], Scope::Headline).peers, []);
    }

    #[test]
    fn the_families_have_a_row_each_and_what_failed_has_no_figure() {
        let (measured, peers) = four();
        let drawn = Standing::of(&measured, &peers, Scope::Headline).draw_families();
        let row = |family: &str| {
            let line = drawn.lines().find(|line| line.starts_with(&format!("| {family} ")));
            line.unwrap_or_else(|| panic!("{family} in {drawn}")).replace(' ', "")
        };
        assert_eq!(row("malloc-thread"), "|malloc-thread|1|0.50|1.00|0.40|2.00|");
        assert_eq!(row("cfrac"), "|cfrac|1|1.50|1.00|-|1.00|");
    }
}
