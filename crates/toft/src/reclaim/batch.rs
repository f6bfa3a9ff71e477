//! The reclaimer's own state: whose turn it is, and the slabs of which slots are held just now.
//!
//! Invariants:
//! - R1 one thread at a time sweeps: the one that has set `sweeping`.
//! - R2 a slab with HOLDING set is in `slabs`, so that the child of a fork can let go of it.
//! - R3 pages that are to go if they are not used are in `pinned`, so that the child can keep them.

use super::Trims;
use crate::os::{Pin, Pinned};
use crate::policy::SWEEP_GROWTH;
use crate::slab::Slab;
use crate::sync::StoreChanged;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Slabs of which slots are held at a time: between two barriers, which cost some microseconds.
pub const BATCH: usize = 64;

/// Bytes by which slabs may grow, at least, before the next sweep is due.
const GROWTH_LEAST: usize = 2 << 20;

/// What the reclaimer's thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Life {
    /// There is none.
    None = 0,
    /// It looks now and then.
    Awake = 1,
    /// It has found nothing to do, and waits to be told.
    Asleep = 2,
    /// It could not be started.
    Refused = 3,
}

/// What can be asked of the thread, from outside of the process, too: a debugger's rights are
/// enough to write here. The asking thread adds one to `asked`, sets `word`, and wakes the thread
/// to read it.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// What the thread sleeps on: not zero when it is to look again. Any thread sets it.
    pub word: AtomicU32,
    /// The thread's number; zero where there is none. Who starts it.
    pub thread: AtomicU32,
    /// Purges asked for.
    pub asked: AtomicU64,
    /// What `asked` was when the last completed purge began. By the reclaimer, after `given`.
    pub answered: AtomicU64,
    /// The bytes that the last completed purge gave back. By the reclaimer.
    pub given: AtomicU64,
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    control: Control,
    /// Not zero while a thread sweeps.
    sweeping: AtomicU32,
    /// R2. The thread that sweeps.
    count: AtomicU32,
    slabs: [AtomicUsize; BATCH],
    /// R3. The thread that sweeps.
    pinned: Pinned,
    /// A [`Life`]. The thread that starts it, the thread itself, and those that wake it, by compare
    /// and exchange.
    life: AtomicU32,
    /// Whether the thread runs: it says so itself.
    runs: AtomicU32,
    /// Not zero where the thread passes no barriers, and reaches no slabs of running threads.
    /// The thread that starts it, before it runs; the program's threads read it, and it does not
    /// matter when they see it.
    blind: AtomicU32,
    /// The process that may start the thread: not a child that runs in its parent's memory.
    process: AtomicU32,
    /// Bytes of slots with pages at which the next sweep is due, however early. The thread.
    limit: AtomicUsize,
    /// The tick at which the process was forked off. Written in the child.
    forked_at: AtomicU32,
    /// Not zero while a thread looks for cold pages.
    looking: AtomicU32,
    /// The descriptor that notes writes, plus one. The thread that looks.
    watch: AtomicU32,
    trims: Trims,
    /// Sweeps that have ended, and bytes that they have given back.
    sweeps: AtomicUsize,
    given: AtomicUsize,
}

/// The reclaimer.
#[derive(Debug)]
pub struct Reclaimer {
    state: *const State,
}

/// The right to sweep, while it lasts.
#[derive(Debug)]
pub struct Turn<'a>(&'a State);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.sweeps.fetch_add(1, Relaxed);
        self.0.sweeping.store(0, Release);
    }
}

/// The right to look for cold pages, while it lasts.
#[derive(Debug)]
pub struct Looking<'a>(&'a State);

impl Looking<'_> {
    /// The descriptor that notes writes, plus one; zero without.
    pub fn watch(&self) -> &AtomicU32 {
        &self.0.watch
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.looking.store(0, Release);
    }
}

impl Reclaimer {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Before anything is known.
    pub const fn none() -> Reclaimer {
        Reclaimer { state: core::ptr::null() }
    }

    /// A reclaimer of a process.
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

    /// Takes the turn, unless another thread has it.
    pub fn begin(&self) -> Option<Turn<'_>> {
        let state = self.state();
        let taken = state.sweeping.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        // Not made where it is not taken: it would be given up.
        taken.then(|| Turn(state))
    }

    /// Whether some thread has the turn.
    pub fn is_sweeping(&self) -> bool {
        self.state().sweeping.load(Relaxed) != 0
    }

    /// What the thread is doing.
    pub fn life(&self) -> Life {
        match self.state().life.load(Acquire) {
            0 => Life::None,
            1 => Life::Awake,
            2 => Life::Asleep,
            _ => Life::Refused,
        }
    }

    /// Goes from one state of life to another; no, where another thread was first.
    pub fn change(&self, from: Life, to: Life) -> bool {
        let life = &self.state().life;
        life.compare_exchange(from as u32, to as u32, AcqRel, Relaxed).is_ok()
    }

    /// Threads of ours that run.
    pub fn threads(&self) -> u32 {
        self.state().runs.load(Acquire)
    }

    /// The thread runs.
    pub fn run(&self) {
        self.state().runs.store(1, Release);
    }

    /// What can be asked of the thread.
    pub fn control(&self) -> &Control {
        &self.state().control
    }

    /// What the thread sleeps on.
    pub fn word(&self) -> &AtomicU32 {
        &self.control().word
    }

    /// The right to look for cold pages, unless another thread has it. Sweeps go on meanwhile.
    pub fn begin_to_look(&self) -> Option<Looking<'_>> {
        let state = self.state();
        let taken = state.looking.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        taken.then(|| Looking(state))
    }

    /// Bytes of slots with pages at which the next sweep is due.
    pub fn limit(&self) -> usize {
        self.state().limit.load(Relaxed)
    }

    /// Sets that, where there are so many now.
    pub fn set_limit(&self, bytes: usize) {
        let more = (bytes / SWEEP_GROWTH).max(GROWTH_LEAST);
        self.state().limit.store(bytes.saturating_add(more), Relaxed);
    }

    /// Whether the thread passes no barriers: slabs of running threads are then their own business.
    pub fn is_blind(&self) -> bool {
        self.state().blind.load(Relaxed) != 0
    }

    /// Sets that.
    pub fn set_blind(&self, blind: bool) {
        self.state().blind.store(blind.into(), Relaxed);
    }

    /// When the last purge and the last count for a trim were made.
    pub fn trims(&self) -> &Trims {
        &self.state().trims
    }

    /// The tick at which the process was forked off; zero, where it was not.
    pub fn forked_at(&self) -> u32 {
        self.state().forked_at.load(Relaxed)
    }

    /// The process that may start the thread.
    pub fn process(&self) -> u32 {
        self.state().process.load(Relaxed)
    }

    /// Sweeps that have ended, and bytes that they have given back.
    pub fn figures(&self) -> (usize, usize) {
        (self.state().sweeps.load(Relaxed), self.state().given.load(Relaxed))
    }

    /// In the child of a fork: no thread of ours is there, and slots that one held are let go of,
    /// which is announced to their owners. Returns true if there were any: then a slab may have
    /// been on its way to an inbox.
    pub fn repair(
        &self,
        os: &impl Pin,
        (process, now): (u32, u32),
        slab_at: impl Fn(usize) -> Option<&'static Slab>,
        announce: impl Fn(&Slab),
    ) -> bool {
        let state = self.state();
        let torn = self.is_sweeping() || state.count.load(Acquire) != 0;
        for slab in state.slabs.iter().take(state.count.load(Acquire) as usize) {
            if let Some(slab) = slab_at(slab.load(Relaxed)) {
                slab.let_go_after_fork();
                announce(slab);
            }
        }
        os.keep_pinned(&state.pinned);
        state.count.store_changed(0, Relaxed);
        state.sweeping.store_changed(0, Relaxed);
        state.runs.store_changed(0, Relaxed);
        state.control.word.store_changed(0, Relaxed);
        state.control.thread.store_changed(0, Relaxed);
        state.looking.store_changed(0, Relaxed);
        // It is about the parent's memory.
        state.watch.store_changed(0, Relaxed);
        state.process.store_changed(process, Relaxed);
        state.forked_at.store_changed(now, Relaxed);
        if self.life() != Life::Refused {
            state.life.store_changed(Life::None as u32, Relaxed);
        }
        torn
    }
}

impl Turn<'_> {
    /// Puts a slab into the batch that may be held from now on. Returns true if the batch is full
    /// then.
    pub fn add(&self, slab: &Slab) -> bool {
        let count = self.0.count.load(Relaxed) as usize;
        if let Some(place) = self.0.slabs.get(count) {
            place.store((&raw const *slab).expose_provenance(), Relaxed);
            // R2: the number comes after the address, and before the slab is held.
            self.0.count.store(count as u32 + 1, Release);
        }
        count + 1 >= BATCH
    }

    /// Takes the slab that was put in last out again: it is not held.
    pub fn take_back(&self) {
        let count = self.0.count.load(Relaxed);
        self.0.count.store(count.saturating_sub(1), Release);
    }

    /// The slabs of the batch.
    pub fn slabs(&self) -> impl Iterator<Item = &'static Slab> {
        let count = self.0.count.load(Relaxed) as usize;
        self.0.slabs.iter().take(count).map(|slab| {
            // SAFETY: `add` writes addresses of descriptors, which live for ever.
            unsafe { &*core::ptr::with_exposed_provenance(slab.load(Relaxed)) }
        })
    }

    /// Nothing is held any more.
    pub fn clear(&self) {
        self.0.count.store(0, Release);
    }

    /// Pages that are to go if they are not used.
    pub fn pinned(&self) -> &Pinned {
        &self.0.pinned
    }

    /// Counts bytes that were given back.
    pub fn count(&self, bytes: usize) {
        self.0.given.fetch_add(bytes, Relaxed);
    }
}
