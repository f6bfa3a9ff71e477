//! The record of one slot of the pool.

use crate::report::{FRAMES, Stack};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCondition {
    /// The slot has not had a block yet.
    Never,
    /// A thread is giving the slot a block, or taking its block away.
    Busy,
    /// The program has the block.
    Live,
    /// The block was freed, and its record is still there.
    Freed,
}

const NEVER: u32 = 0;
const BUSY: u32 = 1;
const LIVE: u32 = 2;
const FREED: u32 = 3;

/// A slot. Only the thread that has made it busy writes the other fields, until it releases the
/// next state. A thread that reads them after an acquire of the state gets the fields of that
/// state. A report that is made while another thread uses the slot again may have a mixture. Each
/// field was true once.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    state: AtomicU32,
    /// The threads that allocated and freed the block.
    pub threads: [AtomicU32; 2],
    pub(super) address: AtomicUsize,
    pub(super) size: AtomicUsize,
    /// Not zero while uninitialized reads are reported.
    watched: AtomicU32,
    /// The page that was read before it was written, or zero. It is inaccessible until the read is
    /// reported. The watcher writes this field, and the reporting thread clears it.
    pub(super) uninitialized_page: AtomicUsize,
    allocated: Frames,
    freed: Frames,
}

/// A stack, in words that other threads may read.
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
    /// Returns the state of the slot.
    pub fn condition(&self) -> SlotCondition {
        match self.state.load(Acquire) {
            NEVER => SlotCondition::Never,
            BUSY => SlotCondition::Busy,
            LIVE => SlotCondition::Live,
            _ => SlotCondition::Freed,
        }
    }

    /// Takes a slot without a block. Returns false if it has one.
    pub(super) fn take(&self) -> bool {
        let state = self.state.load(Relaxed);
        (state == NEVER || state == FREED) && self.change(state)
    }

    /// Takes a slot from the program. Of several frees at once, exactly one succeeds.
    pub(super) fn take_live(&self) -> bool {
        self.change(LIVE)
    }

    fn change(&self, from: u32) -> bool {
        self.state.compare_exchange(from, BUSY, AcqRel, Acquire).is_ok()
    }

    /// Gives the block to the program. Called by the thread that took the slot.
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

    /// Marks the block as freed. Called by the thread that took the slot.
    pub(super) fn retire(&self) {
        self.state.store(FREED, Release);
    }

    /// Records which thread frees the block. Called by the thread that took the slot.
    pub(super) fn note_free(&self, thread: u32, freed: &Stack) {
        let [_, freed_by] = &self.threads;
        freed_by.store(thread, Relaxed);
        self.freed.store(freed);
    }

    /// Resets a taken slot that could not be given a block.
    pub(super) fn untake(&self) {
        self.address.store(0, Relaxed);
        self.size.store(0, Relaxed);
        self.state.store(NEVER, Release);
    }

    /// Returns true if uninitialized reads are reported.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Acquire) != 0
    }

    /// Marks the slot as watched. Called by the thread that took the slot.
    pub(super) fn watch(&self) {
        self.watched.store(1, Release);
    }

    /// Clears the mark of `watch`. Returns true if the slot was watched.
    pub(super) fn unwatch(&self) -> bool {
        self.watched.swap(0, AcqRel) != 0
    }

    /// Returns the address where the block begins.
    pub fn begin(&self) -> usize {
        self.address.load(Relaxed)
    }

    /// Returns the number of bytes of the block.
    pub fn bytes(&self) -> usize {
        self.size.load(Relaxed)
    }

    /// Returns the stack that allocated the block.
    pub fn allocated(&self) -> Stack {
        self.allocated.load()
    }

    /// Returns the stack that freed the block, or an empty one if it is live.
    pub fn freed(&self) -> Stack {
        self.freed.load()
    }
}
