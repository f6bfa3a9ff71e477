//! What a user may ask for as addresses are mapped: that they stay in memory, and that they have a
//! name.

use super::syscall::syscall;
use super::{Error, Linux};
use core::ffi::CStr;

/// `MLOCK_ONFAULT`: what is not there yet is locked when it comes.
const ON_FAULT: usize = 1;

/// Part of [`super::Os`].
///
/// # Safety
///
/// An implementation promises:
/// 1. nothing changes what any page reads as.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Wishes {
    /// From now on pages of a range, once they are there, are not sent out to swap. Refused where
    /// that is more than the process may lock.
    fn lock(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Gives the mappings in a range a name, which `/proc/PID/maps` shows; there may be holes.
    fn name(&self, addr: usize, len: usize, name: &CStr) -> Result<(), Error>;
}

// SAFETY: (1) both calls change what the kernel knows of a range, and no page; (2) raw system
// calls.
unsafe impl Wishes for Linux {
    fn lock(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) touches no memory.
        let code = unsafe { syscall(libc::SYS_mlock2, [addr, len, ON_FAULT, 0, 0, 0]) };
        if code == 0 { Ok(()) } else { Err(Error::NoMemory) }
    }

    fn name(&self, addr: usize, len: usize, name: &CStr) -> Result<(), Error> {
        let (set, kind) = (libc::PR_SET_VMA as usize, libc::PR_SET_VMA_ANON_NAME as usize);
        let args = [set, kind, addr, len, name.as_ptr().expose_provenance(), 0];
        // SAFETY: (1) the kernel reads the name, and writes nothing.
        let code = unsafe { syscall(libc::SYS_prctl, args) };
        match -code as i32 {
            // Holes in the range; what is there has its name.
            0 | libc::ENOMEM => Ok(()),
            _ => Err(Error::Unsupported),
        }
    }
}
