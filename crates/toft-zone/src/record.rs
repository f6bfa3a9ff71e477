//! The record of a zone.

use crate::lock::Lock;
use crate::lot::{Number, SLOT_MAX};
use Ordering::{Acquire, Relaxed, Release};
use toft_core::slab::SizeClass;
use toft_core::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The number of bins: one for each class whose blocks share lots.
pub(crate) const BINS: usize = {
    let mut bins = 0;
    while SizeClass::size_of(bins) < SLOT_MAX {
        bins += 1;
    }
    bins + 1
};

/// The number of bytes of a name, with the zero at its end.
const NAME_BYTES: usize = 64;

/// The name of a zone. It has only characters that the kernel accepts, and is cut off if too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    len: usize,
}

impl Name {
    /// Makes a name of `text`. A dot replaces each byte that the kernel would not accept.
    pub fn new(text: &[u8]) -> Name {
        let mut name = Name { bytes: [0; NAME_BYTES], len: 0 };
        for &byte in text.iter().take(NAME_BYTES - 1) {
            if byte == 0 {
                break;
            }
            let taken = (b' '..=b'~').contains(&byte) && !b"\\`$[]".contains(&byte);
            name.push(if taken { byte } else { b'.' });
        }
        name
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    /// Returns the bytes without the zeros after them.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Returns the bytes and the zeros after them, for C.
    pub fn padded(&self) -> [u8; NAME_BYTES] {
        self.bytes
    }
}

/// The figures of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of live blocks.
    pub live_blocks: u64,
    /// The usable bytes of the live blocks.
    pub live_bytes: u64,
    /// The number of blocks that were ever handed out.
    pub allocations: u64,
    /// The number of bytes of addresses that are mapped.
    pub mapped_bytes: u64,
    /// The size of each object if all objects have one size, else zero.
    pub object_bytes: u64,
    /// True if `/proc/PID/maps` shows the name.
    pub name_is_shown: bool,
}

/// The record of one zone after another. It begins as zero. The thread that holds its lock writes
/// it. While the record belongs to no zone, the thread that holds the window's lock writes it. Any
/// thread reads `state` and `generation` without a lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Record {
    pub(crate) lock: Lock,
    /// [`NONE`], [`LIVE`] or [`ENDS`].
    state: AtomicU32,
    /// [`TAGGED`].
    pub(crate) flags: AtomicU32,
    /// The number of times that a zone was created in this record or destroyed.
    generation: AtomicU64,
    /// The size of a slot if all slots have one size, else zero.
    pub(crate) slot: AtomicUsize,
    /// The size of an object if all objects have one size, else zero.
    pub(crate) object: AtomicUsize,
    /// The first of all lots.
    pub(crate) first: AtomicU32,
    /// The first bare lot.
    pub(crate) bare: AtomicU32,
    /// In a free record, the next free record.
    pub(crate) next: AtomicU32,
    /// The number of lots of the next stretch.
    pub(crate) step: AtomicU32,
    pub(crate) live_blocks: AtomicU64,
    pub(crate) live_bytes: AtomicU64,
    pub(crate) allocations: AtomicU64,
    pub(crate) mapped: AtomicUsize,
    /// Not zero if the kernel has refused the name.
    nameless: AtomicU32,
    name: [AtomicU64; NAME_BYTES / 8],
    /// For each class, the first lot with free slots.
    pub(crate) bins: [AtomicU32; BINS],
    /// For each class, a lot that keeps its pages although all its slots are free, or that did so
    /// before.
    kept: [AtomicU32; BINS],
}

const NONE: u32 = 0;
const LIVE: u32 = 1;
const ENDS: u32 = 2;

/// Pointers into the zone have tags.
pub(crate) const TAGGED: u32 = 1;

impl Record {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state.load(Acquire) == LIVE
    }

    /// Begins a new zone, which other threads do not know yet.
    pub(crate) fn begin(&self, name: &Name, object: usize, slot: usize, flags: u32) {
        self.set_name(name);
        self.object.store(object, Relaxed);
        self.slot.store(slot, Relaxed);
        self.flags.store(flags, Relaxed);
        self.step.store(1, Relaxed);
        self.clear_lists();
        self.allocations.store(0, Relaxed);
        self.nameless.store(0, Relaxed);
        self.clear_figures();
        self.state.store(LIVE, Release);
    }

    pub(crate) fn clear_lists(&self) {
        for list in self.bins.iter().chain(&self.kept).chain([&self.first, &self.bare]) {
            list.store(0, Relaxed);
        }
    }

    pub(crate) fn clear_figures(&self) {
        self.live_blocks.store(0, Relaxed);
        self.live_bytes.store(0, Relaxed);
        self.mapped.store(0, Relaxed);
    }

    /// Begins the end of the zone: from now on no handle leads here.
    pub(crate) fn end(&self) {
        self.state.store(ENDS, Release);
        self.skip_generation();
    }

    pub(crate) fn skip_generation(&self) {
        self.generation.store(self.generation() + 1, Release);
    }

    /// Completes the end of the zone, which has nothing any more.
    pub(crate) fn ended(&self) {
        self.state.store(NONE, Release);
    }

    pub(crate) fn set_name(&self, name: &Name) {
        for (place, bytes) in self.name.iter().zip(name.bytes.chunks_exact(8)) {
            place.store(u64::from_ne_bytes(bytes.try_into().unwrap_or([0; 8])), Relaxed);
        }
    }

    pub(crate) fn name(&self) -> Name {
        let mut bytes = [0; NAME_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(&self.name) {
            place.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        Name::new(&bytes)
    }

    /// Records whether the kernel accepted the name.
    pub(crate) fn show_name(&self, shown: bool) {
        self.nameless.store(u32::from(!shown), Relaxed);
    }

    pub(crate) fn is_tagged(&self) -> bool {
        self.flags.load(Relaxed) & TAGGED != 0
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            live_blocks: self.live_blocks.load(Relaxed),
            live_bytes: self.live_bytes.load(Relaxed),
            allocations: self.allocations.load(Relaxed),
            mapped_bytes: self.mapped.load(Relaxed) as u64,
            object_bytes: self.object.load(Relaxed) as u64,
            name_is_shown: self.mapped.load(Relaxed) != 0 && self.nameless.load(Relaxed) == 0,
        }
    }

    /// Counts a block that was handed out if `more`, else a block that was freed.
    pub(crate) fn count(&self, bytes: usize, more: bool) {
        let step = |place: &AtomicU64, by: u64| {
            let before = place.load(Relaxed);
            place.store(if more { before + by } else { before.saturating_sub(by) }, Relaxed);
        };
        step(&self.live_blocks, 1);
        step(&self.live_bytes, bytes as u64);
        if more {
            step(&self.allocations, 1);
        }
    }

    fn class(&self, size: usize) -> Option<usize> {
        if self.slot.load(Relaxed) != 0 { Some(0) } else { Some(SizeClass::of(size)?.index()) }
    }

    /// Returns the bin of a slot size.
    pub(crate) fn bin(&self, size: usize) -> Option<&AtomicU32> {
        self.bins.get(self.class(size)?)
    }

    /// Returns the word that names the empty lot of a slot size that keeps its pages.
    pub(crate) fn kept(&self, size: usize) -> Option<&AtomicU32> {
        self.kept.get(self.class(size)?)
    }
}

/// Returns the first lot of a list.
pub(crate) fn head(list: &AtomicU32) -> Number {
    list.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_kernel_takes() {
        assert_eq!(Name::new(b"a$b[c]\x07\xff d\0rest").bytes(), b"a.b.c... d");
        assert_eq!(Name::new(&[b'x'; 200]).bytes().len(), 63);
        assert_eq!(Name::new(b"").bytes(), b"");
    }

    #[test]
    fn the_last_bin_is_of_the_largest_slot() {
        assert_eq!(SizeClass::size_of(BINS - 1), SLOT_MAX);
    }
}
