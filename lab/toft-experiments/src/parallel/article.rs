//! What the article says, beside what was measured. It gives its figures in words and charts only.

use super::measure::{Results, TIME};
use super::plan::Driver::Uniform;
use super::plan::Point;
use super::subjects::{ARENA, ONE, Subject, Subjects};
use crate::page::Section;
use crate::table::table;
use Subject::Glibc;

/// A claim, and the two runs whose speeds it compares: subject, threads and arenas of each.
struct Claim {
    article: &'static str,
    of: (Subject, usize, usize),
    to: (Subject, usize, usize),
}

const CLAIMS: [Claim; 7] = [
    Claim {
        article: "one thread: about 3 times the libc of 2012",
        of: (ARENA, 1, 1),
        to: (Glibc, 1, 1),
    },
    Claim {
        article: "with an arena for each thread: linear in the threads",
        of: (ARENA, 2, 2),
        to: (ARENA, 1, 1),
    },
    Claim {
        article: "the same, on more threads than processors",
        of: (ARENA, 16, 16),
        to: (ARENA, 2, 2),
    },
    Claim { article: "libc flattens at about 8 threads", of: (Glibc, 8, 8), to: (Glibc, 2, 2) },
    Claim { article: "a global lock is \"really bad\"", of: (ONE, 2, 0), to: (ONE, 1, 0) },
    Claim {
        article: "more threads than arenas: the contention curve",
        of: (ARENA, 2, 1),
        to: (ARENA, 2, 2),
    },
    Claim { article: "there it is still mostly linear", of: (ARENA, 8, 1), to: (ARENA, 1, 1) },
];

/// The table.
pub fn section(results: &Results, subjects: &Subjects) -> Section {
    let point = |(subject, threads, arenas): (Subject, usize, usize)| -> Option<Point> {
        results.point(Uniform, threads, arenas, subject)
    };
    let name = |(subject, threads, arenas): (Subject, usize, usize)| {
        let arenas = if arenas == 0 { String::new() } else { format!(", arenas {arenas}") };
        format!("{}, threads {threads}{arenas}", subjects.name(subject))
    };
    let row = |claim: &Claim| {
        // The ratio of times is that of speeds the other way round.
        let speed = point(claim.of)
            .zip(point(claim.to))
            .and_then(|(of, to)| results.ratio(to, of, TIME))
            .map_or("-".into(), |ratio| format!("{:.2}", ratio.median));
        vec![claim.article.into(), format!("{} / {}", name(claim.of), name(claim.to)), speed]
    };
    let rows: Vec<Vec<String>> = CLAIMS.iter().map(row).collect();
    let text = table(&["the article", "speeds compared here", "ratio"], &rows);
    Section::new("article", "Beside the article", text)
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    #[test]
    fn each_claim_has_the_ratio_of_two_speeds() {
        let results = made(|point| match (point.subject, point.threads, point.arenas) {
            (ONE, 2, _) => 80.0,
            (Glibc, 1, 1) => 30.0,
            (ARENA, 2, 2) => 5.0,
            _ => 10.0,
        });
        let text = section(&results, &Subjects::default()).text;
        let ends = |start: &str, end: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            assert!(line.ends_with(end), "{line}");
        };
        ends(
            "| one thread",
            "lock per arena, threads 1, arenas 1 / glibc, threads 1, arenas 1 | 3.00 |",
        );
        ends("| with an arena", "| 2.00 |");
        ends("| a global lock", "one lock, threads 2 / one lock, threads 1 | 0.12 |");
        ends("| more threads than arenas", "| 0.50 |");
        assert_eq!(text.lines().count(), 2 + CLAIMS.len());
    }
}
