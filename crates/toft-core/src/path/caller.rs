//! The caller of malloc and free: a thread with its allocator and its heap.

use super::malloc::{large_from, refilled_from, slower_from, through_from};
use crate::allocator::Allocator;
use crate::bin::BinIndex;
use crate::os::Os;
use crate::region::Site;
use crate::thread::Heap;
use core::ffi::c_void;

/// The address of a block, as malloc returns it and free takes it.
pub type Pointer = *mut c_void;

/// The thread that calls malloc or free, with its allocator and its heap.
///
/// There are two implementations. A thread of the process (`process/calls.rs`) finds its allocator
/// and its heap in static and thread-local variables, so its calls pass no arguments for them.
/// [`On`] holds a reference to both.
///
/// The last four methods continue a call in a function that may need the stack of the program's
/// call. An implementation that knows the address of that call's return address passes it on. It
/// also passes the frame pointer that the program had at the call.
pub trait Caller: Copy {
    /// The operating system that the allocator uses.
    type Os: Os;

    /// Returns the allocator.
    fn allocator(&self) -> &Allocator<Self::Os>;

    /// Returns the thread's heap, or an empty heap that owns nothing if the thread has none.
    fn heap(&self) -> &Heap;

    /// Returns the thread's heap, and creates it first if the thread has none. Returns `None` if
    /// there is no memory. After the thread's exit was noticed, its heap is one that owns nothing.
    fn heap_or_start(&self) -> Option<&Heap>;

    /// Starts the allocator and reads its options, if no call has done so yet.
    fn start(&self);

    /// Continues in `through_from`.
    #[inline]
    fn through(self, index: BinIndex, site: Site) -> Pointer {
        through_from(self, index, site, 0, 0)
    }

    /// Continues in `refilled_from`.
    #[inline]
    fn refilled(self, address: usize, site: Site, index: BinIndex) -> Pointer {
        refilled_from(self, address, site, index, 0, 0)
    }

    /// Continues in `slower_from`.
    #[inline]
    fn slower(self, index: BinIndex, site: Site) -> Pointer {
        slower_from(self, index, site, 0, 0)
    }

    /// Continues in `large_from`.
    #[inline]
    fn large(self, size: usize, site: Site) -> Pointer {
        large_from(self, size, site, 0, 0)
    }
}

/// A caller with an explicit allocator and heap, for tests, models and the fuzzer.
#[derive(Debug)]
pub struct On<'a, O> {
    /// The allocator.
    pub allocator: &'a Allocator<O>,
    /// The heap, which the calling thread holds or which owns nothing.
    pub heap: &'a Heap,
}

impl<O> Clone for On<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for On<'_, O> {}

impl<O: Os> Caller for On<'_, O> {
    type Os = O;

    fn allocator(&self) -> &Allocator<O> {
        self.allocator
    }

    fn heap(&self) -> &Heap {
        self.heap
    }

    fn heap_or_start(&self) -> Option<&Heap> {
        Some(self.heap)
    }

    fn start(&self) {}
}

/// malloc, calloc, aligned allocation and free with an explicit heap.
#[cfg(feature = "fake-os")]
impl<O: Os> Allocator<O> {
    /// Allocates `size` bytes, like malloc.
    pub fn allocate(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        address(super::malloc::malloc(On { allocator: self, heap }, size, Site::at(site)))
    }

    /// Allocates `size` zero bytes, like calloc.
    pub fn allocate_zeroed(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        address(super::malloc::calloc(On { allocator: self, heap }, 1, size, Site::at(site)))
    }

    /// Allocates `size` bytes at a multiple of `align`, a power of two.
    pub fn allocate_aligned(
        &self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: usize,
    ) -> Option<usize> {
        address(super::malloc::aligned(On { allocator: self, heap }, align, size, Site::at(site)))
    }

    /// Changes the size of the block at `address`, like realloc.
    pub fn resize(&self, heap: &Heap, address: usize, size: usize, site: usize) -> super::Resized {
        self.requests().resize(heap, address, size, Site::at(site))
    }

    /// Publishes what the thread of a heap has freed in slabs of other threads, as its exit does.
    pub fn publish_frees(&self, heap: &Heap) {
        if let Some(guard) = heap.enter() {
            self.held_heaps().empty_outbox(heap, &guard);
        }
    }

    /// Frees the block at `address`, like free.
    pub fn free(&self, heap: &Heap, address: usize, call: crate::report::Call) {
        super::free::free(On { allocator: self, heap }, address, call);
    }
}

/// Returns the address of a block, or `None` for null.
#[cfg(feature = "fake-os")]
fn address(block: Pointer) -> Option<usize> {
    (!block.is_null()).then(|| block.expose_provenance())
}
