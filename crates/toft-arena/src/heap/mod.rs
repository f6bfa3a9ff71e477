//! The engine: one heap, used by one caller at a time, that knows neither locks nor sources.
//!
//! | file | what |
//! |---|---|
//! | `allocate.rs` | from a bin, from `rest`, from `top`, in this order; then a sweep |
//! | `aligned.rs` | the same for blocks that are more aligned than all are |
//! | `free.rs` | merging, and where the result goes |
//! | `park.rs` | small blocks that wait for the next request of their size, in shapes that park |
//! | `resize.rs` | growing and shrinking where the block is, downwards, and by moving |
//! | `spans.rs` | claiming memory, and more of it at either end |
//! | `ends.rs` | giving it up: truncating, releasing |
//! | `validate.rs` | what is looked at before a pointer is believed |
//! | `walk.rs` | all blocks; sums; the largest request that would be met |
//! | `check.rs` | the invariants, one by one |
//!
//! Invariants: T1 to T3, F1 to F3, B1 to B5, R1, R2 and C1, with their text in [`Heap::check`].

mod aligned;
mod allocate;
mod check;
mod ends;
mod free;
mod park;
mod resize;
mod spans;
mod validate;
mod walk;

pub use check::Invariant;
pub use spans::Span;
pub use walk::{Block, Histogram, Survey};

use crate::bins::list::Broken;
use crate::bins::{index, list};
use crate::chunk::{BELOW_FREE, Memory};
use crate::fault::Fault;
use crate::shape::{Checks, Shape, Sizes};
use crate::space::Space;
use crate::table::Tables;
use core::fmt;
use core::ptr::NonNull;
use spans::Spans;

/// A boundary-tag heap over memory that was claimed for it.
///
/// It may be moved: nothing in the memory points at it. It takes `size_of::<Heap<S>>()` bytes (4.3
/// KiB for [`Packed`](crate::shape::Packed) on 64 bits), wherever the caller has them; also in the
/// front of the very memory that it manages.
pub struct Heap<S: Shape> {
    memory: Memory<S>,
    /// The free memory at the end of one span, outside of the bins: `[top, top + top_size)`, and
    /// there is the span's fence. No word in it is ever read. Without spans both are 0.
    top: usize,
    top_size: usize,
    /// What was left of the last chunk that was split, outside of the bins. Both are 0 if there is
    /// none.
    rest: usize,
    rest_size: usize,
    /// Where the free chunk begins that has grown last outside of `rest`, in a shape that keeps
    /// runs outside of the bins: a place, which may not be a chunk's any more.
    grown: usize,
    /// From here up to its fence `top` has held nothing but zeros since it was claimed, if this is
    /// in it.
    clean: usize,
    /// The farthest place at which `top` has begun before, in a shape that parks. No block has had
    /// the memory beyond that and beyond where `top` begins now (`allocate.rs`).
    reached: usize,
    /// Whether something may be parked.
    unsettled: bool,
    /// So many freed blocks are not parked yet, because a request has failed (`park.rs`).
    unparked: usize,
    /// How many were not parked after the last one that failed.
    pause: usize,
    /// Three quarters of what `top` was when this was set last: when less is left of it, what is
    /// parked is freed (`park.rs`).
    ebb: usize,
    /// Live blocks, in a shape that parks.
    live: usize,
    /// Half of what `live` was when this was set last: when fewer are live, what is parked is freed
    /// (`park.rs`).
    low: usize,
    bins: S::Bins,
    spans: Spans,
    counters: Counters,
    faults: u64,
    /// Of no meaning while there was none.
    last_fault: Fault,
}

/// What was counted, in a shape that counts ([`Shape::COUNT`]); else zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks that are live.
    pub live_blocks: usize,
    /// Their bytes, with what rounding and tags add.
    pub live_bytes: usize,
    /// The most that `live_bytes` has been.
    pub peak_bytes: usize,
    /// Blocks that have ever been handed out.
    pub total_blocks: u64,
    /// Free chunks that were looked at and did not serve.
    pub probes: u64,
}

// SAFETY: a heap is its numbers and the memory that was handed to it for its own use (`claim`),
// which is not bound to a thread.
unsafe impl<S: Shape> Send for Heap<S>
where
    S::Space: Send,
    S::Bins: Send,
{
}

impl<S: Shape> Heap<S> {
    /// A heap without memory. But for its space it is all zeros, so as a static it takes no room in
    /// a program's file.
    #[must_use]
    pub const fn new(space: S::Space) -> Self {
        () = S::SOUND;
        Self {
            memory: Memory { space, low: 0, extent: 0 },
            top: 0,
            top_size: 0,
            rest: 0,
            rest_size: 0,
            grown: 0,
            clean: 0,
            reached: 0,
            unsettled: false,
            unparked: 0,
            pause: 0,
            ebb: 0,
            live: 0,
            low: 0,
            bins: S::Bins::EMPTY,
            spans: Spans { base: 0, fence: 0, next: 0 },
            counters: Counters {
                live_blocks: 0,
                live_bytes: 0,
                peak_bytes: 0,
                total_blocks: 0,
                probes: 0,
            },
            faults: 0,
            last_fault: Fault::Foreign(0),
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many faults were found, and the last of them.
    #[must_use]
    pub fn faults(&self) -> (u64, Option<Fault>) {
        (self.faults, (self.faults != 0).then_some(self.last_fault))
    }

    /// The bytes that lie free at the end of one span: what could be given up there.
    #[must_use]
    pub fn top_size(&self) -> usize {
        self.top_size
    }

    /// Where `top` begins.
    pub(crate) fn top(&self) -> usize {
        self.top
    }

    /// The space, to tell it where its origin is now.
    ///
    /// # Safety
    /// 1. The space stays the one that has admitted this heap's spans: no other is put in its
    ///    place.
    pub unsafe fn space_mut(&mut self) -> &mut S::Space {
        &mut self.memory.space
    }

    /// The block of this address, with the right to all of it: what a caller hands in may have the
    /// right to its object only, and serves as a number.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) fn own(&self, block: NonNull<u8>) -> NonNull<u8> {
        NonNull::new(self.memory.block(self.chunk_of(block.as_ptr()))).unwrap_or(block)
    }

    /// Where in the space a block lies.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn chunk_of(&self, block: *const u8) -> usize {
        self.memory.space.place(block).wrapping_sub(S::WORD)
    }

    #[cold]
    #[inline(never)]
    fn fault(&mut self, fault: Fault) {
        self.faults += 1;
        self.last_fault = fault;
        hook::<S>(&fault);
    }

    /// Notes a broken link. A chunk that a live neighbour says to be free becomes a live block
    /// without a user, so that a walk goes on past it.
    #[cold]
    #[inline(never)]
    fn broken(&mut self, Broken(chunk): Broken) {
        self.fault(Fault::BrokenLink(self.memory.space.address(chunk + S::WORD)));
    }

    /// Puts a chunk that is not in use into its bin.
    ///
    /// # Safety
    /// 1. As [`list::push`], 1.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn file(&mut self, chunk: usize, size: usize) {
        let bin = index::of_free::<S>(size);
        // SAFETY: by 1.
        let done = unsafe { list::push(&mut self.bins, &self.memory, bin, chunk, size) };
        if S::CHECKS >= Checks::Links {
            if let Err(broken) = done {
                self.broken(broken);
            }
        }
    }

    /// Marks in what is after a chunk whether the chunk is free. Not for chunks before `top`.
    ///
    /// # Safety
    /// 1. `after` is the place of a live chunk or a fence.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn mark_below(&mut self, after: usize, free: bool) {
        // SAFETY: it is a tag, which is no part of a block.
        unsafe {
            let tag = self.memory.get(after);
            self.memory.put(after, if free { tag | BELOW_FREE } else { tag & !BELOW_FREE });
        }
    }

    /// Keeps a new rest, or what was there before if that is larger; the smaller goes into its bin.
    /// Its far end and its bin are more often at hand.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is a chunk that is not in use; what is after it says that it is
    ///    free.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn keep_rest(&mut self, chunk: usize, size: usize) {
        let (old, old_size) = (self.rest, self.rest_size);
        if size <= old_size {
            // SAFETY: by 1.
            return unsafe { self.file(chunk, size) };
        }
        (self.rest, self.rest_size) = (chunk, size);
        if old_size != 0 {
            // SAFETY: the old rest was a chunk in no list.
            unsafe { self.file(old, old_size) };
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn count_new(&mut self, size: usize) {
        if S::Bins::PARKS != 0 {
            self.live += 1;
        }
        if S::COUNT {
            self.counters.live_blocks += 1;
            self.counters.total_blocks += 1;
            self.count_bytes(0, size);
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn count_gone(&mut self, size: usize) {
        if S::Bins::PARKS != 0 {
            // Wraps after an unnoticed double free: then the heap never settles for this reason.
            self.live = self.live.wrapping_sub(1);
        }
        if S::COUNT {
            self.counters.live_blocks -= 1;
            self.counters.live_bytes -= size;
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn count_bytes(&mut self, old: usize, new: usize) {
        if S::COUNT {
            let counters = &mut self.counters;
            counters.live_bytes = counters.live_bytes - old + new;
            counters.peak_bytes = counters.peak_bytes.max(counters.live_bytes);
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn probed(&mut self) {
        if S::COUNT {
            self.counters.probes += 1;
        }
    }

    /// The size in a live chunk's tag.
    ///
    /// # Safety
    /// 1. `chunk` is live.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn live_size(&self, chunk: usize) -> usize {
        // SAFETY: a live chunk begins with its tag.
        unsafe { self.memory.get(chunk) & !S::FLAGS }
    }

    /// Returns true if a chunk is `rest`, in a shape that keeps one.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn is_rest(&self, chunk: usize) -> bool {
        S::RESTS && chunk == self.rest
    }
}

/// Calls the hook. The heap is between two states, and its caller may not be one through which a
/// panic goes: out of a function of this kind it does not, but ends the program.
extern "C" fn hook<S: Shape>(fault: &Fault) {
    S::on_fault(*fault);
}

/// Opens the heap's memory to the sanitizer, which then reports nothing there.
#[cfg(feature = "sanitizer")]
impl<S: Shape> Drop for Heap<S> {
    fn drop(&mut self) {
        self.bounds().for_each(|span| self.memory.open(span.base, span.end));
    }
}

impl<S: Shape> Default for Heap<S>
where
    S::Space: Default,
{
    fn default() -> Self {
        Self::new(S::Space::default())
    }
}

impl<S: Shape> fmt::Debug for Heap<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("survey", &self.survey())
            .field("counters", &self.counters)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}
