//! The raw system call. It does not change `errno`, and enters no library.

use super::Error;

/// Returns what a call returned, or the reason why it failed.
pub(super) fn result(code: isize) -> Result<usize, Error> {
    if (-4095..0).contains(&code) {
        return Err(match -code as i32 {
            libc::EEXIST => Error::Occupied,
            libc::EINVAL | libc::ENOSYS | libc::EPERM => Error::Unsupported,
            _ => Error::NoMemory,
        });
    }
    Ok(code as usize)
}

/// Calls the kernel with up to six arguments; the result is `-errno` on failure.
///
/// # Safety
/// 1. The arguments mean to the kernel what the caller intends, and the call touches no memory
///    that safe code relies on.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn syscall(number: i64, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: (1) is the caller's duty; the kernel changes only rax, rcx and r11.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Calls the kernel with up to six arguments; the result is `-errno` on failure. (Untested.)
///
/// # Safety
/// 1. The arguments mean to the kernel what the caller intends, and the call touches no memory
///    that safe code relies on.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn syscall(number: i64, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: (1) is the caller's duty; the kernel changes only x0.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
            options(nostack)
        );
    }
    result
}
