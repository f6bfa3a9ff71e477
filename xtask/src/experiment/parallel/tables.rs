//! The tables, as Markdown.

use super::builds::Build::{self, Arena, ArenaCache, Class, ClassCache, Own, OwnCache, Toft};
use super::measure::{Figure, PROCESSOR, Results, TIME};
use super::plan::Driver::{self, Handover, Inverse, Recorded, Uniform};
use super::plan::{ARENAS, Point, THREADS};
use crate::experiment::markdown::{figure, ratio, table};
use toft_bench::stats::Summary;

/// A count for each operation.
fn count(summary: Option<Summary>) -> String {
    match summary.map(|summary| summary.median) {
        None => "".into(),
        Some(0.0) => "0".into(),
        Some(v) if v >= 0.1 => format!("{v:.2}"),
        Some(v) if v >= 0.000_1 => format!("{v:.4}"),
        Some(_) => "< 0.0001".into(),
    }
}

/// Every table that is made of the results, by its name on the page.
pub fn sections(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("contention", over_threads(results, |_| 1, TIME)),
        ("contention-processor", over_threads(results, |_| 1, PROCESSOR)),
        ("no-contention", over_threads(results, |threads| threads, TIME)),
        ("arenas", over_arenas(results)),
        ("counts", counts(results)),
        ("laws", laws(results)),
        ("caches", pairs(results, &[(Arena, ArenaCache), (Class, ClassCache), (Own, OwnCache)])),
        ("fine", pairs(results, &[(Arena, Class), (ArenaCache, ClassCache)])),
        ("handover", handover(results)),
    ]
}

fn numbers(first: &str, numbers: &[usize], unit: &str) -> Vec<String> {
    let column = |n: &usize| format!("{n} {unit}{}", if *n == 1 { "" } else { "s" });
    [first.to_owned()].into_iter().chain(numbers.iter().map(column)).collect()
}

fn with_head(head: &[String], rows: &[Vec<String>]) -> String {
    table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows)
}

/// Nanoseconds over threads, with as many arenas as `arenas` says.
fn over_threads(results: &Results, arenas: fn(usize) -> usize, of: Figure) -> String {
    let threads: Vec<usize> =
        THREADS.into_iter().filter(|&t| arenas(t) <= ARENAS[ARENAS.len() - 1]).collect();
    let rows: Vec<Vec<String>> = Build::ALL
        .into_iter()
        .map(|build| {
            let cell = |&t: &usize| {
                let point = results.point(Uniform, t, arenas(t), build);
                figure(point.and_then(|point| results.summary(point, of)))
            };
            [build.name().to_owned()].into_iter().chain(threads.iter().map(cell)).collect()
        })
        .collect();
    with_head(&numbers("ns/op", &threads, "thread"), &rows)
}

/// Nanoseconds over threads, a row for each number of arenas.
fn over_arenas(results: &Results) -> String {
    let mut rows = Vec::new();
    for build in [Arena, ArenaCache] {
        for arenas in ARENAS {
            let cells = THREADS.map(|threads| {
                let point = results.point(Uniform, threads, arenas, build);
                figure(point.and_then(|point| results.summary(point, TIME)))
            });
            if cells.iter().any(|cell| !cell.is_empty()) {
                let name = format!("{}, {arenas} arenas", build.name());
                rows.push([name].into_iter().chain(cells).collect());
            }
        }
    }
    with_head(&numbers("ns/op", &THREADS, "thread"), &rows)
}

const COUNTS: [(&str, &str); 4] = [
    ("locks taken", "lock_acquisitions"),
    ("contended", "contended_acquisitions"),
    ("transfers", "transfers"),
    ("from the cache", "cache_hits"),
];

fn counted(results: &Results, point: Point) -> impl Iterator<Item = String> {
    COUNTS.map(|(_, name)| count(results.count(point, name))).into_iter()
}

/// What does not depend on the machine: counts for each operation.
fn counts(results: &Results) -> String {
    let mut rows = Vec::new();
    for (threads, arenas) in [(1, 1), (8, 1), (8, 4), (8, 8), (32, 1), (32, 16)] {
        for build in Build::ALL.into_iter().filter(|build| build.counts()) {
            // Without arenas once for each number of threads is enough.
            if !build.has_arenas() && !matches!((threads, arenas), (1, 1) | (8, 8) | (32, 16)) {
                continue;
            }
            let Some(point) = results.point(Uniform, threads, arenas, build) else { continue };
            let arenas = if build.has_arenas() { arenas.to_string() } else { "-".into() };
            let names = [threads.to_string(), arenas, build.name().into()];
            rows.push(names.into_iter().chain(counted(results, point)).collect());
        }
    }
    let head: Vec<&str> =
        ["threads", "arenas", "per operation"].into_iter().chain(COUNTS.map(|c| c.0)).collect();
    table(&head, &rows)
}

/// The three laws of sizes, in processor time, by which builds are told apart best.
fn laws(results: &Results) -> String {
    let mut rows = Vec::new();
    for driver in [Uniform, Inverse, Recorded] {
        for build in Build::ALL {
            let arenas: &[usize] = if build.has_arenas() { &[1, 16] } else { &[0] };
            for &arenas in arenas {
                let cells = [1, 2, 8].map(|threads| {
                    let point = results.point(driver, threads, arenas, build);
                    figure(point.and_then(|point| results.summary(point, PROCESSOR)))
                });
                let number = if arenas == 0 { "-".into() } else { arenas.to_string() };
                let names = [driver.name().to_owned(), build.name().into(), number];
                rows.push(names.into_iter().chain(cells).collect());
            }
        }
    }
    table(&["sizes", "ns/op", "arenas", "1 thread", "2 threads", "8 threads"], &rows)
}

/// Of each pair the second against the first: the times, and the locks of both.
fn pairs(results: &Results, pairs: &[(Build, Build)]) -> String {
    let mut rows = Vec::new();
    for &(from, to) in pairs {
        for (threads, arenas) in
            [(1, 1), (2, 1), (8, 1), (32, 1), (2, 2), (8, 8), (16, 16), (32, 16)]
        {
            if !from.has_arenas() && arenas == 1 && threads != 1 {
                continue;
            }
            let points = results
                .point(Uniform, threads, arenas, from)
                .zip(results.point(Uniform, threads, arenas, to));
            let Some((first, second)) = points else { continue };
            let each = |name: &str| {
                let of = |point| count(results.count(point, name));
                format!("{} -> {}", of(first), of(second))
            };
            rows.push(vec![
                format!("{} -> {}", from.name(), to.name()),
                threads.to_string(),
                if from.has_arenas() { arenas.to_string() } else { "-".into() },
                ratio(results.ratio(second, first, TIME)),
                ratio(results.ratio(second, first, PROCESSOR)),
                each("lock_acquisitions"),
                each("contended_acquisitions"),
            ]);
        }
    }
    table(
        &["", "threads", "arenas", "time", "processor time", "locks taken/op", "contended/op"],
        &rows,
    )
}

/// Blocks that one thread allocates and another frees.
fn handover(results: &Results) -> String {
    let mut rows = Vec::new();
    for (threads, arenas) in [(2, 1), (2, 16), (8, 1), (8, 16)] {
        for build in Build::ALL {
            if !build.has_arenas() && arenas == 1 {
                continue;
            }
            let Some(point) = results.point(Handover, threads, arenas, build) else { continue };
            let number = if build.has_arenas() { arenas.to_string() } else { "-".into() };
            let cells = [
                threads.to_string(),
                number,
                build.name().into(),
                figure(results.summary(point, TIME)),
            ];
            rows.push(cells.into_iter().chain(counted(results, point)).collect());
        }
    }
    let head: Vec<&str> =
        ["threads", "arenas", "", "ns/block"].into_iter().chain(COUNTS.map(|c| c.0)).collect();
    table(&head, &rows)
}

/// The point of the product or of glibc, whose number of arenas is of no account here.
pub fn plain(results: &Results, driver: Driver, threads: usize, build: Build) -> Option<Point> {
    let arenas = if build == Toft { 0 } else { 1 };
    results.point(driver, threads, arenas, build)
}

#[cfg(test)]
mod tests {
    use super::super::measure::Sample;
    use super::*;

    fn results() -> Results {
        let mut results = Results::default();
        for threads in THREADS {
            for build in Build::ALL {
                let arenas: &[usize] = if build.has_arenas() { &ARENAS } else { &[0] };
                for &arenas in arenas {
                    let point = Point { driver: Uniform, threads, arenas, build };
                    for ns in [10.0, 12.0, 30.0] {
                        let ns = if build == Class { ns / 2.0 } else { ns };
                        let counts = COUNTS.map(|(_, name)| (name.to_owned(), 0.25)).into();
                        results.push(point, Sample { ns, cpu_ns: 1.5 * ns, counts });
                    }
                }
            }
        }
        results
    }

    #[test]
    fn a_table_has_a_cell_for_each_column() {
        let all = sections(&results());
        for (name, text) in &all {
            let widths: Vec<usize> = text.lines().map(|line| line.matches('|').count()).collect();
            assert!(widths.windows(2).all(|two| two[0] == two[1]), "{name}\n{text}");
        }
        let contention = &all[0].1;
        assert!(contention.contains("| lock per arena | 12.0 ±10.0 |"), "{contention}");
        assert_eq!(contention.lines().count(), 2 + Build::ALL.len());
        assert!(
            all.iter().find(|(name, _)| *name == "no-contention").unwrap().1.contains("16 thr")
        );
        let fine = &all.iter().find(|(name, _)| *name == "fine").unwrap().1;
        assert!(
            fine.contains("| lock per arena -> lock per class | 8 | 1 | 0.50 | 0.50 |"),
            "{fine}"
        );
    }

    #[test]
    fn small_counts_are_not_rounded_to_nothing() {
        let of = |value| count(Summary::of(&[value]));
        assert_eq!([1.0, 0.012_34, 0.000_02, 0.0].map(of), ["1.00", "0.0123", "< 0.0001", "0"]);
        let open = Summary::of(&[0.9, 1.1, 1.2]);
        assert_eq!((ratio(open), ratio(Summary::of(&[1.1]))), ("1.10?".into(), "1.10".into()));
    }
}
