//! Options for mapped addresses that a user may choose: the pages stay in memory, or the mappings
//! have a name.

use super::syscall::syscall;
use super::{Error, Linux};
use core::ffi::CStr;

/// `MADV_DONTNEED_LOCKED` (Linux 5.18).
pub(super) const DONTNEED_LOCKED: usize = 24;
/// `MLOCK_ONFAULT`: a missing page is locked when it is first accessed.
const ON_FAULT: usize = 1;

/// The part of [`super::Os`] for mapping options.
///
/// # Safety
///
/// An implementation promises:
/// 1. nothing changes what any page reads as, but for pages that `release_locked` gets.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait MappingOptions {
    /// Keeps the pages of a range out of swap, from the moment when they are present. Fails if the
    /// process may not lock that much.
    fn lock(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Releases the pages of a range that the process has locked. Each is locked again when it is
    /// next accessed, and reads as zero. Fails if the kernel cannot do that; the pages stay then.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object and its contents are not needed any more.
    unsafe fn release_locked(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Gives the mappings in a range a name, which `/proc/PID/maps` shows. The range may have
    /// holes.
    fn name(&self, addr: usize, len: usize, name: &CStr) -> Result<(), Error>;
}

// SAFETY: (1) the other calls change the kernel's record of a range, and no page; (2) raw system
// calls.
unsafe impl MappingOptions for Linux {
    fn lock(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) changes no memory.
        let code = unsafe { syscall(libc::SYS_mlock2, [addr, len, ON_FAULT, 0, 0, 0]) };
        if code == 0 { Ok(()) } else { Err(Error::NoMemory) }
    }

    unsafe fn release_locked(&self, addr: usize, len: usize) -> Result<(), Error> {
        self.lock(addr, len)?;
        // SAFETY: (1) the caller's duty 1.
        let code = unsafe { syscall(libc::SYS_madvise, [addr, len, DONTNEED_LOCKED, 0, 0, 0]) };
        if code == 0 { Ok(()) } else { Err(Error::Unsupported) }
    }

    fn name(&self, addr: usize, len: usize, name: &CStr) -> Result<(), Error> {
        let (set, kind) = (libc::PR_SET_VMA as usize, libc::PR_SET_VMA_ANON_NAME as usize);
        let args = [set, kind, addr, len, name.as_ptr().expose_provenance(), 0];
        // SAFETY: (1) the kernel reads the name, and writes nothing.
        let code = unsafe { syscall(libc::SYS_prctl, args) };
        match -code as i32 {
            // The range has holes; its mappings have the name.
            0 | libc::ENOMEM => Ok(()),
            _ => Err(Error::Unsupported),
        }
    }
}
