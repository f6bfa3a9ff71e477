//! The tables.

use super::Section;
use super::markdown::{count, figure, head, ratio, table};
use super::measure::{PROCESSOR, Results, TIME};
use super::plan::Driver::{Handover, Inverse, Recorded, Uniform};
use super::plan::{ARENAS, THREADS};
use super::subjects::{
    ARENA, ARENA_CACHE, CLASS, CLASS_CACHE, ONE, OWN_HEAP, OWN_HEAP_CACHE, Subject, Subjects,
};

/// Every table that is made of the results alone.
pub fn sections(results: &Results, subjects: &Subjects) -> Vec<Section> {
    let section = |name, title, text| Section { name, title, text };
    vec![
        section(
            "contention",
            "All threads on one arena, ns for each operation",
            over_threads(results, subjects, |_| 1),
        ),
        section(
            "no-contention",
            "As many arenas as threads, at most 16, ns for each operation",
            over_threads(results, subjects, |threads| threads.min(16)),
        ),
        section("arenas", "A lock per arena, by arenas", over_arenas(results)),
        section("counts", "Counts for each call", counts(results, subjects)),
        section("sizes", "Three laws of sizes, processor ns", sizes(results, subjects)),
        section(
            "caches",
            "With a cache, relative to without",
            pairs(
                results,
                subjects,
                &[(ARENA, ARENA_CACHE), (CLASS, CLASS_CACHE), (OWN_HEAP, OWN_HEAP_CACHE)],
            ),
        ),
        section(
            "finer",
            "Finer locks, relative to coarser",
            pairs(results, subjects, &[(ONE, ARENA), (ARENA, CLASS), (ARENA_CACHE, CLASS_CACHE)]),
        ),
        section("handover", "Handed over, ns for each block", handover(results, subjects)),
    ]
}

/// `1 thread`, `2 threads`.
fn numbered(number: usize, unit: &str) -> String {
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

fn with_threads(first: &str) -> Vec<String> {
    [first.to_owned()].into_iter().chain(THREADS.map(|n| numbered(n, "thread"))).collect()
}

/// Nanoseconds over threads, with as many arenas as `arenas` says.
fn over_threads(results: &Results, subjects: &Subjects, arenas: fn(usize) -> usize) -> String {
    let row = |subject: Subject| {
        let cell = |threads| {
            let point = results.point(Uniform, threads, arenas(threads), subject);
            figure(point.and_then(|point| results.summary(point, TIME)))
        };
        [subjects.name(subject)].into_iter().chain(THREADS.map(cell)).collect()
    };
    table(&with_threads("ns/op"), &subjects.all().map(row).collect::<Vec<_>>())
}

/// Nanoseconds over threads, a row for each number of arenas.
fn over_arenas(results: &Results) -> String {
    let row = |arenas: usize| {
        let cell = |threads| {
            let point = results.point(Uniform, threads, arenas, ARENA);
            figure(point.and_then(|point| results.summary(point, TIME)))
        };
        [numbered(arenas, "arena")].into_iter().chain(THREADS.map(cell)).collect()
    };
    table(&with_threads("ns/op"), &ARENAS.map(row))
}

const COUNTS: [(&str, &str); 4] = [
    ("locks taken", "locks"),
    ("found taken", "contended"),
    ("to another arena", "transfers"),
    ("from the cache", "cache_hits"),
];

fn with_counts(cells: &[&str]) -> Vec<String> {
    head(cells).into_iter().chain(COUNTS.map(|(title, _)| title.into())).collect()
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
    table(&with_counts(&["threads", "arenas", "for each call"]), &rows)
}

/// The laws of sizes, in processor time, which sleeping threads do not use.
fn sizes(results: &Results, subjects: &Subjects) -> String {
    let threads = [1, 2, 8];
    let mut rows = Vec::new();
    for subject in subjects.all() {
        let mut cells = vec![subjects.name(subject)];
        for driver in [Uniform, Inverse, Recorded] {
            cells.extend(threads.map(|threads| {
                let point = results.point(driver, threads, 1, subject);
                figure(point.and_then(|point| results.summary(point, PROCESSOR)))
            }));
        }
        rows.push(cells);
    }
    let columns = [("uniform", 1), ("uniform", 2), ("uniform", 8)]
        .into_iter()
        .chain([("inverse", 1), ("inverse", 2), ("inverse", 8)])
        .chain([("python3", 1), ("python3", 2), ("python3", 8)])
        .map(|(law, threads)| format!("{law}, {threads}"));
    table(&["law, threads".to_owned()].into_iter().chain(columns).collect::<Vec<_>>(), &rows)
}

/// Of each pair the second against the first: the times, and the locks of both.
fn pairs(results: &Results, subjects: &Subjects, pairs: &[(Subject, Subject)]) -> String {
    let mut rows = Vec::new();
    for &(from, to) in pairs {
        for (threads, arenas) in [(1, 1), (2, 1), (8, 1), (8, 8), (32, 16)] {
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
    table(&head(&titles), &rows)
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
    table(&with_counts(&["threads", "arenas", "allocator", "ns/block"]), &rows)
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
            let whole = section.name == "handover" || !section.text.contains("|  |");
            assert!(whole, "{}\n{}", section.name, section.text);
        }
    }

    #[test]
    fn pairs_compare_the_second_with_the_first() {
        let results = made(|point| if point.subject == CLASS { 5.0 } else { 10.0 });
        let text = pairs(&results, &Subjects::default(), &[(ARENA, CLASS)]);
        let row = "| lock per arena -> lock per class | 8 | 1 | 0.50 | 0.50 | 0.25 -> 0.25 |";
        assert!(text.contains(row), "{text}");
    }
}
