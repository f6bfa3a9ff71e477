//! What a recorded run makes of this repository's pages: one small table for the README, and for
//! the page about speed a table for each group, with a row for each family. Tests make both again.

use super::Report;
use super::claim::plural;
use crate::family::Scope;
use crate::grid::Grid;
use crate::marks::Marks;
use crate::measured::Measured;
use crate::metrics::PEAK;
use crate::record::{Record, SeriesRecord};
use crate::releases;
use crate::standing::{Against, Standing};
use crate::standing_table::{FamilyFigure, bold_if_ours, by_group};
use std::fmt::Write;

/// The marks of the section about programs and published benchmarks in the page.
pub(crate) const PAGE: Marks = Marks { name: "figures", made_by: "cargo xtask readme" };

/// The marks of the section about our own shapes in the page.
pub(crate) const SHAPES: Marks = Marks { name: "shapes", made_by: "cargo xtask readme --shapes" };
pub(crate) const HEADLINE: Marks = Marks { name: "headline", made_by: "cargo xtask readme" };

/// The digits of a figure that is kept; more would be noise.
const DIGITS: usize = 4;

/// The run with what a section needs and nothing else: the cases of one scope, and of each sample
/// the figure for its speed, its peak memory, and the figure that shows if the machine is the
/// same. Cases that this program does not have are part of the headline, which names them, or of
/// our own shapes where there are no others.
pub fn kept(record: &Record, report: &Report, scope: Scope) -> Record {
    let mut kept = record.clone();
    // It would be that of the figures before they were rounded.
    kept.summary = None;
    let known = |name: &str| report.measured.iter().find(|result| result.job.case.name == name);
    let of_headline = |result: &Measured| Scope::Headline.contains(result.job.group());
    let unknown =
        if report.measured.iter().any(of_headline) { Scope::Headline } else { Scope::Own };
    kept.cases.retain(|case| match known(&case.case) {
        Some(result) => scope.contains(result.job.group()),
        None => scope == unknown,
    });
    for case in &mut kept.cases {
        let pace = known(&case.case).and_then(|result| result.job.case.pace());
        let wanted = |key: &str| {
            key == PEAK.key || key == "link_ns" || pace.is_some_and(|pace| pace.key == key)
        };
        case.ratios.clear();
        for series in case.peers.values_mut() {
            let SeriesRecord::Samples(outcomes) = series else { continue };
            for outcome in outcomes {
                outcome.metrics.retain(|key, _| wanted(key));
                for figure in outcome.metrics.values_mut() {
                    *figure = rounded(*figure);
                }
            }
        }
    }
    kept
}

fn rounded(figure: f64) -> f64 {
    format!("{figure:.*e}", DIGITS - 1).parse().unwrap_or(figure)
}

/// The README's table: a row for each allocator, over programs and published benchmarks.
pub fn headline(report: &Report) -> String {
    let standing = Standing::first(&report.measured, &report.peers);
    let base = &standing.base;
    let time = format!("time, × {base}");
    let peak = format!("peak memory, × {base}");
    let slower = format!("slower than {base} in");
    let mut grid = Grid::new(2, ["allocator", "released", &time, &peak, &slower]);
    for one in standing.fastest_first() {
        let Some(at) = report.peers.iter().position(|peer| peer.name == one.name) else { continue };
        let peer = &report.peers[at];
        let name = format!("{} {}", product(&one.name), short(&releases::version(peer)));
        let slower = if one.name == *base {
            "–".to_owned()
        } else {
            let times = standing.families.iter().filter_map(|row| row.time[at]);
            let slower = times.clone().filter(|time| *time > 1.0).count();
            format!("{slower} of {} families", times.count())
        };
        let released = releases::released(peer).to_owned();
        let means = [brief(one.time.as_ref()), brief(one.memory.as_ref())];
        grid.push([bold_if_ours(&name), released].into_iter().chain(means).chain([slower]));
    }
    grid.markdown()
}

/// An allocator's own name, where the lab's adds the line of its versions.
fn product(name: &str) -> &str {
    match name {
        "mimalloc3" => "mimalloc",
        "jemalloc53" => "jemalloc",
        name => name,
    }
}

/// Of `tikv-jemalloc-sys 0.7.1+5.3.1 (jemalloc 5.3.1)` the allocator's own version, `5.3.1`; of a
/// package that says none its own, without its name.
fn short(version: &str) -> String {
    let inner = version.split_once('(').map_or(version, |(_, inner)| inner.trim_end_matches(')'));
    inner.split_once(' ').map_or(inner, |(_, version)| version).to_owned()
}

fn brief(against: Option<&Against>) -> String {
    against.map_or("–".to_owned(), |one| match (one.low, one.high) {
        (Some(low), Some(high)) if low < high => format!("{:.2} ({low:.2}–{high:.2})", one.mean),
        _ => format!("{:.2}", one.mean),
    })
}

/// The section about programs and published benchmarks; `folder` is where the plots are.
pub fn section(report: &Report, folder: &str) -> String {
    let standings = Standing::all(&report.measured, &report.peers);
    let mut text = provenance(report);
    let base = standings.first().map_or("", |standing| &standing.base);
    let _ = writeln!(
        text,
        "{LEGEND}\n\n![Time and peak memory of every allocator, relative to {base}]({folder}/peers.svg)"
    );
    tables(report, &standings, &mut text);
    let _ = writeln!(text, "\n[Every case]({folder}/cases.svg) against the best of the others.");
    text
}

pub fn shapes(report: &Report) -> String {
    let standings = Standing::all(&report.measured, &report.peers);
    let mut text = provenance(report);
    tables(report, &standings, &mut text);
    text
}

/// A table of means over all groups, one of each group, and the families of each whole group.
fn tables(report: &Report, standings: &[Standing], text: &mut String) {
    let peers = &report.peers;
    for (at, standing) in standings.iter().enumerate() {
        let title = capital(&standing.title());
        if at == 0 {
            let _ = write!(text, "\n### {title}\n\n{}", standing.means(Some(peers)).markdown());
            if standings.len() > 1 {
                let groups = by_group(standings, peers).markdown();
                let _ = write!(text, "\n### Group by group\n\n{groups}");
            }
        }
        if standing.over.is_whole() {
            let _ = writeln!(text, "\n<details><summary>{title}, family by family</summary>");
            let figures: [(&str, FamilyFigure); 2] =
                [("Time", |row| &row.time), ("Peak memory", |row| &row.memory)];
            for (what, figure) in figures {
                let families = standing.by_family(figure, Some(peers)).markdown();
                let _ = write!(text, "\n{what} relative to {}:\n\n{families}", standing.base);
            }
            text.push_str("\n</details>\n");
        }
    }
}

const LEGEND: &str = "
Less is better. A mean is geometric, and each family of cases has one vote in it: the mean of its
sizes and numbers of threads. In brackets are its 95 % interval over families and their number.
*Peak memory* is that of the process, as the kernel counts it. *Best* is whichever other allocator
is best on each case, *tightest* whichever other fast one uses the least there.";

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn provenance(report: &Report) -> String {
    let machine = &report.machine;
    let changed = if machine.revision.ends_with('+') { " with changes" } else { "" };
    let mut text = format!(
        "{}, {} on {} × {}: Linux {}, transparent huge pages {}, glibc {}; revision {}{changed}, {}.\n",
        plural(report.measured.len(), "case", "cases"),
        plural(report.rounds(), "interleaved round", "interleaved rounds"),
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.thp,
        machine.libc,
        machine.revision.trim_end_matches('+'),
        if report.date.is_empty() { "not dated" } else { &report.date },
    );
    let left_out: Vec<&str> =
        report.changed.iter().chain(&report.unknown).map(String::as_str).collect();
    if !left_out.is_empty() {
        let _ = writeln!(
            text,
            "\n**The lab has changed since this run.** These cases measured other work than they do now, \
             and are left out of everything here: {}.",
            left_out.join(", ")
        );
    }
    if report.quick {
        text.push_str("\n**A quick run: its cases are too short for claims.**\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

    /// The figures of the pages are of cases that this program measures as it did then.
    #[test]
    fn the_committed_runs_have_cases_of_today() {
        for (name, least) in [("run", 40), ("shapes", 100)] {
            let file = format!("{}/../../docs/figures/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let report = Report::of(&Record::read(file.as_ref()).unwrap()).unwrap().of_today();
            assert!(report.measured.len() > least, "{name}: {:?}", report.unknown);
        }
    }

    #[test]
    fn a_figure_keeps_four_digits() {
        for (figure, kept) in
            [(4.757_425_4, 4.757), (0.000_123_46, 0.000_123_5), (123_456.0, 123_500.0), (0.0, 0.0)]
        {
            assert_eq!(rounded(figure), kept);
        }
    }

    #[test]
    fn the_section_says_where_it_was_measured_and_shows_versions_with_their_dates() {
        let text = section(&Report::parse(TEXT).unwrap(), "docs");
        for part in [
            "2 interleaved rounds on 2 × A CPU",
            "Linux 6.1, transparent huge pages never, glibc 2.36",
            "revision abc, 2026-01-31 12:00 UTC",
            "A quick run",
            "no-such-case",
            "### Our own shapes (1 family, 1 case)",
            "| **toft** | 0.1 | this revision | 0.58 (1) | 0.58 (1) | 0 | 0.58 x glibc, pair-64 | – |",
            "| glibc | 2.36 | 2022-08-01 | 1.00 (1) | 1.75 (1) | 1 | 1.75 x toft, pair-64 |",
            "| family | cases | **toft** this revision | <x>&\" unknown |",
            "| pair | 1 | 0.58 | – |",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    /// A case that measured other work than it does now is named and in no table; its twin, with
    /// the numbers of today, is.
    #[test]
    fn a_case_of_other_numbers_is_left_out() {
        let with = |numbers: &str| {
            let text = TEXT.replace(
                "\"workload\": \"pair\",",
                &format!("\"workload\": \"pair\", \"numbers\": {numbers},"),
            );
            section(&Report::parse(&text).unwrap().of_today(), "docs")
        };
        let other = with("[\"ops=1\", \"size=64\"]");
        assert!(other.contains("The lab has changed") && other.contains("pair-64, no-such-case"));
        assert!(!other.contains("| pair | 1 |"), "{other}");
        let same = with("[\"ops=40000000\", \"size=64\"]");
        assert!(same.contains("| pair | 1 |") && !same.contains("pair-64, no-such"), "{same}");
    }

    #[test]
    fn the_headline_has_a_row_for_each_allocator() {
        let text = headline(&Report::parse(TEXT).unwrap());
        for row in [
            "| allocator | released | time, × glibc | peak memory, × glibc | slower than glibc in |",
            "| **toft 0.1** | this revision | 0.58 | – | 0 of 1 families |",
            "| glibc 2.36 | 2022-08-01 | 1.00 | – | – |",
        ] {
            assert!(text.contains(row), "{row} is not in {text}");
        }
    }

    #[test]
    fn a_version_is_the_allocators_own() {
        for (whole, own) in [
            ("tikv-jemalloc-sys 0.7.1+5.3.1 (jemalloc 5.3.1)", "5.3.1"),
            ("rpmalloc-sys 0.2.3+b097fd0 (rpmalloc after 1.4.3)", "after 1.4.3"),
            ("snmalloc-sys 0.7.6", "0.7.6"),
            ("2.36", "2.36"),
        ] {
            assert_eq!(short(whole), own);
        }
    }

    #[test]
    fn what_is_kept_draws_the_same() {
        let mut record: Record = serde_json::from_str(TEXT).unwrap();
        let report = Report::of(&record).unwrap();
        let SeriesRecord::Samples(outcomes) = record.cases[0].peers.get_mut("toft").unwrap() else {
            panic!()
        };
        outcomes[0].set("cpu_seconds", 1.0);
        let text = kept(&record, &report, Scope::Own).lines().unwrap();
        assert!(!text.contains("cpu_seconds") && text.contains("\"ns\""), "{text}");
        let again = Report::parse(&text).unwrap();
        assert_eq!((again.unknown.len(), again.measured.len()), (1, 1));
        assert_eq!(section(&again, "docs"), section(&report, "docs"));
    }
}
