//! The library's own memory, which is separate from the memory that it hands out.

use super::super::syscall::syscall;
use super::{open, pid};
use crate::os::{hooks, keys};
use core::ffi::c_int;

/// Copies memory of this process, which may be unmapped. Returns the number of bytes copied.
pub fn peek(address: usize, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: into.len() };
    let args = [pid(), &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: the kernel writes only to `into`, and reads only mapped memory.
    let got = unsafe { syscall(libc::SYS_process_vm_readv, args) };
    if got < 0 { 0 } else { got as usize }
}

/// Opens the kernel's list of this process's pages. Returns `None` if it may not be read.
pub fn open_pages() -> Option<c_int> {
    open(c"/proc/self/pagemap", libc::O_RDONLY).ok()
}

/// Reads the entries of pages from the list, beginning with the page of this number. Returns how
/// many were read.
pub fn read_pages(pages: c_int, first: usize, into: &mut [u64]) -> usize {
    const ENTRY: usize = size_of::<u64>();
    let args =
        [pages as usize, into.as_mut_ptr() as usize, into.len() * ENTRY, first * ENTRY, 0, 0];
    // SAFETY: the kernel writes only to `into`.
    let got = unsafe { syscall(libc::SYS_pread64, args) };
    if got < 0 { 0 } else { got as usize / ENTRY }
}

/// Maps `bytes` bytes of zeros at any place, until [`unmap`]. Only touched pages use memory.
/// Nothing is reserved for the others.
pub fn scratch(bytes: usize) -> Option<usize> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping changes no existing one.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (got > 0).then_some(got as usize)
}

/// Unmaps memory of [`scratch`].
pub fn unmap(address: usize, bytes: usize) {
    // SAFETY: callers own the range, and no thread uses it any more.
    unsafe { syscall(libc::SYS_munmap, [address, bytes, 0, 0, 0, 0]) };
}

/// Reserves `bytes` bytes of addresses, which cannot be accessed.
pub fn reserve(bytes: usize) -> Option<usize> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let protection = libc::PROT_NONE as usize;
    // SAFETY: a new mapping changes no existing one.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (got > 0).then_some(got as usize)
}

/// Makes pages of [`reserve`] readable and writable, with zeros at first, or makes pages of
/// [`seal`] writable again. Returns true if it could.
pub fn allow(address: usize, bytes: usize) -> bool {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: callers own the range, and more rights do no harm.
    unsafe { syscall(libc::SYS_mprotect, [address, bytes, protection, 0, 0, 0]) == 0 }
}

/// Ends `allow`, and discards the contents of the pages.
pub fn forbid(address: usize, bytes: usize) {
    // SAFETY: callers own the range, and no thread may use it any more. If there are too many
    // mappings to split this one, it stays accessible and empty.
    unsafe {
        let _ = hooks::discard(address, bytes, keys::NONE);
        syscall(libc::SYS_mprotect, [address, bytes, libc::PROT_NONE as usize, 0, 0, 0]);
    }
}

/// Forbids all access to pages, and keeps their contents. Returns true if it could.
pub fn shut(address: usize, bytes: usize) -> bool {
    let protection = libc::PROT_NONE as usize;
    // SAFETY: callers own the range. A thread that accesses it meanwhile faults, and gets access
    // again.
    unsafe { syscall(libc::SYS_mprotect, [address, bytes, protection, 0, 0, 0]) == 0 }
}

/// Makes pages of the library's own data read-only, until [`allow`]. Returns true if it could.
///
/// # Safety
/// 1. Nothing writes to the range afterwards, and it is whole pages.
pub unsafe fn seal(addr: usize, len: usize) -> bool {
    let read = libc::PROT_READ as usize;
    // SAFETY: duty 1.
    unsafe { syscall(libc::SYS_mprotect, [addr, len, read, 0, 0, 0]) == 0 }
}
