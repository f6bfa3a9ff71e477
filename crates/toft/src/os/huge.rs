//! Advice on huge pages, always about a range and never about the process.

use super::syscall::syscall;
use super::{Error, Linux, process};
use core::ffi::CStr;

/// Bytes in a huge page, and what it is aligned to. Where the system's are larger, `make_huge`
/// fails.
pub const HUGE: usize = 2 << 20;
/// Bytes in a middle one (multi-size THP), and what it is aligned to.
pub const MIDDLE: usize = 64 << 10;

/// `MADV_COLLAPSE`, Linux 6.1.
const MADV_COLLAPSE: usize = 25;

/// What the system does about huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugeHabit {
    /// It makes some unasked, where it is not told otherwise.
    pub unasked: bool,
    /// It has pages of [`MIDDLE`] bytes on request.
    pub middle: bool,
}

/// Part of [`super::Os`].
///
/// # Safety
///
/// An implementation promises:
/// 1. nothing changes what any page reads as.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Huge {
    /// What the system does. Reads files: to be asked once, at the start.
    fn huge_habit(&self) -> HugeHabit;

    /// From now on the system makes no huge pages in a range on its own, neither when it is touched
    /// nor later. What is huge stays so.
    fn keep_small(&self, addr: usize, len: usize);

    /// From now on it may. For a moment: it splits the mapping, and `keep_small` joins it again.
    fn allow_huge(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Puts what is in a range of whole huge pages into huge pages, now; what is not there is zero
    /// and is there afterwards. `kept_small` says that the range was advised by `keep_small`; it is
    /// so again afterwards.
    fn make_huge(&self, addr: usize, len: usize, kept_small: bool) -> Result<(), Error>;
}

/// When the system makes huge pages of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    Asked,
    Never,
}

/// As one of the files says it: the word in brackets. `above` is for `inherit`.
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

fn read(path: &CStr, above: When) -> When {
    let mut found = When::Never;
    process::read_file(path, |text| found = when(text, above));
    found
}

fn advise(addr: usize, len: usize, advice: usize) -> Result<(), Error> {
    // SAFETY: advice about pages' sizes changes no contents.
    let code = unsafe { syscall(libc::SYS_madvise, [addr, len, advice, 0, 0, 0]) };
    if code == 0 {
        return Ok(());
    }
    Err(if code == -(libc::EINVAL as isize) { Error::Unsupported } else { Error::NoMemory })
}

// SAFETY: (1) `advise` says so; (2) raw system calls.
unsafe impl Huge for Linux {
    fn huge_habit(&self) -> HugeHabit {
        const ALL: &CStr = c"/sys/kernel/mm/transparent_hugepage/enabled";
        const MIDDLE: &CStr = c"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
        let all = read(ALL, When::Never);
        let middle = read(MIDDLE, all);
        HugeHabit {
            unasked: all == When::Always || middle == When::Always,
            middle: middle != When::Never,
        }
    }

    fn keep_small(&self, addr: usize, len: usize) {
        // A kernel without huge pages makes none.
        let _ = advise(addr, len, libc::MADV_NOHUGEPAGE as usize);
    }

    fn allow_huge(&self, addr: usize, len: usize) -> Result<(), Error> {
        advise(addr, len, libc::MADV_HUGEPAGE as usize)
    }

    fn make_huge(&self, addr: usize, len: usize, kept_small: bool) -> Result<(), Error> {
        if !kept_small {
            return advise(addr, len, MADV_COLLAPSE);
        }
        // Where the range has a hole, advice fails and has been taken on both sides of it.
        let made = self.allow_huge(addr, len).and_then(|()| advise(addr, len, MADV_COLLAPSE));
        self.keep_small(addr, len);
        made
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
