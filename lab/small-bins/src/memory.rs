//! The memory of a heap: one range of addresses that is reserved at the first use.
//!
//! ```text
//! base        ... chunks ...        top        clean        usable             reserved
//! |-----------------------------------|-----------|------------|--------------------|
//!   lists and chunks                   free, kept   not resident  no access yet
//! ```

use crate::chunk::{ALIGN, CACHED, Chunk, FLAGS, LIVE, SMALLEST, WORD};
use crate::fault::Fault;
use crate::links::FIRST;
use crate::variant::Variant;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The addresses that a heap reserves, if the limits of the process allow it: 64 GiB.
const RESERVED: usize = 1 << 36;
/// The least that is worth a heap.
const LEAST: usize = 1 << 20;
/// The step in which the range becomes usable: 128 KiB, as glibc grows its heap.
pub(crate) const STEP: usize = 128 << 10;
/// The size of a page that is always a multiple of the real one, or equal to it.
pub(crate) const PAGE: usize = 4096;

/// The words of the usable part. A thread's cache has a copy, which may be of an earlier moment.
///
/// Invariant: `[0, usable)` can be read and written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    /// Null before the first use.
    base: *mut u8,
    pub(crate) usable: usize,
}

/// The range, and how much of it is in use.
///
/// Invariant: `clean <= usable <= reserved`.
#[derive(Debug)]
pub(crate) struct Memory {
    words: Words,
    reserved: usize,
    /// The first byte that was never used, or was returned to the OS.
    pub(crate) clean: usize,
}

// SAFETY: the range belongs to this value alone, whichever thread has it.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) const fn none() -> Self {
        Self { words: Words::none(), reserved: 0, clean: 0 }
    }

    /// Reserves the range: at most `most` bytes, or half as often as the OS refuses.
    #[cold]
    pub(crate) fn reserve(&mut self, most: Option<usize>) -> bool {
        let mut size = most.unwrap_or(RESERVED);
        while size >= LEAST {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping, which replaces none.
            let base = unsafe { libc::mmap(null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
            if base != libc::MAP_FAILED {
                let words = Words { base: base.cast(), usable: 0 };
                *self = Self { words, reserved: size, clean: 0 };
                return true;
            }
            size /= 2;
        }
        false
    }

    /// Makes `[0, end)` usable. Returns false if the range is too small or the OS refuses.
    #[cold]
    pub(crate) fn use_up_to(&mut self, end: usize) -> bool {
        let Some(end) = end.checked_next_multiple_of(STEP).filter(|end| *end <= self.reserved)
        else {
            return false;
        };
        // SAFETY: inside of the range, of which nothing beyond `usable` is in use.
        let done = unsafe {
            let start = self.base.add(self.usable).cast();
            libc::mprotect(start, end - self.usable, libc::PROT_READ | libc::PROT_WRITE)
        };
        if done != 0 {
            return false;
        }
        self.words.usable = end;
        true
    }

    /// Returns the pages of `[from, clean)` to the OS; they stay usable, and are zero.
    #[cold]
    pub(crate) fn release_from(&mut self, from: usize) {
        let from = from.next_multiple_of(PAGE);
        if from >= self.clean {
            return;
        }
        let length = self.clean.next_multiple_of(PAGE).min(self.usable) - from;
        // SAFETY: free memory of this heap, of which the content is not needed.
        crate::mapped::keeping_errno(|| unsafe {
            libc::madvise(self.base.add(from).cast(), length, libc::MADV_DONTNEED);
        });
        self.clean = from;
    }
}

impl Deref for Memory {
    type Target = Words;

    #[inline(always)]
    fn deref(&self) -> &Words {
        &self.words
    }
}

impl Words {
    pub(crate) const fn none() -> Self {
        Self { base: null_mut(), usable: 0 }
    }

    /// The address of an offset.
    #[inline(always)]
    pub(crate) fn pointer(&self, at: usize) -> *mut u8 {
        self.base.wrapping_add(at)
    }

    /// The offset of an address; of an address outside of the range it is larger than the range.
    #[inline(always)]
    pub(crate) fn offset(&self, address: *mut u8) -> usize {
        address.addr().wrapping_sub(self.base.addr())
    }

    /// Reads a word.
    ///
    /// # Safety
    /// 1. `at` is a multiple of 8, and the word is inside of the usable part.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, at: usize) -> usize {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.usable);
        // SAFETY: (1), and the usable part is readable (invariant).
        unsafe { self.base.add(at).cast::<usize>().read() }
    }

    /// Writes a word.
    ///
    /// # Safety
    /// 1. As `get`.
    /// 2. The word is no part of a live block.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, at: usize, value: usize) {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.usable);
        // SAFETY: (1), and the usable part is writable (invariant). (2) of the caller.
        unsafe { self.base.add(at).cast::<usize>().write(value) };
    }

    /// Word 0 of a chunk. The holder of the lock writes it. A thread that has the block, or has it
    /// in its cache, may read it at the same time: it uses only what does not change meanwhile.
    ///
    /// # Safety
    /// 1. As `tag`.
    #[inline(always)]
    unsafe fn atomic(&self, chunk: Chunk) -> &AtomicUsize {
        debug_assert!(chunk.0 % ALIGN == WORD && chunk.0 + WORD <= self.usable);
        // SAFETY: (1): readable, writable, aligned, and only used by atomic accesses.
        unsafe { AtomicUsize::from_ptr(self.base.add(chunk.0).cast()) }
    }

    /// Word 0 of a chunk.
    ///
    /// # Safety
    /// 1. The chunk is inside of the usable part.
    #[inline(always)]
    pub(crate) unsafe fn tag(&self, chunk: Chunk) -> usize {
        // SAFETY: (1).
        unsafe { self.atomic(chunk) }.load(Relaxed)
    }

    /// Writes word 0 of a chunk.
    ///
    /// # Safety
    /// 1. As `tag`.
    #[inline(always)]
    pub(crate) unsafe fn set_tag(&self, chunk: Chunk, tag: usize) {
        // SAFETY: (1), and word 0 is never part of a block.
        unsafe { self.atomic(chunk) }.store(tag, Relaxed);
    }

    /// The chunk of a block, its size, and its tag; or what is wrong with it, as far as its words
    /// tell. No chunk ends above `end`, which is in the usable part.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, or a mistake that the checks see.
    #[inline(always)]
    pub(crate) unsafe fn live<V: Variant>(
        &self,
        end: usize,
        block: *mut u8,
    ) -> Result<(Chunk, usize, usize), Fault> {
        let at = self.offset(block);
        // An offset below the first block wraps around, and is too large.
        if at.wrapping_sub(FIRST + WORD) >= end.saturating_sub(FIRST) || !at.is_multiple_of(ALIGN) {
            return Err(Fault::Foreign { block: block.addr() });
        }
        let chunk = Chunk(at - WORD);
        // SAFETY: between the first chunk and `end`, as just checked.
        let tag = unsafe { self.tag(chunk) };
        if tag & LIVE == 0 {
            return Err(Fault::Freed { block: block.addr() });
        }
        let size = tag & !FLAGS;
        if size < SMALLEST || size > end - chunk.0 {
            return Err(Fault::Tag { block: block.addr() });
        }
        // SAFETY: the second word of a block, which is below `end`.
        if V::CACHES && size <= CACHED && unsafe { self.get(at + WORD) } == chunk.mark() {
            return Err(Fault::Freed { block: block.addr() });
        }
        Ok((chunk, size, tag))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.base.is_null() {
            // SAFETY: the range is this value's, and goes with it.
            unsafe { libc::munmap(self.base.cast(), self.reserved) };
        }
    }
}
