//! What the address sanitizer is notified of, with the feature `sanitizer`: which bytes are in live
//! blocks. All other bytes of a span are closed. So the sanitizer reports accesses to them: beyond
//! the end of a block, before it, or after it was freed. The heap opens one of its words while it
//! accesses the word. Without the feature there is nothing of this.
//!
//! The sanitizer knows of every eight bytes how many of the first may be used. So where words are
//! of four bytes, what lies before a block in the same eight is open too.

#[cfg(feature = "sanitizer")]
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const u8, size: usize);
    fn __asan_unpoison_memory_region(start: *const u8, size: usize);
    fn __asan_address_is_poisoned(start: *const u8) -> i32;
}

/// Only the heap uses these bytes from now on.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) fn close(start: *const u8, size: usize) {
    #[cfg(feature = "sanitizer")]
    // SAFETY: changes what is reported, and no memory.
    unsafe {
        __asan_poison_memory_region(start, size);
    }
    #[cfg(not(feature = "sanitizer"))]
    let _ = (start, size);
}

/// These bytes may be used.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) fn open(start: *const u8, size: usize) {
    #[cfg(feature = "sanitizer")]
    // SAFETY: changes what is reported, and no memory.
    unsafe {
        __asan_unpoison_memory_region(start, size);
    }
    #[cfg(not(feature = "sanitizer"))]
    let _ = (start, size);
}

/// Does what the heap does to one of its words.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) fn own<R>(word: *const u8, size: usize, access: impl FnOnce() -> R) -> R {
    #[cfg(feature = "sanitizer")]
    {
        // SAFETY: only asks.
        let closed = |at: *const u8| unsafe { __asan_address_is_poisoned(at) } != 0;
        let eight = word.wrapping_sub(word.addr() % 8);
        let (start, size) = if closed(eight) { (eight, 8) } else { (word, size) };
        if closed(start) {
            open(start, size);
            let result = access();
            close(start, size);
            return result;
        }
    }
    let _ = (word, size);
    access()
}
