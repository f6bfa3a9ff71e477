//! The bars of requirement D4, and whether they are met.

use super::measure::Measured;
use super::plan::{COUNTS, GLIBC, HYSTERESIS, INVERTED, ORIGINAL, ORIGINAL_HYSTERESIS, SIZES};
use super::tables::lowest;
use crate::page::Section;
use crate::table::{interval, table};
use toft_bench::interval::Interval;

/// How many times as fast as glibc a row is whose memory glibc returns again and again.
const THRASH: f64 = 5.0;

/// A row of simple-malloc, and how many times as fast it is.
type Row = (String, Option<Interval>);

fn rows(measured: &Measured, pair: (&str, &str), which: impl Fn(usize, usize) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in SIZES {
        for count in COUNTS.into_iter().filter(|&count| which(size, count)) {
            let found = lowest(measured, size, count, pair);
            let scenario = found.map_or("", |(_, scenario)| scenario);
            rows.push((format!("{size} x {count}, {scenario}"), found.map(|(speed, _)| speed)));
        }
    }
    rows
}

/// The row with the lowest ratio; `None` if one was not measured.
fn least(rows: &[Row]) -> Option<(&str, Interval)> {
    let all: Option<Vec<_>> = rows.iter().map(|(name, speed)| Some((&**name, (*speed)?))).collect();
    all?.into_iter().min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
}

/// Returns true if a row reaches a bar: by its ratio, or by an interval that tells something and
/// holds the bar. A row that was not measured does not.
fn reaches(speed: Option<Interval>, bar: f64) -> bool {
    speed.is_some_and(|one| one.ratio >= bar || (!one.too_wide() && one.high >= bar))
}

/// The table, and whether every bar is met by every row.
pub fn judge(measured: &Measured) -> (Section, bool) {
    let mut lines = Vec::new();
    let mut all = true;
    let mut line = |what: &str, rows: &[Row], bar: Option<f64>| {
        let found = least(rows).map_or_else(
            || "not measured".to_owned(),
            |(name, speed)| format!("{} ({name})", interval(Some(speed))),
        );
        let (wanted, verdict) = bar.map_or((String::new(), "for comparison".into()), |bar| {
            let missed = rows.iter().filter(|(_, speed)| !reaches(*speed, bar)).count();
            all &= missed == 0;
            let verdict = match missed {
                0 => "met".into(),
                _ => format!("MISSED in {missed} of {} rows", rows.len()),
            };
            (format!(">= {bar:.1}"), verdict)
        });
        lines.push(vec![what.to_owned(), wanted, found, verdict]);
    };
    let any = |_, _| true;
    let against = |pair| rows(measured, pair, any);
    line("every row against glibc", &against((HYSTERESIS, GLIBC)), Some(1.0));
    let control = (HYSTERESIS, ORIGINAL_HYSTERESIS);
    line("every row against its control group", &against(control), Some(1.0));
    line("the same without a cache", &against(("runs", ORIGINAL)), None);
    for size in [2048, 4096] {
        let long = rows(measured, (HYSTERESIS, GLIBC), |s, count| s == size && count >= 100);
        line(&format!("{size} bytes, x 100 and more"), &long, Some(THRASH));
        let short = rows(measured, (HYSTERESIS, GLIBC), |s, count| s == size && count < 100);
        line(&format!("{size} bytes, x 25"), &short, None);
    }
    let filler = measured.speed("uns_filler", "ns", INVERTED, ORIGINAL);
    line("the patch where the list is filled", &[("uns_filler".to_owned(), filler)], None);
    let text = table(&["what", "bar", "lowest", ""], &lines);
    (Section::new("bars", "The bars of D4: hysteresis, simple-malloc", text), all)
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    fn judged(ns: impl Fn(&str, &str) -> f64) -> (Vec<String>, bool) {
        let (section, met) = judge(&made(|_, peer, key| ns(peer, key)));
        (section.text.lines().skip(2).map(str::to_owned).collect(), met)
    }

    fn good(peer: &str, key: &str) -> f64 {
        match peer {
            GLIBC if key.contains("_2048_") || key.contains("_4096_") => 51.0,
            ORIGINAL_HYSTERESIS => 12.0,
            _ => 10.0,
        }
    }

    #[test]
    fn everything_may_be_met() {
        let (lines, met) = judged(good);
        assert!(met && lines.len() == 8, "{lines:#?}");
        assert!(lines[0].contains("| >= 1.0 | 1.00 (8 x 25, main) | met |"), "{lines:#?}");
    }

    /// Each bar is missed by the one figure that it is about.
    #[test]
    fn each_bar_can_be_missed() {
        for (of, key, ns, place) in [
            (GLIBC, "ns_thread_16_25", 9.0, 0),
            (ORIGINAL_HYSTERESIS, "ns_after_128_25", 9.0, 1),
            (GLIBC, "ns_main_2048_100", 45.0, 3),
            (GLIBC, "ns_main_4096_1600", 45.0, 5),
        ] {
            let (lines, met) =
                judged(
                    |peer, found| if (peer, found) == (of, key) { ns } else { good(peer, found) },
                );
            let missed: Vec<usize> =
                (0..lines.len()).filter(|at| lines[*at].contains("| MISSED in 1 of ")).collect();
            assert!(!met && missed == [place], "{of} {key}: {lines:#?}");
        }
    }

    #[test]
    fn noise_reaches_no_bar() {
        let interval = |ratio, low, high| Some(Interval { ratio, low, high });
        assert!(
            reaches(interval(1.01, 1.0, 1.02), 1.0) && reaches(interval(0.99, 0.97, 1.01), 1.0)
        );
        assert!(
            !reaches(interval(0.9, 0.4, 2.0), 1.0) && !reaches(interval(0.97, 0.96, 0.98), 1.0)
        );
        assert!(!reaches(None, 1.0));
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let (section, met) = judge(&Measured::default());
        let row = "| not measured | MISSED in 40 of 40 rows |";
        assert!(!met && section.text.contains(row), "{}", section.text);
    }
}
