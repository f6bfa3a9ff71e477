//! The state of the reclaimer: the thread that sweeps, and the slabs whose slots it holds.
//!
//! Invariants:
//! - R1 one thread at a time sweeps: the one that has set `sweeping`.
//! - R2 a slab with HOLDING set is in `slabs`, so that the child of a fork can let go of it.

use super::{LifeCycle, Trims};
use crate::os::thread::thread_block;
use crate::os::{Threads, wait_for};
use crate::policy::SWEEP_GROWTH;
use crate::slab::Slab;
use crate::sync::StoreChanged;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// The number of slabs whose slots are held at a time, between two barriers. A barrier costs some
/// microseconds.
pub const BATCH: usize = 64;

/// The least number of bytes by which slabs grow before the next sweep is due.
const GROWTH_LEAST: usize = 2 << 20;

/// The requests to the reclaimer's thread. A debugger's rights are enough to write them from
/// outside the process. The requesting thread adds one to `asked`, sets `word`, and wakes the
/// thread that sleeps on `word`.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// The word on which the thread sleeps: not zero if it must run again. Any thread sets it.
    pub word: AtomicU32,
    /// The thread's number, zero if there is no thread, or [`Control::ENDED`]. Written by the
    /// thread itself, at its begin and before its end.
    pub thread: AtomicU32,
    /// The number of requested purges.
    pub asked: AtomicU64,
    /// The value of `asked` when the last completed purge began. Written by the reclaimer, after
    /// `given`.
    pub answered: AtomicU64,
    /// The number of bytes that the last completed purge returned to the OS. Written by the
    /// reclaimer.
    pub given: AtomicU64,
}

impl Control {
    /// The number in `thread` if the thread has returned what was idle, and has ended.
    pub const ENDED: u32 = u32::MAX;
}

/// The shared data of the reclaimer. In the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    control: Control,
    /// The control block of the thread that sweeps, or zero.
    sweeping: AtomicUsize,
    /// R2: the number of entries of `slabs`. Written by the thread that sweeps.
    count: AtomicU32,
    slabs: [AtomicUsize; BATCH],
    life: LifeCycle,
    /// The tick of the thread's last scan for cold pages. Written by the thread.
    cold_scan_at: AtomicU32,
    /// The tick at which the thread could not be started. Written by the thread that has tried.
    refused_at: AtomicU32,
    /// Not zero if the thread runs. The thread sets it, and clears it before its end.
    runs: AtomicU32,
    /// Not zero if the thread can make no thread pass a barrier, and so cannot sweep slabs of
    /// running threads. The thread writes it when it begins. The program's threads read it, and may
    /// see it late.
    blind: AtomicU32,
    /// The number of the process that may start the thread. It excludes a child that runs in its
    /// parent's memory.
    process: AtomicU32,
    /// The bytes of slots with pages at which the next sweep is due, however early. Never falls,
    /// except in the child of a fork: what a program has had before, it may have again until the
    /// sweep that comes anyway. Written by the thread.
    limit: AtomicUsize,
    /// The tick of the fork that created the process. Written in the child.
    forked_at: AtomicU32,
    /// Not zero while a thread searches for cold pages.
    scanning_cold: AtomicU32,
    /// The descriptor that notes writes, plus one. Written by the thread that searches for cold
    /// pages.
    watch: AtomicU32,
    trims: Trims,
    /// The number of completed sweeps.
    sweeps: AtomicUsize,
    /// The bytes that sweeps have returned to the OS.
    given: AtomicUsize,
}

/// The reclaimer.
#[derive(Debug)]
pub struct Reclaimer {
    state: *const State,
}

/// The right to sweep. It ends when this value is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a State);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.sweeps.fetch_add(1, Relaxed);
        self.0.sweeping.store(0, Release);
    }
}

/// The right to search for cold pages. It ends when this value is dropped.
#[derive(Debug)]
pub struct ColdTurn<'a>(&'a State);

impl ColdTurn<'_> {
    /// Returns the descriptor that notes writes, plus one, or zero if there is none.
    pub fn watch(&self) -> &AtomicU32 {
        &self.0.watch
    }
}

impl Drop for ColdTurn<'_> {
    fn drop(&mut self) {
        self.0.scanning_cold.store(0, Release);
    }
}

/// The turn of a thread that does not say which. No control block has this address.
const OTHER_TURN: usize = 1;

impl Reclaimer {
    /// The number of bytes of zeroed tables that `new` needs.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns a reclaimer without state, for the time before the start.
    pub const fn none() -> Reclaimer {
        Reclaimer { state: core::ptr::null() }
    }

    /// Returns the reclaimer of a process.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    pub unsafe fn new(tables: usize, process: u32) -> Reclaimer {
        let reclaimer = Reclaimer { state: core::ptr::with_exposed_provenance(tables) };
        reclaimer.state().process.store(process, Relaxed);
        reclaimer
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    /// Takes the turn. Returns `None` if another thread has it.
    pub fn begin(&self) -> Option<Turn<'_>> {
        let state = self.state();
        // Toft's own thread may have the control block of a thread that has exited, and must not
        // read it. Whose turn it is matters only while there is no such thread.
        let turn = if self.threads() == 0 { thread_block() } else { OTHER_TURN };
        let taken = state.sweeping.compare_exchange(0, turn, Acquire, Relaxed).is_ok();
        // The turn is created only if it was taken: dropping it would end another thread's turn.
        taken.then(|| Turn(state))
    }

    /// Returns true if some thread has the turn.
    pub fn is_sweeping(&self) -> bool {
        self.state().sweeping.load(Relaxed) != 0
    }

    /// Returns true if an outer call of the calling thread has the turn. Memory hooks and signal
    /// handlers allocate while pages are returned. Returns false while Toft's own thread runs,
    /// because it has the control block of another thread.
    pub fn is_own_turn(&self) -> bool {
        self.threads() == 0 && self.state().sweeping.load(Relaxed) == thread_block()
    }

    /// Waits until no other thread has the turn, for a moment at most.
    pub fn wait_for_turn(&self, os: &impl Threads) {
        // The calling thread would wait for itself.
        if !self.is_own_turn() {
            wait_for(os, || !self.is_sweeping());
        }
    }

    /// Returns the state of the reclaimer's thread.
    pub fn life(&self) -> &LifeCycle {
        &self.state().life
    }

    /// Returns the number of Toft's threads that run.
    pub fn threads(&self) -> u32 {
        self.state().runs.load(Acquire)
    }

    /// Notes that the reclaimer's thread runs, or is about to end.
    pub fn run(&self, runs: bool) {
        self.state().runs.store(runs.into(), Release);
    }

    /// Returns the tick of the last scan for cold pages.
    pub fn cold_scan_at(&self) -> &AtomicU32 {
        &self.state().cold_scan_at
    }

    /// Returns the tick at which the thread could not be started.
    pub fn refused_at(&self) -> &AtomicU32 {
        &self.state().refused_at
    }

    /// Returns the requests to the reclaimer's thread.
    pub fn control(&self) -> &Control {
        &self.state().control
    }

    /// Returns the word on which the reclaimer's thread sleeps.
    pub fn word(&self) -> &AtomicU32 {
        &self.control().word
    }

    /// Takes the right to search for cold pages. Returns `None` if another thread has it. Sweeps
    /// are possible meanwhile.
    pub fn begin_cold_scan(&self) -> Option<ColdTurn<'_>> {
        let state = self.state();
        let taken = state.scanning_cold.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        taken.then(|| ColdTurn(state))
    }

    /// Returns the bytes of slots with pages at which the next sweep is due.
    pub fn limit(&self) -> usize {
        self.state().limit.load(Relaxed)
    }

    /// Raises the bytes at which the next sweep is due, if the program has `bytes` now and had
    /// fewer before.
    pub fn raise_limit(&self, bytes: usize) {
        let more = (bytes / SWEEP_GROWTH).max(GROWTH_LEAST);
        self.state().limit.fetch_max(bytes.saturating_add(more), Relaxed);
    }

    /// Returns true if the reclaimer's thread cannot sweep slabs of running threads. Those threads
    /// return idle pages themselves.
    pub fn is_blind(&self) -> bool {
        self.state().blind.load(Relaxed) != 0
    }

    /// Sets the result of `is_blind`.
    pub fn set_blind(&self, blind: bool) {
        self.state().blind.store(blind.into(), Relaxed);
    }

    /// Returns the times of the last purge and the last count for `malloc_trim`.
    pub fn trims(&self) -> &Trims {
        &self.state().trims
    }

    /// Returns the tick of the fork that created the process, or zero if it is no child of a fork.
    pub fn forked_at(&self) -> u32 {
        self.state().forked_at.load(Relaxed)
    }

    /// Returns the number of the process that may start the reclaimer's thread.
    pub fn process(&self) -> u32 {
        self.state().process.load(Relaxed)
    }

    /// Returns the number of completed sweeps, and the bytes that they have returned to the OS.
    pub fn figures(&self) -> (usize, usize) {
        (self.state().sweeps.load(Relaxed), self.state().given.load(Relaxed))
    }

    /// Returns the address of the number of bytes that sweeps have returned to the OS, for readers
    /// outside the process.
    pub fn returned_at(&self) -> usize {
        (&raw const self.state().given).expose_provenance()
    }

    /// In the child of a fork, which has no thread of Toft: lets go of the held slots, and
    /// announces their slabs to the owners. Returns true if a thread was sweeping. A slab may then
    /// have been on its way to an inbox.
    pub fn repair(
        &self,
        (process, now): (u32, u32),
        slab_at: impl Fn(usize) -> Option<&'static Slab>,
        announce: impl Fn(&Slab),
    ) -> bool {
        let state = self.state();
        let torn = self.is_sweeping() || state.count.load(Acquire) != 0;
        for slab in state.slabs.iter().take(state.count.load(Acquire) as usize) {
            if let Some(slab) = slab_at(slab.load(Relaxed)) {
                slab.pinning().unhold_after_fork();
                announce(slab);
            }
        }
        state.count.store_changed(0, Relaxed);
        state.sweeping.store_changed(0, Relaxed);
        state.runs.store_changed(0, Relaxed);
        state.control.word.store_changed(0, Relaxed);
        state.control.thread.store_changed(0, Relaxed);
        // The parent's peak is not the child's.
        state.limit.store_changed(0, Relaxed);
        state.scanning_cold.store_changed(0, Relaxed);
        // The descriptor is about the parent's memory.
        state.watch.store_changed(0, Relaxed);
        state.process.store_changed(process, Relaxed);
        state.forked_at.store_changed(now, Relaxed);
        state.cold_scan_at.store_changed(0, Relaxed);
        state.life.repair();
        torn
    }
}

impl Turn<'_> {
    /// Adds a slab to the batch of slabs that may be held from now on. Returns true if the batch is
    /// then full.
    pub fn add(&self, slab: &Slab) -> bool {
        let count = self.0.count.load(Relaxed) as usize;
        if let Some(place) = self.0.slabs.get(count) {
            place.store((&raw const *slab).expose_provenance(), Relaxed);
            // R2: the count is stored after the address, and before the slab is held.
            self.0.count.store(count as u32 + 1, Release);
        }
        count + 1 >= BATCH
    }

    /// Removes the last slab from the batch. The slab is not held.
    pub fn take_back(&self) {
        let count = self.0.count.load(Relaxed);
        self.0.count.store(count.saturating_sub(1), Release);
    }

    /// Returns the slabs of the batch.
    pub fn slabs(&self) -> impl Iterator<Item = &'static Slab> {
        let count = self.0.count.load(Relaxed) as usize;
        self.0.slabs.iter().take(count).map(|slab| {
            // SAFETY: `add` writes addresses of descriptors, which live for ever.
            unsafe { &*core::ptr::with_exposed_provenance(slab.load(Relaxed)) }
        })
    }

    /// Empties the batch, whose slabs are not held any more.
    pub fn clear(&self) {
        self.0.count.store(0, Release);
    }

    /// Counts bytes that were returned to the OS.
    pub fn count(&self, bytes: usize) {
        self.0.given.fetch_add(bytes, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A program that shrinks and grows in turn is swept early only when it grows beyond its peak.
    #[test]
    fn the_limit_does_not_fall() {
        let state: State = {
            // SAFETY: all-zero is a `State`.
            unsafe { core::mem::zeroed() }
        };
        let reclaimer = Reclaimer { state: &raw const state };
        let more = |bytes: usize| bytes + (bytes / SWEEP_GROWTH).max(GROWTH_LEAST);
        for (bytes, limit) in [(1 << 20, 1 << 20), (1 << 30, 1 << 30), (1 << 20, 1 << 30)] {
            reclaimer.raise_limit(bytes);
            assert_eq!(reclaimer.limit(), more(limit), "{bytes}");
        }
        reclaimer.raise_limit(usize::MAX);
        assert_eq!(reclaimer.limit(), usize::MAX);
        // The child of a fork has had no peak.
        reclaimer.repair((1, 1), |_| None, |_| {});
        assert_eq!(reclaimer.limit(), 0);
    }
}
