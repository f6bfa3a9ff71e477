//! The memory of the fake: a range of this process's own address space. It faults wherever the fake
//! has nothing mapped, so that a stray access of the allocator is found at once.

extern crate std;

use super::super::syscall::syscall;
use core::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::vec;
use std::vec::Vec;

/// A reserved range of address space. It is unmapped on drop, or kept for the next under an
/// emulator.
#[derive(Debug)]
pub(super) struct Host {
    start: usize,
    len: usize,
}

/// The number of ranges that exist. A process has room for some seven of the largest.
static RANGES: Mutex<usize> = Mutex::new(0);

/// A range was dropped.
static DROPPED: Condvar = Condvar::new();

/// True where tests run under an emulator, as those for aarch64, or under a sanitizer. Both have
/// tables with an entry for each page that was ever reserved, or little address space. So the
/// machines of tests are smaller, and their ranges are used again.
pub(super) const EMULATED: bool = cfg!(any(target_arch = "aarch64", emulated));

/// Dropped ranges that are used again.
static KEPT: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// The number of bytes in a page of the host.
const PAGE: usize = 4096;

const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn mmap(address: usize, len: usize, flags: i32) -> Option<usize> {
    let args = [address, len, libc::PROT_NONE as usize, flags as usize, usize::MAX, 0];
    // SAFETY: (1) callers pass no address, or one in their own reservation.
    let code = unsafe { syscall(libc::SYS_mmap, args) };
    usize::try_from(code).ok()
}

impl Host {
    /// Reserves `len` bytes from a multiple of `align` on. Tests that run at the same time may fill
    /// the address space, so it waits for them. Returns `None` if no range is left to wait for, or
    /// none is dropped for ten minutes: threads may each have one and wait for a second.
    pub(super) fn reserve(len: usize, align: usize) -> Option<Host> {
        let mut ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(host) = Host::try_reserve(len, align, &mut ranges) {
                return Some(host);
            }
            if *ranges == 0 {
                return None;
            }
            let waited = DROPPED.wait_timeout(ranges, Duration::from_secs(600));
            let (left, time) = waited.unwrap_or_else(PoisonError::into_inner);
            if time.timed_out() {
                return None;
            }
            ranges = left;
        }
    }

    fn try_reserve(len: usize, align: usize, ranges: &mut usize) -> Option<Host> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |range: &Range<usize>| range.len() == len && range.start.is_multiple_of(align);
        if let Some(at) = kept.iter().position(fits) {
            let start = mmap(kept.swap_remove(at).start, len, FLAGS | libc::MAP_FIXED)?;
            *ranges += 1;
            return Some(Host { start, len });
        }
        let all = mmap(0, len + align, FLAGS)?;
        let start = all.next_multiple_of(align);
        for (at, bytes) in [(all, start - all), (start + len, all + align - start)] {
            if bytes != 0 {
                // SAFETY: (1) the ends of the reservation made above.
                unsafe { syscall(libc::SYS_munmap, [at, bytes, 0, 0, 0, 0]) };
            }
        }
        *ranges += 1;
        Some(Host { start, len })
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    fn holds(&self, range: &Range<usize>) -> bool {
        self.start <= range.start && range.start <= range.end && range.end <= self.start + self.len
    }

    /// Makes pages readable and writable. They are zero unless they were open before.
    pub(super) fn open(&self, range: Range<usize>) -> bool {
        assert!(self.holds(&range));
        // Tests compare resident pages with touched pages, so there must be no huge pages.
        let advice = libc::MADV_NOHUGEPAGE as usize;
        // SAFETY: (1) within our reservation.
        unsafe { syscall(libc::SYS_madvise, [range.start, range.len(), advice, 0, 0, 0]) };
        self.allow(range)
    }

    /// Makes open pages readable and writable again.
    pub(super) fn allow(&self, range: Range<usize>) -> bool {
        assert!(self.holds(&range));
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: (1) within our reservation.
        unsafe { syscall(libc::SYS_mprotect, [range.start, range.len(), protection, 0, 0, 0]) == 0 }
    }

    /// Makes pages fault, and discards their contents.
    pub(super) fn close(&self, range: Range<usize>) {
        assert!(self.holds(&range));
        let got = mmap(range.start, range.len(), FLAGS | libc::MAP_FIXED);
        assert_eq!(got, Some(range.start), "the host cannot close pages");
    }

    /// Makes open pages zero again.
    pub(super) fn clear(&self, range: Range<usize>) {
        assert!(self.holds(&range));
        let args = [range.start, range.len(), libc::MADV_DONTNEED as usize, 0, 0, 0];
        // SAFETY: (1) within our reservation.
        let code = unsafe { syscall(libc::SYS_madvise, args) };
        assert_eq!(code, 0, "the host cannot clear pages");
    }

    /// Makes open pages present, with their contents.
    pub(super) fn touch(&self, range: Range<usize>) {
        assert!(self.holds(&range));
        for page in range.step_by(PAGE) {
            let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(page);
            // SAFETY: an open page of our reservation, which is not in use yet.
            unsafe { byte.write_volatile(byte.read_volatile()) };
        }
    }

    /// Copies `len` bytes between open pages that do not overlap.
    pub(super) fn copy(&self, from: usize, to: usize, len: usize) {
        assert!(self.holds(&(from..from + len)) && self.holds(&(to..to + len)));
        let from: *const u8 = core::ptr::with_exposed_provenance(from);
        let to: *mut u8 = core::ptr::with_exposed_provenance_mut(to);
        // SAFETY: both ranges are open pages of our reservation, and do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
    }

    /// Returns the bytes of a range that are really in memory.
    pub(super) fn resident(&self, range: Range<usize>) -> usize {
        const PIECE: usize = 16 << 20;
        let pieces = range.clone().step_by(PIECE);
        pieces.flat_map(|at| self.residents(at..range.end.min(at + PIECE), PIECE)).sum()
    }

    /// Returns the resident bytes of each part of a range, in order. A part has `bytes` bytes, a
    /// multiple of the page size. It makes one system call.
    pub(super) fn residents(&self, range: Range<usize>, bytes: usize) -> Vec<usize> {
        assert!(self.holds(&range));
        let mut flags = vec![0u8; range.len().div_ceil(PAGE)];
        let args = [range.start, range.len(), flags.as_mut_ptr().expose_provenance(), 0, 0, 0];
        // SAFETY: (1) the kernel writes one byte for each page of the query.
        let code = unsafe { syscall(libc::SYS_mincore, args) };
        assert_eq!(code, 0, "the host cannot say what is in memory");
        let resident = |part: &[u8]| part.iter().filter(|&&flag| flag & 1 != 0).count() * PAGE;
        flags.chunks(bytes / PAGE).map(resident).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if EMULATED {
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(self.range());
        } else {
            // SAFETY: (1) our own reservation, and its owner has no more use for it.
            unsafe { syscall(libc::SYS_munmap, [self.start, self.len, 0, 0, 0, 0]) };
        }
        *RANGES.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        DROPPED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_range_waits_until_there_is_room() {
        const LEN: usize = 1 << 44;
        let mut ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let fill = std::iter::from_fn(|| Host::try_reserve(LEN, 1 << 32, &mut ranges));
        let all: Vec<Host> = fill.collect();
        let waits = thread::spawn(|| Host::reserve(LEN, 1 << 32).is_some());
        drop(ranges);
        // It tries once in this time; if it is late it finds room at once, and this shows nothing.
        thread::sleep(Duration::from_millis(100));
        drop(all);
        assert!(waits.join().unwrap());
    }
}
