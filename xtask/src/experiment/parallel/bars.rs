//! What requirement E4 asks for, and what was measured.

use super::builds::Build::{Glibc, Toft};
use super::measure::{PROCESSOR, Results, TIME};
use super::plan::Driver::{Beyond, Inverse, Recorded, Runs, Uniform};
use super::plan::{Point, THREADS};
use super::tables::plain;
use crate::experiment::markdown::table;
use toft_bench::stats::Summary;

/// How many times as fast as glibc one thread is to be.
const GLIBC: f64 = 3.0;
/// How many times as fast as one thread two are to be.
const TWO: f64 = 1.9;
/// What is to be left of two threads' speed when there are more.
const MORE: f64 = 0.9;

/// The table.
pub fn section(results: &Results, processors: usize) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    // The bar is for where glibc leaves its cache. Of the others most calls are served by it.
    let drivers = [Runs, Beyond].map(|driver| (driver, Some(GLIBC)));
    let others = [Uniform, Inverse, Recorded].map(|driver| (driver, None));
    for (driver, least) in drivers.into_iter().chain(others) {
        let points = plain(results, driver, 1, Toft).zip(plain(results, driver, 1, Glibc));
        let what = format!("1 thread against glibc: {}", driver.name());
        rows.extend(points.and_then(|points| row(results, what, least, points, 1.0)));
    }
    for threads in THREADS.into_iter().skip(1) {
        let (base, least) = if threads == 2 { (1, TWO) } else { (2, MORE) };
        let point = |threads| plain(results, Uniform, threads, Toft);
        let what = format!("{threads} threads against {base}: {}", Uniform.name());
        // What more processors would give if processor time were all.
        let more = threads.min(processors) as f64 / base.min(processors) as f64;
        let points = point(threads).zip(point(base));
        rows.extend(points.and_then(|points| row(results, what, Some(least), points, more)));
    }
    vec![("bars", table(&["speed of toft", "bar", "measured", "", "by processor time"], &rows))]
}

fn row(
    results: &Results,
    what: String,
    least: Option<f64>,
    (ours, theirs): (Point, Point),
    more: f64,
) -> Option<Vec<String>> {
    // The ratios are of times: of speeds they are the other way round.
    let Summary { median, min, max } = results.ratio(ours, theirs, TIME)?;
    let (speed, low, high) = (1.0 / median, 1.0 / max, 1.0 / min);
    let met = match least {
        None => "glibc stays in its cache",
        Some(least) if speed >= least => "met",
        Some(_) => "MISSED",
    };
    let processor = results.ratio(ours, theirs, PROCESSOR)?.median;
    Some(vec![
        what,
        least.map_or("-".into(), |least| format!("{least:.1}")),
        format!("{speed:.2} ({low:.2} to {high:.2})"),
        met.into(),
        format!("{:.2}", more / processor),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::measure::Sample;
    use super::*;

    #[test]
    fn a_bar_is_met_or_missed_by_what_was_measured() {
        let mut results = Results::default();
        let mut push = |driver, threads, arenas, build, ns| {
            let point = Point { driver, threads, arenas, build };
            results.push(point, Sample { ns, cpu_ns: 20.0, ..Sample::default() });
        };
        push(Uniform, 1, 0, Toft, 10.0);
        push(Uniform, 1, 1, Glibc, 29.0);
        push(Beyond, 1, 0, Toft, 10.0);
        push(Beyond, 1, 1, Glibc, 29.0);
        push(Runs, 1, 0, Toft, 10.0);
        push(Runs, 1, 1, Glibc, 31.0);
        push(Uniform, 2, 0, Toft, 5.0);
        push(Uniform, 8, 0, Toft, 6.0);
        let text = &section(&results, 2)[0].1;
        let ends = |what: &str, end: &str| {
            let line = text.lines().find(|line| line.contains(what)).unwrap();
            assert!(line.ends_with(end), "{line}");
        };
        ends("glibc: uniform, 1040", "| 3.0 | 2.90 (2.90 to 2.90) | MISSED | 1.00 |");
        ends("glibc: runs", "| 3.0 | 3.10 (3.10 to 3.10) | met | 1.00 |");
        ends("glibc: uniform, 8", "| - | 2.90 (2.90 to 2.90) | glibc stays in its cache | 1.00 |");
        ends("2 threads against 1", "| 1.9 | 2.00 (2.00 to 2.00) | met | 2.00 |");
        ends("8 threads against 2", "| 0.9 | 0.83 (0.83 to 0.83) | MISSED | 1.00 |");
    }
}
