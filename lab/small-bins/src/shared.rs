//! A heap for all threads, under one lock, and Rust's `GlobalAlloc`.
//!
//! Promised: any thread may free any block. A process may fork at any time, if
//! [`Allocator::before_fork`] and [`Allocator::after_fork`] are called around it, as the preloaded
//! library does. Not promised: calls from a signal handler that interrupts a call.

use crate::heap::{Counts, Heap};
use crate::lock::Lock;
use crate::mapped::{self, MAPPED};
use crate::variant::Variant;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// An allocator of one variant.
#[derive(Debug)]
pub struct Allocator<V: Variant> {
    lock: Lock,
    /// Only used under the lock.
    heap: UnsafeCell<Heap<V>>,
}

// SAFETY: the heap is only used under the lock, and its memory belongs to no thread.
unsafe impl<V: Variant> Sync for Allocator<V> {}

impl<V: Variant> Allocator<V> {
    /// An allocator without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { lock: Lock::new(), heap: UnsafeCell::new(Heap::new()) }
    }

    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut Heap<V>) -> R) -> R {
        // SAFETY: the lock is held, and `work` cannot reach the allocator again.
        self.lock.with(|| work(unsafe { &mut *self.heap.get() }))
    }

    /// What the heap did so far, if its variant counts.
    pub fn counts(&self) -> Counts {
        self.with(|heap| heap.counts())
    }

    /// Checks every invariant of the heap.
    ///
    /// # Errors
    /// As [`Heap::check`].
    pub fn check(&self) -> Result<(), String> {
        self.with(|heap| heap.check())
    }

    /// Takes the lock, so that a fork copies no half-done call.
    pub fn before_fork(&self) {
        self.lock.lock();
    }

    /// Opens the lock again, in the parent and in the child.
    pub fn after_fork(&self) {
        self.lock.unlock();
    }

    /// C's `malloc`; null if there is no memory. errno is not set.
    #[inline(always)]
    pub fn malloc(&self, size: usize) -> *mut u8 {
        if size >= MAPPED {
            return mapped::allocate(0, size);
        }
        self.with(|heap| heap.allocate(size))
    }

    /// C's `calloc` of one object.
    #[inline]
    pub fn calloc(&self, size: usize) -> *mut u8 {
        let block = self.malloc(size);
        if size < MAPPED && !block.is_null() {
            // SAFETY: a fresh block of this size. A mapping is zero.
            unsafe { block.write_bytes(0, size) };
        }
        block
    }

    /// C's `aligned_alloc`, of any size. `align` is a power of two.
    pub fn aligned(&self, align: usize, size: usize) -> *mut u8 {
        if size >= MAPPED || align >= MAPPED {
            return mapped::allocate(align, size);
        }
        self.with(|heap| heap.allocate_aligned(align, size))
    }

    /// C's `free`.
    ///
    /// # Safety
    /// 1. `block` is null, or a live block of this allocator that is not used any more.
    #[inline(always)]
    pub unsafe fn free(&self, block: *mut u8) {
        if block.is_null() {
            return;
        }
        // SAFETY: (1).
        let done = self.with(|heap| unsafe {
            let own = heap.holds(block);
            if own {
                heap.free(block);
            }
            own
        });
        if !done {
            // SAFETY: (1): it has a mapping.
            unsafe { mapped::free(block, V::NAME) };
        }
    }

    /// C's `realloc` of a block that is not null, to a size that is not 0.
    ///
    /// # Safety
    /// 1. `block` is a live block of this allocator, and is not used any more if the result is not
    ///    null.
    pub unsafe fn realloc(&self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: (1).
        let own = self.with(|heap| unsafe {
            heap.holds(block).then(|| (heap.resize(block, size), heap.usable_size(block)))
        });
        let had = match own {
            Some((true, _)) => return block,
            Some((_, had)) => had,
            // SAFETY: (1): it has a mapping.
            None if size >= MAPPED => return unsafe { mapped::resize(block, size, V::NAME) },
            // SAFETY: (1): as above.
            None => unsafe { mapped::usable_size(block, V::NAME) },
        };
        let new = self.malloc(size);
        if !new.is_null() {
            // SAFETY: two live blocks of at least this many bytes; the old one is not used again.
            unsafe {
                block.copy_to_nonoverlapping(new, had.min(size));
                self.free(block);
            }
        }
        new
    }

    /// The usable bytes of a block.
    ///
    /// # Safety
    /// 1. `block` is a live block of this allocator.
    pub unsafe fn usable_size(&self, block: *mut u8) -> usize {
        // SAFETY: (1).
        let own = self.with(|heap| unsafe { heap.holds(block).then(|| heap.usable_size(block)) });
        // SAFETY: (1): a block that the heap does not hold has a mapping.
        own.unwrap_or_else(|| unsafe { mapped::usable_size(block, V::NAME) })
    }
}

impl<V: Variant> Default for Allocator<V> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: blocks have the size and the alignment of their layout, and are no others'. No call
// unwinds.
unsafe impl<V: Variant> GlobalAlloc for Allocator<V> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.aligned(layout.align(), layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: as the caller says.
        unsafe { self.free(block) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= crate::chunk::ALIGN {
            return self.calloc(layout.size());
        }
        let block = self.aligned(layout.align(), layout.size());
        if !block.is_null() {
            // SAFETY: a fresh block of this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= crate::chunk::ALIGN {
            // SAFETY: as the caller says.
            return unsafe { self.realloc(block, size) };
        }
        let new = self.aligned(layout.align(), size);
        if new.is_null() {
            return null_mut();
        }
        // SAFETY: two live blocks of at least this many bytes; the old one is not used again.
        unsafe {
            block.copy_to_nonoverlapping(new, layout.size().min(size));
            self.free(block);
        }
        new
    }
}
