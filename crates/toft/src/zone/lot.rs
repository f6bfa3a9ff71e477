//! The descriptor of a lot: what its addresses are for, and which of its slots are live.

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// log2 of the bytes of a lot: whole pages on every kernel.
pub(super) const LOT_SHIFT: u32 = 16;
/// Bytes of a lot.
pub const LOT_BYTES: usize = 1 << LOT_SHIFT;
/// The smallest slot, and what every block is aligned to.
pub(super) const GRAIN: usize = 16;
/// The largest block that shares a lot with others.
pub const SLOT_MAX: usize = 16 << 10;
/// Words of a bit for each slot.
const WORDS: usize = LOT_BYTES / GRAIN / 64;

/// The number of a descriptor, from one on; zero stands for none.
pub(super) type Number = u32;

/// What a lot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The descriptor is unowned.
    Free,
    /// It was taken for addresses that may not be mapped yet, or not any more.
    Reserved,
    /// The zone's, and not in use yet.
    Bare,
    /// Slots of one size.
    Slots,
    /// One block.
    Large,
}

/// A descriptor. The thread that has the lock of the zone writes it; of one that is free, or is
/// about to be, the one that has that of the window. A report reads it without, and may mix what
/// was with what is.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Lot {
    kind: AtomicU32,
    /// The place of its zone in the table.
    pub(super) zone: AtomicU32,
    /// The lot's number in the window.
    pub(super) place: AtomicUsize,
    /// Where a stretch begins, the lots of it; else zero.
    pub(super) stretch: AtomicU32,
    /// Bytes of a slot, or of a large block as it was asked for.
    pub(super) size: AtomicUsize,
    pub(super) slots: AtomicU32,
    pub(super) live: AtomicU32,
    /// Slots from here on were never handed out.
    pub(super) fresh: AtomicU32,
    /// Where the search for a free slot begins.
    rotor: AtomicU32,
    /// Its neighbours in the list of the zone's lots; of a free descriptor, the next free one.
    pub(super) before: AtomicU32,
    pub(super) next: AtomicU32,
    /// The next in its bin, or of the zone's bare lots.
    pub(super) after: AtomicU32,
    /// Whether it is in its bin.
    pub(super) in_bin: AtomicU32,
    /// A bit for each slot: whether the program has it.
    bits: [AtomicU64; WORDS],
}

/// What an address among those of zones is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In or behind a slot, or in a large block.
    Block {
        /// The place of its zone.
        zone: usize,
        /// Where it begins.
        begin: usize,
        /// Its bytes.
        bytes: usize,
        /// The slot's number; `None` for a large block.
        slot: Option<usize>,
        /// Whether the program has it.
        live: bool,
        /// Whether it never had.
        fresh: bool,
    },
    /// A zone's, which has no block there.
    Bare {
        /// The place of its zone.
        zone: usize,
    },
    /// No zone's: not yet, or not any more.
    Nobodys,
}

impl Lot {
    pub(super) fn kind(&self) -> Kind {
        match self.kind.load(Relaxed) {
            0 => Kind::Free,
            1 => Kind::Reserved,
            2 => Kind::Bare,
            3 => Kind::Slots,
            _ => Kind::Large,
        }
    }

    pub(super) fn set_kind(&self, kind: Kind) {
        let number = match kind {
            Kind::Free => 0,
            Kind::Reserved => 1,
            Kind::Bare => 2,
            Kind::Slots => 3,
            Kind::Large => 4,
        };
        self.kind.store(number, Relaxed);
    }

    /// Cuts a bare lot into slots. No bit of it is set.
    pub(super) fn cut(&self, size: usize) {
        let slots = LOT_BYTES / size.max(GRAIN);
        for word in self.words(slots) {
            word.store(0, Relaxed);
        }
        self.size.store(size, Relaxed);
        self.slots.store(slots as u32, Relaxed);
        for field in [&self.live, &self.fresh, &self.rotor, &self.in_bin] {
            field.store(0, Relaxed);
        }
        self.set_kind(Kind::Slots);
    }

    /// The words that have the bits of `slots` slots.
    fn words(&self, slots: usize) -> impl Iterator<Item = &AtomicU64> {
        self.bits.iter().take(slots.div_ceil(64))
    }

    pub(super) fn size(&self) -> usize {
        self.size.load(Relaxed)
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.load(Relaxed) as usize
    }

    pub(super) fn live(&self) -> usize {
        self.live.load(Relaxed) as usize
    }

    pub(super) fn fresh(&self) -> usize {
        self.fresh.load(Relaxed) as usize
    }

    pub(super) fn is_live(&self, slot: usize) -> bool {
        let word = self.bits.get(slot / 64).map_or(0, |word| word.load(Relaxed));
        word >> (slot % 64) & 1 != 0
    }

    /// Takes a slot that is free; says which. The one behind the last that was taken, and so on
    /// round the lot: what was freed a moment ago is not the next.
    pub(super) fn take(&self) -> Option<usize> {
        let slots = self.slots();
        let from = self.rotor.load(Relaxed) as usize;
        let slot = self.free_from(from, slots).or_else(|| self.free_from(0, from.min(slots)))?;
        let word = self.bits.get(slot / 64)?;
        // A child that is forked here has a slot that is live, and that is not in use.
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
        self.fresh.store(self.fresh.load(Relaxed).max(slot as u32 + 1), Relaxed);
        self.live.store(self.live.load(Relaxed) + 1, Relaxed);
        self.rotor.store(slot as u32 + 1, Relaxed);
        Some(slot)
    }

    /// The first slot in a range that is free.
    fn free_from(&self, from: usize, end: usize) -> Option<usize> {
        let mut at = from;
        while at < end {
            let free = !self.bits.get(at / 64)?.load(Relaxed) >> (at % 64);
            if free != 0 {
                let slot = at + free.trailing_zeros() as usize;
                return (slot < end).then_some(slot);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Takes a live slot back.
    pub(super) fn put(&self, slot: usize) {
        if let Some(word) = self.bits.get(slot / 64) {
            word.store(word.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
            self.live.store(self.live.load(Relaxed).saturating_sub(1), Relaxed);
        }
    }

    /// How many bits are set, of slots that there are, and whether one is behind `fresh`.
    pub(super) fn count(&self) -> (usize, bool) {
        let slots = self.slots();
        let live = self.words(slots).map(|word| word.load(Relaxed).count_ones() as usize).sum();
        (live, (self.fresh()..slots).any(|slot| self.is_live(slot)))
    }

    /// Sets the counts to what the bits say.
    pub(super) fn recount(&self) {
        let (live, _) = self.count();
        let last = (0..self.slots()).rev().find(|&slot| self.is_live(slot));
        self.live.store(live as u32, Relaxed);
        self.fresh.fetch_max(last.map_or(0, |slot| slot as u32 + 1), Relaxed);
    }

    #[cfg(test)]
    pub(super) fn damage_bit(&self, slot: usize) {
        self.bits[slot / 64].fetch_xor(1 << (slot % 64), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lot(size: usize) -> std::boxed::Box<Lot> {
        // SAFETY: all-zero is a descriptor.
        let lot: std::boxed::Box<Lot> = std::boxed::Box::new(unsafe { core::mem::zeroed() });
        lot.cut(size);
        lot
    }

    #[test]
    fn every_slot_is_handed_out_once_and_the_last_freed_comes_last() {
        for size in [16, 48, 112, 1000 / 16 * 16, 4096, SLOT_MAX] {
            let lot = lot(size);
            let mut taken: std::vec::Vec<usize> = std::iter::from_fn(|| lot.take()).collect();
            assert_eq!(taken, (0..LOT_BYTES / size).collect::<std::vec::Vec<_>>(), "{size}");
            let last = taken.pop().unwrap();
            lot.put(0);
            lot.put(last);
            assert_eq!((lot.take(), lot.take(), lot.take()), (Some(0), Some(last), None));
            assert_eq!(lot.count(), (lot.slots(), false));
        }
    }
}
