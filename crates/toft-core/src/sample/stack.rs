//! The entry of a stack: its frames, and the sums of its samples. This file keeps S1.

use super::{DEPTH, Trace, Weight};
use crate::region::Keyed;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// The bit of `Entry::about` for a stack that has more frames than were recorded.
pub(super) const TRUNCATED: u64 = 1 << 32;

/// A number of samples, of the blocks that they stand for, and of the bytes of these blocks.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Sum {
    samples: AtomicU64,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Sum {
    pub(super) fn add(&self, weight: Weight) {
        self.samples.fetch_add(1, Relaxed);
        self.objects.fetch_add(weight.objects, Relaxed);
        self.bytes.fetch_add(weight.bytes, Relaxed);
    }

    pub(super) fn read(&self) -> [u64; 3] {
        [&self.samples, &self.objects, &self.bytes].map(|count| count.load(Relaxed))
    }
}

/// A stack, and the sums of what was allocated and freed there. Any thread adds (`Relaxed`, because
/// the numbers belong to nothing else).
#[repr(C)]
#[derive(Debug)]
pub(super) struct Entry {
    /// A hash of the frames.
    key: AtomicU64,
    /// The number of frames, and [`TRUNCATED`]. Zero until the frames are there. The thread that
    /// adds the key writes the frames and then this word (`Release`). A thread that finds zero
    /// writes the same values. So no thread waits for one that was interrupted in between, or that
    /// is missing after a fork.
    pub(super) about: AtomicU64,
    /// Before `had`, because a reader outside the process reads from the beginning on. It then
    /// mostly reads `freed` first.
    pub(super) freed: Sum,
    pub(super) had: Sum,
    pub(super) frames: [AtomicU64; DEPTH],
}

const _: () = assert!(size_of::<Entry>() <= 512);

// SAFETY: (1), (2) atomic numbers.
unsafe impl Keyed for Entry {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
}

impl Entry {
    fn is(&self, trace: &Trace) -> bool {
        let frames = trace.frames();
        self.frames.iter().zip(frames).all(|(a, &b)| a.load(Relaxed) == b as u64)
    }

    /// Makes this the entry of a stack, if it is new. Returns true if it is the entry of that
    /// stack.
    pub(super) fn is_for(&self, trace: &Trace) -> bool {
        let about = about(trace);
        match self.about.load(Acquire) {
            0 => {
                for (place, &frame) in self.frames.iter().zip(trace.frames()) {
                    place.store(frame as u64, Relaxed);
                }
                self.about.store(about, Release);
                true
            }
            known => known == about && self.is(trace),
        }
    }
}

fn about(trace: &Trace) -> u64 {
    trace.frames().len() as u64 | if trace.is_truncated() { TRUNCATED } else { 0 }
}

/// Returns a hash of a stack, which is not zero.
pub(super) fn key(trace: &Trace) -> u64 {
    hash(about(trace), trace.frames().iter().map(|&frame| frame as u64))
}

/// Returns a hash of numbers, which is not zero.
pub(super) fn hash(first: u64, numbers: impl Iterator<Item = u64>) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product =
            u128::from((hash ^ word).wrapping_add(0xD6E8_FEB8_6659_FD93)) * 0x9E37_79B9_7F4A_7C15;
        (product >> 64) as u64 ^ product as u64
    };
    numbers.fold(mix(!0, first), mix).max(1)
}
