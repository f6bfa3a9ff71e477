//! `process_madvise` on this process: one call for many pieces. It also takes the kernel's lock and
//! notifies other processors only once. Kernels before 6.13 refuse it for memory that must become
//! zero.
//!
//! A constant stands for this process (Linux 6.14). Only if the kernel does not know the constant,
//! a descriptor (`pidfd_open`) is opened, and closed after the batch. A library's descriptor must
//! not stay open in a program that may rely on knowing all descriptors.

use super::{Piece, Refused, plain};
use crate::os::{process, syscall};

/// `PIDFD_SELF_THREAD`. It is not the process's first thread, which may have exited.
const SELF: isize = -10000;
/// The largest number of pieces in one call, because the list is on the stack.
const PIECES: usize = 64;
/// The largest number of bytes in one call, unless a single piece is larger. The kernel holds its
/// lock on the address space for the whole call, some tenths of a millisecond. A thread that wants
/// to map memory waits for the lock.
const BYTES: usize = 4 << 20;

/// The kernel's `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    address: usize,
    len: usize,
}

/// The process to release memory of: this one, by a constant or by a descriptor.
struct Target {
    descriptor: isize,
}

impl Target {
    fn open() -> Result<Target, Refused> {
        // SAFETY: no effect except a new descriptor.
        let descriptor = unsafe { syscall(libc::SYS_pidfd_open, [process::pid(), 0, 0, 0, 0, 0]) };
        if descriptor < 0 { Err(Refused(-descriptor as i32)) } else { Ok(Target { descriptor }) }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.descriptor >= 0 {
            process::close(self.descriptor as i32);
        }
    }
}

/// Releases pieces. After a failure, the pieces that are not done are unchanged.
///
/// # Safety
/// 1. As for [`super::Release::discard_all`].
pub(super) unsafe fn discard_all(page: usize, pieces: &mut [Piece]) -> Result<(), Refused> {
    // SAFETY: (1) the caller's duty.
    unsafe { discard_all_of(SELF, page, pieces) }
}

/// Releases pieces. The kernel may know the constant for this process.
///
/// # Safety
/// 1. As for [`super::Release::discard_all`].
unsafe fn discard_all_of(
    constant: isize,
    page: usize,
    pieces: &mut [Piece],
) -> Result<(), Refused> {
    let mut target = Target { descriptor: constant };
    let mut rest = pieces;
    loop {
        let mut list = [Entry { address: 0, len: 0 }; PIECES];
        let count = fill(&mut list, rest, page);
        if count == 0 {
            // The first piece is not whole pages, or there is none left.
            let Some((first, others)) = rest.split_first_mut() else { return Ok(()) };
            // SAFETY: (1) the caller's duty.
            unsafe { plain::discard(page, first) };
            rest = others;
            continue;
        }
        let list = list.as_ptr() as usize;
        let advice = libc::MADV_DONTNEED as usize;
        let args = [target.descriptor as usize, list, count, advice, 0, 0];
        // SAFETY: (1) the caller's duty; `count` entries are filled.
        let advised = unsafe { syscall(libc::SYS_process_madvise, args) };
        if advised == -(libc::EBADF as isize) && target.descriptor == constant {
            target = Target::open()?;
            continue;
        }
        let confirmed = confirm(rest, count, advised.max(0) as usize);
        rest = rest.get_mut(confirmed..).unwrap_or(&mut []);
        if confirmed == count {
            continue;
        }
        // The kernel has stopped before or within this piece. The reason is the piece or the call,
        // or the kernel's limit of 2 GiB.
        let Some((first, others)) = rest.split_first_mut() else { return Ok(()) };
        // SAFETY: (1) the caller's duty.
        unsafe { plain::discard(page, first) };
        if first.done && confirmed == 0 && advised < 0 && refuses_the_call(advised) {
            return Err(Refused(-advised as i32));
        }
        rest = others;
    }
}

/// Lists the first pieces, as many as one call takes. Returns their number.
fn fill(list: &mut [Entry], pieces: &[Piece], page: usize) -> usize {
    let mut room = BYTES;
    let mut count = 0;
    for (entry, piece) in list.iter_mut().zip(pieces) {
        if !piece.is_exact(page) || (count != 0 && piece.len > room) {
            break;
        }
        *entry = Entry { address: piece.address, len: piece.len };
        room = room.saturating_sub(piece.len);
        count += 1;
    }
    count
}

/// Marks the pieces whose every byte the kernel has advised, and returns their number. `advised` is
/// the kernel's count of bytes.
fn confirm(pieces: &mut [Piece], count: usize, mut advised: usize) -> usize {
    let mut confirmed = 0;
    for piece in pieces.iter_mut().take(count) {
        let Some(left) = advised.checked_sub(piece.len) else { break };
        advised = left;
        piece.done = true;
        confirmed += 1;
    }
    confirmed
}

/// Returns true if the code may be about the call as such, and not about the state of the machine.
fn refuses_the_call(code: isize) -> bool {
    matches!(
        -code as i32,
        libc::ENOSYS | libc::EINVAL | libc::EPERM | libc::EACCES | libc::EBADF | libc::ESRCH
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn bytes_are_counted_off_piece_by_piece_and_stop_in_the_middle() {
        let pieces = [4096, 8192, 4096].map(|len| Piece::new(0, len));
        for (advised, expected) in [
            (0, [false, false, false]),
            (4095, [false, false, false]),
            (4096, [true, false, false]),
            (8192, [true, false, false]),
            (4096 + 8192, [true, true, false]),
            (4096 + 8192 + 4096, [true, true, true]),
            (usize::MAX, [true, true, true]),
        ] {
            let mut pieces = pieces;
            let confirmed = confirm(&mut pieces, 3, advised);
            assert_eq!(pieces.map(|piece| piece.done), expected, "{advised}");
            assert_eq!(confirmed, expected.iter().filter(|&&done| done).count());
        }
        // Pieces beyond the call are not changed, whatever the kernel returns.
        let mut all = pieces;
        assert_eq!(confirm(&mut all, 1, usize::MAX), 1);
        assert_eq!(all.map(|piece| piece.done), [true, false, false]);
    }

    #[test]
    fn a_call_takes_so_many_pieces_and_so_many_bytes() {
        let count = |len: usize, number: usize| {
            let mut list = [Entry { address: 0, len: 0 }; PIECES];
            fill(&mut list, &std::vec![Piece::new(PAGE, len); number], PAGE)
        };
        assert_eq!([0, 1, 63, 65, 200].map(|number| count(PAGE, number)), [0, 1, 63, 64, 64]);
        assert_eq!(count(64 << 10, 200), 64);
        assert_eq!(count(1 << 20, 200), 4);
        assert_eq!(count(3 << 20, 200), 1);
        assert_eq!(count(1 << 40, 200), 1);
        assert_eq!(count(PAGE + 1, 200), 0);
        let mut pieces = [Piece::new(PAGE, PAGE); 3];
        pieces[2].len = 5;
        assert_eq!(fill(&mut [Entry { address: 0, len: 0 }; PIECES], &pieces, PAGE), 2);
    }

    #[test]
    fn a_kernel_without_the_constant_gets_a_descriptor() {
        let filter = crate::os::filter::Filter::new();
        filter.watch();
        let Some(_permit) =
            filter.permit(&crate::os::Linux::detect(), crate::os::seccomp::Calls::NONE, false)
        else {
            return;
        };
        let mut area = [0u8; 4 * PAGE];
        area.fill(1);
        let start = area.as_ptr().expose_provenance().next_multiple_of(PAGE);
        let mut pieces = [Piece::new(start, PAGE), Piece::new(start + 2 * PAGE, PAGE)];
        // SAFETY: (1) the test's own pages, which it reads only through a pointer.
        let worked = unsafe { discard_all_of(-4242, PAGE, &mut pieces) };
        if worked == Ok(()) {
            assert!(pieces.iter().all(|piece| piece.done));
            let first = |page: usize| {
                let byte: *const u8 = core::ptr::with_exposed_provenance(start + page * PAGE);
                // SAFETY: within `area`.
                unsafe { byte.read_volatile() }
            };
            assert_eq!([0, 1, 2].map(first), [0, 1, 0]);
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            let left = open.filter(|to| to.to_string_lossy().contains("pidfd")).count();
            assert_eq!(left, 0, "a descriptor stays open");
        } else {
            assert!(Target::open().is_err(), "{worked:?}");
        }
    }
}
