//! The allocator's interface to its process: the auxiliary vector, the environment, thread-exit and
//! fork handlers, and the end of the process. Files and lines are in `files.rs`. The library's own
//! memory is in `memory.rs`. The kernel's lists are read by `mappings.rs` and `status.rs`.
//!
//! The few libc functions named here neither allocate nor take a lock that allocation needs.
//! `pthread_setspecific` may allocate for late keys. It is called when the thread's heap already
//! exists, so that the re-entry is an ordinary call.

mod credentials;
mod files;
mod mappings;
mod memory;
mod status;

use super::syscall::syscall;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
pub use credentials::Credentials;
pub use files::*;
pub use mappings::*;
pub use memory::*;
pub use status::*;

unsafe extern "C" {
    static mut environ: *mut *mut u8;
}

/// A function that `fork` calls.
type Handler = Option<unsafe extern "C" fn()>;

/// Registers handlers of `fork`. Returns true if libc accepted them.
///
/// # Safety
/// 1. The handlers live as long as the process.
#[cfg(target_env = "gnu")]
unsafe fn at_fork(prepare: Handler, parent: Handler, child: Handler) -> bool {
    unsafe extern "C" {
        fn __register_atfork(
            prepare: Handler,
            parent: Handler,
            child: Handler,
            dso: *mut c_void,
        ) -> c_int;
    }
    // SAFETY: duty 1; the handlers belong to no library that could be unloaded.
    unsafe { __register_atfork(prepare, parent, child, core::ptr::null_mut()) == 0 }
}

/// Registers handlers of `fork`. Returns true if libc accepted them.
///
/// # Safety
/// 1. The handlers live as long as the process.
#[cfg(not(target_env = "gnu"))]
unsafe fn at_fork(prepare: Handler, parent: Handler, child: Handler) -> bool {
    // SAFETY: duty 1.
    unsafe { libc::pthread_atfork(prepare, parent, child) == 0 }
}

/// Returns the number of bytes in a page, from the auxiliary vector.
pub fn page_size() -> usize {
    // SAFETY: getauxval reads a table that the loader filled before any of our code ran.
    let size = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    if size.is_power_of_two() && size >= 4096 { size } else { 4096 }
}

/// Returns true if the kernel demands secure execution (setuid, file capabilities). The environment
/// is then an attacker's, and no address may be written to stderr.
pub fn is_secure() -> bool {
    // SAFETY: getauxval reads a table that the loader filled before any of our code ran.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the environment block: an array of pointers to `NAME=value`, ended by null. The result
/// may be null early in the process.
pub fn environment() -> *mut *mut u8 {
    // SAFETY: a plain read of a pointer that libc owns; only start-up code calls this.
    unsafe { environ }
}

/// Makes `environ`, and libc's other names for it, point to another array.
///
/// # Safety
/// 1. `array` leads to C strings, is ended by null and can be written to, for the life of the
///    process.
/// 2. No other thread uses the environment meanwhile.
pub unsafe fn set_environment(array: *mut *mut u8) {
    // SAFETY: duties 1 and 2. libc frees or enlarges only arrays that it has allocated.
    unsafe { environ = array };
}

/// Returns the number of the process.
pub fn pid() -> usize {
    // SAFETY: no arguments, no effects.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as usize }
}

/// Returns `errno` of the calling thread.
pub(super) fn errno() -> c_int {
    // SAFETY: libc's errno is a thread-local int that always exists.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` of the calling thread.
#[cold]
pub fn set_errno(code: c_int) {
    // SAFETY: libc's errno is a thread-local int that always exists.
    unsafe { *libc::__errno_location() = code };
}

/// Returns the number of the calling thread.
pub fn thread_number() -> u32 {
    // SAFETY: no arguments, no effects.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Returns true if a thread of this process still runs.
pub fn thread_runs(number: u32) -> bool {
    let args = [pid(), number as usize, 0, 0, 0, 0];
    // SAFETY: signal 0 is only a query.
    unsafe { syscall(libc::SYS_tgkill, args) != -(libc::ESRCH as isize) }
}

/// Registers a handler that runs in the child of every fork. Returns true if libc accepted it.
/// Without compaction no lock is held across a fork, so no handler before the fork is needed.
pub fn on_fork_child(handler: unsafe extern "C" fn()) -> bool {
    // SAFETY: (1) the library is never unloaded (NODELETE).
    unsafe { at_fork(None, None, Some(handler)) }
}

/// Registers handlers that run before every fork, and after it in the parent. Returns true if libc
/// accepted them. `prepare` is called before the C library takes its locks, and after the program's
/// handlers.
pub fn on_fork(prepare: unsafe extern "C" fn(), parent: unsafe extern "C" fn()) -> bool {
    // SAFETY: (1) the library is never unloaded (NODELETE).
    unsafe { at_fork(Some(prepare), Some(parent), None) }
}

/// Creates a thread key whose destructor reports a thread's end. Returns `None` if the program
/// holds all keys.
pub fn thread_exit_key(destructor: unsafe extern "C" fn(*mut c_void)) -> Option<u32> {
    let mut key = MaybeUninit::<libc::pthread_key_t>::uninit();
    // SAFETY: libc writes the key on success.
    let code = unsafe { libc::pthread_key_create(key.as_mut_ptr(), Some(destructor)) };
    // SAFETY: the call succeeded, so libc has written the key.
    (code == 0).then(|| unsafe { key.assume_init() })
}

/// Deletes a key of [`thread_exit_key`].
pub fn delete_key(key: u32) {
    // SAFETY: libc forgets every thread's value, and follows none.
    unsafe { libc::pthread_key_delete(key) };
}

/// Arms the destructor for the calling thread. A zero disarms it.
pub fn arm_thread_exit(key: u32, value: usize) {
    // SAFETY: the key was made by `thread_exit_key`; libc keeps the value without following it.
    unsafe { libc::pthread_setspecific(key, core::ptr::with_exposed_provenance(value)) };
}

/// Returns the value with which the calling thread's destructor is armed, or zero.
pub fn thread_value(key: u32) -> usize {
    // SAFETY: the key was made by `thread_exit_key`; libc returns what it keeps.
    unsafe { libc::pthread_getspecific(key) }.expose_provenance()
}

/// Returns the calling thread's number, or zero if libc does not tell it. It makes no system call,
/// which a filter might forbid. libc derives the thread's clock from the number: its complement,
/// shifted left by three bits.
pub fn own_thread() -> u32 {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the thread's own descriptor, and a live local.
    let code = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
    if code == 0 { !(clock >> 3) as u32 } else { 0 }
}

/// Returns the calling thread's handle of libc, which no other thread of the process has.
pub fn thread_handle() -> usize {
    // SAFETY: reads the thread's own register.
    unsafe { libc::pthread_self() as usize }
}

/// Returns the time in ticks of 10 to 40 milliseconds, by the processor's own counter.
pub fn ticks() -> u32 {
    // This fits counters of 1.7 to 6.7 GHz, and no x86-64 processor's counter is far from that.
    #[cfg(target_arch = "x86_64")]
    let ticks = counter() >> 26;
    #[cfg(target_arch = "aarch64")]
    let ticks = {
        let frequency: u64;
        // SAFETY: Linux lets programs read the register.
        unsafe {
            core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack));
        }
        counter() / (frequency >> 6).max(1)
    };
    ticks as u32
}

/// Returns the processor's own counter, which counts at a constant rate.
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    let count = unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    let count = {
        let count: u64;
        // SAFETY: Linux lets programs read the register.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack));
        }
        count
    };
    count
}

/// Returns the number of seconds since 1970.
pub fn seconds() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME) / 1_000_000_000
}

/// Returns the nanoseconds of a clock that only goes forward.
pub fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Returns the nanoseconds of processor time that all threads have used.
pub fn processor_time() -> u64 {
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the nanoseconds of processor time that the calling thread has used.
pub fn thread_time() -> u64 {
    nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the number of page faults of the process that needed no disk, and the microseconds of
/// processor time that all its threads have used.
pub fn usage() -> (u64, u64) {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    let place = usage.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes one `rusage`.
    unsafe { syscall(libc::SYS_getrusage, [libc::RUSAGE_SELF as usize, place, 0, 0, 0, 0]) };
    // SAFETY: integers. All are zero if the kernel has written none.
    let usage = unsafe { usage.assume_init() };
    let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    (usage.ru_minflt as u64, microseconds(usage.ru_utime) + microseconds(usage.ru_stime))
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [clock as usize, &raw mut now as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one time.
    unsafe { syscall(libc::SYS_clock_gettime, args) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Installs a function as the handler of a signal. Interrupted calls go on. Returns true if it
/// could. The function makes only calls that a signal handler may make.
pub fn on_signal(number: c_int, handler: extern "C" fn(c_int)) -> bool {
    // SAFETY: a structure of integers, and a handler that lives as long as the process.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(number, &raw const action, core::ptr::null_mut()) == 0
    }
}

/// Ends the process by SIGABRT. No handler can prevent that.
pub fn abort() -> ! {
    // This restores the default action and unblocks SIGABRT before it raises the signal. A handler
    // of SIGABRT could otherwise longjmp out, and go on with a heap that is known to be misused.
    // SAFETY: plain kernel calls on zeroed kernel structures of the right size, of this thread.
    unsafe {
        let default_action = [0usize; 4];
        let abort = libc::SIGABRT as usize;
        let action = &raw const default_action as usize;
        syscall(libc::SYS_rt_sigaction, [abort, action, 0, 8, 0, 0]);
        let unblock = 1u64 << (libc::SIGABRT - 1);
        let how = libc::SIG_UNBLOCK as usize;
        syscall(libc::SYS_rt_sigprocmask, [how, &raw const unblock as usize, 0, 8, 0, 0]);
        let process = syscall(libc::SYS_getpid, [0; 6]) as usize;
        let thread = syscall(libc::SYS_gettid, [0; 6]) as usize;
        syscall(libc::SYS_tgkill, [process, thread, abort, 0, 0, 0]);
        loop {
            syscall(libc::SYS_exit_group, [134, 0, 0, 0, 0, 0]);
        }
    }
}
