//! Ratios, times and instructions.
//!
//! Every ratio is of times, the other's over that of the group that it is about: more than 1 means
//! that the group is faster. It is taken round by round.

use super::Section;
use super::plan::{
    ALL_ROWS, COUNTED, COUNTS, GLIBC, ORIGINAL, ORIGINAL_PARKING, PARKING, RUNS, SCENARIOS, SIZES,
    STEPS, VARIANTS, published, simple,
};
use crate::cost::Ratio;
use crate::interval::Interval;
use crate::measured::Measured;
use crate::metrics::{INSTRUCTIONS, Metric, NS};
use crate::report::Report;
use crate::table::{figure, plain};

/// A table in Markdown.
fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{}\n{rows}", line(head), "---|".repeat(head.len()))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// The results of a case.
pub(super) fn case<'a>(report: &'a Report, name: &str) -> Option<&'a Measured> {
    report.measured.iter().find(|result| result.job.case.name == name)
}

fn place(report: &Report, peer: &str) -> Option<usize> {
    report.peers.iter().position(|known| known.name == peer)
}

/// How many times as fast `of` is as `to`.
pub(super) fn speed(
    report: &Report,
    name: &str,
    metric: &Metric,
    (of, to): (&str, &str),
) -> Option<Interval> {
    let (of, to) = (place(report, of)?, place(report, to)?);
    let result = case(report, name)?;
    let single = || {
        // Of one round there is a ratio, and nothing that says how sure it is.
        let ratio = result.ratio(to, of, metric)?.median;
        Some(Interval { ratio, low: 0.0, high: f64::INFINITY })
    };
    result.interval(to, of, metric).or_else(single).filter(|interval| interval.ratio.is_finite())
}

pub(super) fn cell(interval: Option<Interval>) -> String {
    interval.map_or_else(|| "-".to_owned(), |interval| Ratio { interval }.text())
}

/// All tables.
pub(super) fn sections(report: &Report) -> Vec<Section> {
    let section = |name, title: &str, text| Section { name, title: title.to_owned(), text };
    let mut all = vec![
        section(
            "variants",
            "The variants of the patch, times as fast as the original, and what was published",
            variants(report),
        ),
        section("steps", "Ideas, each times as fast as the same without it", steps(report)),
        section("times", "ns for a malloc and a free", times(report)),
        section("instructions", "Instructions for a malloc and a free", instructions(report)),
    ];
    let pairs = [
        ("glibc", "arena-parking, times as fast as glibc", (PARKING, GLIBC)),
        (
            "control",
            "arena-parking, times as fast as its control group",
            (PARKING, ORIGINAL_PARKING),
        ),
        ("bare", "arena-runs, times as fast as its control group", (RUNS, ORIGINAL)),
    ];
    for (name, title, pair) in pairs {
        all.push(section(name, title, rows(report, pair)));
    }
    all
}

fn variants(report: &Report) -> String {
    let mut head = words(&["", "published"]);
    head.extend(VARIANTS.iter().map(|(_, name)| (*name).to_owned()));
    let row = |row: super::plan::Published| {
        let mut cells = vec![row.name, format!("{:.2}", row.ratio)];
        for (peer, _) in VARIANTS {
            cells.push(cell(speed(report, row.case, &row.metric, (peer, ORIGINAL))));
        }
        cells
    };
    table(&head, &published().into_iter().map(row).collect::<Vec<_>>())
}

/// The cases that take their time by `ns`.
fn timed(report: &Report) -> impl Iterator<Item = &Measured> {
    report.measured.iter().filter(|result| result.job.case.metrics.contains(&NS))
}

fn steps(report: &Report) -> String {
    let mut head = words(&[""]);
    head.extend(STEPS.iter().map(|(_, _, idea)| (*idea).to_owned()));
    let rows: Vec<Vec<String>> = timed(report)
        .map(|result| {
            let name = &result.job.case.name;
            let ratios = STEPS.iter().map(|(of, to, _)| cell(speed(report, name, &NS, (of, to))));
            [name.clone()].into_iter().chain(ratios).collect()
        })
        .collect();
    table(&head, &rows)
}

fn times(report: &Report) -> String {
    let mut head = words(&[""]);
    head.extend(timed(report).map(|result| result.job.case.name.clone()));
    let row = |(peer, known): (usize, &crate::peers::Peer)| {
        let cells = timed(report).map(|result| match &result.series[peer] {
            Err(_) => "failed".to_owned(),
            Ok(_) => result.summary(peer, &NS).map_or_else(|| "-".to_owned(), |s| figure(&s)),
        });
        [known.name.clone()].into_iter().chain(cells).collect()
    };
    table(&head, &report.peers.iter().enumerate().map(row).collect::<Vec<_>>())
}

fn instructions(report: &Report) -> String {
    let counted: Vec<&Measured> =
        COUNTED.iter().filter_map(|name| case(report, name)).filter(|r| has_counts(r)).collect();
    if counted.is_empty() {
        return "Not counted: `--callgrind` does.\n".to_owned();
    }
    let mut head = words(&[""]);
    head.extend(counted.iter().map(|result| result.job.case.name.clone()));
    let row = |(peer, known): (usize, &crate::peers::Peer)| {
        let cells = counted.iter().map(|result| {
            let count = result.summary(peer, &INSTRUCTIONS);
            count.map_or_else(|| "-".to_owned(), |count| plain(count.median))
        });
        [known.name.clone()].into_iter().chain(cells).collect()
    };
    table(&head, &report.peers.iter().enumerate().map(row).collect::<Vec<_>>())
}

fn has_counts(result: &Measured) -> bool {
    (0..result.series.len()).any(|peer| result.summary(peer, &INSTRUCTIONS).is_some())
}

/// Every row of simple-malloc, by scenario.
fn rows(report: &Report, pair: (&str, &str)) -> String {
    let mut head = words(&["", "bytes"]);
    head.extend(COUNTS.iter().map(|count| format!("runs of {count}")));
    let row = |(scenario, title): (&str, &str), size: usize| {
        let first = if size == SIZES[0] { title } else { "" };
        let cells = COUNTS
            .iter()
            .map(|&count| cell(speed(report, ALL_ROWS, &simple(scenario, size, count), pair)));
        [first.to_owned(), size.to_string()].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let all = SCENARIOS.iter().flat_map(|&named| SIZES.iter().map(move |&size| row(named, size)));
    table(&head, &all.collect::<Vec<_>>())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::peers::Peer;
    use crate::runner::choose;

    /// A run in which a peer takes this many ns in a case, by its figure's key.
    pub(in super::super) fn report(
        peers: &[&str],
        cases: &[&str],
        ns: impl Fn(&str, &str, &str) -> f64,
    ) -> Report {
        let mut report = Report::parse(crate::report::tests::TEXT).unwrap();
        let peer =
            |name: &&str| Peer { name: (*name).into(), library: None, version: String::new() };
        report.peers = peers.iter().map(peer).collect();
        let one = |peer: &str, case: &str, round: f64| {
            let mut outcome = Outcome::default().with("ns", ns(peer, case, "ns") * round);
            outcome.set("instructions", 10.0 * ns(peer, case, "ns"));
            if case == ALL_ROWS {
                for (scenario, _) in SCENARIOS {
                    for size in SIZES {
                        for count in COUNTS {
                            let key = simple(scenario, size, count).key;
                            outcome.set(key, ns(peer, case, key) * round);
                        }
                    }
                }
            }
            outcome
        };
        let measured = |case: &&str| Measured {
            job: choose(&[(*case).to_owned()]).unwrap()[0],
            series: peers
                .iter()
                .map(|peer| Ok([1.0, 1.1, 0.9].map(|round| one(peer, case, round)).to_vec()))
                .collect(),
        };
        report.measured = cases.iter().map(measured).collect();
        report
    }

    #[test]
    fn ratios_are_speeds_and_stand_beside_what_was_published() {
        let report = report(&[ORIGINAL, "arena-mod"], &["uns-filler"], |peer, _, _| {
            if peer == ORIGINAL { 30.0 } else { 20.0 }
        });
        let text = variants(&report);
        assert!(text.contains("| uns_filler | 1.19 | 1.50 | - | - | - |"), "{text}");
        assert!(text.contains("| simple 128 x 25 | 0.91 | - |"), "{text}");
        let text = times(&report);
        assert!(text.contains("| arena-mod | 20.0 ±10% |"), "{text}");
        assert!(instructions(&report).contains("| arena-original | 300 |"));
    }

    #[test]
    fn every_row_of_simple_malloc_has_its_place() {
        let report = report(&[PARKING, GLIBC], &[ALL_ROWS], |peer, _, key| match (peer, key) {
            (GLIBC, "ns_thread_512_400") => 70.0,
            _ => 10.0,
        });
        let text = rows(&report, (PARKING, GLIBC));
        let line = text.lines().filter(|line| line.contains("| 512 |")).nth(1).unwrap();
        assert_eq!(line, "|  | 512 | 1.00 | 1.00 | 7.00 | 1.00 |");
        assert_eq!(text.lines().count(), 2 + 30);
    }

    #[test]
    fn what_was_not_counted_says_how_it_is() {
        let mut report = report(&[ORIGINAL], &["uns-filler"], |_, _, _| 1.0);
        for outcome in report.measured[0].series[0].as_mut().unwrap() {
            outcome.metrics.remove("instructions");
        }
        assert!(instructions(&report).contains("--callgrind"));
    }
}
