//! What the reclaimer's thread does.
//!
//! The thread sweeps, sleeps for the decay time, and sweeps again, for as long as there is
//! something to wait for; then it looks more and more rarely. A program that stays small never has
//! it. In the secure build it also verifies the heap, a share at a time.

use crate::allocator::{Allocator, handle};
use crate::keeper::compact::Passes;
use crate::keeper::maintenance::TICK;
use crate::keeper::sweeper::Which;
use crate::os::seccomp::Calls;
use crate::os::{Os, process, thread};
use crate::reclaim::{Life, Pace, Share, Usage};
use crate::sync::Ordering::{AcqRel, Relaxed, Release};

handle!(ReclaimerThread, reclaimer_thread);

/// The share of a processor that looking may take, as a divisor; what it takes is estimated,
/// because clocks tell how long the processor was elsewhere, too.
const SHARE: u32 = 20;
const SLABS_IN_A_MILLISECOND: u32 = 5_000;
/// Milliseconds between two sweeps, at least.
const SOONEST: u32 = 5;
/// Milliseconds that the thread sleeps when there is nothing to do: twice as long each time.
const REST_LEAST: u32 = 1_000;
const REST_MOST: u32 = 64_000;

impl<O: Os> ReclaimerThread<'_, O> {
    /// Purges, where that was asked for.
    fn answer(self) {
        let control = self.reclaimer.control();
        let asked = control.asked.load(Relaxed);
        if asked != control.answered.load(Relaxed) {
            let bytes = self.sweeper().purge(None);
            control.given.store(bytes as u64, Relaxed);
            control.answered.store(asked, Release);
        }
    }

    /// What the thread does until the process ends.
    fn live(self) -> ! {
        if let Some(_permit) = self.filter().permit(&self.os, Calls::SETTLE, false) {
            self.os.prepare_own_thread();
        }
        self.reclaimer.run();
        // Without barriers the slabs of running threads are left to their calls, as some containers
        // have it.
        self.reclaimer.set_blind(!self.barrier());
        let mut passes = Passes::default();
        let mut share = Share::default();
        let mut pace = Pace::new(self.usage().unwrap_or_default());
        let word = self.reclaimer.word();
        let mut rest = REST_LEAST;
        let mut cold_scan_at = self.os.ticks();
        let mut dense_scan_at = cold_scan_at;
        loop {
            if self.os.has_hooks() {
                self.leave_to_calls(&mut share);
            }
            self.memory_limit().check_group();
            self.answer();
            cold_scan_at = self.page_out_if_due(cold_scan_at);
            let pending;
            (dense_scan_at, pending) = self.page_activity().make_huge_if_due(dense_scan_at);
            if pending {
                rest = REST_LEAST;
            }
            let left = self.sweeper().clear_out_exited();
            let mut swept =
                self.sweeper().sweep(self.memory_limit().to_sweep()).unwrap_or_default();
            swept.more |= left;
            if let Some(now) = self.usage() {
                pace.note(now, self.os.page_size(), swept.bytes);
            }
            let rests = !swept.more && swept.bytes == 0;
            swept.more |= passes.are_due(rests)
                && passes.note(self.compactor().compact_beside(Which::Idle, None));
            self.reclaimer.raise_limit(self.pool.bytes());
            self.verify_if_needed(&mut share);
            if swept.more || swept.bytes != 0 {
                rest = REST_LEAST;
                let took = swept.slabs / SLABS_IN_A_MILLISECOND;
                let pause = self.options.decay.max(took.saturating_mul(SHARE)).max(SOONEST);
                self.pause(pause, &mut pace);
            } else if self.reclaimer.change(Life::Awake, Life::Asleep) {
                self.rest(rest.min(self.rest_most()), &mut share);
                rest = if word.load(Relaxed) != 0 { REST_LEAST } else { (2 * rest).min(REST_MOST) };
                // The waking thread has made this change already.
                self.reclaimer.change(Life::Asleep, Life::Awake);
            }
            word.swap(0, AcqRel);
        }
    }

    /// Leaves the return of memory to the program's calls for ever, because this thread must not
    /// call memory hooks. Verifies shares of the heap if they are to be verified, and ends
    /// otherwise.
    fn leave_to_calls(self, share: &mut Share) -> ! {
        self.reclaimer.change(Life::Awake, Life::Refused);
        while self.verifier().verifies_shares() {
            self.rest(self.rest_most(), share);
            self.reclaimer.word().swap(0, AcqRel);
        }
        self.reclaimer.leave();
        thread::end()
    }

    /// Sleeps for some milliseconds, or for several times as long if the program is at work and
    /// takes back what the sweeps return.
    fn pause(self, milliseconds: u32, pace: &mut Pace) {
        let word = self.reclaimer.word();
        for step in 1.. {
            self.memory_limit().sleep_and_check_group(milliseconds);
            if step >= pace.steps() || word.load(Relaxed) != 0 {
                break;
            }
            if !self.usage().is_some_and(|now| pace.is_at_work(now, milliseconds)) {
                break;
            }
        }
    }

    /// Returns what the process has used, if the thread may ask for it.
    fn usage(self) -> Option<Usage> {
        let _permit = self.permit(Calls::USAGE)?;
        let (faults, work) = process::usage();
        Some(Usage { faults, work })
    }

    /// Sleeps for some milliseconds, or until another thread wakes this one. Verifies shares of the
    /// heap meanwhile, if the heap is to be verified.
    fn rest(self, milliseconds: u32, share: &mut Share) {
        let word = self.reclaimer.word();
        let part = if self.verifier().verifies_shares() { Share::PERIOD } else { milliseconds };
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
    fn verify_if_needed(self, share: &mut Share) {
        if !self.verifier().verifies_shares() {
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
            self.verifier().verify_share(share);
        }
    }

    /// Sends out what has been cold for `TOFT_COLD` seconds, if it is that long since the last
    /// time, at `cold_scan_at`. Returns the time of the last scan.
    fn page_out_if_due(self, cold_scan_at: u32) -> u32 {
        let (now, cold) = (self.os.ticks(), self.options.cold);
        let ticks = u64::from(cold) * 1000 / u64::from(TICK);
        if cold == 0 || u64::from(now.wrapping_sub(cold_scan_at)) < ticks {
            return cold_scan_at;
        }
        self.page_activity().page_out_cold();
        now
    }

    /// Milliseconds for which the thread may sleep.
    fn rest_most(self) -> u32 {
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
pub(crate) unsafe extern "C" fn run<O: Os>(allocator: usize) -> ! {
    let allocator: &Allocator<O> = {
        // SAFETY: duty 1.
        unsafe { &*core::ptr::with_exposed_provenance(allocator) }
    };
    allocator.reclaimer_thread().live()
}
