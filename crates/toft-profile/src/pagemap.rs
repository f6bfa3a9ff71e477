//! Which pages of a process are in memory: listed by the kernel, or read one by one on kernels that
//! cannot list them. Swapped pages are not counted here, because guards look the same: `smaps` has
//! them apart.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;

use crate::Run;

/// `struct pm_scan_arg` of Linux 6.7.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `PAGEMAP_SCAN`: read and write, the size of [`Scan`], type `f`, number 16.
const PAGEMAP_SCAN: u64 = 3 << 30 | (size_of::<Scan>() as u64) << 16 | (b'f' as u64) << 8 | 16;
const PRESENT: u64 = 1 << 3;
/// The kernel's shared page of zeros, which it does not count.
const ZERO: u64 = 1 << 5;

/// Regions that are asked for in one call.
const REGIONS: usize = 1024;

/// Lists the pages between two addresses.
#[allow(unsafe_code)]
pub fn list(pagemap: &File, start: u64, end: u64) -> Result<Vec<Run>, Errno> {
    let mut runs = Vec::new();
    let mut regions = vec![Region::default(); REGIONS];
    let mut from = start;
    while from < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: from,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: REGIONS as u64,
            category_mask: PRESENT,
            return_mask: PRESENT | ZERO,
            ..Scan::default()
        };
        // SAFETY: the kernel reads and writes `scan`, and writes at most `vec_len` regions to
        // `vec`; both live until the call returns, and any bits are a `Region`.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
        let count = Errno::result(count)? as usize;
        for region in regions.iter().take(count) {
            if region.categories & ZERO == 0 {
                add(&mut runs, Run { start: region.start, end: region.end });
            }
        }
        // Fewer regions than asked for: the range is done. `walk_end` may then name the place where
        // the kernel's own buffer of 512 regions was last full (Linux 6.18), and a scan from there
        // returns regions again.
        if count < REGIONS || scan.walk_end <= from {
            break;
        }
        from = scan.walk_end;
    }
    Ok(runs)
}

const PAGE_PRESENT: u64 = 1 << 63;

/// Reads the entries of the pages between two addresses. The page of zeros looks like any other
/// here.
pub fn one_by_one(pagemap: &File, start: u64, end: u64) -> io::Result<Vec<Run>> {
    let page = page_size();
    let mut runs = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut at = start;
    while at < end {
        let bytes = ((end - at).div_ceil(page) * 8).min(buffer.len() as u64) as usize;
        let got = pagemap.read_at(&mut buffer[..bytes], at / page * 8)?;
        if got < 8 {
            break;
        }
        for entry in buffer[..got].as_chunks::<8>().0 {
            let entry = u64::from_le_bytes(*entry);
            if entry & PAGE_PRESENT != 0 {
                add(&mut runs, Run { start: at, end: at + page });
            }
            at += page;
        }
    }
    Ok(runs)
}

/// Adds a run after the others, to the last one if it adjoins.
fn add(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Bytes in a page of this system.
pub fn page_size() -> u64 {
    toft_core::os::process::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What the kernel lists, if it can.
    fn listed(file: &File, start: u64, end: u64) -> Option<Vec<Run>> {
        match list(file, start, end) {
            Ok(runs) => Some(runs),
            Err(Errno::ENOTTY | Errno::EINVAL) => {
                let kernel = Command::new("uname").arg("-r").output().unwrap().stdout;
                eprintln!("no PAGEMAP_SCAN on Linux {}", String::from_utf8_lossy(&kernel));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// More runs than are asked for at once, and a rest of more than the kernel's own buffer holds.
    #[test]
    fn many_runs_are_seen_both_ways() {
        let page = page_size() as usize;
        let mut block = vec![0u8; 64 << 20];
        let base = (block.as_ptr() as usize).next_multiple_of(page);
        let pages = 2 * (REGIONS + REGIONS * 3 / 4);
        let first = base - block.as_ptr() as usize;
        for touched in (1..pages).step_by(2) {
            block[first + touched * page] = 1;
        }
        let file = File::open("/proc/self/pagemap").unwrap();
        let (start, end) = (base as u64, (base + pages * page) as u64);
        let mine = one_by_one(&file, start, end).unwrap();
        assert_eq!(mine.len(), pages / 2);
        if let Some(runs) = listed(&file, start, end) {
            assert_eq!(runs, mine);
        }
    }

    /// Three pages of sixteen touched, and one that was only read: both ways see the three, and
    /// only the list knows that the fourth costs nothing.
    #[test]
    fn touched_pages_are_seen_both_ways() {
        let page = page_size() as usize;
        // Whole pages within a large block, which is fresh from the kernel.
        let mut block = vec![0u8; 64 << 20];
        let base = (block.as_ptr() as usize).next_multiple_of(page);
        let first = base - block.as_ptr() as usize + (32 << 20);
        for touched in [1, 2, 7] {
            block[first + touched * page] = 1;
        }
        let read = std::hint::black_box(block[first + 10 * page]);
        assert_eq!(read, 0);
        let start = (block.as_ptr() as usize + first) as u64;
        let pages = |runs: Vec<Run>| {
            let number = |at: u64| (at - start) / page as u64;
            runs.iter().map(|run| (number(run.start), number(run.end))).collect::<Vec<_>>()
        };
        let file = File::open("/proc/self/pagemap").unwrap();
        let end = start + 16 * page as u64;
        let mine = pages(one_by_one(&file, start, end).unwrap());
        assert_eq!(mine, [(1, 3), (7, 8), (10, 11)]);
        if let Some(runs) = listed(&file, start, end) {
            assert_eq!(pages(runs), [(1, 3), (7, 8)]);
        }
    }
}
