//! The frees of one thread into slabs of other threads that it has not published yet.

use crate::slab::{Batch, Offered, Slab, SlotIndex};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, StoreChanged};

/// The number of batches, so of slabs in which a thread gathers frees at one time.
const BATCHES: usize = 16;
/// The number of frees in a slab, of the last PERIOD frees without a batch, after which the slab
/// gets a batch. To give a batch to a slab and to take it away costs as much as several frees
/// without one. A thread that frees at random in many slabs would not gain that back.
const ENOUGH: u32 = 5;
const PERIOD: u32 = 32;
/// The number of slabs of which frees are counted at one time.
const PLACES: usize = 32;
/// After this many frees without a batch, one batch is checked. It is released if fewer than RARE
/// slots were marked there since it was checked before.
const OFTEN: u32 = 16;
const RARE: u32 = 16;
/// Spreads the numbers of descriptors, by a multiplication whose upper bits are used.
const SPREAD: usize = 0x9E37_79B9_7F4A_7C15;

/// Values of `closed`: the holder may have begun to use the batches before it could see this, or it
/// did not, and the reclaimer is publishing them.
const CLOSED: u32 = 1;
const EMPTYING: u32 = 2;

/// Whether a batch is published for the last time before it gets another slab. The function that
/// publishes it then releases it, before it tells the slab's owner: the owner cannot give an empty
/// slab away while there is a batch.
#[derive(Clone, Copy, Debug)]
pub struct Last(pub bool);

/// The batches of one heap. Its holder uses them, with the heap's reentrancy guard. The reclaimer
/// publishes what a quiet thread has left in them: it closes the outbox, makes every thread pass a
/// barrier, and checks that the holder does not have the guard.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Outbox {
    batches: [Batch; BATCHES],
    /// For each place, the slab in which the holder has freed last, the period, and the number of
    /// frees, all in one number. Holder only.
    lately: [AtomicU32; PLACES],
    /// The batch that the next slab gets. Holder only.
    next: AtomicU32,
    /// The number of frees that found no batch. Holder only.
    refused: AtomicU32,
    /// Not zero if a batch may have a slab. The holder sets it, and the reclaimer clears it while
    /// the outbox is closed.
    used: AtomicU32,
    /// [`CLOSED`] or [`EMPTYING`] while the holder must not use the batches. The reclaimer writes
    /// it.
    closed: AtomicU32,
    /// The stamps of all batches at the last sweep. Reclaimer only.
    seen: AtomicU64,
}

impl Outbox {
    /// Returns an empty outbox.
    pub const fn new() -> Outbox {
        Outbox {
            batches: [const { Batch::new() }; BATCHES],
            lately: [const { AtomicU32::new(0) }; PLACES],
            next: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            used: AtomicU32::new(0),
            closed: AtomicU32::new(0),
            seen: AtomicU64::new(0),
        }
    }

    /// Marks a slot that this thread frees. Returns `Refused` if the slab has no batch of this
    /// outbox: then the free must be published at once. Calls `publish` for a batch that is full,
    /// or that its slab does not need any more. Holder only, with the heap's reentrancy guard.
    #[inline]
    pub fn offer(
        &self,
        slab: &Slab,
        slot: SlotIndex,
        publish: impl Fn(&Slab, &Batch, Last),
    ) -> Offered {
        // pairs: open. After that the holder sees what the reclaimer has done.
        if self.closed.load(Acquire) != 0 {
            return Offered::Refused;
        }
        let address = slab.remote_frees().batch_address();
        let place = address.wrapping_sub((&raw const self.batches).expose_provenance());
        let batch = match self.batches.get(place / size_of::<Batch>()) {
            Some(batch) => batch,
            None => match self.batch_for(slab, address, &publish) {
                Some(batch) => batch,
                None => return Offered::Refused,
            },
        };
        let offered = batch.mark(slab, slot);
        if offered == Offered::Full {
            publish(slab, batch, Last(false));
        }
        offered
    }

    /// Returns a batch for a slab that has none of this outbox. `address` is that of a batch of
    /// another thread, or zero. Returns `None` if the slab gets none now.
    #[inline(never)]
    fn batch_for(
        &self,
        slab: &Slab,
        address: usize,
        publish: &impl Fn(&Slab, &Batch, Last),
    ) -> Option<&Batch> {
        let frees = self.refused.load(Relaxed).wrapping_add(1);
        self.refused.store(frees, Relaxed);
        if frees.is_multiple_of(OFTEN) {
            self.retire_rare((frees / OFTEN) as usize % BATCHES, publish);
        }
        let takes = address == 0 && self.is_worth_a_batch(slab, frees);
        if takes { self.take(slab, publish) } else { None }
    }

    /// Publishes and releases a batch if the holder rarely frees in its slab. While there is a
    /// batch, the frees of the slab's owner take longer.
    fn retire_rare(&self, number: usize, publish: &impl Fn(&Slab, &Batch, Last)) {
        if let Some(batch) = self.batches.get(number)
            && let Some(slab) = batch.slab()
            && batch.is_rare(RARE)
        {
            publish(slab, batch, Last(true));
        }
    }

    /// Counts a free without a batch, the `frees`-th. Returns true if ENOUGH of the last PERIOD
    /// were in this slab, as far as that is known.
    #[inline]
    fn is_worth_a_batch(&self, slab: &Slab, frees: u32) -> bool {
        let number = (&raw const *slab).expose_provenance() / size_of::<Slab>();
        let place = number.wrapping_mul(SPREAD) >> (usize::BITS - PLACES.ilog2());
        // SAFETY: as many bits as PLACES has numbers.
        let lately = unsafe { self.lately.get_unchecked(place) };
        // Of one slab and one period all bits but the lowest are equal.
        let none = (number as u32).wrapping_mul(SPREAD as u32) ^ (frees / PERIOD);
        let none = none.wrapping_mul(ENOUGH.next_power_of_two());
        let counted = lately.load(Relaxed).wrapping_sub(none);
        let counted = if counted < ENOUGH { counted + 1 } else { 1 };
        lately.store(none.wrapping_add(counted), Relaxed);
        counted == ENOUGH && slab.remote_frees().may_have_batch()
    }

    /// Gives the next batch in turn to a slab, after that of its last slab was published. The
    /// oldest is the least useful: most slots of its slab were freed. Returns `None` if another
    /// thread has a batch of the slab.
    fn take(&self, slab: &Slab, publish: &impl Fn(&Slab, &Batch, Last)) -> Option<&Batch> {
        let next = self.next.load(Relaxed);
        let batch = self.batches.get(next as usize % BATCHES)?;
        if let Some(other) = batch.slab() {
            publish(other, batch, Last(true));
        }
        if !batch.take(slab) {
            return None;
        }
        self.next.store(next.wrapping_add(1), Relaxed);
        self.used.store(1, Relaxed);
        Some(batch)
    }

    /// Publishes and releases all batches. Does nothing if the reclaimer is at it. Holder only,
    /// with the heap's reentrancy guard.
    pub fn empty(&self, publish: impl Fn(&Slab, &Batch, Last)) {
        if self.used.load(Relaxed) != 0 && self.closed.load(Acquire) == 0 {
            self.empty_closed(publish);
        }
    }

    fn empty_closed(&self, publish: impl Fn(&Slab, &Batch, Last)) {
        for batch in &self.batches {
            if let Some(slab) = batch.slab() {
                publish(slab, batch, Last(true));
            }
        }
        self.used.store(0, Relaxed);
    }

    /// Closes the outbox if a batch has a slab and, with `idle`, if nothing has changed since the
    /// last call. Reclaimer only. A barrier and `open` follow.
    pub fn close(&self, idle: bool) -> bool {
        if self.used.load(Relaxed) == 0 {
            return false;
        }
        let stamp =
            self.batches.iter().fold(0, |sum: u64, batch| sum.rotate_left(9) ^ batch.stamp());
        let before = self.seen.load(Relaxed);
        self.seen.store(stamp, Relaxed);
        if idle && before != stamp {
            return false;
        }
        self.closed.store(CLOSED, Relaxed);
        true
    }

    /// Opens the outbox if it is closed. If its holder is `quiet` since the barrier, publishes and
    /// releases all batches first. Reclaimer only.
    pub fn open(&self, quiet: bool, publish: impl Fn(&Slab, &Batch, Last)) {
        if self.closed.load(Relaxed) == 0 {
            return;
        }
        if quiet {
            self.closed.store(EMPTYING, Relaxed);
            self.empty_closed(publish);
        }
        // open.
        self.closed.store(0, Release);
    }

    /// In the child of a fork: publishes and releases all batches if their thread does not exist
    /// there, or if the reclaimer, which does not exist either, was doing so. Of the child's own
    /// thread, which may be in the middle of a change, it leaves them otherwise.
    pub fn repair(&self, is_own: bool, publish: impl Fn(&Slab, &Batch, Last)) {
        let is_left = !is_own || self.closed.load(Relaxed) == EMPTYING;
        if is_left && self.used.load(Relaxed) != 0 {
            self.empty_closed(publish);
        }
        self.closed.store_changed(0, Relaxed);
    }

    /// Verifies O1 and O2 of all batches. Holder only.
    pub fn check(&self) -> Result<(), crate::slab::Violation> {
        self.batches.iter().try_for_each(Batch::check)
    }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new()
    }
}

#[cfg(all(test, not(feature = "secure-light")))]
mod tests {
    use super::*;
    use crate::region::{Partition, Site};
    use crate::slab::SizeClass;
    use std::boxed::Box;
    use std::cell::Cell;
    extern crate std;

    /// A fork while the reclaimer publishes what the forking thread has left: the child publishes
    /// the rest. While the outbox is only closed, its thread may be in the middle of a change, so
    /// the child leaves the batches to it.
    #[test]
    fn a_child_goes_on_with_what_the_reclaimer_was_publishing() {
        for (closed, is_own, published) in
            [(EMPTYING, true, 1), (CLOSED, true, 0), (0, true, 0), (0, false, 1)]
        {
            let slab = Box::new(Slab::zeroed());
            slab.open(0x10_0000, SizeClass::new(3), Partition::default(), Site::default());
            let (outbox, calls) = (Box::new(Outbox::new()), Cell::new(0));
            let publish = |slab: &Slab, batch: &Batch, _: Last| {
                calls.set(calls.get() + 1);
                batch.publish(slab, |_| {});
                batch.release(slab);
            };
            for slot in SlotIndex::range(0..ENOUGH as usize) {
                let offered = outbox.offer(&slab, slot, publish);
                let last = slot.number() + 1 == ENOUGH as usize;
                assert_eq!(offered, if last { Offered::Marked } else { Offered::Refused });
            }
            outbox.closed.store(closed, Relaxed);
            outbox.repair(is_own, publish);
            assert_eq!((calls.get(), outbox.closed.load(Relaxed)), (published, 0), "{closed}");
            assert_eq!(slab.remote.count(), published);
            outbox.check().unwrap();
        }
    }
}
