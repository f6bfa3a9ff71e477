//! Bookkeeping that stays out of the allocator under test: slices in private mappings.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// Types of which all-zero bytes are a value.
///
/// # Safety
/// All-zero bytes must be a valid value, and dropping one must be a no-op.
pub unsafe trait Plain {}

macro_rules! plain {
    ($($type:ty),*) => {
        // SAFETY: zero, or null, is a value of each, and none has drop glue.
        $(unsafe impl Plain for $type {})*
    };
}
plain!(u8, u32, u64, usize, *mut u8, AtomicUsize, AtomicPtr<u8>);

/// A zeroed slice in a separate mapping, resident from the start so that no page fault of the
/// bookkeeping falls into a timed loop.
pub struct Mapped<T: Plain> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the mapping is owned by this value alone. The pointers that may be stored in it belong to
// the workload, which hands each block to one thread at a time.
unsafe impl<T: Plain> Send for Mapped<T> {}
// SAFETY: shared access gives `&[T]` only; of a raw pointer that is a copy of its value.
unsafe impl<T: Plain> Sync for Mapped<T> {}

impl<T: Plain> Mapped<T> {
    /// Maps `len` zeroed values.
    pub fn new(len: usize) -> Self {
        assert!(len > 0, "an empty mapping");
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len * size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "no memory for the bookkeeping");
        Self { start: NonNull::new(start.cast()).expect("mmap returned null"), len }
    }
}

impl<T: Plain> Deref for Mapped<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` valid values (zero is one) and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Mapped<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped, and no borrow of it can be left now.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_starts_zeroed_and_keeps_what_is_written() {
        let mut words = Mapped::<u64>::new(10_000);
        assert!(words.iter().all(|&w| w == 0));
        words[9_999] = 5;
        assert_eq!((words.len(), words[9_999]), (10_000, 5));
    }
}
