//! Memory of our own, from the kernel.

use std::ptr::null_mut;

/// `bytes` zeroed bytes at the start of a page, or null.
pub fn map(bytes: usize) -> *mut u8 {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing else.
    let place = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if place == libc::MAP_FAILED { null_mut() } else { place.cast() }
}

/// Gives a mapping back.
///
/// # Safety
/// 1. `place` and `bytes` are those of [`map`], and the memory is not used any more.
pub unsafe fn unmap(place: *mut u8, bytes: usize) {
    // SAFETY: (1) the caller's.
    unsafe { libc::munmap(place.cast(), bytes) };
}

/// Puts `errno` back when dropped: a recorded call must leave it as the allocator behind did.
pub struct Errno(i32);

impl Errno {
    /// Keeps the present value.
    pub fn keep() -> Errno {
        // SAFETY: libc's errno is a thread-local int.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
