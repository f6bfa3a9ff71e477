//! The lab beside the published benchmarks: what the classic shapes say here, and what their own
//! programs have said. Where the two rank the allocators in another way, the lab is wrong.

use crate::grid::Grid;
use crate::measured::Measured;
use crate::peers::Peer;
use crate::standing::base;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What the published programs have measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// When, where and with which versions.
    pub about: String,
    /// Differences below this share are noise.
    pub noise: f64,
    pub program: Vec<Program>,
}

/// A published program and the case of the lab that is to rank allocators as it does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub case: String,
    pub command: String,
    /// The time of each peer relative to glibc.
    pub time: BTreeMap<String, f64>,
}

/// What is recorded.
pub fn recorded() -> &'static Published {
    static READ: LazyLock<Published> = LazyLock::new(|| {
        toml::from_str(include_str!("../published.toml")).expect("published.toml does not parse")
    });
    &READ
}

/// The cases that have a published program with figures.
pub fn cases() -> Vec<String> {
    recorded().program.iter().map(|program| program.case.clone()).collect()
}

/// A case on the peers that both the run and the published program have, in the order of the peers.
struct Row<'a> {
    program: &'a Program,
    /// The time here and there, relative to glibc.
    times: Vec<Option<(f64, f64)>>,
}

impl Row<'_> {
    /// The pairs of peers that the published program ranks beyond noise, and those of them that the
    /// lab ranks in the same way or within noise.
    fn agreement(&self, noise: f64) -> (usize, usize) {
        let known: Vec<(f64, f64)> = self.times.iter().flatten().copied().collect();
        let (mut pairs, mut agreed) = (0, 0);
        for (at, a) in known.iter().enumerate() {
            for b in &known[at + 1..] {
                let (here, there) = ((a.0 / b.0).ln(), (a.1 / b.1).ln());
                if there.abs() > noise {
                    pairs += 1;
                    agreed += usize::from(here * there > 0.0 || here.abs() <= noise);
                }
            }
        }
        (agreed, pairs)
    }
}

fn rows<'a>(measured: &[Measured], peers: &[Peer], published: &'a Published) -> Vec<Row<'a>> {
    let base = base(peers);
    let row = |program: &'a Program| {
        let result = measured.iter().find(|result| result.job.case.name == program.case)?;
        let time = |(peer, named): (usize, &Peer)| {
            let there = *program.time.get(&named.name)?;
            Some((result.cost(peer, base, &result.job.case.pace()?)?.median, there))
        };
        Some(Row { program, times: peers.iter().enumerate().map(time).collect() })
    };
    published.program.iter().filter_map(row).collect()
}

/// The table: a line for each published program that was run, a column for each peer with the time
/// here and, in brackets, there.
pub fn draw(measured: &[Measured], peers: &[Peer]) -> String {
    let published = recorded();
    let rows = rows(measured, peers, published);
    let shown: Vec<usize> =
        (0..peers.len()).filter(|&peer| rows.iter().any(|row| row.times[peer].is_some())).collect();
    let names = shown.iter().map(|&peer| peers[peer].name.clone());
    let first = "time x glibc here (published)".to_owned();
    let head = [first].into_iter().chain(names).chain(["pairs ranked alike".to_owned()]);
    let mut table = Grid::new(1, head);
    for row in &rows {
        let cell = |&peer: &usize| {
            row.times[peer]
                .map_or_else(|| "-".to_owned(), |(here, there)| format!("{here:.2} ({there:.2})"))
        };
        let (agreed, pairs) = row.agreement(published.noise);
        let name = format!("{}: {}", row.program.case, row.program.command);
        let cells = [name].into_iter().chain(shown.iter().map(cell));
        table.push(cells.chain([format!("{agreed} of {pairs}")]));
    }
    let note = "Pairs that the published program has within noise are not counted.";
    format!("{table}\npublished: {}\n{note}", published.about.trim_end())
}

/// The peers that have published figures.
pub fn peers() -> Vec<String> {
    let mut names = vec!["glibc".to_owned()];
    for program in &recorded().program {
        for name in program.time.keys() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Scope;
    use crate::fixtures::peers as named;
    use crate::runner::choose;
    use crate::standing::tests::measured;

    #[test]
    fn every_program_is_a_classic_case_and_every_peer_exists() {
        for job in choose(&cases()).unwrap() {
            assert!(Scope::Classic.contains(job.group()), "{}", job.case.name);
            assert!(job.case.pace().is_some(), "{}", job.case.name);
        }
        let is_known = |peer: &String| crate::peers::recipe(peer).is_some();
        assert!(peers().iter().all(is_known), "{:?}", peers());
        assert_eq!(peers().len(), 7);
    }

    /// The figures of the published program itself agree with it; the twin has two peers exchanged.
    #[test]
    fn what_ranks_the_peers_as_the_program_does_agrees_and_what_does_not_is_counted() {
        let program = recorded().program.iter().find(|one| one.case == "rptest-linear-2").unwrap();
        let names = ["glibc", "toft", "snmalloc", "tcmalloc"];
        let drawn = |times: [f64; 3]| {
            let rates: Vec<(f64, f64)> =
                [1.0].iter().chain(&times).map(|time| (1.0 / time, 1.0)).collect();
            draw(&[measured("rptest-linear-2", "mops", &rates)], &named(&names))
        };
        let times = ["toft", "snmalloc", "tcmalloc"].map(|name| program.time[name]);
        let same = drawn(times);
        assert!(same.contains("3 of 3") && same.contains("0.38 (0.38)"), "{same}");
        let other = drawn([times[2], times[1], times[0]]);
        assert!(other.contains("0 of 3") && other.contains("0.16 (0.38)"), "{other}");
    }
}
