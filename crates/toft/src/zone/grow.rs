//! How a zone gets addresses, and how it loses them.

use super::blocks::{Block, Zone};
use super::lot::{GRAIN, Kind, LOT_BYTES, Lot, Number};
use super::record::head;
use super::window::Open;
use super::zones::Refusal;
use crate::os::Os;
use crate::sync::Ordering::Relaxed;

/// Lots of the longest stretch: 32 MiB.
const STEP_MAX: u32 = 512;

/// A lot of a zone, and its number; and the addresses that were mapped, if any were.
type NewLot<'a> = (Number, &'a Lot, Option<(usize, usize)>);

impl<'a, O: Os> Zone<'a, O> {
    /// A lot that is bare, out of the list.
    pub(super) fn bare_lot(&self) -> Result<NewLot<'a>, Refusal> {
        let mut mapped = None;
        if head(&self.record.bare) == 0 {
            mapped = Some(self.grow()?);
        }
        let number = head(&self.record.bare);
        let lot = self.state.lot(number).ok_or(Refusal::NoMemory)?;
        self.record.bare.store(lot.after.load(Relaxed), Relaxed);
        Ok((number, lot, mapped))
    }

    /// Another stretch of bare lots, twice as long as the last; of one, where there is no more.
    /// Says its addresses.
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

    /// A stretch of `lots` lots; returns the first.
    fn stretch(&self, open: &Open<'_, O>, lots: u32) -> Result<usize, Refusal> {
        // Descriptors first, in a chain: without them there is no stretch.
        let mut chain = 0;
        for _ in 0..lots {
            match open.take_lot() {
                Ok((number, lot)) => {
                    lot.zone.store(self.place as u32, Relaxed);
                    lot.stretch.store(0, Relaxed);
                    lot.size.store(0, Relaxed);
                    // Not to be unmapped by a child that is forked now: it is nowhere.
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
        // In the order of the addresses, so that the first is the next to be used.
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

    /// The bare lots of a new stretch are a chain from its last on: the list begins with the first.
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

    /// Everything that is mapped for the zone: an address and bytes.
    pub(super) fn for_each_stretch(&self, each: impl Fn(usize, usize)) {
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

    /// Puts a lot into the list of all.
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

    /// A block that has a stretch to itself. It is zero.
    pub(super) fn large(&self, size: usize, align: usize) -> Result<Block, Refusal> {
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

    /// Takes such a block back: its addresses are unowned from then on.
    pub(super) fn free_large(&self, lot: &Lot) -> Result<(), Refusal> {
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

    /// A stretch is unowned again.
    fn give_addresses(&self, open: &Open<'_, O>, place: usize, bytes: usize) {
        self.unmap_tags(place, bytes);
        self.give_untagged(open, place, bytes);
    }

    /// As `give_addresses`, of a stretch that has no tags.
    fn give_untagged(&self, open: &Open<'_, O>, place: usize, bytes: usize) {
        let address = self.state.address_of(place);
        // SAFETY: (1) mapped for this zone, which gives it up; the descriptors say so already.
        // Where the system cannot unmap it, its pages go at least, and it is never handed out
        // again: nothing can be mapped there.
        unsafe {
            if self.os.unmap(address, bytes).is_err() {
                let _ = self.os.discard(address, bytes);
            }
        }
        let lots = bytes.div_ceil(LOT_BYTES);
        open.mark(place, lots, 0);
        open.tidy(place);
        open.tidy(place + lots - 1);
    }

    /// What begins at a lot of a zone that ends is unowned again.
    fn let_go(&self, open: &Open<'_, O>, lot: &Lot) {
        let bytes = match lot.kind() {
            Kind::Large => lot.size(),
            _ => lot.stretch.load(Relaxed) as usize * LOT_BYTES,
        };
        // Before it is unmapped: see `repair.rs`.
        lot.set_kind(Kind::Reserved);
        if bytes != 0 {
            self.give_addresses(open, lot.place.load(Relaxed), bytes);
        }
    }

    /// Ends the zone.
    pub(super) fn destroy(self) -> Result<(), Refusal> {
        let (state, os) = (self.state, self.os);
        let open = state.open(os, self.me)?;
        self.record.end();
        let mut number = head(&self.record.first);
        self.record.clear_lists();
        while let Some(lot) = self.state.lot(number) {
            let next = lot.next.load(Relaxed);
            self.let_go(&open, lot);
            open.give_lot(number, lot);
            number = next;
        }
        self.record.clear_figures();
        self.record.ended();
        open.give_record(self.place, self.record);
        // The record's lock before the window's: a handler that comes in now may be given this very
        // record.
        drop(self);
        drop(open);
        Ok(())
    }
}

const _: () = assert!(LOT_BYTES.is_multiple_of(GRAIN));
