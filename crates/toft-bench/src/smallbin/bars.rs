//! What was asked of the arena, and what was measured.

use super::Section;
use super::plan::{
    ALL_ROWS, COUNTS, GLIBC, ORIGINAL, ORIGINAL_PARKING, PARKING, RUNS, SCENARIOS, SIZES, STANDARD,
    simple,
};
use super::tables::{cell, speed};
use crate::interval::Interval;
use crate::metrics::NS;
use crate::report::Report;

/// How many times as fast as the control group direct routing is to be where the list is filled.
const FILLER: f64 = 1.2;
/// How many times as fast as glibc what it gives back to the kernel again and again is to be.
const THRASH: f64 = 5.0;

/// A row of simple-malloc, and how many times as fast it is.
type Row = (String, Option<Interval>);

/// The table, and whether everything in it is met.
pub(super) fn judge(report: &Report) -> (Section, bool) {
    let filler = |pair| speed(report, "uns-filler", &NS, pair);
    let pairs = [
        ("arena-standard against arena-original", (STANDARD, ORIGINAL)),
        ("arena-parking against arena-original-parking", (PARKING, ORIGINAL_PARKING)),
        ("arena-runs against arena-original", (RUNS, ORIGINAL)),
    ];
    let mut text = "| what | bar | measured | |\n|---|---|---|---|\n".to_owned();
    let mut all = true;
    let mut line = |what: &str, bar: &str, measured: String, met: Option<bool>| {
        let verdict = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "for comparison",
        };
        all &= met.unwrap_or(true);
        text.push_str(&format!("| {what} | {bar} | {measured} | {verdict} |\n"));
    };
    for (n, (name, pair)) in pairs.into_iter().enumerate() {
        let ratio = filler(pair);
        let met = ratio.is_some_and(|interval| interval.ratio >= FILLER);
        // The bar is for the bins. A cache takes a part of the frees away from both.
        let met = (n == 0).then_some(met);
        line(&format!("uns_filler: {name}"), ">= 1.2", cell(ratio), met);
    }
    let lowest = [("its control group", (PARKING, ORIGINAL_PARKING)), ("glibc", (PARKING, GLIBC))];
    for (name, pair) in lowest {
        let rows = rows(report, pair, |_, _| true);
        line(
            &format!("simple-malloc: the lowest of {} rows against {name}", rows.len()),
            ">= 1.0",
            least(&rows),
            Some(holds(&rows)),
        );
    }
    let bare = rows(report, (RUNS, ORIGINAL), |_, _| true);
    let what = format!("simple-malloc: the lowest of {} rows without a cache", bare.len());
    line(&format!("{what} against its control group"), ">= 1.0", least(&bare), Some(holds(&bare)));
    let plain = rows(report, (STANDARD, ORIGINAL), |_, _| true);
    line(&format!("{what}, runs in the bins"), "", least(&plain), None);
    for size in [2048, 4096] {
        let thrash = rows(report, (PARKING, GLIBC), |s, count| s == size && count >= 100);
        let met = thrash.iter().all(|(_, i)| i.is_some_and(|i| i.ratio >= THRASH));
        line(
            &format!("simple-malloc: {size} bytes, runs of 100 and more, against glibc"),
            ">= 5",
            least(&thrash),
            Some(met),
        );
        let short = rows(report, (PARKING, GLIBC), |s, count| s == size && count < 100);
        line(
            &format!("simple-malloc: {size} bytes, runs of 25, which glibc keeps"),
            "",
            least(&short),
            None,
        );
    }
    (Section { name: "bars", title: "Bars".to_owned(), text }, all)
}

fn rows(report: &Report, pair: (&str, &str), which: impl Fn(usize, usize) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (scenario, _) in SCENARIOS {
        for size in SIZES {
            for count in COUNTS.into_iter().filter(|&count| which(size, count)) {
                let name = format!("{size} x {count}, {scenario}");
                rows.push((name, speed(report, ALL_ROWS, &simple(scenario, size, count), pair)));
            }
        }
    }
    rows
}

/// Whether no row is told to be below 1. One that was not measured is no reason to be content.
fn holds(rows: &[Row]) -> bool {
    rows.iter().all(|(_, ratio)| ratio.is_some_and(|ratio| ratio.high >= 1.0))
}

/// The lowest ratio, and how many are told to be below 1.
fn least(rows: &[Row]) -> String {
    let missing = rows.iter().filter(|(_, ratio)| ratio.is_none()).count();
    if missing > 0 {
        return format!("{missing} rows were not measured");
    }
    let below = rows.iter().filter(|(_, ratio)| ratio.is_some_and(|r| r.high < 1.0)).count();
    let ratio = |row: &&Row| row.1.map_or(f64::INFINITY, |interval| interval.ratio);
    let lowest = rows.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    lowest.map_or_else(String::new, |(name, ratio)| {
        format!("{} ({name}); below 1: {below} of {}", cell(*ratio), rows.len())
    })
}

#[cfg(test)]
mod tests {
    use super::super::tables::tests::report;
    use super::*;

    const PEERS: &[&str] = &[ORIGINAL, STANDARD, RUNS, PARKING, ORIGINAL_PARKING, GLIBC];

    fn judged(ns: impl Fn(&str, &str, &str) -> f64) -> (Vec<String>, bool) {
        let (section, met) = judge(&report(PEERS, &["uns-filler", ALL_ROWS], ns));
        (section.text.lines().skip(2).map(str::to_owned).collect(), met)
    }

    fn good(peer: &str, key: &str) -> f64 {
        match peer {
            ORIGINAL | ORIGINAL_PARKING => 12.5,
            GLIBC if key.contains("_2048_") || key.contains("_4096_") => 51.0,
            _ => 10.0,
        }
    }

    #[test]
    fn everything_may_be_met() {
        let (lines, met) = judged(|peer, _, key| good(peer, key));
        assert!(met, "{lines:#?}");
        assert!(lines[0].contains("| >= 1.2 | 1.25 | met |"), "{lines:#?}");
        assert!(lines[4].contains("1.00 (8 x 25, main); below 1: 0 of 120"), "{lines:#?}");
        assert_eq!(lines.len(), 11);
    }

    /// Each bar is missed by the one figure that it is about.
    #[test]
    fn each_bar_can_be_missed() {
        let cases: [(&str, &str, f64, usize); 5] = [
            (STANDARD, "ns", 11.0, 0),
            (PARKING, "ns_after_128_25", 13.0, 3),
            (RUNS, "ns_after_128_25", 13.0, 5),
            (GLIBC, "ns_thread_16_25", 9.0, 4),
            (GLIBC, "ns_main_4096_100", 45.0, 9),
        ];
        for (of, wanted, ns, place) in cases {
            let (lines, met) =
                judged(
                    |peer, _, key| if (peer, key) == (of, wanted) { ns } else { good(peer, key) },
                );
            let missed = |line: &String| line.ends_with("| MISSED |");
            assert!(!met && missed(&lines[place]), "{of} {wanted}: {lines:#?}");
        }
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let (section, met) = judge(&report(PEERS, &["uns-filler"], |peer, _, _| good(peer, "")));
        assert!(!met && section.text.contains("120 rows were not measured"), "{}", section.text);
    }
}
