//! Memory of the library's own, mapped apart from what it hands out.

use super::super::syscall::syscall;
use super::pid;

/// Copies memory of this process that may not be there; returns the number of bytes copied.
pub fn peek(address: usize, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: into.len() };
    let args = [pid(), &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: the kernel writes to `into` alone, and reads what is mapped.
    let got = unsafe { syscall(libc::SYS_process_vm_readv, args) };
    if got < 0 { 0 } else { got as usize }
}

/// Maps `bytes` of zeros where the kernel likes, until [`give_back`]. Only what is touched
/// takes memory, and nothing is set aside for the rest.
pub fn scratch(bytes: usize) -> Option<usize> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping changes none that is there.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (got > 0).then_some(got as usize)
}

/// Gives back what [`scratch`] gave.
pub fn give_back(address: usize, bytes: usize) {
    // SAFETY: callers own the range, and no thread uses it any more.
    unsafe { syscall(libc::SYS_munmap, [address, bytes, 0, 0, 0, 0]) };
}

/// Reserves `bytes` bytes of addresses, none of which can be reached.
pub fn reserve(bytes: usize) -> Option<usize> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let protection = libc::PROT_NONE as usize;
    // SAFETY: a new mapping changes none that is there.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (got > 0).then_some(got as usize)
}

/// Lets pages that [`reserve`] gave be read and written, zero at first, or those of [`seal`] be
/// written again. Returns true if that was possible.
pub fn allow(address: usize, bytes: usize) -> bool {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: callers own the range, and more rights do no harm.
    unsafe { syscall(libc::SYS_mprotect, [address, bytes, protection, 0, 0, 0]) == 0 }
}

/// Takes that back, and with it what the pages hold.
pub fn forbid(address: usize, bytes: usize) {
    let advice = libc::MADV_DONTNEED as usize;
    // SAFETY: callers own the range, and no thread may use it any more. Where there are too many
    // mappings to split this one, it stays reachable and empty.
    unsafe {
        syscall(libc::SYS_madvise, [address, bytes, advice, 0, 0, 0]);
        syscall(libc::SYS_mprotect, [address, bytes, libc::PROT_NONE as usize, 0, 0, 0]);
    }
}

/// Takes the rights to pages away, and leaves what they hold; returns true if that was possible.
pub fn shut(address: usize, bytes: usize) -> bool {
    let protection = libc::PROT_NONE as usize;
    // SAFETY: callers own the range; a thread that reaches it meanwhile faults, and is let in
    // again.
    unsafe { syscall(libc::SYS_mprotect, [address, bytes, protection, 0, 0, 0]) == 0 }
}

/// Makes pages of the library's own data read-only, until [`allow`].
///
/// # Safety
/// 1. Nothing writes to the range afterwards, and it is whole pages.
pub unsafe fn seal(addr: usize, len: usize) -> bool {
    let read = libc::PROT_READ as usize;
    // SAFETY: duty 1.
    unsafe { syscall(libc::SYS_mprotect, [addr, len, read, 0, 0, 0]) == 0 }
}
