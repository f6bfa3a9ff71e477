//! A heap for all threads, under one lock, a cache for each thread, and Rust's `GlobalAlloc`.
//!
//! Promised: any thread may free any block. A process may fork at any time, if
//! [`Allocator::before_fork`] is called before, and [`Allocator::after_fork`] or
//! [`Allocator::after_fork_in_child`] after it, as the preloaded library does. Not promised: calls
//! from a signal handler that interrupts a call.

use crate::cache::Cache;
use crate::chunk::ALIGN;
use crate::heap::{Counts, Heap};
use crate::lock::Lock;
use crate::mapped::{self, MAPPED};
use crate::memory::PAGE;
use crate::thread::{self, NO_CACHE, Thread};
use crate::variant::Variant;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};

/// An allocator of one variant. Threads have caches of it, so it lives as long as the process.
#[derive(Debug)]
pub struct Allocator<V: Variant> {
    lock: Lock,
    /// Only used under the lock.
    heap: UnsafeCell<Heap<V>>,
    /// The first thread that has a cache of this allocator. Only used under the lock.
    threads: UnsafeCell<*mut Thread>,
}

// SAFETY: the heap and the list of threads are only used under the lock, and belong to no thread.
unsafe impl<V: Variant> Sync for Allocator<V> {}

impl<V: Variant> Allocator<V> {
    /// An allocator without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lock: Lock::new(),
            heap: UnsafeCell::new(Heap::new(None)),
            threads: UnsafeCell::new(null_mut()),
        }
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

    /// The cache of the calling thread, if it is of this allocator.
    #[inline(always)]
    fn cache(&'static self) -> Option<NonNull<Cache>> {
        // SAFETY: the value of this thread, to which there is no other reference.
        let thread = unsafe { &mut *thread::current() };
        let own = V::CACHES && thread.owner == self.address();
        own.then_some(NonNull::from(&mut thread.cache))
    }

    fn address(&'static self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// Makes the cache of the calling thread one of this allocator. Returns `None` if the thread
    /// must not have a cache.
    #[cold]
    #[inline(never)]
    fn join(&'static self) -> Option<NonNull<Cache>> {
        let thread = thread::current();
        // SAFETY: the value of this thread, which is in no call with its cache.
        unsafe {
            if (*thread).owner == NO_CACHE || !thread::take(thread) {
                return None;
            }
            (*thread).leave = Some(Self::leave);
            (*thread).owner = self.address();
            self.with(|heap| {
                (*thread).cache.renew(heap);
                (*thread).next = self.threads.get().replace(thread);
            });
        }
        self.cache()
    }

    /// Empties the cache of the calling thread, and takes it out of the list.
    ///
    /// # Safety
    /// 1. `thread` is that of the calling thread. Its owner is an allocator of this variant.
    unsafe fn leave(thread: &mut Thread) {
        // SAFETY: (1): allocators live as long as the process.
        let owner: &'static Self = unsafe { &*std::ptr::with_exposed_provenance(thread.owner) };
        owner.with(|heap| {
            // SAFETY: (1), under the lock: a thread that has joined is in the list.
            unsafe {
                thread.cache.empty(heap);
                let mut place = owner.threads.get();
                while !std::ptr::eq(*place, thread) {
                    place = &raw mut (**place).next;
                }
                *place = thread.next;
            }
        });
    }

    /// Checks every invariant of the heap and the caches. Returns the number of blocks in caches.
    ///
    /// # Errors
    /// As [`Heap::check`] and [`Cache::check`].
    ///
    /// # Safety
    /// 1. No other thread is in a call.
    pub unsafe fn check(&'static self) -> Result<usize, String> {
        self.with(|heap| {
            let mut cached = 0;
            // SAFETY: (1). Under the lock, a thread that is in the list does not exit.
            unsafe {
                let mut next = *self.threads.get();
                while let Some(thread) = next.as_ref() {
                    cached += thread.cache.check::<V>()?;
                    next = thread.next;
                }
            }
            heap.check().map(|()| cached)
        })
    }

    /// Takes the lock, so that a fork copies no half-done call of the heap.
    pub fn before_fork(&self) {
        // SAFETY: the value of this thread, which is in no other call.
        unsafe { thread::leave(&mut *thread::current()) };
        self.lock.lock();
    }

    /// Opens the lock again, in the parent.
    pub fn after_fork(&self) {
        self.lock.unlock();
    }

    /// Frees what is in the caches of threads that the child does not have, and opens the lock.
    /// What such a thread was about to put into its cache, or had just taken out, is lost to the
    /// child.
    pub fn after_fork_in_child(&self) {
        // SAFETY: the lock is held since `before_fork`, and this is the only thread. The memory of
        // the other threads is still there.
        unsafe {
            let mut next = self.threads.get().replace(null_mut());
            while let Some(thread) = next.as_mut() {
                thread.cache.empty(&mut *self.heap.get());
                next = thread.next;
            }
        }
        self.lock.unlock();
    }

    /// C's `malloc`; null if there is no memory. errno is not set.
    #[inline(always)]
    pub fn malloc(&'static self, size: usize) -> *mut u8 {
        if let Some(size) = Cache::size::<V>(size) {
            // SAFETY: the cache of this thread, which is of this heap.
            let found = self.cache().and_then(|mut it| unsafe { it.as_mut().take::<V>(size) });
            return found.unwrap_or_else(|| self.fill(size));
        }
        if size >= MAPPED {
            return mapped::allocate(0, size);
        }
        self.with(|heap| heap.allocate(size))
    }

    /// Returns a block that the thread's cache does not have.
    #[inline(never)]
    fn fill(&'static self, size: usize) -> *mut u8 {
        let cache = self.cache().or_else(|| self.join());
        self.with(|heap| match cache {
            // SAFETY: the cache of this thread, which is of this heap.
            Some(mut cache) => unsafe { cache.as_mut().fill(heap, size) },
            None => heap.allocate_chunk(size),
        })
    }

    /// C's `aligned_alloc`, of any size. `align` is a power of two.
    pub fn aligned(&'static self, align: usize, size: usize) -> *mut u8 {
        if align <= ALIGN {
            return self.malloc(size);
        }
        if size >= MAPPED || align >= MAPPED {
            return mapped::allocate(align, size);
        }
        self.with(|heap| heap.allocate_aligned(align, size))
    }

    /// A block as `aligned` returns it, all zero.
    #[inline]
    pub fn zeroed(&'static self, align: usize, size: usize) -> *mut u8 {
        let block = self.aligned(align, size);
        if size < MAPPED && align < MAPPED && !block.is_null() {
            // SAFETY: a fresh block of this size. A mapping is zero.
            unsafe { block.write_bytes(0, size) };
        }
        block
    }

    /// C's `free`.
    ///
    /// # Safety
    /// 1. `block` is null, or a live block of this allocator that is not used any more.
    #[inline(always)]
    pub unsafe fn free(&'static self, block: *mut u8) {
        if block.is_null() {
            return;
        }
        // SAFETY: (1); the cache of this thread, which is of this heap.
        if !self.cache().is_some_and(|mut it| unsafe { it.as_mut().put::<V>(block) }) {
            // SAFETY: (1).
            unsafe { self.give(block) };
        }
    }

    /// Frees a block that the thread's cache does not take.
    ///
    /// # Safety
    /// 1. As `free`, and `block` is not null.
    #[inline(never)]
    unsafe fn give(&'static self, block: *mut u8) {
        let cache = if V::CACHES { self.cache().or_else(|| self.join()) } else { None };
        // SAFETY: (1); the cache of this thread, which is of this heap.
        let done = self.with(|heap| unsafe {
            let own = heap.holds(block);
            match cache {
                Some(mut cache) if own => cache.as_mut().flush(heap, block),
                None if own => heap.free(block),
                _ => {}
            }
            own
        });
        if !done {
            // SAFETY: (1): it has a mapping.
            unsafe { mapped::free(block, V::NAME) };
        }
    }

    /// C's `realloc` of a block that is not null, to a size that is not 0. The block is, and stays,
    /// at a multiple of `align`.
    ///
    /// # Safety
    /// 1. `block` is a live block of this allocator, and is not used any more if the result is not
    ///    null.
    pub unsafe fn realloc(&'static self, block: *mut u8, align: usize, size: usize) -> *mut u8 {
        // SAFETY: (1).
        let own = self.with(|heap| unsafe {
            heap.holds(block).then(|| (heap.resize(block, size), heap.usable_size(block)))
        });
        let had = match own {
            Some((true, _)) => return block,
            Some((_, had)) => had,
            // SAFETY: (1): it has a mapping, which moves by pages.
            None if size >= MAPPED && align <= PAGE => unsafe {
                return mapped::resize(block, size, V::NAME);
            },
            // SAFETY: (1): as above.
            None => unsafe { mapped::usable_size(block, V::NAME) },
        };
        let new = self.aligned(align, size);
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
unsafe impl<V: Variant> GlobalAlloc for &'static Allocator<V> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.aligned(layout.align(), layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: as the caller says.
        unsafe { self.free(block) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.zeroed(layout.align(), layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller says.
        unsafe { Allocator::realloc(self, block, layout.align(), size) }
    }
}
