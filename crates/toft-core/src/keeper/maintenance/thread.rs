//! The reclaimer's thread from outside: it is started, woken, stopped and joined.
//!
//! A thread that libc does not know keeps its credentials and its namespaces when the program
//! changes its own, and some of those changes are refused while there is a second thread. So the
//! calls that make them stop the thread first, and wait until it has left the process. The states
//! are in `reclaim/life.rs`.

use crate::keeper::maintenance::Maintenance;
use crate::options::Reclaim;
use crate::os::filter::FilterState;
use crate::os::seccomp::Calls;
use crate::os::{Os, SECOND, process, threads_and_filter};
use crate::reclaim::Life;
use crate::sync::Ordering::{AcqRel, Relaxed};

/// Ticks after which the child of a fork may have a thread: some hundred milliseconds.
const SETTLED: u32 = 8;
/// Ticks after which a start that the system has refused is tried again.
const TRIED_AGAIN: u32 = 10 * SECOND;
/// Milliseconds that a stopped thread may take for its current batch of slabs. A thread that a
/// debugger has stopped does not answer.
const PATIENCE: u32 = 10_000;
/// Milliseconds of one sleep meanwhile. The thread ends it earlier.
const SLICE: u32 = 100;
/// The number of times that a thread on its way out of the process is asked for without a pause.
/// Its way takes some ten microseconds.
const ASKS: u32 = 300;

impl<O: Os> Maintenance<'_, O> {
    /// Wakes the thread. Starts one if it has ended meanwhile. Returns true if there is one.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_thread(self) -> bool {
        if self.reclaimer.life().change(Life::Asleep, Life::Awake) {
            self.hurry_thread();
        }
        match self.reclaimer.life().state() {
            Life::Awake | Life::Asleep => true,
            _ => self.start_thread(),
        }
    }

    pub(super) fn hurry_thread(self) {
        if self.reclaimer.word().swap(1, AcqRel) == 0 {
            self.os.wake(self.reclaimer.word());
        }
    }

    /// Whether the process has not been forked off just now: many a child only starts a program.
    pub(super) fn is_settled(self) -> bool {
        self.os.ticks().wrapping_sub(self.reclaimer.forked_at()) >= SETTLED
    }

    /// Returns true if the system refused a thread some time ago. A limit on threads may be higher
    /// by now.
    pub(super) fn may_try_again(self) -> bool {
        let refused_at = self.reclaimer.refused_at().load(Relaxed);
        self.os.ticks().wrapping_sub(refused_at) >= TRIED_AGAIN
    }

    /// Starts the thread, with the credentials of the calling one, unless another thread does.
    /// Returns true if there is one.
    #[cold]
    #[inline(never)]
    pub(super) fn start_thread(self) -> bool {
        let life = self.reclaimer.life();
        // A child that runs in its parent's memory must not: the thread would end with it.
        let Some(body) = self.thread_body else { return false };
        if !life.may_begin(self.os.ticks()) || self.os.process() != self.reclaimer.process() {
            return false;
        }
        // Its stack would take addresses that the system refuses to the program.
        if self.pressure().is_on() {
            return false;
        }
        if self.os.has_hooks() {
            [Life::None, Life::Ended, Life::Stopped].into_iter().for_each(|was| self.refused(was));
            return false;
        }
        let may_be_known_later = |state| {
            self.options.reclaim == Reclaim::Auto
                && matches!(state, FilterState::Unknown | FilterState::Inherited)
        };
        if !self.probe_filter() && may_be_known_later(self.filter().state(&self.os)) {
            return false;
        }
        if life.state() == Life::None {
            self.prepare_to_compact();
            self.register_for_barriers();
        }
        // A filter that is installed from here on is for the calling thread first.
        let Some(_permit) = self.permit(Calls::RECLAIMER) else {
            self.refused(Life::None);
            return false;
        };
        // A handler that interrupts this could wait for the thread that this is about to start.
        let before = self.os.block_signals();
        let is_gone =
            |number| !self.permit(Calls::READ).is_some_and(|_permit| process::thread_runs(number));
        let began = life.begin(self.os.ticks(), is_gone);
        let started = began && {
            let this = (&raw const *self).expose_provenance();
            // SAFETY: (1) the allocator lives for ever, as `thread_body` says.
            unsafe { self.os.spawn(body, this, life.number()) }
        };
        if began && !started {
            self.refused(Life::Awake);
        }
        self.os.restore_signals(before);
        started
    }

    /// Notes that the thread could not be started, where the state was this one. Wakes the threads
    /// that wait for the end of a thread.
    fn refused(self, was: Life) {
        self.reclaimer.refused_at().store(self.os.ticks(), Relaxed);
        let life = self.reclaimer.life();
        if life.change(was, Life::Refused) && life.is_held() {
            self.os.wake(life.word());
        }
    }

    /// Makes the first barrier of a process that has one thread, which takes no time. In a process
    /// with several threads the kernel waits for some milliseconds. The reclaimer makes it there,
    /// so that no thread of the program waits. If it made it in a process with one thread, too, a
    /// program that ends at that moment would wait for the reclaimer.
    fn register_for_barriers(self) {
        let threads = self.permit(Calls::FILES).and_then(|_permit| threads_and_filter());
        if threads.is_some_and(|(threads, _)| threads == 1) {
            self.barrier();
        }
    }

    /// Stops the thread, and returns when it has left the process. None starts until
    /// [`Maintenance::allow_thread`]. Returns false if this process has no such thread and starts
    /// none. Never called on a path of malloc: it waits for the thread.
    pub(crate) fn stop_thread(self) -> bool {
        // A filter of the program may know none of the calls below. Under it the thread ends soon,
        // and none starts.
        if self.filter().is_installed() {
            return false;
        }
        // A child that runs in its parent's memory must leave the parent's thread alone.
        if self.thread_body.is_none() || self.os.process() != self.reclaimer.process() {
            return false;
        }
        let life = self.reclaimer.life();
        life.hold();
        let mut left = PATIENCE;
        while let Some((word, now)) = life.to_wait_for()
            && left != 0
        {
            self.hurry_thread();
            self.os.sleep_on(word, now, SLICE);
            left = left.saturating_sub(SLICE);
        }
        life.numbers().into_iter().filter(|&number| number != 0).for_each(|it| self.join(it));
        true
    }

    /// Waits until a thread that has done its work has left the process.
    fn join(self, number: u32) {
        let mut asks = 0;
        while self.runs(number) && asks < ASKS + PATIENCE {
            asks += 1;
            if asks > ASKS {
                self.os.wait_briefly();
            }
        }
        // The kernel takes the thread out of its lists while it holds the lock that these calls
        // take. So it is in none of them afterwards.
        drop(self.block_signals());
    }

    /// Returns true if a thread is still in the process. Without the permit to ask, waits a little
    /// instead.
    fn runs(self, number: u32) -> bool {
        match self.permit(Calls::READ) {
            Some(_permit) => process::thread_runs(number),
            None => {
                self.os.wait_briefly();
                false
            }
        }
    }

    /// Ends the effect of [`Maintenance::stop_thread`]. Starts a thread again if one was stopped
    /// before it had returned what was idle.
    pub(crate) fn allow_thread(self) {
        if self.reclaimer.life().release() {
            self.start_thread();
        }
    }
}
