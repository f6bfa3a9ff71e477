//! What is known of a zone.

use super::lock::Lock;
use super::lot::{Number, SLOT_MAX};
use crate::slab::Class;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// Bins: one for each class that shares lots.
pub(super) const BINS: usize = {
    let mut bins = 0;
    while Class::size_of(bins) < SLOT_MAX {
        bins += 1;
    }
    bins + 1
};

/// Bytes of a name, with the zero at its end.
const NAME_BYTES: usize = 64;

/// What a zone is called: what the kernel takes for a name, cut off where it is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    len: usize,
}

impl Name {
    /// A name of these bytes. What the kernel would not take is a dot.
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

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Its bytes and zeros, for C.
    pub fn padded(&self) -> [u8; NAME_BYTES] {
        self.bytes
    }
}

/// Figures of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Blocks that the program has.
    pub live_blocks: u64,
    /// Their usable bytes.
    pub live_bytes: u64,
    /// Blocks that were ever handed out.
    pub allocations: u64,
    /// Bytes of addresses that are mapped.
    pub mapped_bytes: u64,
    /// Bytes of each object, where the zone is of one kind of objects; else zero.
    pub object_bytes: u64,
    /// Whether the name is to be seen in `/proc/PID/maps`.
    pub name_is_shown: bool,
}

/// A record, of one zone after another; zero at first. The thread that has its lock writes it; the
/// one that has the lock of the window while it is no zone's. `state` and `generation` are read
/// without.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Record {
    pub(super) lock: Lock,
    /// [`NONE`], [`LIVE`] or [`ENDS`].
    state: AtomicU32,
    /// [`TAGGED`].
    pub(super) flags: AtomicU32,
    /// How often the record was a zone's.
    generation: AtomicU64,
    /// Bytes of a slot where all are of one size; else zero.
    pub(super) slot: AtomicUsize,
    /// Bytes of an object there.
    pub(super) object: AtomicUsize,
    /// All lots.
    pub(super) first: AtomicU32,
    /// Those that are bare.
    pub(super) bare: AtomicU32,
    /// Of a record that is free, the next.
    pub(super) next: AtomicU32,
    /// Lots of the next stretch.
    pub(super) step: AtomicU32,
    pub(super) live_blocks: AtomicU64,
    pub(super) live_bytes: AtomicU64,
    pub(super) allocations: AtomicU64,
    pub(super) mapped: AtomicUsize,
    /// Not zero where the kernel has refused the name.
    nameless: AtomicU32,
    name: [AtomicU64; NAME_BYTES / 8],
    /// Lots with free slots, by class.
    pub(super) bins: [AtomicU32; BINS],
    /// By class, a lot of which all slots are free and that keeps its pages; or that was so.
    kept: [AtomicU32; BINS],
}

const NONE: u32 = 0;
const LIVE: u32 = 1;
const ENDS: u32 = 2;

/// Pointers into the zone have tags.
pub(super) const TAGGED: u32 = 1;

impl Record {
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    pub(super) fn is_live(&self) -> bool {
        self.state.load(Acquire) == LIVE
    }

    /// A new zone, not known to other threads yet.
    pub(super) fn begin(&self, name: &Name, object: usize, slot: usize, flags: u32) {
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

    pub(super) fn clear_lists(&self) {
        for list in self.bins.iter().chain(&self.kept).chain([&self.first, &self.bare]) {
            list.store(0, Relaxed);
        }
    }

    pub(super) fn clear_figures(&self) {
        self.live_blocks.store(0, Relaxed);
        self.live_bytes.store(0, Relaxed);
        self.mapped.store(0, Relaxed);
    }

    /// From now on no handle leads here.
    pub(super) fn end(&self) {
        self.state.store(ENDS, Release);
        self.skip_generation();
    }

    pub(super) fn skip_generation(&self) {
        self.generation.store(self.generation() + 1, Release);
    }

    /// The zone has nothing any more.
    pub(super) fn ended(&self) {
        self.state.store(NONE, Release);
    }

    pub(super) fn set_name(&self, name: &Name) {
        for (place, bytes) in self.name.iter().zip(name.bytes.chunks_exact(8)) {
            place.store(u64::from_ne_bytes(bytes.try_into().unwrap_or([0; 8])), Relaxed);
        }
    }

    pub(super) fn name(&self) -> Name {
        let mut bytes = [0; NAME_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(&self.name) {
            place.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        Name::new(&bytes)
    }

    /// Whether the kernel took the name.
    pub(super) fn show_name(&self, shown: bool) {
        self.nameless.store(u32::from(!shown), Relaxed);
    }

    pub(super) fn is_tagged(&self) -> bool {
        self.flags.load(Relaxed) & TAGGED != 0
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            live_blocks: self.live_blocks.load(Relaxed),
            live_bytes: self.live_bytes.load(Relaxed),
            allocations: self.allocations.load(Relaxed),
            mapped_bytes: self.mapped.load(Relaxed) as u64,
            object_bytes: self.object.load(Relaxed) as u64,
            name_is_shown: self.mapped.load(Relaxed) != 0 && self.nameless.load(Relaxed) == 0,
        }
    }

    /// A block was handed out, or taken back.
    pub(super) fn count(&self, bytes: usize, more: bool) {
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
        if self.slot.load(Relaxed) != 0 { Some(0) } else { Some(Class::of(size)?.index()) }
    }

    /// The bin of a slot size.
    pub(super) fn bin(&self, size: usize) -> Option<&AtomicU32> {
        self.bins.get(self.class(size)?)
    }

    /// Which lot of a slot size keeps its pages although it is empty.
    pub(super) fn kept(&self, size: usize) -> Option<&AtomicU32> {
        self.kept.get(self.class(size)?)
    }
}

/// The head of a list, for [`Number`]s.
pub(super) fn head(list: &AtomicU32) -> Number {
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
        assert_eq!(Class::size_of(BINS - 1), SLOT_MAX);
    }
}
