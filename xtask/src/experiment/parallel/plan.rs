//! What is run: driver, threads, arenas, build.

use super::builds::Build;

/// A program of the laboratory with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Driver {
    /// The article's: sizes from 8 to 1024 bytes, all as often.
    Uniform,
    /// Sizes from 4 bytes to 32 KiB, as frequent as one over the square.
    Inverse,
    /// Sizes as python3 asks for them.
    Recorded,
    /// Sizes that glibc's thread cache does not hold.
    Beyond,
    /// Runs of 400 blocks of 512 bytes, where glibc's cache holds seven.
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

    /// The laboratory's workload, and its numbers; `million` is a million of operations or fewer.
    pub fn words(self, threads: usize, million: usize) -> Vec<String> {
        let ar_malloc = "ar-malloc touch=0 alone=0 slots=2000";
        // More for many threads, beside which their start would weigh.
        let calls = 5 * million * (8 + threads) / 8;
        let text = match self {
            Uniform => format!("{ar_malloc} sizes=0 low=8 high=1024 ops={calls}"),
            Inverse => format!("{ar_malloc} sizes=1 low=4 high=32768 ops={calls}"),
            Recorded => format!("{ar_malloc} sizes=2 ops={calls}"),
            Beyond => format!("{ar_malloc} sizes=0 low=1040 high=8192 ops={}", 3 * million),
            Runs => format!("simple-malloc scenario=1 size=512 count=400 ops={}", 3 * million),
            Handover => format!("handover ops={}", 4 * million / threads),
        };
        let mut words: Vec<String> = text.split(' ').map(Into::into).collect();
        if self != Runs {
            words.push(format!("threads={threads}"));
        }
        words
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
    /// Zero where there is no such number.
    pub arenas: usize,
    pub build: Build,
}

/// The points of a driver and a number of threads: each of these builds with each of these numbers
/// of arenas, if it has any.
fn group(driver: Driver, threads: usize, arenas: &[usize], builds: &[Build]) -> Vec<Point> {
    let mut points = Vec::new();
    for &build in builds {
        let numbers = if build.has_arenas() { arenas } else { &[0][..] };
        points.extend(numbers.iter().map(|&arenas| Point { driver, threads, arenas, build }));
    }
    points
}

/// Everything. The points of a group are measured in turn, round by round.
pub fn groups(quick: bool) -> Vec<Vec<Point>> {
    let arenas = if quick { &[1, 4, 16][..] } else { &ARENAS };
    let mut groups = Vec::new();
    for threads in THREADS {
        let mut points = group(Uniform, threads, arenas, &Build::ALL);
        if quick && threads <= 16 && !arenas.contains(&threads) {
            // The curve without contention has a point for each number of threads.
            let shared: Vec<Build> = Build::ALL.into_iter().filter(|b| b.has_arenas()).collect();
            points.extend(group(Uniform, threads, &[threads], &shared));
        }
        groups.push(points);
    }
    for driver in [Inverse, Recorded] {
        for threads in [1, 2, 8] {
            groups.push(group(driver, threads, &[1, 16], &Build::ALL));
        }
    }
    for driver in [Beyond, Runs] {
        groups.push(group(driver, 1, &[1], &[Build::Toft, Build::Glibc]));
    }
    for threads in [2, 8] {
        groups.push(group(Handover, threads, &[1, 16], &Build::ALL));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_all_their_points() {
        for quick in [false, true] {
            let points = groups(quick).concat();
            let has = |threads, arenas, build| {
                points.contains(&Point { driver: Uniform, threads, arenas, build })
            };
            for threads in THREADS {
                for build in Build::ALL {
                    let shared = build.has_arenas();
                    assert!(has(threads, usize::from(shared), build), "{threads} {build:?}");
                    let own = if shared { threads } else { 0 };
                    assert!(threads > 16 || has(threads, own, build), "{threads} {build:?}");
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
