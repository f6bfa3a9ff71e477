//! Requirements E1 and E4, and what was measured.

use super::measure::{PROCESSOR, Results, TIME};
use super::plan::Driver::{self, Beyond, Inverse, Recorded, Runs, Uniform};
use super::plan::{Point, THREADS};
use super::subjects::{ARENA, ARENA_CACHE, CLASS, CLASS_CACHE, Subject, Subjects};
use crate::page::Section;
use crate::table::table;
use Subject::{Glibc, Toft};
use toft_bench::stats::Summary;

/// How many times as fast as glibc one thread of Toft must be (E4).
const GLIBC: f64 = 3.0;
/// How many times as fast as one thread two must be (E4).
const TWO: f64 = 1.9;
/// What must be left of two threads' speed if there are more threads than processors (E4), and of
/// the speed of a thread for each arena if there are more threads than arenas (E1).
const MORE: f64 = 0.9;
/// The number of arenas of which E1 is judged: the largest.
const JUDGED: usize = 16;

/// The table, and whether each bar is met.
pub fn section(results: &Results, subjects: &Subjects, processors: usize) -> (Section, bool) {
    let mut rows = Vec::new();
    let mut met = true;
    let mut judge = |bar: Bar| {
        if let Some((row, is_met)) = bar.row(results) {
            rows.push(row);
            met &= is_met;
        }
    };
    for subject in [ARENA, CLASS, ARENA_CACHE, CLASS_CACHE] {
        let what = format!("E1: {}, 16 arenas: 32 threads against 16", subjects.name(subject));
        let of = |threads| results.point(Uniform, threads, JUDGED, subject);
        judge(Bar { what, least: Some(MORE), points: of(32).zip(of(16)), more: 1.0 });
    }
    // The bar is for where glibc leaves its cache. Of the others most calls are served by it.
    let bars = [Runs, Beyond].map(|driver| (driver, Some(GLIBC)));
    let others = [Uniform, Inverse, Recorded].map(|driver| (driver, None));
    for (driver, least) in bars.into_iter().chain(others) {
        let of = |subject| point(results, driver, 1, subject);
        let what = format!("E4: toft against glibc, 1 thread: {}", driver.name());
        judge(Bar { what, least, points: of(Toft).zip(of(Glibc)), more: 1.0 });
    }
    for threads in THREADS.into_iter().skip(1) {
        let (base, least) = if threads == 2 { (1, TWO) } else { (2, MORE) };
        let of = |threads| point(results, Uniform, threads, Toft);
        let what = format!("E4: toft, {threads} threads against {base}");
        // What more processors would give if processor time were all.
        let more = threads.min(processors) as f64 / base.min(processors) as f64;
        judge(Bar { what, least: Some(least), points: of(threads).zip(of(base)), more });
    }
    let titles = ["speed", "bar", "measured", "", "by processor time"];
    let text = table(&titles, &rows);
    (Section::new("bars", "The bars", text), met)
}

/// The point of Toft, or that of glibc with one arena.
fn point(results: &Results, driver: Driver, threads: usize, subject: Subject) -> Option<Point> {
    results.point(driver, threads, 1, subject)
}

/// A speed, relative to another one.
struct Bar {
    what: String,
    /// What it must be at least.
    least: Option<f64>,
    points: Option<(Point, Point)>,
    more: f64,
}

impl Bar {
    /// The row, and whether the bar is met; `None` if it was not measured.
    fn row(self, results: &Results) -> Option<(Vec<String>, bool)> {
        let (ours, theirs) = self.points?;
        // The ratios are of times: of speeds they are the other way round.
        let Summary { median, min, max } = results.ratio(ours, theirs, TIME)?;
        let (speed, low, high) = (1.0 / median, 1.0 / max, 1.0 / min);
        let met = self.least.is_none_or(|least| speed >= least);
        let said = match self.least {
            None => "for comparison",
            Some(_) if met => "met",
            Some(_) => "MISSED",
        };
        let processor = results.ratio(ours, theirs, PROCESSOR)?.median;
        let row = vec![
            self.what,
            self.least.map_or("-".into(), |least| format!("{least:.1}")),
            format!("{speed:.2} ({low:.2} to {high:.2})"),
            said.into(),
            format!("{:.2}", self.more / processor),
        ];
        Some((row, met))
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    #[test]
    fn a_bar_is_met_or_missed_by_what_was_measured() {
        let times = |point: Point| match point {
            Point { driver: Runs, subject: Glibc, .. } => 31.0,
            Point { driver: Beyond, subject: Glibc, .. } => 29.0,
            Point { driver: Uniform, subject: Toft, threads: 2, .. } => 5.0,
            Point { driver: Uniform, subject: Toft, threads: 8, .. } => 6.0,
            Point { driver: Uniform, subject: ARENA, threads: 32, .. } => 12.0,
            Point { driver: Uniform, subject: Toft, threads: 4 | 16 | 32, .. } => 5.1,
            _ => 10.0,
        };
        let (section, met) = section(&made(times), &Subjects::default(), 2);
        assert!(!met);
        let ends = |what: &str, end: &str| {
            let line = section.text.lines().find(|line| line.contains(what)).unwrap();
            assert!(line.ends_with(end), "{line}");
        };
        ends("1 thread: uniform, 1040", "| 3.0 | 2.90 (2.90 to 2.90) | MISSED | 2.90 |");
        ends("1 thread: runs", "| 3.0 | 3.10 (3.10 to 3.10) | met | 3.10 |");
        ends("1 thread: uniform, 8", "| - | 1.00 (1.00 to 1.00) | for comparison | 1.00 |");
        ends("toft, 2 threads against 1", "| 1.9 | 2.00 (2.00 to 2.00) | met | 4.00 |");
        ends("toft, 8 threads against 2", "| 0.9 | 0.83 (0.83 to 0.83) | MISSED | 0.83 |");
        ends("E1: lock per arena", "| 0.9 | 0.83 (0.83 to 0.83) | MISSED | 0.83 |");
        ends("E1: lock per class", "| 0.9 | 1.00 (1.00 to 1.00) | met | 1.00 |");
    }

    #[test]
    fn all_bars_can_be_met() {
        let times = |point: Point| match (point.subject, point.threads) {
            (Glibc, _) => 40.0,
            (Toft, 1) => 10.0,
            _ => 5.0,
        };
        assert!(section(&made(times), &Subjects::default(), 2).1);
    }
}
