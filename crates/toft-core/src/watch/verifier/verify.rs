//! Verification on demand, and after each given number of allocations: `toft_verify`,
//! `TOFT_VERIFY`.
//!
//! The whole heap is verified while its threads run. Each part is verified as far as possible:
//!
//! ```text
//! the calling thread's slabs and lists  all invariants, with its heap's reentrancy guard
//! slabs of threads that have exited     all of a slab's invariants, with their heap's guard
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

use crate::large::Block;
use crate::os::process::{self, peek};
use crate::os::seccomp::Calls;
use crate::os::{Os, wait_for};
use crate::policy::SECURE;
use crate::report::{Call, Line, head};
use crate::slab::{FLAGS, Slab, Violation};
use crate::sync::Ordering::Relaxed;
use crate::thread::{EXITED_HEAP, Heap, HeapState};
use crate::watch::reports::misuse::tier;
use crate::watch::verifier::Verifier;
use crate::watch::verifier::extent::Extent;

/// The limit in nanoseconds of processor time of a verification at exit. A hundredth of the
/// program's processor time is the limit if that is more. On a machine that is busy with other
/// programs, as much is covered as on one that is not.
const AT_EXIT: u64 = 50_000_000;

impl<O: Os> Verifier<'_, O> {
    /// Verifies the whole heap, and reports the first violation. Returns true if there is none.
    ///
    /// A thread that has exited has no heap, and one that was interrupted in the middle of a change
    /// must not read its lists. Everything is then verified as what other threads own.
    pub fn verify(self, heap: &Heap) -> bool {
        self.verify_within(heap, &Extent::all())
    }

    /// Does what [`Verifier::verify`] does, as far as `extent` goes.
    fn verify_within(self, heap: &Heap, extent: &Extent<'_>) -> bool {
        let guard = heap.enter();
        let heap = if guard.is_some() { heap } else { EXITED_HEAP.heap() };
        let bounded = extent.is_bounded();
        let sound = (bounded || self.verify_slabs(heap, extent))
            && self.verify_lists(heap)
            && self.verify_large(extent)
            && guard.as_ref().is_none_or(|guard| self.slots_are_whole(heap, guard, extent));
        drop(guard);
        let sound = sound && self.verify_contents(extent) && self.others_are_whole(heap, extent);
        // With a time limit the tables are last, because blocks are overwritten more often than
        // tables.
        let tables = || {
            let _guard = heap.enter();
            self.verify_slabs(heap, extent)
        };
        sound && (!bounded || tables())
    }

    /// Verifies the heap when the program ends, within a limit of processor time. Prints the share
    /// that was covered, unless it was everything. Does nothing under an unknown filter of system
    /// calls, which may forbid reading a clock.
    pub(crate) fn verify_at_exit(self, heap: &Heap) {
        let Some(permit) = self.filter().permit(&self.os, Calls::REPORT, true) else { return };
        let most = AT_EXIT.max(process::processor_time() / 100);
        drop(permit);
        if let Some(mut line) = self.verify_for(heap, &process::thread_time, most) {
            process::write_all(libc::STDERR_FILENO, line.end());
        }
    }

    /// Verifies the heap for `most` nanoseconds of the clock `now`, from a random place on. Returns
    /// a line with the share that was covered, unless it was everything or a violation was
    /// reported.
    fn verify_for(self, heap: &Heap, now: &dyn Fn() -> u64, most: u64) -> Option<Line> {
        let extent = Extent::until(now, now() + most, self.os.random().unwrap_or(0));
        let sound = self.verify_within(heap, &extent);
        let (covered, all) = extent.figures();
        (sound && covered < all).then(|| {
            let mut line = Line::new(self.hide_addresses);
            line.text("toft: verified ").number((covered * 100 / all) as u64);
            line.text(" % of the heap at exit, in ").number(most / 1_000_000);
            line.text(" ms; toft_verify() verifies all of it");
            line
        })
    }

    /// Calls `each` with every slab, in the order of `extent`.
    pub(crate) fn visit_slabs(self, extent: &Extent<'_>, each: impl FnMut(&Slab)) {
        extent.visit(|each| self.for_each_slab(each), each);
    }

    /// Waits until `check` succeeds, for a fifth of a second at most. Returns its last result.
    pub(crate) fn holds(self, check: impl Fn() -> Result<(), Violation>) -> Result<(), Violation> {
        if wait_for(&self.os, || check().is_ok()) { Ok(()) } else { check() }
    }

    /// Verifies every slab, of any owner. The caller holds the reentrancy guard of `heap`, if that
    /// can own any.
    fn verify_slabs(self, heap: &Heap, extent: &Extent<'_>) -> bool {
        let mut sound = true;
        self.visit_slabs(extent, |slab| {
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
        let found = self.slabs.slab_at(slab.base());
        if !found.is_some_and(|found| core::ptr::eq(found, slab)) {
            return Err(Violation("I1: base"));
        }
        if heap.owns(slab) {
            return check_of(heap, slab);
        }
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        if owner == 0 {
            let checked = slab.check();
            // A thread that takes the slab or parts with it has its reentrancy guard, or owns the
            // slab by now.
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
                if let Some(_guard) = orphan.enter()
                    && orphan.owns(slab)
                {
                    checked = check_of(orphan, slab);
                }
            });
        }
        checked
    }

    /// Verifies the lists of the calling thread, and the pool of guarded blocks. The caller holds
    /// the reentrancy guard of `heap`, if that can own any.
    fn verify_lists(self, heap: &Heap) -> bool {
        let rest = || {
            if !heap.is_sentinel() {
                heap.check(self.heaps.partitions())?;
            }
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
        let visit = |each: &mut dyn FnMut(&Block)| self.large.units().for_each(each);
        extent.visit(visit, |block| {
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
            let extent = Extent::until(&now, parts, 0);
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

    /// A thread without a heap, and one that was interrupted in the middle of a change, verify
    /// everything that others can.
    #[test]
    #[cfg_attr(not(feature = "secure-light"), ignore = "blocks have no canary")]
    fn damage_is_found_without_the_threads_own_heap() {
        let options = Options { partitions: 1, warn_only: true, ..Options::DEFAULT };
        let fake = Fake::new(Machine::LARGE);
        let allocator = Allocator::new(fake.clone(), options, false).unwrap();
        allocator.filter().watch();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        let verify = |heap| (allocator.verifier().verify(heap), fake.take_reports());
        for size in [100, 5000, 299_999] {
            let block = allocator.allocate(heap, size, 0x5000).unwrap();
            let behind: *mut u8 = core::ptr::with_exposed_provenance_mut(block + size);
            // SAFETY: there is a byte after each block that is not the program's, and the test has
            // it.
            let damage = || unsafe { behind.write(behind.read() ^ 1) };
            for exited in [true, false] {
                let mine = if exited { EXITED_HEAP.heap() } else { heap };
                let _guard = heap.enter().filter(|_| !exited);
                assert_eq!(verify(mine), (true, std::vec![]), "{size}");
                damage();
                let (sound, reports) = verify(mine);
                assert!(!sound && reports.len() == 1, "{size}, exited: {exited}");
                assert!(reports[0].contains("heap overflow: verify("), "{reports:?}");
                damage();
            }
        }
        allocator.heaps.orphan(heap);
        assert_eq!(verify(EXITED_HEAP.heap()), (true, std::vec![]));
    }

    /// Which slabs a bounded verification covers depends on where it starts. From all starts
    /// together each slab is covered.
    #[test]
    fn different_starts_cover_different_slabs() {
        let options = Options { partitions: 1, warn_only: true, ..Options::DEFAULT };
        let allocator = Allocator::new(Fake::new(Machine::LARGE), options, false).unwrap();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        for size in (16..100_000).step_by(4000) {
            allocator.allocate(heap, size, 0x5000).unwrap();
        }
        let mut all = 0;
        allocator.for_each_slab(|_| all += 1);
        assert!(all >= 10, "{all}");
        let mut times = std::collections::BTreeMap::new();
        for part in 0..all {
            let ticks = Cell::new(0);
            let now = || ticks.replace(ticks.get() + 1);
            let start = (u64::MAX / all) * part + 1;
            let extent = Extent::until(&now, 3, if part == 0 { 0 } else { start + all });
            allocator.verifier().visit_slabs(&extent, |slab| {
                if extent.covers() {
                    *times.entry(slab.base()).or_insert(0) += 1;
                }
            });
            assert_eq!(extent.figures(), (3, all as usize));
        }
        assert!(
            times.len() == all as usize && times.values().all(|&times| times == 3),
            "{times:?}"
        );
    }

    #[test]
    fn a_line_says_which_share_was_covered() {
        let options = Options { partitions: 1, warn_only: true, ..Options::DEFAULT };
        let allocator = Allocator::new(Fake::new(Machine::LARGE), options, false).unwrap();
        allocator.filter().watch();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        let _large: [usize; 40] =
            [(); 40].map(|()| allocator.allocate(heap, 1 << 20, 0x5000).unwrap());
        let line = |most: u64| {
            let ticks = Cell::new(0);
            // A second of the clock passes with each part.
            let now = || ticks.replace(ticks.get() + 1_000_000_000);
            let line = allocator.verifier().verify_for(heap, &now, most * 1_000_000_000);
            line.map(|mut line| std::string::String::from_utf8(line.end().to_vec()).unwrap())
        };
        // Beside the large blocks there may be quarantines.
        let all = (40..60).find(|&all| line(all + 1).is_none()).expect("all is covered");
        for covered in [0, 1, 20, 39] {
            let words = std::format!(
                "toft: verified {} % of the heap at exit, in {} ms; toft_verify() verifies all of \
                 it\n",
                covered * 100 / all,
                (covered + 1) * 1000
            );
            assert_eq!(line(covered + 1), Some(words));
        }
    }
}
