//! How a zone gets addresses and returns them.

use crate::blocks::{Block, Zone};
use crate::lot::{GRAIN, Kind, LOT_BYTES, Lot, Number};
use crate::record::head;
use crate::window::Open;
use crate::zones::Refusal;
use toft_core::os::Os;
use toft_core::sync::Ordering::Relaxed;

/// The number of lots of the longest stretch: 32 MiB.
const STEP_MAX: u32 = 512;

/// A lot's number and descriptor, and the start and length of the addresses mapped for it, if any.
type NewLot<'a> = (Number, &'a Lot, Option<(usize, usize)>);

impl<'a, O: Os> Zone<'a, O> {
    /// Removes a bare lot from the list and returns it. Maps a new stretch if there is none.
    pub(crate) fn bare_lot(&self) -> Result<NewLot<'a>, Refusal> {
        let mut mapped = None;
        if head(&self.record.bare) == 0 {
            mapped = Some(self.grow()?);
        }
        let number = head(&self.record.bare);
        let lot = self.state.lot(number).ok_or(Refusal::NoMemory)?;
        self.record.bare.store(lot.after.load(Relaxed), Relaxed);
        Ok((number, lot, mapped))
    }

    /// Maps another stretch of bare lots, twice as long as the last, or of one lot if there is no
    /// memory for more. Returns its start and length.
    fn grow(&self) -> Result<(usize, usize), Refusal> {
        let step = self.record.step.load(Relaxed).max(1);
        let open = self.state.open(self.os, self.me)?;
        let (lots, place) = match self.stretch(&open, step) {
            Ok(place) => (step, place),
            Err(Refusal::NoMemory) if step > 1 => (1, self.stretch(&open, 1)?),
            Err(refusal) => return Err(refusal),
        };
        self.record.step.store((step * 2).min(STEP_MAX), Relaxed);
        Ok((self.state.address_of(place), lots as usize * LOT_BYTES))
    }

    /// Maps a stretch of `lots` lots, and returns the place of the first.
    fn stretch(&self, open: &Open<'_, O>, lots: u32) -> Result<usize, Refusal> {
        // The descriptors are taken first, as a chain, because a stretch cannot exist without them.
        let mut chain = 0;
        for _ in 0..lots {
            match open.take_lot() {
                Ok((number, lot)) => {
                    lot.zone.store(self.place as u32, Relaxed);
                    lot.stretch.store(0, Relaxed);
                    lot.size.store(0, Relaxed);
                    // A child that is forked now must not unmap it: it has no place yet.
                    lot.place.store(usize::MAX, Relaxed);
                    lot.next.store(chain, Relaxed);
                    lot.set_kind(Kind::Reserved);
                    chain = number;
                }
                Err(refusal) => {
                    self.give_chain(open, chain);
                    return Err(refusal);
                }
            }
        }
        let bytes = lots as usize * LOT_BYTES;
        let number_chain = |place: usize| {
            self.each_of(chain, |index, number, lot| {
                lot.place.store(place + index, Relaxed);
                open.mark(place + index, 1, number);
            });
        };
        let mapped = open.map(bytes, 1, number_chain, |place| {
            self.each_of(chain, |_, _, lot| lot.place.store(usize::MAX, Relaxed));
            open.mark(place, lots as usize, 0);
        });
        let place = match mapped {
            Ok(place) if self.map_tags(place, bytes) => place,
            Ok(place) => {
                self.give_untagged(open, place, bytes);
                self.give_chain(open, chain);
                return Err(Refusal::NoMemory);
            }
            Err(refusal) => {
                self.give_chain(open, chain);
                return Err(refusal);
            }
        };
        self.record.mapped.fetch_add(bytes, Relaxed);
        // This goes up the addresses, so the lot at the lowest address is used first.
        let mut last = 0;
        while let Some(lot) = self.state.lot(chain) {
            let (number, next) = (chain, lot.next.load(Relaxed));
            let first = lot.place.load(Relaxed) == place;
            lot.stretch.store(if first { lots } else { 0 }, Relaxed);
            self.link(number, lot);
            lot.after.store(last, Relaxed);
            lot.set_kind(Kind::Bare);
            (last, chain) = (number, next);
        }
        self.each_bare(last);
        Ok(place)
    }

    /// Moves the bare lots of a new stretch to the list. `chain` begins with the last lot of the
    /// stretch, so the list begins with the first.
    fn each_bare(&self, mut chain: Number) {
        while let Some(lot) = self.state.lot(chain) {
            let next = lot.after.load(Relaxed);
            lot.after.store(head(&self.record.bare), Relaxed);
            self.record.bare.store(chain, Relaxed);
            chain = next;
        }
    }

    fn each_of(&self, chain: Number, mut each: impl FnMut(usize, Number, &Lot)) {
        let (mut number, mut index) = (chain, 0);
        while let Some(lot) = self.state.lot(number) {
            each(index, number, lot);
            (number, index) = (lot.next.load(Relaxed), index + 1);
        }
    }

    fn give_chain(&self, open: &Open<'_, O>, mut chain: Number) {
        while let Some(lot) = self.state.lot(chain) {
            let next = lot.next.load(Relaxed);
            open.give_lot(chain, lot);
            chain = next;
        }
    }

    /// Calls `each` with the start and length of every range that is mapped for the zone.
    pub(crate) fn for_each_stretch(&self, each: impl Fn(usize, usize)) {
        self.each_of(head(&self.record.first), |_, _, lot| {
            let bytes = match lot.kind() {
                Kind::Large => lot.size(),
                _ => lot.stretch.load(Relaxed) as usize * LOT_BYTES,
            };
            if bytes != 0 {
                each(self.state.address_of(lot.place.load(Relaxed)), bytes);
            }
        });
    }

    /// Puts a lot on the list of all lots.
    fn link(&self, number: Number, lot: &Lot) {
        let first = head(&self.record.first);
        lot.before.store(0, Relaxed);
        lot.next.store(first, Relaxed);
        if let Some(second) = self.state.lot(first) {
            second.before.store(number, Relaxed);
        }
        self.record.first.store(number, Relaxed);
    }

    fn unlink(&self, lot: &Lot) {
        let (before, next) = (lot.before.load(Relaxed), lot.next.load(Relaxed));
        match self.state.lot(before) {
            Some(lot) => lot.next.store(next, Relaxed),
            None => self.record.first.store(next, Relaxed),
        }
        if let Some(lot) = self.state.lot(next) {
            lot.before.store(before, Relaxed);
        }
    }

    /// Allocates a block that has a separate stretch. The block is zero.
    pub(crate) fn large(&self, size: usize, align: usize) -> Result<Block, Refusal> {
        let page = self.os.page_size();
        let bytes = size.checked_next_multiple_of(page).ok_or(Refusal::NoMemory)?;
        let open = self.state.open(self.os, self.me)?;
        let (number, lot) = open.take_lot()?;
        lot.zone.store(self.place as u32, Relaxed);
        lot.size.store(bytes, Relaxed);
        lot.place.store(usize::MAX, Relaxed);
        lot.stretch.store(0, Relaxed);
        lot.set_kind(Kind::Reserved);
        let lots = bytes.div_ceil(LOT_BYTES);
        let claim = |place: usize| {
            lot.place.store(place, Relaxed);
            open.mark(place, lots, number);
        };
        let unclaim = |place: usize| {
            open.mark(place, lots, 0);
            lot.place.store(usize::MAX, Relaxed);
        };
        let place = match open.map(bytes, (align / LOT_BYTES).max(1), claim, unclaim) {
            Ok(place) if self.map_tags(place, bytes) => place,
            Ok(place) => {
                self.give_untagged(&open, place, bytes);
                open.give_lot(number, lot);
                return Err(Refusal::NoMemory);
            }
            Err(refusal) => {
                open.give_lot(number, lot);
                return Err(refusal);
            }
        };
        self.link(number, lot);
        lot.set_kind(Kind::Large);
        self.record.mapped.fetch_add(bytes, Relaxed);
        self.record.count(bytes, true);
        let address = self.state.address_of(place);
        self.put_tags(address, bytes);
        Ok(Block { address, mapped: Some((address, bytes)) })
    }

    /// Frees a large block. Its addresses are unowned afterwards.
    pub(crate) fn free_large(&self, lot: &Lot) -> Result<(), Refusal> {
        let open = self.state.open(self.os, self.me)?;
        let (place, bytes) = (lot.place.load(Relaxed), lot.size());
        let number = self.number_of(lot);
        lot.set_kind(Kind::Reserved);
        self.unlink(lot);
        self.record.mapped.fetch_sub(bytes, Relaxed);
        self.record.count(bytes, false);
        self.give_addresses(&open, place, bytes);
        open.give_lot(number, lot);
        Ok(())
    }

    /// Unmaps a stretch and its tags, and makes its addresses unowned.
    fn give_addresses(&self, open: &Open<'_, O>, place: usize, bytes: usize) {
        self.unmap_tags(place, bytes);
        self.give_untagged(open, place, bytes);
    }

    /// Does the work of `give_addresses` for a stretch that has no tags.
    fn give_untagged(&self, open: &Open<'_, O>, place: usize, bytes: usize) {
        let address = self.state.address_of(place);
        // SAFETY: (1) mapped for this zone, which gives it up. The descriptors no longer refer to
        // it. If the kernel cannot unmap the range, this discards its pages. The range is then
        // never handed out again, because nothing can be mapped there.
        unsafe {
            if self.os.unmap(address, bytes).is_err() {
                let _ = self.os.discard(address, bytes);
            }
        }
        let lots = bytes.div_ceil(LOT_BYTES);
        open.mark(place, lots, 0);
        open.discard_table_page(place);
        open.discard_table_page(place + lots - 1);
    }

    /// Makes the addresses that begin at a lot unowned. The lot's zone is being destroyed.
    fn release_lot(&self, open: &Open<'_, O>, lot: &Lot) {
        let bytes = match lot.kind() {
            Kind::Large => lot.size(),
            _ => lot.stretch.load(Relaxed) as usize * LOT_BYTES,
        };
        // This precedes the unmapping: see `repair.rs`.
        lot.set_kind(Kind::Reserved);
        if bytes != 0 {
            self.give_addresses(open, lot.place.load(Relaxed), bytes);
        }
    }

    /// Destroys the zone: all its memory is unmapped, and its handle is invalid afterwards.
    pub fn destroy(self) -> Result<(), Refusal> {
        let (state, os) = (self.state, self.os);
        let open = state.open(os, self.me)?;
        self.record.end();
        let mut number = head(&self.record.first);
        self.record.clear_lists();
        while let Some(lot) = self.state.lot(number) {
            let next = lot.next.load(Relaxed);
            self.release_lot(&open, lot);
            open.give_lot(number, lot);
            number = next;
        }
        self.record.clear_figures();
        self.record.ended();
        open.give_record(self.place, self.record);
        // The record's lock is released before the window's. The release of the window's lock lets
        // signals in, and a handler may then be given this record.
        drop(self);
        drop(open);
        Ok(())
    }
}

const _: () = assert!(LOT_BYTES.is_multiple_of(GRAIN));
