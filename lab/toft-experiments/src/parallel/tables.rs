//! The tables.

use super::measure::{PROCESSOR, Results, TIME};
use super::plan::Driver::{Handover, Inverse, Recorded, Uniform};
use super::plan::{ARENAS, THREADS};
use super::subjects::{
    ARENA, ARENA_CACHE, CLASS, CLASS_CACHE, ONE, OWN_HEAP, OWN_HEAP_CACHE, Subject, Subjects,
};
use crate::page::Section;
use crate::table::{figure, ratio, row, table};
use toft_bench::stats::Summary;

/// Every table that is made of the results alone.
pub fn sections(results: &Results, subjects: &Subjects) -> Vec<Section> {
    let caches = [(ARENA, ARENA_CACHE), (CLASS, CLASS_CACHE), (OWN_HEAP, OWN_HEAP_CACHE)];
    let finer = [(ONE, ARENA), (ARENA, CLASS), (ARENA_CACHE, CLASS_CACHE)];
    let shared = over_threads(results, subjects, |_| 1);
    let enough = over_threads(results, subjects, |threads| threads.min(16));
    let apart = "As many arenas as threads, at most 16, ns for each operation";
    let all = speedup(results, subjects, &subjects.all().collect::<Vec<_>>());
    vec![
        Section::new("contention", "All threads on one arena, ns for each operation", shared),
        Section::new("no-contention", apart, enough),
        Section::new("arenas", "A lock per arena, by arenas", over_arenas(results)),
        Section::new("speedups", "Speed relative to one thread", all),
        Section::new("speedup", "The same, of four", speedup(results, subjects, &FOUR)),
        Section::new("counts", "Counts for each call", counts(results, subjects)),
        Section::new("sizes", "Three laws of sizes, processor ns", sizes(results, subjects)),
        Section::new(
            "caches",
            "With a cache, relative to without",
            pairs(results, subjects, &caches),
        ),
        Section::new("finer", "Finer locks, relative to coarser", pairs(results, subjects, &finer)),
        Section::new("handover", "Handed over, ns for each block", handover(results, subjects)),
    ]
}

/// `1 thread`, `2 threads`.
fn numbered(number: usize, unit: &str) -> String {
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

fn with_threads() -> Vec<String> {
    row("ns/op", THREADS.map(|threads| numbered(threads, "thread")))
}

/// The times over threads, with as many arenas as `arenas` says.
fn times(results: &Results, subject: Subject, arenas: impl Fn(usize) -> usize) -> [String; 6] {
    THREADS.map(|threads| {
        let point = results.point(Uniform, threads, arenas(threads), subject);
        figure(point.and_then(|point| results.summary(point, TIME)))
    })
}

/// Nanoseconds over threads, a row for each subject.
fn over_threads(results: &Results, subjects: &Subjects, arenas: fn(usize) -> usize) -> String {
    let line = |subject| row(subjects.name(subject), times(results, subject, arenas));
    table(&with_threads(), &subjects.all().map(line).collect::<Vec<_>>())
}

/// Nanoseconds over threads, a row for each number of arenas.
fn over_arenas(results: &Results) -> String {
    let line = |arenas| row(numbered(arenas, "arena"), times(results, ARENA, |_| arenas));
    table(&with_threads(), &ARENAS.map(line))
}

/// The subjects whose speedup is on the page.
const FOUR: [Subject; 4] = [Subject::Glibc, ONE, ARENA, Subject::Toft];

/// How many times as fast as one thread several are, by the medians of both curves: on one arena,
/// and on as many arenas as threads. Without a settable number of arenas the two are the same.
fn speedup(results: &Results, subjects: &Subjects, shown: &[Subject]) -> String {
    let mut rows = Vec::new();
    for &subject in shown {
        for arenas in if subject.has_arenas() { &["1", "threads"][..] } else { &["-"] } {
            let median = |threads: usize| {
                let arenas = if *arenas == "threads" { threads.min(16) } else { 1 };
                let point = results.point(Uniform, threads, arenas, subject)?;
                Some(results.summary(point, TIME)?.median)
            };
            let cell = |threads| {
                // Twice the time is half the speed.
                let times = median(1).zip(median(threads));
                times.map_or("-".into(), |(one, many)| format!("{:.2}", one / many))
            };
            let names = [subjects.name(subject), (*arenas).to_owned()];
            rows.push(names.into_iter().chain(THREADS[1..].iter().map(|it| cell(*it))).collect());
        }
    }
    let threads = THREADS[1..].iter().map(|threads| format!("T={threads}"));
    table(&row("allocator", ["arenas".to_owned()].into_iter().chain(threads)), &rows)
}

/// A count for each call.
fn count(summary: Option<Summary>) -> String {
    match summary.map(|summary| summary.median) {
        None => "-".into(),
        Some(0.0) => "0".into(),
        Some(v) if v >= 0.1 => format!("{v:.2}"),
        Some(v) if v >= 0.000_1 => format!("{v:.4}"),
        Some(_) => "< 0.0001".into(),
    }
}

const COUNTS: [(&str, &str); 4] = [
    ("locks taken", "locks"),
    ("found taken", "contended"),
    ("to another arena", "transfers"),
    ("from the cache", "cache_hits"),
];

fn with_counts(cells: [&'static str; 3], last: Option<&'static str>) -> Vec<&'static str> {
    cells.into_iter().chain(last).chain(COUNTS.map(|(title, _)| title)).collect()
}

/// The arenas of a point, or that there is no such number.
fn arenas_of(subject: Subject, arenas: usize) -> String {
    if subject.has_arenas() { arenas.to_string() } else { "-".into() }
}

/// What does not depend on the speed of the machine.
fn counts(results: &Results, subjects: &Subjects) -> String {
    let mut rows = Vec::new();
    for (threads, arenas) in [(1, 1), (8, 1), (32, 16)] {
        for subject in subjects.all() {
            // Without a number of arenas once for each number of threads is enough.
            let again = !subject.has_arenas() && (threads, arenas) == (8, 1);
            let Some(point) = results.point(Uniform, threads, arenas, subject) else { continue };
            if again || results.count(point, "locks").is_none() {
                continue;
            }
            let names = [threads.to_string(), arenas_of(subject, arenas), subjects.name(subject)];
            let cells = COUNTS.map(|(_, name)| count(results.count(point, name)));
            rows.push(names.into_iter().chain(cells).collect());
        }
    }
    table(&with_counts(["threads", "arenas", "for each call"], None), &rows)
}

/// The laws of sizes, in processor time, which sleeping threads do not use.
fn sizes(results: &Results, subjects: &Subjects) -> String {
    let laws = [(Uniform, "uniform"), (Inverse, "inverse"), (Recorded, "python3")];
    let columns = || laws.into_iter().flat_map(|law| [1, 2, 8].map(|threads| (law, threads)));
    let line = |subject| {
        let cell = |((driver, _), threads)| {
            let point = results.point(driver, threads, 1, subject);
            figure(point.and_then(|point| results.summary(point, PROCESSOR)))
        };
        row(subjects.name(subject), columns().map(cell))
    };
    let head = columns().map(|((_, law), threads)| format!("{law}, {threads}"));
    table(&row("law, threads", head), &subjects.all().map(line).collect::<Vec<_>>())
}

/// Of each pair the second against the first: the times, and the locks of both.
fn pairs(results: &Results, subjects: &Subjects, pairs: &[(Subject, Subject)]) -> String {
    let mut rows = Vec::new();
    for &(from, to) in pairs {
        for (threads, arenas) in [(1, 1), (8, 1), (8, 8)] {
            if !from.has_arenas() && !to.has_arenas() && (threads, arenas) == (8, 1) {
                continue;
            }
            let of = |subject| results.point(Uniform, threads, arenas, subject);
            let Some((first, second)) = of(from).zip(of(to)) else { continue };
            let each = |name: &str| {
                let of = |point| count(results.count(point, name));
                format!("{} -> {}", of(first), of(second))
            };
            rows.push(vec![
                format!("{} -> {}", subjects.name(from), subjects.name(to)),
                threads.to_string(),
                arenas_of(to, arenas),
                ratio(results.ratio(second, first, TIME)),
                ratio(results.ratio(second, first, PROCESSOR)),
                each("locks"),
                each("contended"),
            ]);
        }
    }
    let titles =
        ["from -> to", "threads", "arenas", "time", "processor", "locks taken", "found taken"];
    table(&titles, &rows)
}

/// Blocks that one thread allocates and another frees.
fn handover(results: &Results, subjects: &Subjects) -> String {
    let mut rows = Vec::new();
    for (threads, arenas) in [(8, 1), (8, 16)] {
        for subject in subjects.all() {
            if !subject.has_arenas() && (threads, arenas) == (8, 1) {
                continue;
            }
            let Some(point) = results.point(Handover, threads, arenas, subject) else { continue };
            let names = [
                threads.to_string(),
                arenas_of(subject, arenas),
                subjects.name(subject),
                figure(results.summary(point, TIME)),
            ];
            let cells = COUNTS.map(|(_, name)| count(results.count(point, name)));
            rows.push(names.into_iter().chain(cells).collect());
        }
    }
    table(&with_counts(["threads", "arenas", "allocator"], Some("ns/block")), &rows)
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    #[test]
    fn a_table_has_a_cell_for_each_column_and_figures_in_it() {
        let results = made(|point| if point.subject == CLASS { 5.0 } else { 10.0 });
        for section in sections(&results, &Subjects::default()) {
            let cells = |line: &str| line.matches('|').count();
            let lines: Vec<&str> = section.text.lines().collect();
            assert!(lines.len() > 3, "{}", section.text);
            assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{}", section.text);
            // Only of what ar-malloc does there are counts.
            let whole = section.name == "handover" || !section.text.contains("| - | - |");
            assert!(whole, "{}\n{}", section.name, section.text);
        }
    }

    /// Both curves begin at one thread on one arena. Of glibc two threads are slower on one arena
    /// and faster on two.
    #[test]
    fn speedup_is_relative_to_one_thread() {
        let results = made(|point| match (point.subject, point.threads, point.arenas) {
            (Subject::Glibc, 2, 1) => 20.0,
            (Subject::Glibc, 32, 16) | (Subject::Toft, 2, _) => 5.0,
            (Subject::Glibc, 2, 2) => 8.0,
            _ => 10.0,
        });
        let text = speedup(&results, &Subjects::default(), &FOUR);
        let glibc = "| glibc | 1 | 0.50 | 1.00 | 1.00 | 1.00 | 1.00 |\n\
            | glibc | threads | 1.25 | 1.00 | 1.00 | 1.00 | 2.00 |\n";
        assert!(text.contains(glibc), "{text}");
        assert!(text.contains("| toft | - | 2.00 | 1.00 |"), "{text}");
        assert_eq!(text.lines().count(), 2 + 6, "{text}");
    }

    #[test]
    fn pairs_compare_the_second_with_the_first() {
        let results = made(|point| if point.subject == CLASS { 5.0 } else { 10.0 });
        let text = pairs(&results, &Subjects::default(), &[(ARENA, CLASS)]);
        let row = "| lock per arena -> lock per class | 8 | 1 | 0.50 | 0.50 | 0.25 -> 0.25 |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn counts_are_short() {
        let of = |value| count(Summary::of(&[value]));
        assert_eq!([1.0, 0.012_34, 0.000_02, 0.0].map(of), ["1.00", "0.0123", "< 0.0001", "0"]);
    }
}
