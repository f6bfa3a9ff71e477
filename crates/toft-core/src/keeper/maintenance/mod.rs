//! When idle memory is returned: on the program's slow paths, or by a thread of our own.
//!
//! `thread.rs` starts, wakes, stops and joins that thread. What it does is in
//! `reclaimer_thread.rs`.

mod thread;

use crate::allocator::{Allocator, handle};
use crate::large::ReturnedBy;
use crate::options::Reclaim;
use crate::os::seccomp::Calls;
use crate::os::{Os, SECOND};
use crate::reclaim::Life;
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, ReentrancyGuard};

handle!(Maintenance, maintenance);

/// Bytes of slots and large blocks from which on a program is large enough for a thread, if a
/// quarter of them was handed out.
const LARGE_PROGRAM: usize = 16 << 20;
/// Bytes of both from which on a program is large in any case.
const CERTAINLY_LARGE: usize = 8 * LARGE_PROGRAM;
/// Milliseconds in a tick, more or less.
pub(super) const TICK: u32 = 25;

impl<'a, O: Os> Maintenance<'a, O> {
    /// On slow paths: returns idle memory to the OS. Costs little where nothing is due.
    pub fn maintain(self, heap: &Heap, guard: &ReentrancyGuard) {
        let left = self.leave_to_thread();
        // The thread does not reach the slabs of running threads then (`Sweeper::sweep`).
        let reaches = !self.reclaimer.is_blind() && !self.pressure().is_on();
        if left && (reaches || self.options.reclaim == Reclaim::Off) {
            return;
        }
        let (now, ticks) = (self.os.ticks(), self.decay_ticks());
        heap.maintain(guard, &self.os, self.heaps.partitions(), now, ticks);
        if left {
            return;
        }
        self.pool.decay(&self.os, now, ticks);
        self.large.kept_blocks().decay(&self.os, ticks);
    }

    /// Returns idle large blocks to the OS after one was freed. If none keeps pages, wakes no
    /// thread, except in a program that has had many: it will free such blocks again.
    pub(crate) fn maintain_large(self) {
        let figures = self.large.figures();
        let is_large = figures.extent_of_use() >= LARGE_PROGRAM;
        if figures.kept_bytes() == 0 && !is_large {
            return;
        }
        let left = self.leave_to_thread();
        self.large.kept_blocks().set_returned_by(match self.options.reclaim {
            Reclaim::Off => ReturnedBy::Nothing,
            _ if left => ReturnedBy::Thread,
            _ if is_large => ReturnedBy::Calls,
            _ => ReturnedBy::Nothing,
        });
        if !left {
            self.large.kept_blocks().decay(&self.os, self.decay_ticks());
        }
    }

    /// Ticks of `TOFT_DECAY`.
    pub(crate) fn decay_ticks(self) -> u32 {
        self.options.decay / TICK
    }

    /// Whether the calls of the program have nothing to do. Wakes the thread, or starts it, where
    /// that is due.
    fn leave_to_thread(self) -> bool {
        match self.options.reclaim {
            Reclaim::Auto | Reclaim::Thread => {}
            Reclaim::Calls => return false,
            Reclaim::Off => return true,
        }
        // A thread cannot reach the slabs of running threads any more, and to start one takes calls
        // that the filter may not know.
        if self.filter().is_installed() {
            return false;
        }
        match self.reclaimer.life().state() {
            Life::Awake => true,
            Life::Asleep => self.wake_thread(),
            // It was large.
            Life::Ended | Life::Stopped => self.start_thread(),
            Life::Refused if !self.may_try_again() => false,
            Life::None | Life::Refused => {
                let watched = self.filter().is_watched() || self.options.reclaim == Reclaim::Thread;
                watched && self.is_settled() && self.is_large() && self.start_thread()
            }
        }
    }

    /// Whether the program is large. Of a slab that counts which was handed out: a program with
    /// many call sites has slabs of 16 MiB long before it uses much of them. Scans all slabs once
    /// in a tick, and again when there is a MiB more.
    fn is_large(self) -> bool {
        let large = self.large.figures().extent_of_use();
        let most = self.pool.bytes() + large;
        if !(LARGE_PROGRAM..CERTAINLY_LARGE).contains(&most) {
            return most >= CERTAINLY_LARGE;
        }
        let now = u64::from(self.os.ticks()) << 32 | (most >> 20) as u64;
        let counted = self.size_counted_at();
        if counted.load(Relaxed) == now {
            return false;
        }
        counted.store(now, Relaxed);
        let mut used = large;
        self.for_each_slab(|slab| used += if slab.is_dormant() { 0 } else { slab.touched_bytes() });
        used >= LARGE_PROGRAM / 4
    }

    /// A slot was freed for a thread that may be asleep: its pages are the reclaimer's business.
    /// Slots of shared slabs are freed so all the time: for them a sleeping reclaimer is woken, or
    /// a new one started, about once in a second.
    pub(crate) fn wake_reclaimer_for(self, slab: &Slab) {
        if !self.reclaimer.life().is_at_rest() {
            return;
        }
        if self.heaps.owner_of(slab).is_some_and(|heap| self.heaps.is_shared(heap)) {
            let now = self.os.ticks();
            let before = self.woken_for_shared().load(Relaxed);
            if now.wrapping_sub(before) < SECOND {
                return;
            }
            self.woken_for_shared().store(now, Relaxed);
        }
        self.leave_to_thread();
    }

    /// A slab has got pages: where the program has grown much beyond its peak at any sweep, it is
    /// time for one.
    #[inline]
    pub(crate) fn note_growth(self) {
        if self.reclaimer.life().state() == Life::Awake
            && self.pool.bytes() >= self.reclaimer.limit()
        {
            self.hurry_thread();
        }
    }

    /// Finds out what an inherited filter of system calls allows, unless that is known. Returns
    /// true if the permitted calls are known. Not on a fast path: it creates a child.
    #[cold]
    #[inline(never)]
    pub fn probe_filter(self) -> bool {
        let before = self.filter().answers().is_some();
        let known = self.filter().probe(&self.os);
        if !before && self.filter().answers().is_some() {
            self.mapper().learn_huge_habit();
        }
        known
    }

    /// Opens the kernel facility that stops writers, while the program has the privileges for it.
    /// The reclaimer thread has none.
    pub(crate) fn prepare_to_compact(self) {
        if self.options.compact
            && let Some(_permit) = self.permit(Calls::SHARING)
            && let Ok(sharing) = self.os.begin_sharing(None, self.groups.kept(), 0)
        {
            self.os.end_sharing(sharing);
        }
    }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine, Request};
    use crate::report::Call;
    use std::vec::Vec;

    /// The thread holds no slot of a running thread while the system refuses memory, so calls give
    /// back what is idle, unless the user wants nothing to be given back.
    #[test]
    fn under_pressure_calls_do_what_the_thread_does_not() {
        for (reclaim, pressure) in
            [(Reclaim::Thread, false), (Reclaim::Thread, true), (Reclaim::Off, true)]
        {
            let options =
                Options { partitions: 1, quarantine: 0, reclaim, decay: 100, ..Options::DEFAULT };
            let fake = Fake::new(Machine::LARGE);
            let allocator = Allocator::new(fake.clone(), options, false).unwrap();
            let heap = allocator.held_heaps().acquire_heap().unwrap();
            let take = |_| allocator.allocate(heap, 1000, 0x5000).unwrap();
            let blocks: Vec<usize> = (0..1000).map(take).collect();
            for (number, &address) in blocks.iter().enumerate() {
                if number % 40 != 0 {
                    allocator.free(heap, address, Call::Free);
                }
            }
            assert!(allocator.reclaimer.life().change(Life::None, Life::Awake));
            if pressure {
                allocator.pressure().refused();
            }
            let before = fake.calls(Request::Discard);
            for _ in 0..4 {
                fake.pass(allocator.maintenance().decay_ticks());
                allocator.maintenance().maintain(heap, &heap.enter().unwrap());
            }
            let gave = fake.calls(Request::Discard) != before;
            assert_eq!(gave, pressure && reclaim == Reclaim::Thread, "{reclaim:?}, {pressure}");
        }
    }
}
