//! The entry of a stack: its frames, and what was sampled there. S1 is held here.

use super::{DEPTH, Trace, Weight};
use crate::region::Keyed;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// In what is said of a stack: there is more of it that could not be had.
pub(super) const TRUNCATED: u64 = 1 << 32;

/// Samples, the blocks that they stand for, and the bytes of these.
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

/// A stack, and what was allocated and freed there. Any thread adds (`Relaxed`: numbers that belong
/// to nothing else).
#[repr(C)]
#[derive(Debug)]
pub(super) struct Entry {
    /// A mixture of the frames.
    key: AtomicU64,
    /// The number of frames, and [`TRUNCATED`]; zero until they are there. The thread that brings
    /// the key writes the frames and then this (`Release`). A thread that finds it zero writes the
    /// same values. So no thread waits for one that is interrupted in between, or that a fork has
    /// not brought along.
    pub(super) about: AtomicU64,
    /// Before `had`, so that a read from outside, from the beginning on, mostly sees what was freed
    /// first.
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

    /// Makes it the entry of a stack, if it is new; returns true if it is that.
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

/// A mixture of a stack; not zero.
pub(super) fn key(trace: &Trace) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product =
            u128::from((hash ^ word).wrapping_add(0xD6E8_FEB8_6659_FD93)) * 0x9E37_79B9_7F4A_7C15;
        (product >> 64) as u64 ^ product as u64
    };
    trace.frames().iter().fold(mix(!0, about(trace)), |hash, &frame| mix(hash, frame as u64)).max(1)
}
