//! What the reclaimer's thread does.
//!
//! The thread sweeps, sleeps for the decay time, and sweeps again, as long as there is something to
//! wait for. Then it sleeps, sweeps a last time, and ends. A program that stays small never has it.
//! In the full secure build it also verifies the heap, a share at a time, and stays until a whole
//! pass has found that no other thread runs.

use crate::allocator::{Allocator, Reading, VerifyProgress, handle};
use crate::keeper::compact::Passes;
use crate::keeper::maintenance::TICK;
use crate::keeper::sweeper::{Swept, Which};
use crate::large::ReturnedBy;
use crate::os::process::Credentials;
use crate::os::seccomp::Calls;
use crate::os::{Os, process, thread};
use crate::reclaim::{Control, Life, Pace, Usage};
use crate::sync::Ordering::{AcqRel, Relaxed, Release};

handle!(ReclaimerThread, reclaimer_thread);

/// The share of a processor that looking may take, as a divisor; what it takes is estimated,
/// because clocks tell how long the processor was elsewhere, too.
const SHARE: u32 = 20;
const SLABS_IN_A_MILLISECOND: u32 = 5_000;
/// Milliseconds between two sweeps, at least.
const SOONEST: u32 = 5;
/// Milliseconds that the thread sleeps before its last sweep. It is not started and ended in a
/// program that pauses for less.
const LINGER: u32 = 300;
/// Milliseconds that a thread which an option keeps sleeps when there is nothing to do: twice as
/// long each time.
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

    /// What the thread does from its begin to its end.
    fn live(self) {
        if let Some(_permit) = self.filter().permit(&self.os, Calls::SETTLE, false) {
            self.os.prepare_own_thread();
        }
        let control = self.reclaimer.control();
        control.thread.store(self.reclaimer.life().number().load(Relaxed), Relaxed);
        self.reclaimer.run(true);
        // Without barriers the slabs of running threads are left to their calls, as some containers
        // have it.
        self.reclaimer.set_blind(!self.barrier());
        let mut progress = self.verify_progress().take();
        self.work(&mut progress);
    }

    /// Sweeps until there is nothing to do, or the thread must end. It has left then.
    fn work(self, progress: &mut VerifyProgress) {
        let life = self.reclaimer.life();
        let mut passes = Passes::default();
        let mut pace = Pace::new(self.usage().unwrap_or_default());
        let word = self.reclaimer.word();
        let own = self.credentials(Credentials::of_thread);
        let mut rest = REST_LEAST;
        let scanned = self.reclaimer.cold_scan_at();
        if scanned.load(Relaxed) == 0 {
            scanned.store(self.os.ticks().max(1), Relaxed);
        }
        loop {
            // This thread must not call memory hooks. None starts while they are there, so the
            // program's calls return memory.
            if self.os.has_hooks() && self.leave(false, progress) {
                return;
            }
            self.memory_limit().check_group();
            self.answer();
            self.page_out_if_due();
            let left = self.sweeper().clear_out_exited();
            let which = self.memory_limit().to_sweep();
            // Another thread's sweep may have passed what has become idle since.
            let missed = Swept { more: true, ..Swept::default() };
            let swept = self.sweeper().sweep_while(which, || !life.is_held());
            let mut swept = swept.unwrap_or(missed);
            swept.more |= left;
            if let Some(now) = self.usage() {
                pace.note(now, self.os.page_size(), swept.bytes);
            }
            let rests = !swept.more && swept.bytes == 0;
            swept.more |= !life.is_held()
                && passes.are_due(rests)
                && passes.note(self.compactor().compact_beside(Which::Idle, None));
            self.reclaimer.raise_limit(self.pool.bytes());
            self.verify_if_needed(progress);
            if swept.more || swept.bytes != 0 {
                rest = REST_LEAST;
                life.change(Life::Asleep, Life::Awake);
                let took = swept.slabs / SLABS_IN_A_MILLISECOND;
                let pause = self.options.decay.max(took.saturating_mul(SHARE)).max(SOONEST);
                self.pause(pause, &mut pace);
            } else {
                let stays = self.stays(progress);
                if !stays && self.leave(true, progress) {
                    return;
                }
                if rest == REST_LEAST
                    && let Some(now) = self.time_to_verify().and_then(|at| self.reading(at))
                {
                    progress.read_soon(now);
                }
                life.change(Life::Awake, Life::Asleep);
                let milliseconds = if stays { rest.min(self.rest_most()) } else { LINGER };
                self.rest(milliseconds, progress);
                rest = if word.load(Relaxed) != 0 { REST_LEAST } else { (2 * rest).min(REST_MOST) };
            }
            let is_other = || {
                let now = self.credentials(Credentials::of_process);
                now.is_some() && own.is_some() && now != own
            };
            // Before the check: a hold that comes after it leaves the word set.
            word.swap(0, AcqRel);
            if (life.is_held() || is_other()) && self.leave(false, progress) {
                return;
            }
        }
    }

    /// Returns true if the thread stays although nothing is idle: it has to scan again for
    /// `TOFT_COLD`, or to verify what other threads have done.
    fn stays(self, progress: &VerifyProgress) -> bool {
        self.options.cold != 0 || self.verifier().verifies_shares() && !progress.is_settled()
    }

    /// Returns credentials, if the thread may open the file.
    fn credentials(self, of: fn() -> Option<Credentials>) -> Option<Credentials> {
        let _permit = self.permit(Calls::FILES)?;
        of()
    }

    /// Leaves the state to others: no other thread waits for this one afterwards, and another may
    /// start. Returns false if a slow path has come meanwhile.
    fn leave(self, idle: bool, progress: &VerifyProgress) -> bool {
        let (life, control) = (self.reclaimer.life(), self.reclaimer.control());
        let kept = self.large.kept_blocks();
        let number = control.thread.load(Relaxed);
        // Before the change of the state, because the next thread uses these after it.
        self.verify_progress().leave(progress);
        control.thread.store(if idle { Control::ENDED } else { 0 }, Relaxed);
        self.reclaimer.run(false);
        kept.set_returned_by(ReturnedBy::Calls);
        let left = life.leave(idle);
        if !left {
            control.thread.store(number, Relaxed);
            self.reclaimer.run(true);
            kept.set_returned_by(ReturnedBy::Thread);
        } else if life.is_held() {
            self.os.wake(life.word());
        }
        left
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

    /// Sleeps for some milliseconds, or until another thread wakes this one, or until the program
    /// has memory hooks. Verifies shares of the heap meanwhile, if the heap is to be verified.
    fn rest(self, milliseconds: u32, progress: &mut VerifyProgress) {
        let word = self.reclaimer.word();
        let mut left = milliseconds;
        while left != 0 && word.load(Relaxed) == 0 {
            let next = self.time_to_verify().map(|at| progress.milliseconds_left(at));
            let part = next.unwrap_or(left).min(left);
            self.os.sleep_on(word, 0, part);
            left -= part;
            if self.os.has_hooks() {
                break;
            }
            if word.load(Relaxed) == 0 {
                self.verify_if_needed(progress);
                if !self.stays(progress) {
                    break;
                }
            }
        }
    }

    /// Returns the time, if the thread verifies the heap and may do so now.
    fn time_to_verify(self) -> Option<u64> {
        let _permit = self.verifier().verifies_shares().then(|| self.permit(Calls::READ))??;
        Some(process::monotonic())
    }

    /// Reads what other threads have used, if the thread may do so.
    fn reading(self, at: u64) -> Option<Reading> {
        let _permit = self.permit(Calls::READ)?;
        // What this thread takes between the two readings counts as others'. The first time, the
        // code for it is not in the caches.
        let others = || {
            let own = process::thread_time();
            process::processor_time().saturating_sub(own)
        };
        Some(Reading { at, others: (0..3).map(|_| others()).min().unwrap_or(0) })
    }

    /// Verifies the next share of the heap, unless no other thread has run since a whole pass.
    fn verify_if_needed(self, progress: &mut VerifyProgress) {
        if let Some(at) = self.time_to_verify().filter(|&at| progress.is_due(at))
            && let Some(now) = self.reading(at)
            && progress.is_needed(now)
        {
            self.verifier().verify_share(progress);
            if let Some(end) = self.time_to_verify() {
                progress.took(end.saturating_sub(at));
            }
        }
    }

    /// Sends out what has been cold for `TOFT_COLD` seconds, if it is that long since the last
    /// scan.
    fn page_out_if_due(self) {
        let (now, cold) = (self.os.ticks(), self.options.cold);
        let ticks = u64::from(cold) * 1000 / u64::from(TICK);
        let scanned = self.reclaimer.cold_scan_at();
        if cold != 0 && u64::from(now.wrapping_sub(scanned.load(Relaxed))) >= ticks {
            self.cold_pages().page_out();
            scanned.store(now.max(1), Relaxed);
        }
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
/// 2. `top` is the end of the thread's stack, as [`thread::end_own`] has it.
pub(crate) unsafe extern "C" fn run<O: Os>(allocator: usize, top: usize) -> ! {
    let allocator: &Allocator<O> = {
        // SAFETY: duty 1.
        unsafe { &*core::ptr::with_exposed_provenance(allocator) }
    };
    allocator.reclaimer_thread().live();
    // SAFETY: (1) duty 2.
    unsafe { thread::end_own(top) }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::os::Threads;
    use crate::os::fake::{Fake, Machine};
    use crate::report::Call;
    use crate::thread::Heap;

    const SITE: usize = 0x5000;
    const REST: u32 = 12_000;

    fn new() -> (Fake, Allocator<Fake>) {
        let options = Options { partitions: 1, quarantine: 0, ..Options::DEFAULT };
        let fake = Fake::new(Machine::LARGE);
        let allocator = Allocator::new(fake.clone(), options, false).unwrap();
        allocator.filter().watch();
        (fake, allocator)
    }

    /// Writes to blocks of 8 MB and frees them.
    fn free_many(allocator: &Allocator<Fake>, heap: &Heap) {
        let blocks = [(); 4000].map(|()| allocator.allocate(heap, 2000, SITE).unwrap());
        for block in blocks {
            let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(block);
            // SAFETY: a block of the test.
            unsafe { byte.write(1) };
            allocator.free(heap, block, Call::Free);
        }
    }

    /// The sum of what the thread asks to sleep, which does not depend on how busy the machine is.
    #[test]
    #[cfg_attr(feature = "secure", ignore = "it first verifies what other threads have done")]
    fn the_thread_ends_soon_after_the_program_is_idle() {
        let (fake, allocator) = new();
        fake.let_sleeps_pass();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        for _ in 0..3 {
            free_many(&allocator, heap);
            let before = (fake.slept(), fake.resident_bytes());
            assert!(allocator.reclaimer.life().begin(fake.ticks(), |_| true));
            allocator.reclaimer_thread().work(&mut VerifyProgress::default());
            assert_eq!(allocator.reclaimer.life().state(), Life::Ended);
            let slept = fake.slept() - before.0;
            // Each pause is four times as long while other tests of the process are at work.
            assert!((300..4000).contains(&slept), "{slept} milliseconds");
            assert!(fake.resident_bytes() + (4 << 20) < before.1, "{} bytes", before.1);
        }
    }

    #[test]
    fn the_thread_ends_beside_hooks_although_it_has_work() {
        let (fake, allocator) = new();
        let heap = allocator.held_heaps().acquire_heap().unwrap();
        free_many(&allocator, heap);
        fake.set_hooks(true);
        assert!(allocator.reclaimer.life().begin(fake.ticks(), |_| true));
        allocator.reclaimer_thread().work(&mut VerifyProgress::default());
        assert_eq!(allocator.reclaimer.life().state(), Life::Stopped);
        assert_eq!(fake.slept(), 0);
    }

    #[test]
    #[cfg_attr(not(feature = "secure"), ignore = "it verifies nothing while it rests")]
    fn a_thread_that_rests_finds_hooks_before_it_verifies() {
        let (fake, allocator) = new();
        let rest = |progress: &mut VerifyProgress| {
            let before = fake.slept();
            allocator.reclaimer_thread().rest(REST, progress);
            fake.slept() - before
        };
        let mut progress = VerifyProgress::default();
        assert_eq!(rest(&mut progress), u64::from(REST));
        assert_ne!((progress.passes, progress.slabs), (0, 0), "it has verified");
        fake.set_hooks(true);
        let mut progress = VerifyProgress::default();
        assert!(rest(&mut progress) < u64::from(REST));
        assert_eq!((progress.passes, progress.slabs), (0, 0));
    }
}
