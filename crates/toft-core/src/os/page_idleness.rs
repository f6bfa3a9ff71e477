//! Page idleness according to the kernel, and sending idle pages out to swap.
//!
//! A process cannot find out which of its pages were *read*: the bits exist, but only root sees
//! them by page. Linux 6.7 and later tell which pages were *written*. A userfaultfd records writes
//! by itself, without a reader. `PAGEMAP_SCAN` returns the records and clears them. Every process
//! may use both. The records cost a fault for the first write to a page.

use super::share::DESCRIPTOR_LEAST;
use super::syscall::syscall;
use super::userfaultfd::{self, REGISTER, USER_MODE_ONLY, check, control};
use super::{Error, Linux, process};

/// The pages that a scan finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Pages in memory.
    Resident,
    /// Pages in memory that were not written to since the last scan for written ones.
    Still,
    /// Pages in memory that were written to, or never scanned. They count as not written
    /// afterwards.
    Written,
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The number of ranges that it has stored, by address and length.
    pub ranges: usize,
    /// The address after the last page that it has checked.
    pub end: usize,
}

/// The part of [`super::Os`] for page idleness.
///
/// # Safety
///
/// An implementation promises:
/// 1. nothing changes what any page reads as.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait PageIdleness {
    /// Opens a descriptor for scans.
    fn open_pages(&self) -> Result<u32, Error>;

    /// Closes a descriptor of `open_pages`.
    fn close_pages(&self, pages: u32);

    /// Opens a descriptor that records writes, and stays open. Nothing is recorded yet.
    fn open_watch(&self) -> Result<u32, Error>;

    /// Returns true if a descriptor records writes, as far as that can be checked. A program may
    /// have closed it.
    fn is_watch(&self, watch: u32) -> bool;

    /// Begins to record writes to the range, if they are not recorded already.
    fn watch(&self, watch: u32, addr: usize, len: usize) -> Result<(), Error>;

    /// Finds pages of the range, lowest first, until `found` is full.
    fn scan(
        &self,
        pages: u32,
        wanted: Pages,
        range: (usize, usize),
        found: &mut [(usize, usize)],
    ) -> Result<Scan, Error>;

    /// Returns true if there is swap with free space.
    fn has_swap(&self) -> bool;

    /// Sends the pages of a range out to swap. Without `swap`, advises the kernel to reclaim them
    /// first if swap is added later. Pages that are shared with another process stay.
    fn page_out(&self, addr: usize, len: usize, swap: bool) -> Result<(), Error>;
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// The number of regions in one call.
const REGIONS: usize = 32;
const PAGEMAP_SCAN: usize = 0xC060_6610;
/// Marks the found pages as not written, in memory whose writes are recorded only.
const SCAN_WRITE_PROTECT: u64 = 1;
const SCAN_CHECK_NOTED: u64 = 2;
const IS_WRITTEN: u64 = 1 << 1;
const IS_PRESENT: u64 = 1 << 3;

const FEATURE_WRITE_PROTECT_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WRITE_PROTECT_ASYNC: u64 = 1 << 15;
const REGISTER_WRITE_PROTECT: u64 = 1 << 1;

// SAFETY: (1) paging out and write protection that the kernel resolves itself change no contents;
// (2) raw system calls.
unsafe impl PageIdleness for Linux {
    fn open_pages(&self) -> Result<u32, Error> {
        process::open_pages().map(|pages| pages as u32).ok_or(Error::Unsupported)
    }

    fn close_pages(&self, pages: u32) {
        process::close(pages.cast_signed());
    }

    fn open_watch(&self) -> Result<u32, Error> {
        // User mode only, so it needs no privilege. The kernel's own writes are recorded as well.
        let features = FEATURE_WRITE_PROTECT_ASYNC | FEATURE_WRITE_PROTECT_UNPOPULATED;
        // So it needs no privilege. The kernel's own writes are recorded as well.
        let flags = libc::O_NONBLOCK | USER_MODE_ONLY;
        userfaultfd::open(flags, features, DESCRIPTOR_LEAST).map(|watch| watch as u32)
    }

    fn is_watch(&self, watch: u32) -> bool {
        userfaultfd::is_open(watch.cast_signed())
    }

    fn watch(&self, watch: u32, addr: usize, len: usize) -> Result<(), Error> {
        let mut register = [addr as u64, len as u64, REGISTER_WRITE_PROTECT, 0];
        control(watch.cast_signed(), REGISTER, &mut register).map(drop)
    }

    fn scan(
        &self,
        pages: u32,
        wanted: Pages,
        (addr, len): (usize, usize),
        found: &mut [(usize, usize)],
    ) -> Result<Scan, Error> {
        let mut regions = [Region { start: 0, end: 0, categories: 0 }; REGIONS];
        let (flags, inverted, mask) = match wanted {
            Pages::Resident => (0, 0, IS_PRESENT),
            Pages::Still => (0, IS_WRITTEN, IS_WRITTEN | IS_PRESENT),
            Pages::Written => (SCAN_WRITE_PROTECT | SCAN_CHECK_NOTED, 0, IS_WRITTEN | IS_PRESENT),
        };
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            flags,
            start: addr as u64,
            end: (addr + len) as u64,
            walk_end: 0,
            regions: (&raw mut regions).expose_provenance() as u64,
            regions_len: found.len().min(REGIONS) as u64,
            max_pages: 0,
            category_inverted: inverted,
            category_mask: mask,
            category_anyof_mask: 0,
            return_mask: IS_PRESENT,
        };
        let count = control(pages.cast_signed(), PAGEMAP_SCAN, &mut arguments)?;
        for (range, region) in found.iter_mut().zip(regions.iter().take(count)) {
            *range = (region.start as usize, (region.end - region.start) as usize);
        }
        Ok(Scan { ranges: count.min(found.len()), end: arguments.walk_end as usize })
    }

    fn has_swap(&self) -> bool {
        let mut info = core::mem::MaybeUninit::<libc::sysinfo>::zeroed();
        let args = [info.as_mut_ptr() as usize, 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes one `sysinfo`, and zero bytes are one.
        unsafe { syscall(libc::SYS_sysinfo, args) == 0 && info.assume_init().freeswap != 0 }
    }

    fn page_out(&self, addr: usize, len: usize, swap: bool) -> Result<(), Error> {
        let advice = if swap { libc::MADV_PAGEOUT } else { libc::MADV_COLD };
        // SAFETY: contents stay, wherever they are.
        let code = unsafe { syscall(libc::SYS_madvise, [addr, len, advice as usize, 0, 0, 0]) };
        check(code).map(drop)
    }
}
