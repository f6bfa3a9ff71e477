//! Verification on demand, and after each given number of allocations: `toft_verify`,
//! `TOFT_VERIFY`.
//!
//! The whole heap is verified while its threads run. Each part is verified as far as possible:
//!
//! ```text
//! the calling thread's slabs and lists  all invariants, with the seat of its heap
//! slabs of threads that have exited     all of a slab's invariants, with the seat of their heap
//! unowned slabs                         all of a slab's invariants, while no thread is in a change
//! slabs of running threads              what always holds (`Slab::check_from_outside`)
//! large blocks                          each one (L1); secure build: its surroundings, too
//! the pool of guarded blocks            all invariants
//! slots that are not in use             their contents (`contents.rs`)
//! slots of the calling thread           in the secure build (`verify_slots.rs`)
//! slots of others, and reserved ones    in the secure build (`verify_others.rs`)
//! ```
//!
//! A check of data that other threads change may fall between two of their steps. So an invariant
//! counts as broken only if every check in a fifth of a second finds it broken. An invariant is not
//! checked if a thread may be stopped for longer between two steps that break it.

use crate::os::process::{self, peek};
use crate::os::seccomp::Calls;
use crate::os::{Os, wait_for};
use crate::policy::SECURE;
use crate::report::{Call, Line, head};
use crate::slab::{FLAGS, Slab, Violation};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, HeapState};
use crate::watch::reports::misuse::tier;
use crate::watch::verifier::Verifier;
use crate::watch::verifier::extent::Extent;

/// The limit in nanoseconds of processor time of a verification at exit. A hundredth of the
/// program's processor time is the limit if that is more. On a machine that is busy with other
/// programs, as much is covered as on one that is not.
const AT_EXIT: u64 = 50_000_000;

impl<O: Os> Verifier<'_, O> {
    /// Verifies the whole heap, and reports the first violation. Returns true if there is none.
    /// Does nothing in a signal handler that has interrupted a change.
    pub fn verify(self, heap: &Heap) -> bool {
        self.verify_within(heap, &Extent::all())
    }

    /// Does what [`Verifier::verify`] does, as far as `extent` goes.
    fn verify_within(self, heap: &Heap, extent: &Extent<'_>) -> bool {
        let Some(seat) = heap.sit() else { return true };
        let bounded = extent.is_bounded();
        let sound = (bounded || self.verify_slabs(heap, extent))
            && self.verify_lists(heap)
            && self.verify_large(extent)
            && self.slots_are_whole(heap, &seat, extent);
        drop(seat);
        let sound = sound && self.verify_contents(extent) && self.others_are_whole(heap, extent);
        // With a time limit the tables are last, because blocks are overwritten more often than
        // tables.
        let tables = || heap.sit().is_none_or(|_seat| self.verify_slabs(heap, extent));
        sound && (!bounded || tables())
    }

    /// Verifies the heap when the program ends, within a limit of processor time. Prints the share
    /// that was covered, unless it was everything. Does nothing under an unknown filter of system
    /// calls, which may forbid reading a clock.
    pub(crate) fn verify_at_exit(self, heap: &Heap) {
        let Some(permit) = self.filter().permit(&self.os, Calls::REPORT, true) else { return };
        let least = AT_EXIT.max(process::processor_time() / 100);
        let begin = process::thread_time();
        drop(permit);
        let extent = Extent::until(&process::thread_time, begin + least);
        let sound = self.verify_within(heap, &extent);
        let (covered, all) = extent.figures();
        if sound && covered < all {
            let mut line = Line::new(self.hide_addresses);
            line.text("toft: verified ").number((covered * 100 / all) as u64);
            line.text(" % of the heap at exit, in ").number(least / 1_000_000);
            line.text(" ms; toft_verify() verifies all of it");
            process::write_all(libc::STDERR_FILENO, line.end());
        }
    }

    /// Waits until `check` succeeds, for a fifth of a second at most. Returns its last result.
    pub(crate) fn holds(self, check: impl Fn() -> Result<(), Violation>) -> Result<(), Violation> {
        if wait_for(&self.os, || check().is_ok()) { Ok(()) } else { check() }
    }

    /// Verifies every slab, of any owner. The caller holds the seat of `heap`.
    fn verify_slabs(self, heap: &Heap, extent: &Extent<'_>) -> bool {
        let mut sound = true;
        self.for_each_slab(|slab| {
            if !sound || !extent.goes_on() {
                return;
            }
            if let Err(violation) = self.holds(|| self.check_slab(heap, slab)) {
                self.tables_are_damaged(slab.base(), Some(slab), violation);
                sound = false;
            }
        });
        sound
    }

    fn check_slab(self, heap: &Heap, slab: &Slab) -> Result<(), Violation> {
        slab.check_from_outside(self.options.partitions)?;
        let found = if slab.class().is_small() {
            self.small.slab_at(slab.base())
        } else {
            self.medium.slab_at(slab.base())
        };
        if !found.is_some_and(|found| core::ptr::eq(found, slab)) {
            return Err(Violation("I1: base"));
        }
        if heap.owns(slab) {
            return check_of(heap, slab);
        }
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        if owner == 0 {
            let checked = slab.check();
            // A thread that takes the slab or parts with it is in its seat, or owns the slab by
            // now.
            let changes = slab.has_owner()
                || self
                    .heaps
                    .all()
                    .any(|other| other.address() != heap.address() && other.is_torn());
            return if changes { Ok(()) } else { checked };
        }
        let Some(other) = self.heaps.heap_at(owner) else {
            return Err(Violation("P1: the owner is no heap"));
        };
        let mut checked = Ok(());
        if self.heaps.heap_state(other.number) == HeapState::Orphan {
            self.heaps.with_orphan(other.number, |orphan| {
                if let Some(_seat) = orphan.sit()
                    && orphan.owns(slab)
                {
                    checked = check_of(orphan, slab);
                }
            });
        }
        checked
    }

    /// Verifies the lists of the calling thread, and the pool of guarded blocks. The caller holds
    /// the seat of `heap`.
    fn verify_lists(self, heap: &Heap) -> bool {
        let rest = || {
            heap.check(self.heaps.partitions())?;
            self.guarded.check().map_err(Violation)
        };
        match self.holds(rest) {
            Ok(()) => true,
            Err(violation) => {
                self.tables_are_damaged(heap.address(), None, violation);
                false
            }
        }
    }

    pub(crate) fn verify_large(self, extent: &Extent<'_>) -> bool {
        // Another thread may unmap the memory during the check, so the kernel reads it. A filter
        // may be installed at any moment, so the permit is for one block.
        let permit = || {
            if SECURE { self.filter().permit(&self.os, Calls::READ, true) } else { None }
        };
        let read = |address: usize, into: &mut [u8]| peek(address, into) == into.len();
        let mut sound = true;
        self.large.units().for_each(|block| {
            if !sound || !extent.covers() {
                return;
            }
            if let Err(violation) = self.holds(|| self.large.checks().one(block).map_err(Violation))
            {
                self.tables_are_damaged(self.large.placement().address(block), None, violation);
                sound = false;
            } else if let Some(_permit) = permit()
                && self.large.checks().damage_from_outside(block, &read).is_some()
                && !wait_for(&self.os, || {
                    self.large.checks().damage_from_outside(block, &read).is_none()
                })
                && let Some(damage) = self.large.checks().damage_from_outside(block, &read)
            {
                self.reports().missed_large(Call::Verify, block, damage);
                sound = false;
            }
        });
        sound
    }

    fn tables_are_damaged(self, address: usize, slab: Option<&Slab>, violation: Violation) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, "damaged metadata", Call::Verify, address);
        line.text("not so: ").text(violation.0);
        if let Some(slab) = slab {
            line.text(" (").text(tier(slab)).text(" slab of ").number(slab.size() as u64);
            line.text("-byte slots, partition ").number(slab.partition().number() as u64);
            line.text("; call site ").address(slab.site().address()).text(")");
        }
        self.reports().conclude(&mut line);
    }

    /// Verifies the heap if `looked_at`, the number of checked allocations, is a multiple of the
    /// number that the user chose.
    pub(crate) fn verify_now_and_then(self, heap: &Heap, looked_at: usize) {
        let every = self.options.verify;
        if every != 0 && looked_at.is_multiple_of(every) {
            self.verify(heap);
        }
    }
}

/// Verifies everything that holds for a slab of a heap that the caller holds.
fn check_of(heap: &Heap, slab: &Slab) -> Result<(), Violation> {
    if heap.was_cut_off() { slab.check_cut_off() } else { slab.check() }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use super::*;
    use crate::allocator::Allocator;
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine};
    use core::cell::Cell;

    #[test]
    fn a_bounded_verification_covers_a_share_and_an_unbounded_one_everything() {
        let options = Options { partitions: 1, warn_only: true, ..Options::DEFAULT };
        let fake = Fake::new(Machine::LARGE);
        let allocator = Allocator::new(fake.clone(), options, false).unwrap();
        allocator.filter().watch();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        let allocate = |size| allocator.allocate(heap, size, 0x5000).unwrap();
        // The verification covers large blocks first.
        let _large: [usize; 5] = [(); 5].map(|()| allocate(1 << 20));
        let small = allocate(100);
        let verify = |parts: u64| {
            let ticks = Cell::new(0);
            let now = || ticks.replace(ticks.get() + 1);
            let extent = Extent::until(&now, parts);
            (allocator.verifier().verify_within(heap, &extent), extent.figures())
        };
        let (sound, (covered, all)) = verify(3);
        assert!(sound && covered == 3 && all >= 5, "{covered} of {all}");
        assert_eq!(verify(1 << 40), (true, (all, all)));
        if SECURE {
            let behind: *mut u8 = core::ptr::with_exposed_provenance_mut(small + 100);
            // SAFETY: a slot is at least a byte larger than its block, and the test has it.
            unsafe { behind.write(behind.read() ^ 1) };
            assert!(verify(3).0, "there was no time for it");
            assert!(!verify(1 << 40).0 && !allocator.verifier().verify(heap));
            assert!(fake.take_reports().iter().all(|line| line.contains("heap overflow")));
        }
    }
}
