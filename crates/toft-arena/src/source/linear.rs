//! Memory that grows at its end and never shrinks: WebAssembly's linear memory, a break.

use super::{Source, room_for};
use crate::fault::NoMemory;
use crate::heap::Heap;
use crate::shape::Shape;
use core::alloc::Layout;

/// Memory that grows.
///
/// # Safety
/// 1. `grow` returns the start of `size` more bytes, or of a few more than that, which are the
///    caller's and full of zeros, or `None`.
pub unsafe trait Grows {
    /// Bytes come in multiples of this, a power of two.
    const PAGE: usize;
    /// More memory, of a multiple of `PAGE` bytes.
    fn grow(&mut self, size: usize) -> Option<*mut u8>;
}

/// A source of memory that grows. Where new memory follows the old, the span is extended, so that
/// nothing is lost between both. Where other code has grown the memory meanwhile, the new memory
/// becomes a separate span.
#[derive(Debug)]
pub struct Linear<G> {
    memory: G,
    /// All from here to the last byte that was got is the source's.
    from: usize,
    end: usize,
}

// SAFETY: the memory is the source's own, and bound to no thread.
unsafe impl<G: Send> Send for Linear<G> {}

impl<G: Grows> Linear<G> {
    /// A source of memory that grows.
    #[must_use]
    pub const fn new(memory: G) -> Self {
        Self { memory, from: 0, end: 0 }
    }
}

// SAFETY: 1. it claims and extends only. 2. as `Grows` promises.
unsafe impl<S: Shape, G: Grows> Source<S> for Linear<G> {
    unsafe fn more(&mut self, heap: &mut Heap<S>, layout: Layout) -> Result<(), NoMemory> {
        // What lies free at the end already counts, or memory would grow twice as fast as it is
        // used.
        let need = room_for::<S>(layout)?;
        let there = heap.top_size().min(need - 1);
        let size = (need - there + G::PAGE - 1) & !(G::PAGE - 1);
        let start = self.memory.grow(size).ok_or(NoMemory)?;
        let address = start.addr();
        if address != self.end {
            self.from = address;
        }
        self.end = address.wrapping_add(size);
        // SAFETY: the memory is new, the source's, and zero (Grows, 1).
        unsafe { heap.add(self.from, start, size, true, true) }.map(|_| ()).map_err(|_| NoMemory)
    }
}
