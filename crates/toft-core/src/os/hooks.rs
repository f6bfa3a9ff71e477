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
use core::ffi::c_int;

/// The first bytes of a function, at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Code([u32; 4]);

/// Returns true if the function at an address begins as glibc's does, which makes one system call
/// and has nothing before it. Hooks patch the first instructions, or lead elsewhere.
#[inline(always)]
fn is_plain(address: usize, call: i64) -> bool {
    let code: *const Code = core::ptr::with_exposed_provenance(address);
    // SAFETY: functions are aligned to sixteen bytes or are longer, so these can be read. Another
    // thread may patch them meanwhile: either value is one that was there.
    let Code(code) = unsafe { code.read_volatile() };
    begins_with(code, call)
}

/// `endbr64` if the processor's branch tracking is used; `mov eax, CALL`; `syscall`.
#[cfg(target_arch = "x86_64")]
fn begins_with(code: [u32; 4], call: i64) -> bool {
    const ENDBR: u32 = 0xfa1e_0ff3;
    const MOV_EAX: u64 = 0xb8;
    const SYSCALL: u64 = 0x050f;
    let [first, second, third, _] = code;
    let (low, high) = if first == ENDBR { (second, third) } else { (first, second) };
    let seven = (u64::from(high) << 32 | u64::from(low)) & ((1 << 56) - 1);
    seven == MOV_EAX | (call as u64) << 8 | SYSCALL << 40
}

/// `nop`, or `bti c`; `mov x8, CALL`; `svc 0`.
#[cfg(target_arch = "aarch64")]
fn begins_with(code: [u32; 4], call: i64) -> bool {
    const NOP: u32 = 0xd503_201f;
    const BTI_C: u32 = 0xd503_245f;
    const MOV_X8: u32 = 0xd280_0008;
    const SVC: u32 = 0xd400_0001;
    let [first, second, third, _] = code;
    let (mov, svc) = if matches!(first, NOP | BTI_C) { (second, third) } else { (first, second) };
    mov == MOV_X8 | (call as u32) << 5 && svc == SVC
}

/// Returns true if a hook is there: `munmap` or `madvise`, by the entry that the loader has filled
/// for this library, is not glibc's own code. With musl there is no way to know, and no hook is
/// seen. Not inlined, so that each call reads the entries again.
#[inline(never)]
pub(super) fn are_there() -> bool {
    cfg!(target_env = "gnu")
        && !(is_plain(libc::munmap as *const () as usize, libc::SYS_munmap)
            && is_plain(libc::madvise as *const () as usize, libc::SYS_madvise))
}

/// Unmaps a range. `key` is that of the allocator's tables, or zero, here and below.
///
/// # Safety
/// 1. As for [`super::Memory::unmap`].
#[inline(never)]
pub(super) unsafe fn unmap(address: usize, len: usize, key: KeyNumber) -> Result<(), Error> {
    if are_there() {
        let call = || {
            // SAFETY: (1) duty 1.
            unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(address), len) }
        };
        return visibly(key, call);
    }
    // SAFETY: (1) duty 1.
    result(unsafe { syscall(libc::SYS_munmap, [address, len, 0, 0, 0, 0]) }).map(drop)
}

/// Releases the pages of a range.
///
/// # Safety
/// 1. As for [`super::Memory::discard`].
#[inline(never)]
pub(super) unsafe fn discard(address: usize, len: usize, key: KeyNumber) -> Result<(), Error> {
    if are_there() {
        // SAFETY: (1) duty 1.
        return unsafe { discard_visibly(address, len, key) };
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
pub(super) unsafe fn discard_before(
    address: usize,
    len: usize,
    key: KeyNumber,
) -> Result<(), Error> {
    // SAFETY: (1) duty 1.
    if are_there() { unsafe { discard_visibly(address, len, key) } } else { Ok(()) }
}

/// As [`discard`], by libc's function.
///
/// # Safety
/// 1. As for [`super::Memory::discard`].
unsafe fn discard_visibly(address: usize, len: usize, key: KeyNumber) -> Result<(), Error> {
    let call = || {
        let start = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: (1) duty 1.
        unsafe { libc::madvise(start, len, libc::MADV_DONTNEED) }
    };
    visibly(key, call)
}

/// Announces to a hook, if one is there, that the pages of a range are about to go elsewhere. Fails
/// if the calling thread must not make that call.
#[inline(never)]
pub(super) fn announce(address: usize, len: usize, key: KeyNumber) -> Result<(), Error> {
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
    visibly(key, call)
}

/// Makes a call of libc, which returns zero on success, outside of the allocator: its tables are
/// closed meanwhile, where a key closes them. Keeps `errno`. Fails in Toft's own thread, without a
/// call.
#[cold]
#[inline(never)]
fn visibly(key: KeyNumber, call: impl FnOnce() -> c_int) -> Result<(), Error> {
    if thread::is_own() {
        return Err(Error::Unsupported);
    }
    let errno = process::errno();
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
    use crate::os::share;
    use crate::sync::AtomicU32;
    use crate::sync::Ordering::{Acquire, Release};

    static FOUND: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn run(_: usize, top: usize) -> ! {
        let refused = visibly(0, || 0) == Err(Error::Unsupported);
        FOUND.store(if thread::is_own() && refused { 1 } else { 2 }, Release);
        // SAFETY: (1) `top` is this thread's.
        unsafe { thread::end_own(top) }
    }

    /// No other test of this process starts such a thread.
    #[test]
    fn toft_own_thread_calls_no_hook() {
        assert!(!thread::is_own());
        assert_eq!(visibly(0, || 0), Ok(()));
        let number = AtomicU32::new(0);
        let before = share::block_signals();
        assert!(thread::spawn(run, 0, &number));
        share::set_mask(before);
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
        assert_eq!(visibly(0, fails), Err(Error::NoMemory));
        assert_eq!(process::errno(), 77);
    }

    #[test]
    fn only_the_code_of_libc_is_plain() {
        extern "C" fn hook(_: usize, _: usize) -> c_int {
            77
        }
        let unmap = libc::SYS_munmap;
        assert!(!is_plain(hook as *const () as usize, unmap));
        if cfg!(target_env = "gnu") {
            assert!(is_plain(libc::munmap as *const () as usize, unmap));
            assert!(!is_plain(libc::munmap as *const () as usize, libc::SYS_madvise));
        }
        assert!(!are_there());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_patched_beginning_is_no_plain_one() {
        let plain = [0x0000_0bb8, 0x4805_0f00, 0xf001_3dff, 0x7301_ffff];
        let with_endbr = [0xfa1e_0ff3, 0x0000_0bb8, 0x4805_0f00, 0xf001_3dff];
        let jump = [0x1234_56e9, 0x4805_0f00, 0xf001_3dff, 0x7301_ffff];
        assert!(begins_with(plain, 11) && begins_with(with_endbr, 11));
        assert!(!begins_with(plain, 12) && !begins_with(jump, 11) && !begins_with([0; 4], 11));
    }
}
