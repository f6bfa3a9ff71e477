//! Ratios and times as tables. More than 1 means that the variant is faster.

use super::measure::Measured;
use super::plan::{
    COUNTS, GLIBC, GRID, HYSTERESIS, IDEAS, INVERTED, ORIGINAL, PUBLISHED, SCENARIOS, SHOWN, SIZES,
    SYSTEM, VARIANTS, row as key,
};
use crate::page::Section;
use crate::table::{interval, row, table};
use toft_bench::interval::Interval;

/// Where, and every table of times.
pub fn sections(measured: &Measured, rounds: usize, quick: bool) -> Vec<Section> {
    let compared = "Times as fast as the original, beside what was published";
    let grid = "simple-malloc: times as fast as glibc, the lowest of three scenarios";
    vec![
        Section::place(rounds, quick),
        Section::new("variants", compared, variants(measured)),
        Section::new("ideas", "Each idea: times as fast as without it", ideas(measured)),
        Section::new("times", "Nanoseconds for a malloc and a free, medians", times(measured)),
        Section::new("runs", grid, runs(measured)),
    ]
}

fn variants(measured: &Measured) -> String {
    let head: Vec<&str> = ["", "published"].into_iter().chain(VARIANTS.iter().copied()).collect();
    let line = |(case, published): &(&str, f64)| {
        let speed = |variant: &&str| interval(measured.speed(case, "ns", variant, ORIGINAL));
        row(case, [published.to_string()].into_iter().chain(VARIANTS.iter().map(speed)))
    };
    table(&head, &PUBLISHED.iter().map(line).collect::<Vec<_>>())
}

fn ideas(measured: &Measured) -> String {
    let head: Vec<&str> = [""].into_iter().chain(IDEAS.iter().map(|(_, _, idea)| *idea)).collect();
    let line = |case: &&str| {
        row(case, IDEAS.iter().map(|(of, to, _)| interval(measured.speed(case, "ns", of, to))))
    };
    table(&head, &SHOWN.iter().map(line).collect::<Vec<_>>())
}

fn times(measured: &Measured) -> String {
    let shown = [ORIGINAL, INVERTED, "runs", HYSTERESIS].into_iter().chain(SYSTEM.iter().copied());
    let head: Vec<&str> = [""].into_iter().chain(shown.clone()).collect();
    let line = |case: &&str| {
        let time = |peer| measured.median(case, peer, "ns");
        row(case, shown.clone().map(|it| time(it).map_or("-".into(), |ns| format!("{ns:.1}"))))
    };
    table(&head, &SHOWN.iter().map(line).collect::<Vec<_>>())
}

/// The lowest speed of the three scenarios.
pub fn lowest(
    measured: &Measured,
    size: usize,
    count: usize,
    (of, to): (&str, &str),
) -> Option<(Interval, &'static str)> {
    let all: Option<Vec<_>> = SCENARIOS
        .iter()
        .map(|scenario| {
            Some((measured.speed(GRID, &key(scenario, size, count), of, to)?, *scenario))
        })
        .collect();
    all?.into_iter().min_by(|a, b| a.0.ratio.total_cmp(&b.0.ratio))
}

fn runs(measured: &Measured) -> String {
    let head = row("bytes", COUNTS.map(|count| format!("x {count}")));
    let rows = SIZES.map(|size| {
        let lowest = |count| lowest(measured, size, count, (HYSTERESIS, GLIBC));
        row(size, COUNTS.map(|count| interval(lowest(count).map(|(speed, _)| speed))))
    });
    table(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    #[test]
    fn ratios_stand_beside_what_was_published() {
        let measured = made(|_, peer, _| if peer == ORIGINAL { 30.0 } else { 20.0 });
        let text = variants(&measured);
        assert!(text.contains("| uns_filler | 1.186 | 1.50 |"), "{text}");
        assert!(text.contains("| simple 2048 x 1600 | 1.00248 | 1.50 |"), "{text}");
        assert_eq!(text.lines().count(), 2 + 11);
        assert!(times(&measured).contains("| malloc-thread 32 | 30.0 | 20.0 |"));
    }

    #[test]
    fn a_row_shows_its_lowest_scenario() {
        let measured = made(|_, peer, key| match (peer, key) {
            (GLIBC, "ns_thread_512_400") => 70.0,
            (GLIBC, "ns_after_512_400") => 40.0,
            (GLIBC, "ns_main_512_400") => 50.0,
            _ => 10.0,
        });
        let text = runs(&measured);
        let line = "| 512 | 1.00 | 1.00 | 4.00 | 1.00 |";
        assert!(text.contains(line), "{text}");
        let found = lowest(&measured, 512, 400, (HYSTERESIS, GLIBC)).unwrap();
        assert_eq!(found.1, "after");
    }
}
