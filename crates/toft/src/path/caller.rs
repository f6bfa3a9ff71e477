//! A thread that calls malloc and free.

use super::malloc::{large_from, refilled_from, slower_from, through_from};
use crate::allocator::Allocator;
use crate::os::Os;
use crate::thread::Heap;
use core::ffi::c_void;

/// What malloc returns and free takes.
pub type Pointer = *mut c_void;

/// What malloc and free need of the thread that calls them. There are two: the process's threads
/// (`process/calls.rs`), which find all of this by themselves and pass nothing on, and [`On`].
///
/// The last four go on where the stack of the program's call is wanted. A caller that knows where
/// that call's return address is passes it on, with the frame pointer that the call came with.
pub trait Caller: Copy {
    /// What the allocator runs on.
    type Os: Os;

    /// The allocator.
    fn allocator(&self) -> &Allocator<Self::Os>;

    /// The thread's heap; one that owns nothing where the thread has none.
    fn heap(&self) -> &Heap;

    /// The thread's heap, which is made where the thread has none. `None` if there is no memory. A
    /// thread whose exit was noticed keeps a heap that owns nothing.
    fn heap_or_start(&self) -> Option<&Heap>;

    /// Makes sure that the options are known.
    fn start(&self);

    /// Goes on in [`through_from`].
    #[inline]
    fn through(self, index: usize, site: usize) -> Pointer {
        through_from(self, index, site, 0, 0)
    }

    /// Goes on in [`refilled_from`].
    #[inline]
    fn refilled(self, address: usize, site: usize, index: usize) -> Pointer {
        refilled_from(self, address, site, index, 0, 0)
    }

    /// Goes on in [`slower_from`].
    #[inline]
    fn slower(self, index: usize, site: usize) -> Pointer {
        slower_from(self, index, site, 0, 0)
    }

    /// Goes on in [`large_from`].
    #[inline]
    fn large(self, size: usize, site: usize) -> Pointer {
        large_from(self, size, site, 0, 0)
    }
}

/// A caller that names its allocator and its heap: for tests, models and the fuzzer.
#[derive(Debug)]
pub struct On<'a, O> {
    /// The allocator.
    pub allocator: &'a Allocator<O>,
    /// A heap that the calling thread holds, or one that owns nothing.
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

/// The calls, as functions of a heap.
#[cfg(feature = "fake-os")]
impl<O: Os> Allocator<O> {
    /// malloc.
    pub fn allocate(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        address(super::malloc::malloc(On { allocator: self, heap }, size, site))
    }

    /// calloc.
    pub fn allocate_zeroed(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        address(super::malloc::calloc(On { allocator: self, heap }, 1, size, site))
    }

    /// Aligned allocation; `align` is a power of two.
    pub fn allocate_aligned(
        &self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: usize,
    ) -> Option<usize> {
        address(super::malloc::aligned(On { allocator: self, heap }, align, size, site))
    }

    /// free.
    pub fn free(&self, heap: &Heap, address: usize, call: crate::report::Call) {
        super::free::free(On { allocator: self, heap }, address, call);
    }
}

#[cfg(feature = "fake-os")]
fn address(block: Pointer) -> Option<usize> {
    (!block.is_null()).then(|| block.expose_provenance())
}
