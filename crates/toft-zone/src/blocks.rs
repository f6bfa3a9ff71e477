//! The blocks of one zone, under its lock: allocation, size and free.

use crate::lock::Held;
use crate::lot::{GRAIN, Kind, LOT_BYTES, Lot, SLOT_MAX, ZoneLocation};
use crate::record::{Record, head};
use crate::window::State;
use crate::zones::Refusal;
use toft_core::harden::{Long, first_nonzero, wipe};
use toft_core::os::Os;
use toft_core::policy::SECURE;
use toft_core::slab::SizeClass;
use toft_core::sync::Ordering::Relaxed;

/// A block that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The address at which it begins.
    pub(crate) address: usize,
    /// The start and length of the addresses that were mapped for it, if any were.
    pub(crate) mapped: Option<(usize, usize)>,
}

/// A zone whose lock the current thread holds.
#[derive(Debug)]
pub struct Zone<'a, O: Os> {
    pub(crate) state: &'a State,
    pub(crate) os: &'a O,
    pub(crate) me: usize,
    pub(crate) place: usize,
    pub(crate) record: &'a Record,
    pub(crate) _held: Held<'a, O>,
}

impl State {
    /// Returns what is at an address.
    pub(crate) fn at(&self, address: usize) -> ZoneLocation {
        let Some(lot) = self.lot_of(address) else { return ZoneLocation::NoZone };
        let zone = lot.zone.load(Relaxed) as usize;
        let begin = self.address_of(lot.place.load(Relaxed));
        let offset = address.wrapping_sub(begin);
        match lot.kind() {
            Kind::Free | Kind::Reserved => ZoneLocation::NoZone,
            Kind::Bare => ZoneLocation::Bare { zone },
            Kind::Large => {
                let bytes = lot.size();
                ZoneLocation::Block { zone, begin, bytes, slot: None, live: true, fresh: false }
            }
            Kind::Slots => {
                let size = lot.size().max(GRAIN);
                let slot = offset / size;
                if slot >= lot.slots() {
                    return ZoneLocation::Bare { zone };
                }
                ZoneLocation::Block {
                    zone,
                    begin: begin + slot * size,
                    bytes: size,
                    slot: Some(slot),
                    live: lot.is_live(slot),
                    fresh: slot >= lot.fresh(),
                }
            }
        }
    }
}

impl<'a, O: Os> Zone<'a, O> {
    pub(crate) fn allocate(
        &self,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> Result<Block, Refusal> {
        let Some(slot) = self.slot_for(size, align)? else {
            let object = self.record.object.load(Relaxed);
            return self.large(size.max(object).max(1), align);
        };
        let bin = self.record.bin(slot).ok_or(Refusal::DoesNotFit)?;
        let mut mapped = None;
        let lot = match self.state.lot(head(bin)) {
            Some(lot) => lot,
            None => {
                let (number, lot, new) = self.bare_lot()?;
                mapped = new;
                lot.cut(slot);
                lot.after.store(0, Relaxed);
                lot.in_bin.store(1, Relaxed);
                bin.store(number, Relaxed);
                lot
            }
        };
        let before = lot.fresh();
        let taken = lot.take().ok_or(Refusal::NoMemory)?;
        if lot.live() >= lot.slots() {
            lot.in_bin.store(0, Relaxed);
            bin.store(lot.after.load(Relaxed), Relaxed);
        }
        self.record.count(slot, true);
        let address = self.state.address_of(lot.place.load(Relaxed)) + taken * slot;
        if taken < before {
            self.ready(address, slot, zeroed)?;
        }
        self.put_tags(address, slot);
        Ok(Block { address, mapped })
    }

    /// Prepares a slot that was in use before for a new block.
    fn ready(&self, address: usize, bytes: usize, zeroed: bool) -> Result<(), Refusal> {
        if SECURE {
            // SAFETY: (1) a slot of a mapped lot, which this call has just taken.
            return match unsafe { first_nonzero(address, bytes) } {
                Some(byte) => Err(Refusal::WrittenTo { begin: address, bytes, byte }),
                None => Ok(()),
            };
        }
        if zeroed {
            // SAFETY: (1) a slot of a mapped lot, which this call has just taken.
            unsafe { wipe(address, bytes, Long::NONE) };
        }
        Ok(())
    }

    /// Returns the slot size for a request, or `None` if the request needs a separate block.
    fn slot_for(&self, size: usize, align: usize) -> Result<Option<usize>, Refusal> {
        let slot = self.record.slot.load(Relaxed);
        if slot != 0 {
            let object = self.record.object.load(Relaxed);
            let aligned = slot > SLOT_MAX || slot.is_multiple_of(align) || align <= GRAIN;
            let fits = size <= object && aligned;
            return if fits {
                Ok((slot <= SLOT_MAX).then_some(slot))
            } else {
                Err(Refusal::DoesNotFit)
            };
        }
        if size.max(align) > SLOT_MAX {
            return Ok(None);
        }
        let class = SizeClass::of_aligned(size, align.max(GRAIN));
        Ok(class.map(SizeClass::size).filter(|&size| size <= SLOT_MAX))
    }

    /// Returns the lot and the slot of the live block of this zone that begins at an address.
    fn block(&self, address: usize) -> Result<(&'a Lot, Option<usize>), Refusal> {
        let found = self.state.at(address);
        let refused = Refusal::NotABlock(found);
        match found {
            ZoneLocation::Block { zone, begin, slot, live: true, .. }
                if zone == self.place && begin == address =>
            {
                Ok((self.state.lot_of(address).ok_or(refused)?, slot))
            }
            _ => Err(refused),
        }
    }

    /// Returns the number of usable bytes of a live block.
    pub fn usable_size(&self, address: usize) -> Result<usize, Refusal> {
        Ok(self.block(address)?.0.size())
    }

    /// Frees a block.
    pub fn free(&self, address: usize) -> Result<(), Refusal> {
        let (lot, slot) = self.block(address)?;
        let size = lot.size();
        let Some(slot) = slot else { return self.free_large(lot) };
        if SECURE {
            // SAFETY: (1) a live slot, which the program frees.
            unsafe { wipe(address, size, Long::NONE) };
        }
        self.change_tags(address, size);
        lot.put(slot);
        self.record.count(size, false);
        let bin = self.record.bin(size).ok_or(Refusal::DoesNotFit)?;
        let number = self.number_of(lot);
        if lot.in_bin.load(Relaxed) == 0 {
            lot.after.store(head(bin), Relaxed);
            lot.in_bin.store(1, Relaxed);
            bin.store(number, Relaxed);
        }
        if lot.live() == 0 {
            self.is_empty(lot, number);
        }
        Ok(())
    }

    /// Handles a lot that has become empty. One empty lot of each size keeps its pages. A program
    /// that allocates and frees one block in turn therefore gets no page fault each time. Other
    /// empty lots lose their pages, and come later in the list.
    fn is_empty(&self, lot: &Lot, number: u32) {
        let size = lot.size();
        let (Some(bin), Some(kept)) = (self.record.bin(size), self.record.kept(size)) else {
            return;
        };
        let other = self.state.lot(head(kept));
        if head(kept) == number
            || other.is_none_or(|other| other.live() != 0 || other.size() != size)
        {
            kept.store(number, Relaxed);
            return;
        }
        let next = lot.after.load(Relaxed);
        if head(bin) == number
            && let Some(second) = self.state.lot(next)
        {
            lot.after.store(second.after.load(Relaxed), Relaxed);
            second.after.store(number, Relaxed);
            bin.store(next, Relaxed);
        }
        // SAFETY: (1) a lot of this zone, in which no slot is live.
        let _ =
            unsafe { self.os.discard(self.state.address_of(lot.place.load(Relaxed)), LOT_BYTES) };
    }

    pub(crate) fn number_of(&self, lot: &Lot) -> u32 {
        self.state.entry(lot.place.load(Relaxed)).map_or(0, |entry| entry.load(Relaxed))
    }
}
