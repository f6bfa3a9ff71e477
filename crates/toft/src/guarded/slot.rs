//! What is known of one slot of the pool.

use crate::report::{FRAMES, Stack};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCondition {
    /// It had no block yet.
    Never,
    /// A thread gives it a block, or takes it away.
    Busy,
    /// The program has the block.
    Live,
    /// The block was freed, and what it was is still known.
    Freed,
}

const NEVER: u32 = 0;
const BUSY: u32 = 1;
const LIVE: u32 = 2;
const FREED: u32 = 3;

/// A slot. Only the thread that has made it busy writes the other fields, until the release of the
/// next state. A thread that reads them after an acquire of the state has what belongs to it. A
/// report made while another thread uses the slot again may have a mixture: each field was once
/// true.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    state: AtomicU32,
    /// Threads that allocated and freed it.
    pub threads: [AtomicU32; 2],
    pub(super) address: AtomicUsize,
    pub(super) size: AtomicUsize,
    /// Not zero while reads of what was not written are told.
    watched: AtomicU32,
    /// The page that was read before it was written, unreachable until that is reported; or zero.
    /// The watcher writes it; the reporting thread clears it.
    pub(super) unset: AtomicUsize,
    allocated: Frames,
    freed: Frames,
}

/// A stack in words that other threads may read.
#[derive(Debug)]
#[repr(C)]
struct Frames([AtomicUsize; FRAMES]);

impl Frames {
    fn store(&self, stack: &Stack) {
        self.0.iter().for_each(|place| place.store(0, Relaxed));
        for (place, (address, _)) in self.0.iter().zip(stack.frames()) {
            place.store(address, Relaxed);
        }
    }

    fn load(&self) -> Stack {
        Stack::of_frames(self.0.iter().map(|place| place.load(Relaxed)))
    }
}

impl Slot {
    /// What the slot is doing.
    pub fn condition(&self) -> SlotCondition {
        match self.state.load(Acquire) {
            NEVER => SlotCondition::Never,
            BUSY => SlotCondition::Busy,
            LIVE => SlotCondition::Live,
            _ => SlotCondition::Freed,
        }
    }

    /// Takes a slot without a block; `false` where it has one.
    pub(super) fn take(&self) -> bool {
        let state = self.state.load(Relaxed);
        (state == NEVER || state == FREED) && self.change(state)
    }

    /// Takes a slot from the program: exactly one of any number of frees succeeds.
    pub(super) fn take_live(&self) -> bool {
        self.change(LIVE)
    }

    fn change(&self, from: u32) -> bool {
        self.state.compare_exchange(from, BUSY, AcqRel, Acquire).is_ok()
    }

    /// The program has the block. By the thread that took the slot.
    pub(super) fn publish(&self, address: usize, size: usize, thread: u32, allocated: &Stack) {
        self.address.store(address, Relaxed);
        self.size.store(size, Relaxed);
        self.allocated.store(allocated);
        self.freed.store(&Stack::EMPTY);
        let [by, freed_by] = &self.threads;
        by.store(thread, Relaxed);
        freed_by.store(0, Relaxed);
        self.state.store(LIVE, Release);
    }

    /// The block is freed. By the thread that took the slot.
    pub(super) fn retire(&self) {
        self.state.store(FREED, Release);
    }

    /// Remembers which thread frees the block. By the thread that took the slot.
    pub(super) fn note_free(&self, thread: u32, freed: &Stack) {
        let [_, freed_by] = &self.threads;
        freed_by.store(thread, Relaxed);
        self.freed.store(freed);
    }

    /// The taken slot could not be given a block.
    pub(super) fn untake(&self) {
        self.address.store(0, Relaxed);
        self.size.store(0, Relaxed);
        self.state.store(NEVER, Release);
    }

    /// Whether reads of what was not written are told.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Acquire) != 0
    }

    /// Marks the slot as watched. By the thread that took the slot.
    pub(super) fn watch(&self) {
        self.watched.store(1, Release);
    }

    /// Ends that; returns true if it was watched.
    pub(super) fn unwatch(&self) -> bool {
        self.watched.swap(0, AcqRel) != 0
    }

    /// Where the block begins.
    pub fn begin(&self) -> usize {
        self.address.load(Relaxed)
    }

    /// Bytes of the block.
    pub fn bytes(&self) -> usize {
        self.size.load(Relaxed)
    }

    /// Who allocated the block.
    pub fn allocated(&self) -> Stack {
        self.allocated.load()
    }

    /// Who freed it; empty if it is live.
    pub fn freed(&self) -> Stack {
        self.freed.load()
    }
}
