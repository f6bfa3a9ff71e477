//! Threads of Toft's own, made without libc, and a memory barrier for all threads. Such a thread
//! has no thread-local storage, receives no signal, and runs only the function that it is given.
//! The barrier lets it read other threads' memory.
//!
//! `pthread_create` takes locks and allocates, so nothing inside malloc may call it.

use super::syscall::syscall;
use crate::sync::AtomicU32;

/// The bytes of the thread's stack, and of the guard below it.
const STACK: usize = 64 << 10;
const GUARD: usize = 64 << 10;

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and the command that requests the right to it, Linux 4.14.
pub(super) const EXPEDITED: usize = 1 << 3;
const REGISTER_EXPEDITED: usize = 1 << 4;

/// What a thread or a child runs: it gets an argument, and the end of its stack.
pub type Run = unsafe extern "C" fn(usize, usize) -> !;

/// Starts a thread that runs `run(argument, top)`, where `top` is the end of its stack, for
/// [`end_own`]. Returns false on failure. The kernel writes the thread's number to `number` before
/// the thread runs. The thread begins with the caller's signal mask. The caller blocks all signals,
/// so the thread receives none of the program's.
pub fn spawn(run: Run, argument: usize, number: &AtomicU32) -> bool {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK) as usize;
    // SAFETY: a new mapping, whose lower part is made inaccessible.
    let stack = unsafe {
        let args = [0, GUARD + STACK, protection, flags, usize::MAX, 0];
        let stack = syscall(libc::SYS_mmap, args);
        if (-4095..0).contains(&stack) {
            return false;
        }
        syscall(libc::SYS_mprotect, [stack as usize, GUARD, libc::PROT_NONE as usize, 0, 0, 0]);
        // The child of a fork has no such thread, and no use for its stack.
        let dont_fork = libc::MADV_DONTFORK as usize;
        syscall(libc::SYS_madvise, [stack as usize, GUARD + STACK, dont_fork, 0, 0, 0]);
        stack as usize
    };
    let top = stack + GUARD + STACK;
    // SAFETY: (1) only the thread uses the stack, and unmaps it at its end; (2) `clone` gets the
    // stack's end.
    let made = unsafe { create_thread(top, run, argument, number.as_ptr() as usize) };
    if made <= 0 {
        // SAFETY: the mapping was made above, and no thread uses it.
        unsafe { syscall(libc::SYS_munmap, [stack, GUARD + STACK, 0, 0, 0, 0]) };
    }
    made > 0
}

/// Returns true if the calling thread is Toft's own. It blocks all signals. glibc's threads cannot
/// block the two signals that glibc uses itself, except while Toft starts a thread.
pub(super) fn is_own() -> bool {
    /// Signals 32 and 33.
    const OF_LIBC: u64 = 0b11 << 31;
    let mut blocked = 0u64;
    let args = [libc::SIG_BLOCK as usize, 0, &raw mut blocked as usize, 8, 0, 0];
    // SAFETY: the kernel only writes the word.
    unsafe { syscall(libc::SYS_rt_sigprocmask, args) };
    blocked & OF_LIBC == OF_LIBC
}

/// Returns the address of the calling thread's control block, which libc keeps. Toft's own
/// thread has that of the thread that started it.
#[inline]
pub fn thread_block() -> usize {
    let address: usize;
    // SAFETY: the platform's ABI says that the word at fs:0 is its own address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr fs:[0]",
            out(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: reads a register. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("mrs {0}, tpidr_el0", out(reg) address, options(nostack, nomem));
    }
    address
}

/// Ends the calling thread, which is one of Toft's. Its stack stays.
pub fn end() -> ! {
    loop {
        // SAFETY: ends only this thread.
        unsafe { syscall(libc::SYS_exit, [0; 6]) };
    }
}

/// Ends the calling thread, and unmaps its stack.
///
/// # Safety
/// 1. `top` is what [`spawn`] passed to this thread, which blocks all signals.
pub unsafe fn end_own(top: usize) -> ! {
    // SAFETY: (duty 1) the mapping is this thread's stack and its guard. Nothing uses the stack
    // after the first call: neither the second one, nor a signal handler.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "syscall",
            "2:",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "jmp 2b",
            exit = const libc::SYS_exit,
            in("rax") libc::SYS_munmap,
            in("rdi") top - GUARD - STACK,
            in("rsi") GUARD + STACK,
            options(noreturn),
        );
    }
    // SAFETY: as on x86-64. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "svc 0",
            "2:",
            "mov x8, #{exit}",
            "mov x0, xzr",
            "svc 0",
            "b 2b",
            exit = const libc::SYS_exit,
            in("x8") libc::SYS_munmap,
            in("x0") top - GUARD - STACK,
            in("x1") GUARD + STACK,
            options(noreturn),
        );
    }
}

const CLONE_FLAGS: usize = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM) as usize;

/// Starts a thread on a stack. Returns its number, or the negative error code. `number` is the
/// address of a word to which the kernel writes that number before the thread runs, or zero.
///
/// # Safety
/// 1. As for [`clone_onto`], duty 1.
pub(super) unsafe fn create_thread(top: usize, run: Run, argument: usize, number: usize) -> isize {
    let flags = CLONE_FLAGS | if number != 0 { libc::CLONE_PARENT_SETTID as usize } else { 0 };
    // SAFETY: (1) the caller's duty; (2) `clone` gets the end of that stack.
    unsafe { clone_onto(libc::SYS_clone, [flags, top, number], top, run, argument) }
}

/// Calls `clone` or `clone3`, and `run(argument, top)` in the new thread or process. A filter may
/// answer zero and create nothing. The stack is then still the caller's, and the result is
/// `-ENOSYS`.
///
/// # Safety
/// 1. `top` is the end of a stack that no other thread uses, aligned to 16.
/// 2. The arguments fit that call, and make the new thread or process begin at `top`.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn clone_onto(
    number: i64,
    [first, second, third]: [usize; 3],
    top: usize,
    run: Run,
    argument: usize,
) -> isize {
    let made: isize;
    // SAFETY: (1) (2) the caller's duties. In the new thread or process, whose result is zero,
    // `run` is called and does not return. The caller goes on after it. The compiler may need rbx
    // itself. The function and its argument are therefore in registers that the system call does
    // not change.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "cmp rsp, r14",
            "jne 3f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "mov rsi, r14",
            "call r12",
            "ud2",
            "3:",
            "mov rax, {nothing}",
            "2:",
            nothing = const -(libc::ENOSYS as isize),
            inlateout("rax") number as isize => made,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") run as usize,
            in("r13") argument,
            in("r14") top,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    made
}

/// Does the same as on x86-64. (Untested.)
///
/// # Safety
/// 1. `top` is the end of a stack that no other thread uses, aligned to 16.
/// 2. The arguments fit that call, and make the new thread or process begin at `top`.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn clone_onto(
    number: i64,
    [first, second, third]: [usize; 3],
    top: usize,
    run: Run,
    argument: usize,
) -> isize {
    let made: isize;
    // SAFETY: (1) (2) the caller's duties, as on x86-64.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x12, sp",
            "cmp x12, x11",
            "b.ne 3f",
            "mov x29, xzr",
            "mov x0, x10",
            "mov x1, x11",
            "blr x9",
            "brk 1",
            "3:",
            "mov x0, {nothing}",
            "2:",
            nothing = const -(libc::ENOSYS as isize),
            inlateout("x0") first as isize => made,
            in("x1") second,
            in("x2") third,
            in("x3") 0usize,
            in("x4") 0usize,
            in("x8") number,
            in("x9") run as usize,
            in("x10") argument,
            in("x11") top,
            lateout("x12") _,
            lateout("x30") _,
        );
    }
    made
}

/// Prepares a thread of Toft's, which calls this first. It takes a name, for a user who inspects
/// the process. It drops its capabilities, and any way to get them back, because it needs none. It
/// drops a real-time priority that it inherited from its maker.
pub fn prepare_own_thread(name: &core::ffi::CStr) {
    let name = [libc::PR_SET_NAME as usize, name.as_ptr() as usize, 0, 0, 0, 0];
    /// `_LINUX_CAPABILITY_VERSION_3`, and the calling thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    const NONE: [u32; 6] = [0; 6];
    let capabilities = [HEADER.as_ptr() as usize, NONE.as_ptr() as usize, 0, 0, 0, 0];
    // The kernel's `sched_param`.
    let priority = 0i32;
    let usual = [0, libc::SCHED_OTHER as usize, &raw const priority as usize, 0, 0, 0];
    // SAFETY: the kernel only reads the name, the priority, the header and the sets.
    unsafe {
        syscall(libc::SYS_prctl, name);
        syscall(libc::SYS_sched_setscheduler, usual);
        syscall(libc::SYS_capset, capabilities);
        syscall(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0]);
    }
}

/// Makes every running thread of the process pass a full memory barrier before this returns.
/// Returns false if the system cannot do that.
pub fn barrier() -> bool {
    let call = |command| {
        // SAFETY: no effect except the barrier, or the right to it.
        unsafe { syscall(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) == 0 }
    };
    // A process must request the right once, and the child of a fork must request it again.
    call(EXPEDITED) || call(REGISTER_EXPEDITED) && call(EXPEDITED)
}

/// Sleeps while the word is `value`, for at most the given number of milliseconds.
pub fn sleep_on(word: &AtomicU32, value: u32, milliseconds: u32) {
    let time = libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let args = [word.as_ptr() as usize, wait, value as usize, &raw const time as usize, 0, 0];
    // SAFETY: the kernel only reads the word and the time.
    unsafe { syscall(libc::SYS_futex, args) };
}

/// Wakes all threads that sleep on the word.
pub fn wake(word: &AtomicU32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    let all = i32::MAX as usize;
    // SAFETY: the kernel does not access the word.
    unsafe { syscall(libc::SYS_futex, [word.as_ptr() as usize, operation, all, 0, 0, 0]) };
}
