//! Pages of a Unix system.

use super::Pages;
use core::ptr::null_mut;

/// Pages by `mmap`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemPages;

// SAFETY: 1. the kernel gives a mapping that no other code has. 2. A private anonymous mapping is
// zero where it has not been written since it was mapped or given back: `decommit` says what makes
// it so.
unsafe impl Pages for SystemPages {
    /// The largest page that is common; what is asked of the system is a multiple of any smaller
    /// one.
    const PAGE: usize = 64 << 10;

    fn reserve(&mut self, size: usize) -> Option<*mut u8> {
        // SAFETY: a new mapping, where the kernel chooses.
        unsafe { map(null_mut(), size, 0) }
    }

    unsafe fn commit(&mut self, start: *mut u8, size: usize) -> bool {
        // SAFETY: of what was reserved (by 1).
        unsafe { libc::mprotect(start.cast(), size, libc::PROT_READ | libc::PROT_WRITE) == 0 }
    }

    unsafe fn decommit(&mut self, start: *mut u8, size: usize) -> bool {
        // SAFETY: of what was reserved (by 1), and not used any more. On Linux private pages that
        // are not needed are zero when they come back, and the addresses are never without a
        // mapping; if they can still be accessed, nothing is lost. Elsewhere `MADV_DONTNEED` may
        // keep the content, and a new mapping has none; if there can be none, the old one stays.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        unsafe {
            let gone = libc::madvise(start.cast(), size, libc::MADV_DONTNEED) == 0;
            gone && {
                libc::mprotect(start.cast(), size, libc::PROT_NONE);
                true
            }
        }
        // SAFETY: as above.
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        unsafe {
            map(start, size, libc::MAP_FIXED).is_some()
        }
    }

    unsafe fn release(&mut self, start: *mut u8, size: usize) {
        // SAFETY: all of what was reserved (by 1), and not used any more.
        unsafe { libc::munmap(start.cast(), size) };
    }
}

/// # Safety
/// 1. With `MAP_FIXED`, what is there belongs to the caller alone, and is not used any more.
unsafe fn map(start: *mut u8, size: usize, flags: libc::c_int) -> Option<*mut u8> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
    // SAFETY: by 1.
    let mapped = unsafe { libc::mmap(start.cast(), size, libc::PROT_NONE, flags, -1, 0) };
    (mapped != libc::MAP_FAILED).then_some(mapped.cast())
}
