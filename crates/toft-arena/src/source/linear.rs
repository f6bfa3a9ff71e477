//! Memory that grows at its end and never shrinks: WebAssembly's linear memory, a break.

use super::{Source, room_for};
use crate::fault::NoMemory;
use crate::heap::{Heap, Span};
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
    last: Option<Span>,
    /// Behind the last byte that was got.
    end: usize,
}

// SAFETY: the memory is the source's own, and bound to no thread.
unsafe impl<G: Send> Send for Linear<G> {}

impl<G: Grows> Linear<G> {
    /// A source of memory that grows.
    #[must_use]
    pub const fn new(memory: G) -> Self {
        Self { memory, last: None, end: 0 }
    }
}

// SAFETY: 1. it claims and extends only. 2. as `Grows` promises.
unsafe impl<S: Shape, G: Grows> Source<S> for Linear<G> {
    unsafe fn more(&mut self, heap: &mut Heap<S>, layout: Layout) -> Result<(), NoMemory> {
        // What lies free at the end already counts, or memory would grow twice as fast as it is
        // used.
        let need = room_for::<S>(layout)?;
        // Of the last span the heap may have let go of a part, or of all.
        let own = self.last.and_then(|last| heap.span_of(last));
        let there = own.map_or(0, |own| heap.free_at_end(own).min(need - 1));
        let size = (need - there).checked_next_multiple_of(G::PAGE).ok_or(NoMemory)?;
        let start = self.memory.grow(size).ok_or(NoMemory)?;
        let follows = start.addr() == self.end;
        self.end = start.addr().wrapping_add(size);
        // SAFETY: the memory is new, the source's, and zero (Grows, 1).
        unsafe {
            let span = if let Some(own) = own.filter(|_| follows) {
                let whole = Span::new(own.start, self.end.wrapping_sub(own.start.addr()));
                // What the heap has let go of has been used.
                match self.last == Some(own) {
                    true => heap.extend_zeroed(own, whole),
                    false => heap.extend(own, whole),
                }
            } else {
                heap.claim_zeroed(start, size)
            };
            self.last = Some(span.map_err(|_| NoMemory)?);
        }
        Ok(())
    }
}
