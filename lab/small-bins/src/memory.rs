//! The memory of a heap: one range of addresses that is reserved at the first use.
//!
//! ```text
//! base        ... chunks ...        top        clean        usable             reserved
//! |-----------------------------------|-----------|------------|--------------------|
//!   lists and chunks                   free, kept   not resident  no access yet
//! ```

use crate::chunk::Chunk;
use std::ptr::null_mut;

/// The addresses that a heap reserves, if the limits of the process allow it: 64 GiB.
const RESERVED: usize = 1 << 36;
/// The least that is worth a heap.
const LEAST: usize = 1 << 20;
/// The step in which the range becomes usable: 128 KiB, as glibc grows its heap.
pub(crate) const STEP: usize = 128 << 10;
/// The size of a page that is always a multiple of the real one, or equal to it.
pub(crate) const PAGE: usize = 4096;

/// The range, and how much of it is in use.
///
/// Invariant: `clean <= usable <= reserved`. `[0, usable)` can be read and written.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Null before the first use.
    base: *mut u8,
    usable: usize,
    reserved: usize,
    /// The first byte that was never used, or was returned to the OS.
    clean: usize,
}

// SAFETY: the range belongs to this value alone, whichever thread has it.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) const fn none() -> Self {
        Self { base: null_mut(), usable: 0, reserved: 0, clean: 0 }
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
                *self = Self { base: base.cast(), usable: 0, reserved: size, clean: 0 };
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
        self.usable = end;
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

    /// The bytes that can be read and written.
    #[inline(always)]
    pub(crate) fn usable(&self) -> usize {
        self.usable
    }

    /// The first byte that was never used, or was returned.
    #[inline(always)]
    pub(crate) fn clean(&self) -> usize {
        self.clean
    }

    /// Notes that memory up to `end` is used.
    #[inline(always)]
    pub(crate) fn set_clean(&mut self, end: usize) {
        self.clean = end;
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
    pub(crate) unsafe fn put(&mut self, at: usize, value: usize) {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.usable);
        // SAFETY: (1), and the usable part is writable (invariant). (2) of the caller.
        unsafe { self.base.add(at).cast::<usize>().write(value) };
    }

    /// Word 0 of a chunk.
    ///
    /// # Safety
    /// 1. The chunk is inside of the usable part.
    #[inline(always)]
    pub(crate) unsafe fn tag(&self, chunk: Chunk) -> usize {
        // SAFETY: (1), and chunks are aligned to words.
        unsafe { self.get(chunk.0) }
    }

    /// Writes word 0 of a chunk.
    ///
    /// # Safety
    /// 1. As `tag`.
    #[inline(always)]
    pub(crate) unsafe fn set_tag(&mut self, chunk: Chunk, tag: usize) {
        // SAFETY: (1), and word 0 is never part of a block.
        unsafe { self.put(chunk.0, tag) };
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
