//! The heap: its state, and what each part of it does.
//!
//! | file | what |
//! |---|---|
//! | `allocate.rs` | the way of a request: exact bin, unsorted list, larger bins, `top` |
//! | `free.rs` | the way of a freed block: merge, and the place that the variant chooses |
//! | `large.rs` | large bins: sorted, with a leader for each size |
//! | `sort.rs` | a request sorts the unsorted list |
//! | `run.rs` | the chunk that grows |
//! | `top.rs` | the end of the heap: growth, and what is returned to the OS |
//! | `resize.rs` | `realloc` in place, aligned blocks |
//! | `check.rs` | the invariants |

mod allocate;
mod check;
mod free;
mod large;
mod resize;
mod run;
mod sort;
mod top;

use crate::bins::Marks;
use crate::chunk::{BELOW_FREE, Chunk, LIVE, WORD};
use crate::fault::stop;
use crate::links::FIRST;
use crate::memory::{Memory, STEP};
use crate::variant::Variant;
use std::marker::PhantomData;

/// How often a heap did what, if its variant counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Chunks that went straight to a bin.
    pub filed: u64,
    /// Chunks that went to the unsorted list.
    pub unsorted: u64,
    /// Chunks that a request moved from the unsorted list to a bin.
    pub sorted: u64,
    /// Sizes passed in a sorted bin, to find a place or a fit.
    pub walked: u64,
    /// Chunks that were split.
    pub split: u64,
    /// Merges of a freed chunk with a neighbour.
    pub merged: u64,
    /// Times that memory was returned to the OS.
    pub trims: u64,
}

/// Adds one to a count, if the variant counts.
macro_rules! count {
    ($heap:ident.$name:ident) => {
        if V::CHOICES.counts {
            $heap.counts.$name += 1;
        }
    };
}
use count;

/// A heap of one thread at a time.
///
/// Invariants:
/// 1. `[FIRST, top)` is chunks without gaps. No free chunk touches another, or `top`.
/// 2. Each free chunk but `run` is in one list: that of its size, or the unsorted one.
/// 3. A bin that is not empty is marked. A large bin is sorted, its smallest chunk last.
/// 4. `top + SMALLEST` is at most the end of the usable memory, once there is any.
#[derive(Debug)]
pub struct Heap<V: Variant> {
    pub(crate) memory: Memory,
    pub(crate) top: Chunk,
    marks: Marks,
    /// The last remainder of a small request. May name a chunk that is gone.
    rest: Chunk,
    /// The chunk that grew last, if the variant keeps it: free, and in no list.
    run: Chunk,
    /// Free bytes that stay above `top` when memory is returned.
    keep: usize,
    /// How often memory was returned since returned memory was last wanted again.
    returned: usize,
    most: Option<usize>,
    counts: Counts,
    variant: PhantomData<V>,
}

impl<V: Variant> Heap<V> {
    /// A heap without memory. At the first request it reserves `most` bytes of addresses, which are
    /// at least 1 MiB. If `None`, it reserves 64 GiB, or as much as the OS allows.
    #[must_use]
    pub const fn new(most: Option<usize>) -> Self {
        Self {
            memory: Memory::none(),
            top: Chunk(FIRST),
            marks: Marks::none(),
            rest: Chunk::NONE,
            run: Chunk::NONE,
            keep: STEP,
            returned: 0,
            most,
            counts: Counts {
                filed: 0,
                unsorted: 0,
                sorted: 0,
                walked: 0,
                split: 0,
                merged: 0,
                trims: 0,
            },
            variant: PhantomData,
        }
    }

    /// What the heap did so far, if its variant counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The usable bytes of a block.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap.
    #[must_use]
    pub unsafe fn usable_size(&self, block: *mut u8) -> usize {
        // SAFETY: (1).
        unsafe { self.live(block) }.1 - WORD
    }

    /// Returns true if the block is in the range of this heap.
    #[inline(always)]
    pub(crate) fn holds(&self, block: *mut u8) -> bool {
        self.memory.offset(block) < self.memory.usable
    }

    /// The chunk of a block, its size, and its tag. Stops the process if it is none of a live
    /// block, as far as its words tell.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, or a mistake that the checks see.
    #[inline(always)]
    pub(crate) unsafe fn live(&self, block: *mut u8) -> (Chunk, usize, usize) {
        // SAFETY: (1), and what is below `top` is usable.
        let live = unsafe { self.memory.live::<V>(self.top.0, block) };
        live.unwrap_or_else(|fault| stop(V::NAME, fault))
    }

    /// Makes a free chunk live, and returns its block.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is in no list, and free.
    #[inline(always)]
    unsafe fn hand_out(&mut self, chunk: Chunk, size: usize) -> *mut u8 {
        let above = chunk.above(size);
        // SAFETY: (1); the chunk below a free one is live. A free chunk does not touch `top`.
        unsafe {
            self.memory.set_tag(chunk, size | LIVE);
            let tag = self.memory.tag(above);
            self.memory.set_tag(above, tag & !BELOW_FREE);
        }
        self.memory.pointer(chunk.block())
    }
}
