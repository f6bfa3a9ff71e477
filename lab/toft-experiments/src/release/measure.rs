//! What is measured, and measuring it: engines take turns in each round.

use super::area::{Area, PAGE};
use super::engine::{Engine, Kind, Piece};
use super::equal::Refused;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use toft_bench::stats::{Summary, paired};

/// The pages of a piece, and the pieces of a batch.
pub const PAGES: [usize; 3] = [1, 16, 256];
pub const BATCHES: [usize; 3] = [1, 8, 64];
/// The least number of passes of a point in a round.
const PASSES: usize = 3;
/// The pages that the other thread writes to, in turn.
const TOUCHED: usize = 256;

/// How much is measured of a point in a round.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// The bytes that a pass releases, unless a batch has more.
    bytes: usize,
    /// The least time of all passes.
    time: Duration,
}

const FULL: Effort = Effort { bytes: 32 << 20, time: Duration::from_millis(60) };
const QUICK: Effort = Effort { bytes: 1 << 20, time: Duration::from_millis(1) };

/// Where the pieces of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// One after the other.
    Contiguous,
    /// In a mixed order, with as much memory that stays between any two.
    Scattered,
}

impl Layout {
    /// Both.
    pub const ALL: [Layout; 2] = [Layout::Contiguous, Layout::Scattered];

    /// Returns the distance of two pieces, in pieces.
    fn distance(self) -> usize {
        if self == Layout::Scattered { 2 } else { 1 }
    }
}

/// The other threads of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beside {
    /// There is none.
    Alone,
    /// One writes to a megabyte that is resident.
    Touching,
}

impl Beside {
    /// Both.
    pub const ALL: [Beside; 2] = [Beside::Alone, Beside::Touching];
}

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub beside: Beside,
    pub layout: Layout,
    pub pages: usize,
    pub batch: usize,
    pub kind: Kind,
}

/// The figures of a round, for each piece. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub time: f64,
    /// Processor time of the process, with that of the kernel's threads that work for it.
    pub processor: f64,
    /// The time that the other thread has lost.
    pub lost: f64,
    /// System calls.
    pub calls: f64,
}

/// One of the figures of a sample.
pub type Figure = fn(&Sample) -> f64;

/// All that was measured.
#[derive(Debug, Default)]
pub struct Results {
    samples: BTreeMap<Point, Vec<Sample>>,
    pub refused: Refused,
}

impl Results {
    fn figures(&self, point: Point, of: Figure) -> Vec<f64> {
        self.samples.get(&point).map_or(&[][..], Vec::as_slice).iter().map(of).collect()
    }

    /// Returns a figure of a point, if it was measured.
    pub fn summary(&self, point: Point, of: Figure) -> Option<Summary> {
        Summary::of(&self.figures(point, of))
    }

    /// Returns a figure of a point as a multiple of that of `madvise`, round by round.
    pub fn ratio(&self, point: Point, of: Figure) -> Option<Summary> {
        let plain = Point { kind: Kind::Madvise, ..point };
        paired(&self.figures(point, of), &self.figures(plain, of))
    }

    /// Adds a sample.
    pub fn add(&mut self, point: Point, sample: Sample) {
        self.samples.entry(point).or_default().push(sample);
    }
}

/// Returns every point. Those that are compared with each other are next to each other.
pub fn points(quick: bool) -> Vec<Point> {
    let taken = |all: [usize; 3]| if quick { vec![all[0], all[2]] } else { all.to_vec() };
    let mut points = Vec::new();
    for beside in Beside::ALL {
        for layout in Layout::ALL {
            for pages in taken(PAGES) {
                for batch in taken(BATCHES) {
                    let point = |kind| Point { beside, layout, pages, batch, kind };
                    points.extend(Kind::ALL.map(point));
                }
            }
        }
    }
    points
}

/// Measures all points in rounds, except those of refused engines.
pub fn all(refused: Refused, runs: usize, quick: bool) -> Result<Results, String> {
    let effort = if quick { QUICK } else { FULL };
    let mut results = Results { refused, ..Results::default() };
    for round in 1..=runs {
        println!("round {round} of {runs}");
        for point in points(quick) {
            if results.refused.iter().any(|(kind, _)| *kind == point.kind) {
                continue;
            }
            let sample = one(point, effort).map_err(|why| format!("{point:?}: {why}"))?;
            results.add(point, sample);
        }
    }
    Ok(results)
}

/// The thread beside, by the number of its writes.
#[derive(Default)]
struct Other {
    done: AtomicU64,
    ends: AtomicBool,
}

impl Other {
    fn touch(&self) {
        let area = Area::new(TOUCHED);
        let mut number = 0;
        while !self.ends.load(Relaxed) {
            area.touch(number as usize % TOUCHED);
            number += 1;
            self.done.store(number, Relaxed);
        }
    }

    /// Returns the writes in a nanosecond while the first thread does nothing.
    fn calm_rate(&self) -> f64 {
        let (begin, before) = (Instant::now(), self.done.load(Relaxed));
        while begin.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        (self.done.load(Relaxed) - before) as f64 / begin.elapsed().as_nanos() as f64
    }
}

/// Measures a point once, beside the thread that it asks for.
fn one(point: Point, effort: Effort) -> Result<Sample, String> {
    if point.beside == Beside::Alone {
        return passes(point, None, effort);
    }
    let other = Other::default();
    std::thread::scope(|scope| {
        scope.spawn(|| other.touch());
        while other.done.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let sample = passes(point, Some(&other), effort);
        other.ends.store(true, Relaxed);
        sample
    })
}

/// A pass: wall time, processor time, what the other thread did, and its rate when it is alone.
struct Pass {
    took: f64,
    processor: f64,
    worked: f64,
    calm_rate: f64,
    calls: u64,
}

/// Releases the pieces of a point in passes, checks every pass, and returns the medians.
fn passes(point: Point, other: Option<&Other>, effort: Effort) -> Result<Sample, String> {
    let number = point.batch.max(effort.bytes / PAGE / point.pages).next_multiple_of(point.batch);
    let distance = point.layout.distance() * point.pages;
    let area = Area::new(number * distance);
    (0..area.pages()).for_each(|page| area.touch(page));
    let place = |n| Piece { address: area.at(n * distance), pages: point.pages, done: false };
    let mut pieces: Vec<Piece> = (0..number).map(place).collect();
    if point.layout == Layout::Scattered {
        mix(&mut pieces);
    }
    let mut engine = Engine::new(point.kind)?;
    let mut passes = Vec::new();
    let begin = Instant::now();
    // The first pass warms up.
    while passes.len() < 1 + PASSES || begin.elapsed() < effort.time {
        for piece in &pieces {
            let page = area.page_of(piece.address);
            (page..page + piece.pages).for_each(|page| area.touch(page));
        }
        let calm_rate = other.map_or(0.0, Other::calm_rate);
        let work = || other.map_or(0, |other| other.done.load(Relaxed));
        let (work_before, calls) = (work(), engine.calls());
        let (start, processor) = (Instant::now(), processor_time());
        for batch in pieces.chunks_mut(point.batch) {
            // SAFETY: (1) pages of the area, which no other thread knows.
            unsafe { engine.release(batch) }.map_err(|code| format!("error {code}"))?;
        }
        let took = start.elapsed().as_nanos() as f64;
        let processor = processor_time() - processor;
        let worked = (work() - work_before) as f64;
        verify(&area, &pieces)?;
        let calls = engine.calls() - calls;
        passes.push(Pass { took, processor, worked, calm_rate, calls });
    }
    Ok(medians(&passes[1..], number))
}

/// Fails unless every piece is confirmed, all its pages are gone, and all others are there.
fn verify(area: &Area, pieces: &[Piece]) -> Result<(), String> {
    let mut expected = vec![true; area.pages()];
    for piece in pieces {
        if !piece.done {
            return Err(format!("{piece:?} is not confirmed"));
        }
        let first = area.page_of(piece.address);
        expected[first..first + piece.pages].fill(false);
    }
    let resident = area.resident();
    match (0..area.pages()).find(|&page| resident[page] != expected[page]) {
        Some(page) if resident[page] => Err(format!("page {page} is still there")),
        Some(page) => Err(format!("page {page} is gone")),
        None => Ok(()),
    }
}

/// Returns the medians of all passes, for each piece.
fn medians(passes: &[Pass], pieces: usize) -> Sample {
    let median = |of: &dyn Fn(&Pass) -> f64| {
        let figures: Vec<f64> = passes.iter().map(of).collect();
        Summary::of(&figures).map_or(0.0, |it| it.median) / pieces as f64
    };
    // A disturbance makes the other thread slower, and never faster.
    let rate = passes.iter().map(|pass| pass.calm_rate).fold(0.0, f64::max);
    let lost = |pass: &Pass| if rate > 0.0 { pass.took - pass.worked / rate } else { 0.0 };
    Sample {
        time: median(&|pass| pass.took),
        processor: median(&|pass| pass.processor),
        lost: median(&lost),
        calls: median(&|pass| pass.calls as f64),
    }
}

/// Mixes pieces, so that neighbours are apart. The order is the same every time.
fn mix(pieces: &mut [Piece]) {
    let mut state = 1_u64;
    for place in (1..pieces.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        pieces.swap(place, (state >> 33) as usize % (place + 1));
    }
}

/// Returns the processor time of this process, in nanoseconds.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Results with one sample of each point.
    pub fn made() -> Results {
        let mut results = Results::default();
        for point in points(false) {
            let kind = Kind::ALL.iter().position(|kind| *kind == point.kind).unwrap() as f64;
            let sample = Sample { time: 100.0 + kind, processor: 90.0, lost: 80.0, calls: 0.125 };
            results.add(point, sample);
            results.add(point, Sample { time: 102.0, ..sample });
        }
        results
    }

    #[test]
    fn every_point_is_measured_once() {
        let mut all = points(false);
        assert_eq!(all.len(), 2 * 2 * 3 * 3 * 3);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 * 2 * 3 * 3 * 3);
        assert!(points(true).iter().all(|point| all.contains(point)));
    }

    /// A pass that has left a page, or has taken one too many, is no figure.
    #[test]
    fn a_pass_with_another_result_fails() {
        let area = Area::new(4);
        (0..4).for_each(|page| area.touch(page));
        let mut pieces = [Piece { address: area.at(1), pages: 1, done: false }];
        assert!(verify(&area, &pieces).unwrap_err().contains("not confirmed"));
        pieces[0].done = true;
        assert_eq!(verify(&area, &pieces).unwrap_err(), "page 1 is still there");
        let mut engine = Engine::new(Kind::Madvise).unwrap();
        // SAFETY: (1) pages of the area, which no other thread knows.
        unsafe { engine.release(&mut pieces) }.unwrap();
        verify(&area, &pieces).unwrap();
        let mut more = [Piece { address: area.at(2), pages: 2, done: false }];
        // SAFETY: (1) as above.
        unsafe { engine.release(&mut more) }.unwrap();
        assert_eq!(verify(&area, &pieces).unwrap_err(), "page 2 is gone");
    }

    #[test]
    fn a_figure_is_for_one_piece_and_a_lost_one_is_of_the_other_thread() {
        let pass = |took, worked| Pass { took, processor: 50.0, worked, calm_rate: 2.0, calls: 8 };
        let sample = medians(&[pass(100.0, 100.0), pass(120.0, 160.0), pass(90.0, 60.0)], 10);
        assert_eq!((sample.time, sample.processor, sample.calls), (10.0, 5.0, 0.8));
        assert_eq!(sample.lost, 5.0);
    }
}
