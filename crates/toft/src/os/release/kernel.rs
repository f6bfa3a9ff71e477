//! What the kernel's interfaces look like: the structures of io_uring, and mappings where it likes.

use super::Unavailable;
use crate::os::syscall;

/// The kernel's `struct io_uring_sqe`.
#[repr(C)]
pub(super) struct Request {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) priority: u16,
    pub(super) descriptor: i32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) advice: u32,
    pub(super) user_data: u64,
    pub(super) rest: [u64; 3],
}

/// The kernel's `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) user_data: u64,
    pub(super) result: i32,
    pub(super) flags: u32,
}

/// The kernel's `struct io_uring_params`. It writes all but the flags.
#[repr(C)]
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) requests: u32,
    pub(super) answers: u32,
    pub(super) flags: u32,
    pub(super) polling: [u32; 2],
    pub(super) features: u32,
    pub(super) workers_of: u32,
    pub(super) reserved: [u32; 3],
    pub(super) request_offsets: RequestOffsets,
    pub(super) answer_offsets: AnswerOffsets,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RequestOffsets {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) mask: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    pub(super) dropped: u32,
    pub(super) array: u32,
    pub(super) reserved: [u32; 3],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct AnswerOffsets {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) mask: u32,
    pub(super) entries: u32,
    pub(super) overflow: u32,
    pub(super) answers: u32,
    pub(super) flags: u32,
    pub(super) reserved: [u32; 3],
}

/// The kernel's `struct io_uring_rsrc_update`.
#[repr(C)]
pub(super) struct Registration {
    pub(super) number: u32,
    pub(super) reserved: u32,
    pub(super) descriptor: u64,
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Answer>() == 16);
const _: () = assert!(size_of::<Parameters>() == 120 && size_of::<Registration>() == 16);

/// A result, or the code of a refusal.
pub(super) fn refused(code: isize) -> Result<usize, Unavailable> {
    if (-4095..0).contains(&code) {
        Err(Unavailable::Refused(-code as i32))
    } else {
        Ok(code as usize)
    }
}

/// Maps memory where the kernel likes.
pub(super) fn map(
    len: usize,
    flags: i32,
    descriptor: isize,
    offset: usize,
) -> Result<usize, Unavailable> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let args = [0, len, protection, flags as usize, descriptor as usize, offset];
    // SAFETY: (1) no address is named, so nothing that is there is replaced.
    refused(unsafe { syscall(libc::SYS_mmap, args) })
}

/// Undoes [`map`].
pub(super) fn unmap(address: usize, len: usize) {
    if len != 0 {
        // SAFETY: (1) callers pass what `map` gave them and do not use it afterwards.
        unsafe { syscall(libc::SYS_munmap, [address, len, 0, 0, 0, 0]) };
    }
}
