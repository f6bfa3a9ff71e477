//! The descriptor of a lot: the use of its addresses, and which of its slots are live.

use toft_core::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// log2 of the bytes of a lot, which is whole pages on every kernel.
pub(crate) const LOT_SHIFT: u32 = 16;
/// The number of bytes of a lot.
pub const LOT_BYTES: usize = 1 << LOT_SHIFT;
/// The size of the smallest slot, and the alignment of every block.
pub(crate) const GRAIN: usize = 16;
/// The size of the largest block that shares a lot with others.
pub const SLOT_MAX: usize = 16 << 10;
/// The number of words that hold one bit for each slot.
const WORDS: usize = LOT_BYTES / GRAIN / 64;

/// The number of a descriptor, counted from one. Zero means none.
pub(crate) type Number = u32;

/// The use of a lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The descriptor is unowned.
    Free,
    /// The descriptor was taken for addresses that are not mapped yet, or not any more.
    Reserved,
    /// The lot belongs to a zone, and is not in use yet.
    Bare,
    /// The lot is cut into slots of one size.
    Slots,
    /// The lot is the start of one large block.
    Large,
}

/// The descriptor of a lot. The thread that holds the zone's lock writes it. If the descriptor is
/// free or about to be, the thread that holds the window's lock writes it. A report reads it
/// without a lock, and may see a mixture of old and new values.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Lot {
    kind: AtomicU32,
    /// The place of the zone in the table.
    pub(crate) zone: AtomicU32,
    /// The lot's number in the window.
    pub(crate) place: AtomicUsize,
    /// The number of lots of the stretch that begins here, or zero if none does.
    pub(crate) stretch: AtomicU32,
    /// The size of a slot, or the size of a large block rounded up to whole pages.
    pub(crate) size: AtomicUsize,
    pub(crate) slots: AtomicU32,
    pub(crate) live: AtomicU32,
    /// The first slot that was never handed out; no slot after it was either.
    pub(crate) fresh: AtomicU32,
    /// The slot at which the search for a free slot begins.
    rotor: AtomicU32,
    /// The neighbours in the list of the zone's lots. In a free descriptor, `next` is the next free
    /// one.
    pub(crate) before: AtomicU32,
    pub(crate) next: AtomicU32,
    /// The next lot in the bin, or in the list of the zone's bare lots.
    pub(crate) after: AtomicU32,
    /// One if the lot is in its bin, else zero.
    pub(crate) in_bin: AtomicU32,
    /// One bit for each slot: set if the slot is live.
    bits: [AtomicU64; WORDS],
}

/// What is at an address in the window of zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneLocation {
    /// In a slot, or in a large block.
    Block {
        /// The place of the zone in the table.
        zone: usize,
        /// The address at which the block begins.
        begin: usize,
        /// The number of bytes of the block.
        bytes: usize,
        /// The slot's number; `None` for a large block.
        slot: Option<usize>,
        /// True if the block is live.
        live: bool,
        /// True if the slot was never handed out.
        fresh: bool,
    },
    /// In a lot of a zone, at an address without a block.
    Bare {
        /// The place of the zone in the table.
        zone: usize,
    },
    /// In no zone: not yet, or not any more.
    NoZone,
}

impl Lot {
    pub(crate) fn kind(&self) -> Kind {
        match self.kind.load(Relaxed) {
            0 => Kind::Free,
            1 => Kind::Reserved,
            2 => Kind::Bare,
            3 => Kind::Slots,
            _ => Kind::Large,
        }
    }

    pub(crate) fn set_kind(&self, kind: Kind) {
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
    pub(crate) fn cut(&self, size: usize) {
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

    /// Returns the words that have the bits of `slots` slots.
    fn words(&self, slots: usize) -> impl Iterator<Item = &AtomicU64> {
        self.bits.iter().take(slots.div_ceil(64))
    }

    pub(crate) fn size(&self) -> usize {
        self.size.load(Relaxed)
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.load(Relaxed) as usize
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed) as usize
    }

    pub(crate) fn fresh(&self) -> usize {
        self.fresh.load(Relaxed) as usize
    }

    pub(crate) fn is_live(&self, slot: usize) -> bool {
        let word = self.bits.get(slot / 64).map_or(0, |word| word.load(Relaxed));
        word >> (slot % 64) & 1 != 0
    }

    /// Takes a free slot and returns its number. The search begins after the slot that was taken
    /// last, and wraps round the lot. A slot that was just freed is therefore not the next.
    pub(crate) fn take(&self) -> Option<usize> {
        let slots = self.slots();
        let from = self.rotor.load(Relaxed) as usize;
        let slot = self.free_from(from, slots).or_else(|| self.free_from(0, from.min(slots)))?;
        let word = self.bits.get(slot / 64)?;
        // In a child that is forked here the slot is live although the program does not have it.
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
        self.fresh.store(self.fresh.load(Relaxed).max(slot as u32 + 1), Relaxed);
        self.live.store(self.live.load(Relaxed) + 1, Relaxed);
        self.rotor.store(slot as u32 + 1, Relaxed);
        Some(slot)
    }

    /// Returns the first free slot in a range.
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

    /// Makes a live slot free.
    pub(crate) fn put(&self, slot: usize) {
        if let Some(word) = self.bits.get(slot / 64) {
            word.store(word.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
            self.live.store(self.live.load(Relaxed).saturating_sub(1), Relaxed);
        }
    }

    /// Returns the number of set bits, and true if the bit of a slot from `fresh` on is set.
    pub(crate) fn count(&self) -> (usize, bool) {
        let slots = self.slots();
        let live = self.words(slots).map(|word| word.load(Relaxed).count_ones() as usize).sum();
        (live, (self.fresh()..slots).any(|slot| self.is_live(slot)))
    }

    /// Computes the counts from the bits.
    pub(crate) fn recount(&self) {
        let (live, _) = self.count();
        let last = (0..self.slots()).rev().find(|&slot| self.is_live(slot));
        self.live.store(live as u32, Relaxed);
        self.fresh.fetch_max(last.map_or(0, |slot| slot as u32 + 1), Relaxed);
    }

    #[cfg(all(test, feature = "fake-os"))]
    pub(crate) fn damage_bit(&self, slot: usize) {
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
