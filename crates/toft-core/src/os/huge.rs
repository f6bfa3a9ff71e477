//! Advice on huge pages, always for a range and never for the process.

use super::syscall::syscall;
use super::{Error, Linux, process};
use core::ffi::CStr;

/// The size and alignment of a huge page, in bytes.
pub const HUGE: usize = 2 << 20;
/// The size and alignment of a middle page (multi-size THP), in bytes.
pub const MIDDLE: usize = 64 << 10;

/// The system's behaviour with huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugeHabit {
    /// The system makes some huge pages without a request, except in ranges with other advice.
    pub unasked: bool,
    /// The system makes pages of [`MIDDLE`] bytes on request.
    pub middle: bool,
}

/// The part of [`super::Os`] for huge pages.
///
/// # Safety
///
/// An implementation promises:
/// 1. nothing changes what any page reads as.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Huge {
    /// Returns the system's behaviour. It reads files. Returns `None` if the process cannot open
    /// another file at the moment.
    fn huge_habit(&self) -> Option<HugeHabit>;

    /// Advises the system to make no huge pages in a range on its own, neither on first access nor
    /// later. Huge pages that exist stay.
    fn keep_small(&self, addr: usize, len: usize);

    /// Allows the system to make huge pages in a range. Use it only for a moment: it splits the
    /// mapping, and `keep_small` joins it again.
    fn allow_huge(&self, addr: usize, len: usize) -> Result<(), Error>;
}

/// The condition on which the system makes huge pages of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    Asked,
    Never,
}

/// Returns the condition in the text of a file, which is the word in brackets. `above` is for
/// `inherit`.
fn when(text: &[u8], above: When) -> When {
    let mut words = text.split(|&byte| byte == b' ' || byte == b'\n');
    let chosen = words.find_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    match chosen.unwrap_or_default() {
        b"always" => When::Always,
        b"madvise" => When::Asked,
        b"inherit" => above,
        _ => When::Never,
    }
}

/// Returns the condition in a file. Returns `Never` if there is no such file, and `None` if it
/// cannot be opened at the moment.
fn read(path: &CStr, above: When) -> Option<When> {
    let mut found = When::Never;
    let read = process::read_file_with(path, &mut [0; 64], |text| found = when(text, above));
    (!matches!(read, Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM))).then_some(found)
}

fn advise(addr: usize, len: usize, advice: usize) -> Result<(), Error> {
    // SAFETY: advice about the sizes of pages changes no contents.
    let code = unsafe { syscall(libc::SYS_madvise, [addr, len, advice, 0, 0, 0]) };
    if code == 0 {
        return Ok(());
    }
    Err(if code == -(libc::EINVAL as isize) { Error::Unsupported } else { Error::NoMemory })
}

// SAFETY: (1) the argument in `advise`; (2) raw system calls.
unsafe impl Huge for Linux {
    fn huge_habit(&self) -> Option<HugeHabit> {
        const ALL: &CStr = c"/sys/kernel/mm/transparent_hugepage/enabled";
        const MIDDLE: &CStr = c"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
        let all = read(ALL, When::Never)?;
        let middle = read(MIDDLE, all)?;
        Some(HugeHabit {
            unasked: all == When::Always || middle == When::Always,
            middle: middle != When::Never,
        })
    }

    fn keep_small(&self, addr: usize, len: usize) {
        // A kernel that does not support this advice makes no huge pages.
        let _ = advise(addr, len, libc::MADV_NOHUGEPAGE as usize);
    }

    fn allow_huge(&self, addr: usize, len: usize) -> Result<(), Error> {
        advise(addr, len, libc::MADV_HUGEPAGE as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_files_say() {
        assert_eq!(when(b"always [madvise] never\n", When::Never), When::Asked);
        assert_eq!(when(b"[always] madvise never\n", When::Never), When::Always);
        assert_eq!(when(b"always madvise [never]\n", When::Always), When::Never);
        assert_eq!(when(b"always [inherit] madvise never\n", When::Always), When::Always);
        assert_eq!(when(b"always [inherit] madvise never\n", When::Never), When::Never);
        assert_eq!(when(b"", When::Always), When::Never);
    }
}
