//! Which pages are in memory.

use super::syscall::syscall;
use super::{Linux, Memory};

/// The largest range of one call of `resident_pieces`, in bytes.
pub const PIECE_BYTES: usize = 64 << 10;
/// The number of pages that one query of `resident_prefix` covers.
const PREFIX_PAGES: usize = 1024;

/// The part of [`super::Os`] for pages in memory.
///
/// # Safety
///
/// An implementation promises:
/// 1. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Residency {
    /// Calls `each` with the resident parts of a range of whole pages, which has at most
    /// [`PIECE_BYTES`]. Returns true if they are known.
    fn resident_pieces(&self, addr: usize, len: usize, each: impl FnMut(usize, usize)) -> bool;

    /// Returns the bytes at the start of a range of whole pages that are in memory, up to the first
    /// missing page. Returns zero if they are not known. It makes one system call for each few MiB.
    fn resident_prefix(&self, addr: usize, len: usize) -> usize;

    /// Returns true if a page that is not in memory may be in swap.
    fn may_be_in_swap(&self) -> bool;
}

// SAFETY: (1) raw system calls.
unsafe impl Residency for Linux {
    fn resident_pieces(&self, addr: usize, len: usize, mut each: impl FnMut(usize, usize)) -> bool {
        let page = self.page_size().max(1);
        let mut flags = [0u8; PIECE_BYTES / 4096];
        let len = len.min(PIECE_BYTES);
        let args = [addr, len, flags.as_mut_ptr().addr(), 0, 0, 0];
        // SAFETY: (1) the kernel writes one byte for each page of the query.
        let known = unsafe { syscall(libc::SYS_mincore, args) } == 0;
        let pages = flags.get(..len / page).unwrap_or(&[]);
        runs(pages, |first, count| each(addr + first * page, count * page));
        known
    }

    fn resident_prefix(&self, addr: usize, len: usize) -> usize {
        let page = self.page_size().max(1);
        let mut flags = [0u8; PREFIX_PAGES];
        let mut seen = 0;
        while seen < len {
            let some = (len - seen).min(PREFIX_PAGES * page);
            let args = [addr + seen, some, flags.as_mut_ptr().addr(), 0, 0, 0];
            // SAFETY: (1) the kernel writes one byte for each page of the query.
            if unsafe { syscall(libc::SYS_mincore, args) } != 0 {
                break;
            }
            let pages = flags.get(..some / page).unwrap_or(&[]);
            let present = pages.iter().take_while(|&&flag| flag & 1 != 0).count();
            seen += present * page;
            if present < pages.len() {
                break;
            }
        }
        seen
    }

    /// Returns true if the machine has swap, in use or not, or if that is not known.
    fn may_be_in_swap(&self) -> bool {
        let mut info = core::mem::MaybeUninit::<libc::sysinfo>::zeroed();
        // SAFETY: (1) the kernel writes the structure.
        let code = unsafe { syscall(libc::SYS_sysinfo, [info.as_mut_ptr().addr(), 0, 0, 0, 0, 0]) };
        // SAFETY: all zero at first, which is a value.
        code != 0 || unsafe { info.assume_init() }.totalswap != 0
    }
}

/// Calls `each` with every run of set flags: the index of the first, and the number.
fn runs(flags: &[u8], mut each: impl FnMut(usize, usize)) {
    let mut count = 0;
    for (number, flag) in flags.iter().chain(&[0]).enumerate() {
        if flag & 1 != 0 {
            count += 1;
        } else if count != 0 {
            each(number - count, count);
            count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    extern crate std;

    #[test]
    fn runs_are_named() {
        let of = |flags: &[u8]| {
            let mut all = std::vec::Vec::new();
            runs(flags, |first, count| all.push((first, count)));
            all
        };
        assert_eq!(of(&[1, 1, 0, 3, 2, 1]), [(0, 2), (3, 1), (5, 1)]);
        assert_eq!((of(&[1; 7]), of(&[])), (vec![(0, 7)], vec![]));
    }
}
