//! userfaultfd: a descriptor by which the kernel reports, delays or records accesses to memory. By
//! raw system calls.

use super::Error;
use super::process::{close, open as open_file};
use super::syscall::syscall;
use core::ffi::c_int;

pub(super) const API: usize = 0xC018_AA3F;
pub(super) const REGISTER: usize = 0xC020_AA00;
pub(super) const UNREGISTER: usize = 0x8010_AA01;
pub(super) const WAKE: usize = 0x8010_AA02;
/// The request to `/dev/userfaultfd` for a new descriptor.
const NEW_FROM_DEVICE: usize = 0xAA00;
/// The version of the interface.
const VERSION: u64 = 0xAA;
/// The flag of a descriptor that does not report the kernel's own accesses. Every process may have
/// one.
pub(super) const USER_MODE_ONLY: c_int = 1;

/// Makes a request. Its structure is read, and may be written.
pub(super) fn control<T>(file: c_int, request: usize, argument: &mut T) -> Result<usize, Error> {
    let argument = (&raw mut *argument).expose_provenance();
    // SAFETY: callers pass the request's own structure. Its pointers lead to memory of the length
    // that it states.
    check(unsafe { syscall(libc::SYS_ioctl, [file as usize, request, argument, 0, 0, 0]) })
}

/// Converts the result of a system call.
pub(super) fn check(code: isize) -> Result<usize, Error> {
    match code {
        -4095..0 if -code as i32 == libc::ENOMEM => Err(Error::NoMemory),
        -4095..0 => Err(Error::Unsupported),
        _ => Ok(code as usize),
    }
}

/// Opens a descriptor with these flags and features. Its number is at least `least`, above those
/// that programs check, unless no descriptor may be that high. A descriptor that reports the
/// kernel's own accesses may also come from `/dev/userfaultfd`.
pub(super) fn open(flags: c_int, features: u64, least: usize) -> Result<c_int, Error> {
    let wanted = (flags | libc::O_CLOEXEC) as usize;
    // SAFETY: only makes a descriptor.
    let mut made = check(unsafe { syscall(libc::SYS_userfaultfd, [wanted, 0, 0, 0, 0, 0]) });
    if made.is_err() && flags & USER_MODE_ONLY == 0 {
        let device = open_file(c"/dev/userfaultfd", libc::O_RDWR).or(Err(Error::Unsupported))?;
        let args = [device as usize, NEW_FROM_DEVICE, wanted, 0, 0, 0];
        // SAFETY: only makes a descriptor.
        made = check(unsafe { syscall(libc::SYS_ioctl, args) });
        close(device);
    }
    let file = made? as c_int;
    if let Err(error) = control(file, API, &mut [VERSION, features, 0]) {
        close(file);
        return Err(error);
    }
    let above = [file as usize, libc::F_DUPFD_CLOEXEC as usize, least, 0, 0, 0];
    // SAFETY: a second descriptor for the same file.
    let Ok(high) = check(unsafe { syscall(libc::SYS_fcntl, above) }) else { return Ok(file) };
    close(file);
    Ok(high as c_int)
}

/// Returns true if a descriptor is one of this kind, as far as that can be checked. The program may
/// have closed it and opened something else, which does not know the request.
pub(super) fn is_open(file: c_int) -> bool {
    // No thread waits at that address.
    control(file, WAKE, &mut [1u64 << 30, 1 << 16]).is_ok()
}
