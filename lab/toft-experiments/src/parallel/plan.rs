//! What is run: driver, threads, arenas, allocator.

use super::subjects::Subject;

/// A workload of the laboratory with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Driver {
    /// The article's: each size from 8 to 1024 bytes as often.
    Uniform,
    /// Sizes from 4 bytes to 32 KiB, as frequent as one over the square.
    Inverse,
    /// Sizes as python3 asks for them.
    Recorded,
    /// Sizes that glibc's thread cache does not hold.
    Beyond,
    /// Runs of 400 blocks of 512 bytes, of which glibc's thread cache holds seven.
    Runs,
    /// One thread of a pair allocates, the other frees.
    Handover,
}

use Driver::{Beyond, Handover, Inverse, Recorded, Runs, Uniform};

impl Driver {
    /// What the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Uniform => "uniform, 8 to 1024",
            Inverse => "inverse square, 4 to 32768",
            Recorded => "as recorded from python3",
            Beyond => "uniform, 1040 to 8192",
            Runs => "runs of 400 blocks of 512",
            Handover => "handed over",
        }
    }

    /// The workload, and its numbers; `million` is a million of operations or fewer.
    pub fn words(self, threads: usize, million: usize) -> Vec<String> {
        let driver = "ar-malloc touch=0 alone=0 slots=2000";
        // More for many threads, beside which their start would weigh.
        let calls = 3 * million * (8 + threads) / 8;
        let text = match self {
            Uniform => format!("{driver} sizes=0 low=8 high=1024 ops={calls}"),
            Inverse => format!("{driver} sizes=1 low=4 high=32768 ops={calls}"),
            Recorded => format!("{driver} sizes=2 ops={calls}"),
            Beyond => format!("{driver} sizes=0 low=1040 high=8192 ops={}", 3 * million),
            Runs => format!("simple-malloc scenario=1 size=512 count=400 ops={}", 3 * million),
            Handover => format!("handover ops={}", 4 * million / threads),
        };
        let threads = (self != Runs).then(|| format!("threads={threads}"));
        text.split(' ').map(Into::into).chain(threads).collect()
    }

    /// True if each operation is one call of malloc or free, so that they can be counted.
    pub fn counts_calls(self) -> bool {
        matches!(self, Uniform | Inverse | Recorded)
    }
}

/// Threads of the curves.
pub const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Arenas of the curves.
pub const ARENAS: [usize; 5] = [1, 2, 4, 8, 16];

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub driver: Driver,
    pub threads: usize,
    /// Zero of an allocator without a settable number.
    pub arenas: usize,
    pub subject: Subject,
}

/// The points of a driver and a number of threads: each subject with each of these numbers of
/// arenas, if it has any.
fn group(driver: Driver, threads: usize, arenas: &[usize], subjects: &[Subject]) -> Vec<Point> {
    let of = |&subject: &Subject| {
        let numbers = if subject.has_arenas() { arenas } else { &[0][..] };
        let point = move |&arenas: &usize| Point { driver, threads, arenas, subject };
        numbers.iter().map(point).collect::<Vec<_>>()
    };
    subjects.iter().flat_map(of).collect()
}

/// Everything. The points of a group are measured in turn, round by round.
pub fn groups(quick: bool, peers: usize) -> Vec<Vec<Point>> {
    let own = Subject::OWN;
    let all: Vec<Subject> = own.into_iter().chain((0..peers).map(Subject::Peer)).collect();
    let mut groups = Vec::new();
    for threads in THREADS {
        // A quick run has the two curves and nothing between them.
        let mut arenas = if quick { vec![1, threads.min(16), 16] } else { ARENAS.to_vec() };
        arenas.dedup();
        groups.push(group(Uniform, threads, &arenas, &all));
    }
    for driver in [Inverse, Recorded] {
        for threads in [1, 2, 8] {
            groups.push(group(driver, threads, &[1, 16], &all));
        }
    }
    for driver in [Beyond, Runs] {
        groups.push(group(driver, 1, &[1], &[Subject::Toft, Subject::Glibc]));
    }
    groups.push(group(Handover, 8, &[1, 16], &all));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_all_their_points_and_none_twice() {
        for quick in [false, true] {
            let points = groups(quick, 1).concat();
            let has = |threads, arenas, subject| {
                points.contains(&Point { driver: Uniform, threads, arenas, subject })
            };
            for threads in THREADS {
                for subject in Subject::OWN.into_iter().chain([Subject::Peer(0)]) {
                    for arenas in [1, threads.min(16)] {
                        let arenas = if subject.has_arenas() { arenas } else { 0 };
                        assert!(has(threads, arenas, subject), "{threads} {subject:?}");
                    }
                }
            }
            let mut sorted = points.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), points.len(), "a point is measured twice");
        }
    }

    #[test]
    fn the_drivers_are_workloads_of_the_laboratory() {
        for driver in [Uniform, Inverse, Recorded, Beyond, Runs, Handover] {
            let words = driver.words(2, 1_000_000);
            assert!(toft_bench::workloads::find(&words[0]).is_some(), "{words:?}");
            let numbers = words[1..].iter().map(String::as_str);
            assert!(toft_bench::params::Params::parse(numbers).is_ok(), "{words:?}");
        }
    }
}
