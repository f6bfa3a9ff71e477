//! Calls that memory hooks see.
//!
//! Libraries for MPI and RDMA keep registrations of memory. They drop one when its pages go, so
//! they patch libc's `munmap`, `madvise` and `mremap`: the first instructions of the function, or
//! the entries of the loader's tables that lead to it. A raw system call passes such a hook by.
//!
//! ```text
//! no hook                    the raw call
//! hook, a program's thread   libc's function, and with it the hook
//! hook, Toft's own thread    no call: the pages stay, and a thread of the program returns them
//! ```
//!
//! Toft's own thread must not run a hook, because libc does not know it: it has the thread-local
//! storage of the thread that started it.
//!
//! Before a call that no hook can see, or that hooks do not pass on, the thread *announces* it.
//! Hooks of `mremap` take four arguments and lose the fifth, the new address. The announcement is
//! an `mremap` to a size of zero, which the kernel always refuses.
//!
//! A hook may allocate and free. No lock is held here, and the heap is marked as busy, as it is for
//! a signal handler.

use super::keys::{self, KeyNumber};
use super::syscall::{result, syscall};
use super::{Error, process, thread};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicUsize};
use core::ffi::c_int;

/// A function of libc that hooks patch.
#[derive(Clone, Copy)]
enum Watched {
    Unmap,
    Advise,
    Remap,
}

/// What leads to a function, and its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    address: usize,
    code: usize,
}

/// The form of each function at the start, or zeros, which are no function's. The thread that
/// starts the allocator writes it, before other threads use the allocator.
static AT_START: [[AtomicUsize; 2]; 3] = [const { [const { AtomicUsize::new(0) }; 2] }; 3];

/// The protection key of the allocator's tables, or zero. Written as [`AT_START`].
static KEY: AtomicU32 = AtomicU32::new(0);

/// The first bytes of a function, at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Code(usize);

impl Watched {
    const ALL: [Watched; 3] = [Watched::Unmap, Watched::Advise, Watched::Remap];

    /// Returns the function's present form. The address is read from the entry that the loader has
    /// filled for this library, by which the calls below are made, too.
    #[inline(always)]
    fn form(self) -> Form {
        let address = match self {
            Watched::Unmap => libc::munmap as *const () as usize,
            Watched::Advise => libc::madvise as *const () as usize,
            Watched::Remap => libc::mremap as *const () as usize,
        };
        let code: *const Code = core::ptr::with_exposed_provenance(address);
        // SAFETY: a function has eight bytes of code, or of padding, and these can be read. Another
        // thread may patch them meanwhile: either value is one that was there.
        let code = unsafe { code.read_volatile() }.0;
        Form { address, code }
    }

    #[inline(always)]
    fn at_start(self) -> Form {
        let [address, code] = &AT_START[self as usize];
        Form { address: address.load(Relaxed), code: code.load(Relaxed) }
    }
}

/// Notes the form of each function, unless it is known. Called at the start.
pub(super) fn note() {
    for watched in Watched::ALL {
        let Form { address, code } = watched.form();
        let [at, bytes] = &AT_START[watched as usize];
        // A hook that is there already is no form to compare with, and the value stays zero.
        if at.load(Relaxed) == 0 && is_original(watched, address) {
            bytes.store(code, Relaxed);
            at.store(address, Relaxed);
        }
    }
}

/// Notes the key that closes the allocator's tables while a hook runs.
pub(super) fn note_key(key: KeyNumber) {
    KEY.store(key, Relaxed);
}

/// Returns false if a function is certainly not libc's own. In glibc `munmap` and `madvise` have
/// been a system call and the code for its failure from the beginning.
fn is_original(watched: Watched, address: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    const CALL: &[u8] = &[0x0f, 0x05];
    #[cfg(target_arch = "aarch64")]
    const CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];
    if !cfg!(target_env = "gnu") || matches!(watched, Watched::Remap) {
        return true;
    }
    let code: *const [u8; 16] = core::ptr::with_exposed_provenance(address);
    // SAFETY: as in `form`; functions are aligned to sixteen bytes or are longer.
    let code = unsafe { code.read_volatile() };
    code.windows(CALL.len()).any(|part| part == CALL)
}

/// Returns true if a hook is there. Not inlined, so that each call reads the entries again.
#[inline(never)]
pub(super) fn are_there() -> bool {
    Watched::ALL.into_iter().any(|watched| watched.form() != watched.at_start())
}

/// Unmaps a range.
///
/// # Safety
/// 1. As for [`super::Memory::unmap`].
#[inline(never)]
pub(super) unsafe fn unmap(address: usize, len: usize) -> Result<(), Error> {
    if are_there() {
        let call = || {
            // SAFETY: (1) duty 1.
            unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(address), len) }
        };
        return visibly(call);
    }
    // SAFETY: (1) duty 1.
    result(unsafe { syscall(libc::SYS_munmap, [address, len, 0, 0, 0, 0]) }).map(drop)
}

/// Releases the pages of a range.
///
/// # Safety
/// 1. As for [`super::Memory::discard`].
#[inline(never)]
pub(super) unsafe fn discard(address: usize, len: usize) -> Result<(), Error> {
    if are_there() {
        // SAFETY: (1) duty 1.
        return unsafe { discard_visibly(address, len) };
    }
    let advice = libc::MADV_DONTNEED as usize;
    // SAFETY: (1) duty 1.
    result(unsafe { syscall(libc::SYS_madvise, [address, len, advice, 0, 0, 0]) }).map(drop)
}

/// Releases the pages of a range, if a hook is there, before a call that releases them unseen.
///
/// # Safety
/// 1. As for [`super::Memory::discard`].
#[inline(never)]
pub(super) unsafe fn discard_before(address: usize, len: usize) -> Result<(), Error> {
    // SAFETY: (1) duty 1.
    if are_there() { unsafe { discard_visibly(address, len) } } else { Ok(()) }
}

/// As [`discard`], by libc's function.
///
/// # Safety
/// 1. As for [`super::Memory::discard`].
unsafe fn discard_visibly(address: usize, len: usize) -> Result<(), Error> {
    let call = || {
        let start = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: (1) duty 1.
        unsafe { libc::madvise(start, len, libc::MADV_DONTNEED) }
    };
    visibly(call)
}

/// Announces to a hook, if one is there, that the pages of a range are about to go elsewhere. Fails
/// if the calling thread must not make that call.
#[inline(never)]
pub(super) fn announce(address: usize, len: usize) -> Result<(), Error> {
    if !are_there() {
        return Ok(());
    }
    if thread::is_own() {
        return Err(Error::Unsupported);
    }
    let call = || {
        // SAFETY: the kernel refuses a new size of zero, and changes nothing.
        unsafe { libc::mremap(core::ptr::with_exposed_provenance_mut(address), len, 0, 0) };
        0
    };
    visibly(call)
}

/// Makes a call of libc, which returns zero on success, outside of the allocator: its tables are
/// closed meanwhile, where a key closes them. Keeps `errno`. Fails in Toft's own thread, without a
/// call.
#[cold]
#[inline(never)]
fn visibly(call: impl FnOnce() -> c_int) -> Result<(), Error> {
    if thread::is_own() {
        return Err(Error::Unsupported);
    }
    let errno = process::errno();
    let key = KEY.load(Relaxed);
    let has_key = key != 0 && key != keys::UNKNOWN;
    let was_open = has_key && keys::open(key);
    if has_key {
        keys::close(key);
    }
    let code = if call() == 0 { 0 } else { -(process::errno() as isize) };
    if was_open {
        keys::open(key);
    }
    process::set_errno(errno);
    result(code).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering::{Acquire, Release};

    static FOUND: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn run(_: usize, top: usize) -> ! {
        let refused = visibly(|| 0) == Err(Error::Unsupported);
        FOUND.store(if thread::is_own() && refused { 1 } else { 2 }, Release);
        // SAFETY: (1) `top` is this thread's.
        unsafe { thread::end_own(top) }
    }

    /// No other test of this process starts such a thread.
    #[test]
    fn toft_own_thread_calls_no_hook() {
        assert!(!thread::is_own());
        assert_eq!(visibly(|| 0), Ok(()));
        let number = AtomicU32::new(0);
        assert!(thread::spawn(run, 0, &number));
        while FOUND.load(Acquire) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(FOUND.load(Acquire), 1);
    }

    #[test]
    fn errno_is_kept_and_an_error_returned() {
        process::set_errno(77);
        let fails = || {
            process::set_errno(libc::ENOMEM);
            -1
        };
        assert_eq!(visibly(fails), Err(Error::NoMemory));
        assert_eq!(process::errno(), 77);
    }

    #[test]
    fn only_the_code_of_libc_is_original() {
        extern "C" fn hook(_: usize, _: usize) -> c_int {
            77
        }
        assert!(is_original(Watched::Unmap, libc::munmap as *const () as usize));
        assert!(is_original(Watched::Advise, libc::madvise as *const () as usize));
        let gnu = cfg!(target_env = "gnu");
        assert_eq!(is_original(Watched::Unmap, hook as *const () as usize), !gnu);
        note();
        assert!(!are_there());
    }
}
