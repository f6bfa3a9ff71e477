//! Who gives idle memory back: a thread of our own, or the program's calls.
//!
//! ```text
//! None --- a slow path finds the program large ---> Awake <-- a slow path, or its own clock -- Asleep
//!            '--- the system says no ---> Refused     '--- a sweep finds nothing to do ----------^
//! ```
//!
//! The thread sweeps, sleeps for the decay time, and sweeps again, for as long as there is
//! something to wait for; then it looks more and more rarely. A program that stays small never has
//! it. In the secure build it also verifies the heap, a share at a time.

use crate::allocator::Allocator;
use crate::keeper::Which;
use crate::keeper::compact::Passes;
use crate::options::Reclaim;
use crate::os::filter::{FilterState, Permit};
use crate::os::process;
use crate::os::seccomp::Calls;
use crate::os::{Os, SECOND, threads_and_filter};
use crate::reclaim::{Life, Share};
use crate::slab::{FLAGS, Slab};
use crate::sync::Ordering::{AcqRel, Relaxed, Release};
use crate::thread::{Heap, Seat};

/// Bytes of slots and large blocks from which on a program is large enough for a thread.
const LARGE_PROGRAM: usize = 16 << 20;
/// Ticks after which the child of a fork may have a thread: some hundred milliseconds.
const SETTLED: u32 = 8;
/// Milliseconds in a tick, more or less.
const TICK: u32 = 25;
/// The share of a processor that looking may take, as a divisor; what it takes is estimated,
/// because clocks tell how long the processor was elsewhere, too.
const SHARE: u32 = 20;
const SLABS_IN_A_MILLISECOND: u32 = 5_000;
/// Milliseconds between two sweeps, at least.
const SOONEST: u32 = 5;
/// Milliseconds that the thread sleeps when there is nothing to do: twice as long each time.
const REST_LEAST: u32 = 1_000;
const REST_MOST: u32 = 64_000;

impl<O: Os> Allocator<O> {
    /// On slow paths: returns idle memory to the OS. Costs little where nothing is due.
    pub fn maintain(&self, heap: &Heap, seat: &Seat) {
        let left = self.leave_to_thread();
        if left && !self.reclaimer.is_blind() {
            return;
        }
        let (now, ticks) = (self.os.ticks(), self.decay_ticks());
        heap.maintain(seat, &self.os, self.heaps.partitions(), now, ticks);
        if left {
            return;
        }
        self.pool.decay(&self.os, now, ticks);
        self.large.decay(&self.os, ticks);
    }

    /// Returns idle large blocks to the OS after one was freed. If none keeps pages, wakes no
    /// thread.
    pub(crate) fn maintain_large(&self) {
        if self.large.kept_bytes() == 0 {
            return;
        }
        let left = self.leave_to_thread();
        self.large.set_reclaimed(left && self.options.reclaim != Reclaim::Off);
        if !left {
            self.large.decay(&self.os, self.decay_ticks());
        }
    }

    pub(crate) fn decay_ticks(&self) -> u32 {
        self.options.decay / TICK
    }

    /// Whether the calls of the program have nothing to do. Wakes the thread, or starts it, where
    /// that is due.
    fn leave_to_thread(&self) -> bool {
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
        match self.reclaimer.life() {
            Life::Awake => true,
            Life::Asleep => {
                self.wake_thread();
                true
            }
            Life::None => self.is_large() && self.is_settled() && self.start_thread(),
            Life::Refused => false,
        }
    }

    fn is_large(&self) -> bool {
        self.pool.bytes() + self.large.live_bytes() >= LARGE_PROGRAM
    }

    /// A slot was freed for a thread that may be asleep: its pages are the reclaimer's business.
    /// Slots of shared slabs are freed so all the time: for them a sleeping reclaimer is woken
    /// about once in a second.
    pub(crate) fn wake_reclaimer_for(&self, slab: &Slab) {
        if self.reclaimer.life() != Life::Asleep {
            return;
        }
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        if self.heaps.heap_at(owner).is_some_and(|heap| self.heaps.is_shared(heap)) {
            let now = self.os.ticks();
            let before = self.woken_for_shared().load(Relaxed);
            if now.wrapping_sub(before) < SECOND {
                return;
            }
            self.woken_for_shared().store(now, Relaxed);
        }
        self.wake_thread();
    }

    #[cold]
    #[inline(never)]
    fn wake_thread(&self) {
        if self.reclaimer.change(Life::Asleep, Life::Awake) {
            self.hurry_thread();
        }
    }

    fn hurry_thread(&self) {
        if self.reclaimer.word().swap(1, AcqRel) == 0 {
            self.os.wake(self.reclaimer.word());
        }
    }

    /// Whether the process has not been forked off just now: many a child only starts a program.
    fn is_settled(&self) -> bool {
        self.os.ticks().wrapping_sub(self.reclaimer.forked_at()) >= SETTLED
    }

    /// A slab has got pages: where the program has grown much beyond its peak at any sweep, it is
    /// time for one.
    #[inline]
    pub(crate) fn note_growth(&self) {
        if self.reclaimer.life() == Life::Awake && self.pool.bytes() >= self.reclaimer.limit() {
            self.hurry_thread();
        }
    }

    /// Starts the thread, unless another thread does. Returns true if there is one.
    #[cold]
    #[inline(never)]
    fn start_thread(&self) -> bool {
        // A child that runs in its parent's memory must not: the thread would end with it. What is
        // not known yet may be later, and what is refused once is refused for good.
        if !self.for_ever || self.os.process() != self.reclaimer.process() {
            return false;
        }
        let may_be_known_later = |state| {
            self.options.reclaim == Reclaim::Auto
                && matches!(state, FilterState::Unknown | FilterState::Inherited)
        };
        if !self.probe_filter() && may_be_known_later(self.filter().state(&self.os))
            || !self.reclaimer.change(Life::None, Life::Awake)
        {
            return false;
        }
        self.prepare_to_compact();
        self.register_for_barriers();
        let this = (&raw const *self).expose_provenance();
        // A filter that is installed from here on is for the calling thread first.
        let started = self.permit(Calls::RECLAIMER).is_some_and(|_permit| {
            // SAFETY: (1) the allocator lives for ever, as `for_ever` says.
            let thread = unsafe { self.os.spawn(run::<O>, this) };
            self.reclaimer.control().thread.store(thread.unwrap_or(0), Relaxed);
            thread.is_some()
        });
        if !started {
            self.reclaimer.change(Life::Awake, Life::Refused);
        }
        started
    }

    /// Makes the first barrier of a process that has one thread, which takes no time. In a process
    /// with several threads the kernel waits for some milliseconds. The reclaimer makes it there,
    /// so that no thread of the program waits. If it made it in a process with one thread, too, a
    /// program that ends at that moment would wait for the reclaimer.
    fn register_for_barriers(&self) {
        let threads = self.permit(Calls::FILES).and_then(|_permit| threads_and_filter());
        if threads.is_some_and(|(threads, _)| threads == 1) {
            self.barrier();
        }
    }

    pub(crate) fn permit(&self, calls: Calls) -> Option<Permit<'_>> {
        self.filter().permit(&self.os, calls, self.options.reclaim == Reclaim::Thread)
    }

    /// Finds out what an inherited filter of system calls allows, unless that is known. Returns
    /// true if the permitted calls are known. Not on a fast path: it creates a child.
    #[cold]
    #[inline(never)]
    pub fn probe_filter(&self) -> bool {
        let before = self.filter().answers().is_some();
        let known = self.filter().probe(&self.os);
        if !before && self.filter().answers().is_some() {
            self.keep_all_small();
        }
        known
    }

    /// Every running thread passes a memory barrier, where that is possible and allowed.
    pub(crate) fn barrier(&self) -> bool {
        self.permit(Calls::BARRIER).is_some_and(|_permit| self.os.barrier())
    }

    /// Purges, where that was asked for.
    fn answer(&self) {
        let control = self.reclaimer.control();
        let asked = control.asked.load(Relaxed);
        if asked != control.answered.load(Relaxed) {
            let bytes = self.purge(None);
            control.given.store(bytes as u64, Relaxed);
            control.answered.store(asked, Release);
        }
    }

    /// What the thread does until the process ends.
    fn live(&self) -> ! {
        if let Some(_permit) = self.filter().permit(&self.os, Calls::SETTLE, false) {
            self.os.prepare_own_thread();
        }
        self.reclaimer.run();
        // Without barriers the slabs of running threads are left to their calls, as some containers
        // have it.
        self.reclaimer.set_blind(!self.barrier());
        let mut passes = Passes::default();
        let mut share = Share::default();
        let word = self.reclaimer.word();
        let mut rest = REST_LEAST;
        let mut cold_scan_at = self.os.ticks();
        let mut dense_scan_at = cold_scan_at;
        loop {
            self.check_group();
            self.answer();
            cold_scan_at = self.page_out_if_due(cold_scan_at);
            let pending;
            (dense_scan_at, pending) = self.make_huge_if_due(dense_scan_at);
            if pending {
                rest = REST_LEAST;
            }
            let left = self.clear_out_exited();
            let mut swept = self.sweep(self.to_sweep()).unwrap_or_default();
            swept.more |= left;
            let rests = !swept.more && swept.bytes == 0;
            swept.more |=
                passes.are_due(rests) && passes.note(self.compact_beside(Which::Idle, None));
            self.reclaimer.raise_limit(self.pool.bytes());
            self.verify_if_needed(&mut share);
            if swept.more || swept.bytes != 0 {
                rest = REST_LEAST;
                let took = swept.slabs / SLABS_IN_A_MILLISECOND;
                let pause = self.options.decay.max(took.saturating_mul(SHARE)).max(SOONEST);
                self.sleep_and_check_group(pause);
            } else if self.reclaimer.change(Life::Awake, Life::Asleep) {
                self.rest(rest.min(self.rest_most()), &mut share);
                rest = if word.load(Relaxed) != 0 { REST_LEAST } else { (2 * rest).min(REST_MOST) };
                // The waking thread has made this change already.
                self.reclaimer.change(Life::Asleep, Life::Awake);
            }
            word.swap(0, AcqRel);
        }
    }

    /// Sleeps for some milliseconds, or until another thread wakes this one. Verifies shares of the
    /// heap meanwhile, if the heap is to be verified.
    fn rest(&self, milliseconds: u32, share: &mut Share) {
        let word = self.reclaimer.word();
        let part = if self.verifies_shares() { Share::PERIOD } else { milliseconds };
        let mut left = milliseconds;
        while left != 0 && word.load(Relaxed) == 0 {
            self.os.sleep_on(word, 0, part.min(left));
            left -= part.min(left);
            if word.load(Relaxed) == 0 {
                self.verify_if_needed(share);
            }
        }
    }

    /// Verifies the next share of the heap, unless no other thread has run since a whole pass.
    fn verify_if_needed(&self, share: &mut Share) {
        if !self.verifies_shares() {
            return;
        }
        let Some(permit) = self.permit(Calls::READ) else { return };
        if !share.is_due(process::monotonic()) {
            return;
        }
        // What this thread takes between the two readings counts as others'. The first time, the
        // code for it is not in the caches.
        let others = || {
            let own = process::thread_time();
            process::processor_time().saturating_sub(own)
        };
        let least = (0..3).map(|_| others()).min().unwrap_or(0);
        drop(permit);
        if share.is_needed(least) {
            self.verify_share(share);
        }
    }

    /// Sends out what has been cold for `TOFT_COLD` seconds, if it is that long since the last
    /// time, at `cold_scan_at`. Returns the time of the last scan.
    fn page_out_if_due(&self, cold_scan_at: u32) -> u32 {
        let (now, cold) = (self.os.ticks(), self.options.cold);
        let ticks = u64::from(cold) * 1000 / u64::from(TICK);
        if cold == 0 || u64::from(now.wrapping_sub(cold_scan_at)) < ticks {
            return cold_scan_at;
        }
        self.page_out_cold();
        now
    }

    /// Milliseconds for which the thread may sleep.
    fn rest_most(&self) -> u32 {
        match self.options.cold {
            0 => REST_MOST,
            cold => cold.saturating_mul(1000).min(REST_MOST),
        }
    }
}

/// Where the thread begins.
///
/// # Safety
/// 1. `allocator` is the address of an `Allocator<O>` that lives for ever.
unsafe extern "C" fn run<O: Os>(allocator: usize) -> ! {
    let allocator: &Allocator<O> = {
        // SAFETY: duty 1.
        unsafe { &*core::ptr::with_exposed_provenance(allocator) }
    };
    allocator.live()
}
