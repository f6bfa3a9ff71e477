//! The descriptor of one large block, at the 64 KiB unit where the block begins.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// What a unit's descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// No block begins here.
    None,
    /// The program has the block.
    Live,
    /// Free: on its stack, or on its way there.
    Free,
}

const NONE: u32 = 0;
const LIVE: u32 = 1;
const FREE: u32 = 2;

/// A large block. Whoever takes it from a stack, or wins the change from live to free, holds it and
/// is the only one to write its fields until the state is published again.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Block {
    state: AtomicU32,
    /// The next block down the stack: unit number plus one. Written by the pusher.
    pub(super) below: AtomicU32,
    pub(super) class: AtomicU32,
    pub(super) partition: AtomicU32,
    /// Bytes that the program may use.
    pub(super) bytes: AtomicUsize,
    /// Bytes mapped from the start of the block.
    pub(super) mapped: AtomicUsize,
    /// Bytes of address space, guard included.
    pub(super) extent: AtomicUsize,
    pub(super) site: AtomicUsize,
}

impl Block {
    /// The state now.
    pub fn state(&self) -> BlockState {
        match self.state.load(Acquire) {
            NONE => BlockState::None,
            LIVE => BlockState::Live,
            _ => BlockState::Free,
        }
    }

    /// Publishes a block that the caller holds as the program's.
    pub(super) fn publish(&self) {
        self.state.store(LIVE, Release);
    }

    /// Publishes a block that was never live as free.
    pub(super) fn publish_free(&self) {
        self.state.store(FREE, Release);
    }

    /// Takes the block from the program: exactly one of any number of frees succeeds.
    pub(super) fn take(&self) -> bool {
        self.state.compare_exchange(LIVE, FREE, AcqRel, Acquire).is_ok()
    }

    /// Bytes that the program may use.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Bytes of address space that belong to the block, guard included.
    pub fn extent(&self) -> usize {
        self.extent.load(Relaxed)
    }

    /// The partition that the block belongs to for ever.
    pub fn partition(&self) -> usize {
        self.partition.load(Relaxed) as usize
    }

    /// Where the block was allocated.
    pub fn site(&self) -> usize {
        self.site.load(Relaxed)
    }
}
