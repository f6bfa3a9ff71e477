//! `prctl` and `syscall`, because a process installs a filter of system calls (seccomp) through
//! them. The allocator must know before: see `toft_core::os::filter`.
//!
//! They do what the C library's do and nothing else. `syscall` is its instructions, so that a call
//! which returns twice, or on another stack, finds the stack as it would there. They go to the
//! kernel and not to a function of the same name further on: nothing here may ask the loader.

use core::ffi::c_int;
use toft_core::os::{process::set_errno, syscall as call_kernel};
use toft_core::process::{before_filter, filter_refused, watch_filters, without_thread};

/// From now on the allocator relies on being notified of each filter. Called here and not from
/// elsewhere, so that a program that is linked to the archive gets this whole file or none of it:
/// the names below are then its own before it looks for them in the C library.
pub fn watch() {
    watch_filters();
}

/// Calls the kernel. Before a call that may install a filter it notifies the allocator, and takes
/// that back when the call failed.
///
/// # Safety
/// 1. As for C's `syscall`.
unsafe fn call(number: i64, args: [usize; 6]) -> isize {
    // The kernel reads only these 32 bits.
    let first = args[0] as u32;
    let installs = match i64::from(number as u32) {
        libc::SYS_prctl => first == libc::PR_SET_SECCOMP as u32,
        libc::SYS_seccomp => {
            first == libc::SECCOMP_SET_MODE_STRICT || first == libc::SECCOMP_SET_MODE_FILTER
        }
        _ => false,
    };
    if installs {
        before_filter();
    }
    // SAFETY: (1) the caller's.
    let call = || unsafe { call_kernel(number, args) };
    let alone = matches!(i64::from(number as u32), libc::SYS_unshare | libc::SYS_setns);
    let result = if alone { without_thread(call) } else { call() };
    if installs && result < 0 {
        filter_refused();
    }
    result
}

/// The result as C has it.
extern "C" fn returned(result: isize) -> isize {
    if !(-4095..0).contains(&result) {
        return result;
    }
    set_errno(-result as c_int);
    -1
}

/// `prctl`. A C caller may leave out what the option does not need; it gets what is in the
/// registers.
///
/// # Safety
/// 1. As for C's `prctl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // SAFETY: (1) the caller's.
    returned(unsafe { call(libc::SYS_prctl, [option as usize, a, b, c, d, 0]) }) as c_int
}

/// The calls of `syscall` that may install a filter, or need a process without a second thread. A
/// program changes users by `syscall` if it means the calling thread alone: those are not among
/// them. The last argument is where the caller put it.
unsafe extern "C" fn syscall_with_care(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    // SAFETY: (1) the caller's.
    returned(unsafe { call(number, [a, b, c, d, e, f]) })
}

/// `syscall`: the number and up to six arguments.
///
/// # Safety
/// 1. As for C's `syscall`.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() -> isize {
    core::arch::naked_asm!(
        "cmp edi, {seccomp}",
        "je 2f",
        "cmp edi, {prctl}",
        "je 2f",
        "cmp edi, {unshare}",
        "je 2f",
        "cmp edi, {setns}",
        "je 2f",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "2:",
        "jmp {care}",
        "3:",
        "mov rdi, rax",
        "jmp {returned}",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        unshare = const libc::SYS_unshare,
        setns = const libc::SYS_setns,
        care = sym syscall_with_care,
        returned = sym returned,
    )
}

/// `syscall`: the number and up to six arguments. (Untested.)
///
/// # Safety
/// 1. As for C's `syscall`.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() -> isize {
    core::arch::naked_asm!(
        "cmp w0, #{seccomp}",
        "b.eq 2f",
        "cmp w0, #{prctl}",
        "b.eq 2f",
        "cmp w0, #{unshare}",
        "b.eq 2f",
        "cmp w0, #{setns}",
        "b.eq 2f",
        "uxtw x8, w0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc 0",
        "cmn x0, #4095",
        "b.cs 3f",
        "ret",
        "2:",
        "b {care}",
        "3:",
        "b {returned}",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        unshare = const libc::SYS_unshare,
        setns = const libc::SYS_setns,
        care = sym syscall_with_care,
        returned = sym returned,
    )
}
