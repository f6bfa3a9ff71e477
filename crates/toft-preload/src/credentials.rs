//! `setuid` and its family, `setgroups`, `capset`, `unshare` and `setns`, because Toft's thread
//! keeps the credentials and the namespaces with which it began: libc changes only those of the
//! threads that it knows. Some calls also fail while the process has a second thread.
//!
//! Each function stops the thread, calls the next definition of its name, and lets the thread start
//! again. The results and `errno` are those of that definition. It is looked for at each call: an
//! address that is kept could be overwritten.
//!
//! A static program has no next definition. `unshare`, `setns` and `capset` are system calls and
//! nothing else. For the others glibc's own function makes the call in all threads. musl's cannot
//! be found in a static program, so with musl those names stay libc's own.

use core::ffi::{CStr, c_int};
use toft_core::os::{process::set_errno, syscall as call_kernel};
use toft_core::process::without_thread;

/// Returns the next definition of a name, or null.
fn next(name: &CStr) -> *mut core::ffi::c_void {
    // SAFETY: a C string. No call of malloc leads here.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Makes a system call for the calling thread, with the result as C has it.
fn own(number: i64, args: [usize; 3]) -> c_int {
    let [a, b, c] = args;
    // SAFETY: the arguments of the program's call, which the kernel checks.
    let result = unsafe { call_kernel(number, [a, b, c, 0, 0, 0]) };
    if !(-4095..0).contains(&result) {
        return result as c_int;
    }
    set_errno(-result as c_int);
    -1
}

/// `forward!(name(arguments) else calls)`: stops the thread and calls the next definition, or
/// `calls` if there is none.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) else $calls:expr;)*) => { $(
        #[doc = concat!("`", stringify!($name), "`, while Toft has no thread.")]
        ///
        /// # Safety
        /// 1. As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            type Function = unsafe extern "C" fn($($type),*) -> c_int;
            without_thread(|| {
                let name = concat!(stringify!($name), "\0");
                let found = CStr::from_bytes_with_nul(name.as_bytes()).map_or(core::ptr::null_mut(), next);
                if found.is_null() {
                    return $calls;
                }
                // SAFETY: a function of this name has this type.
                let function = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Function>(found) };
                // SAFETY: (1) the caller's.
                unsafe { function($($argument),*) }
            })
        }
    )* };
}

forward! {
    unshare(flags: c_int) else own(libc::SYS_unshare, [flags as usize, 0, 0]);
    setns(file: c_int, kind: c_int) else own(libc::SYS_setns, [file as usize, kind as usize, 0]);
    capset(header: usize, sets: usize) else own(libc::SYS_capset, [header, sets, 0]);
}

#[cfg(target_env = "gnu")]
mod users {
    use super::*;
    use core::ffi::c_long;
    use libc::{gid_t, uid_t};

    /// glibc's `struct xid_command`.
    #[repr(C)]
    struct Command {
        number: c_int,
        ids: [c_long; 3],
        count: c_int,
        error: c_int,
    }

    type AllThreads = unsafe extern "C" fn(*mut Command) -> c_int;

    /// Returns the function of a static glibc program that makes a system call in all threads, or
    /// zero. A program without it has one thread, because `pthread_create` brings it.
    #[unsafe(naked)]
    extern "C" fn for_all_threads() -> usize {
        #[cfg(target_arch = "x86_64")]
        core::arch::naked_asm!(
            ".weak __nptl_setxid",
            "mov rax, [rip + __nptl_setxid@GOTPCREL]",
            "ret",
        );
        // Untested.
        #[cfg(target_arch = "aarch64")]
        core::arch::naked_asm!(
            ".weak __nptl_setxid",
            "adrp x0, :got:__nptl_setxid",
            "ldr x0, [x0, :got_lo12:__nptl_setxid]",
            "ret",
        );
    }

    /// Makes a system call in all threads of a static program. -1 as an identifier means none.
    fn all(number: i64, ids: [isize; 3]) -> c_int {
        let found = for_all_threads();
        if found == 0 {
            return own(number, ids.map(|id| id as usize));
        }
        let ids = ids.map(|id| id as c_long);
        let mut command = Command { number: number as c_int, ids, count: 0, error: 0 };
        // SAFETY: glibc's function of this name has this type.
        let function = unsafe { core::mem::transmute::<usize, AllThreads>(found) };
        // SAFETY: a command, which it fills in further.
        unsafe { function(&raw mut command) }
    }

    /// As `all`, for the functions that refuse -1.
    fn effective(number: i64, id: u32) -> c_int {
        if id == u32::MAX {
            set_errno(libc::EINVAL);
            return -1;
        }
        all(number, [-1, id as isize, -1])
    }

    forward! {
        setuid(user: uid_t) else all(libc::SYS_setuid, [user as isize, 0, 0]);
        setgid(group: gid_t) else all(libc::SYS_setgid, [group as isize, 0, 0]);
        seteuid(user: uid_t) else effective(libc::SYS_setresuid, user);
        setegid(group: gid_t) else effective(libc::SYS_setresgid, group);
        setreuid(real: uid_t, user: uid_t)
            else all(libc::SYS_setreuid, [real as isize, user as isize, 0]);
        setregid(real: gid_t, group: gid_t)
            else all(libc::SYS_setregid, [real as isize, group as isize, 0]);
        setresuid(real: uid_t, user: uid_t, saved: uid_t)
            else all(libc::SYS_setresuid, [real as isize, user as isize, saved as isize]);
        setresgid(real: gid_t, group: gid_t, saved: gid_t)
            else all(libc::SYS_setresgid, [real as isize, group as isize, saved as isize]);
        setgroups(count: usize, groups: *const gid_t)
            else all(libc::SYS_setgroups, [count as isize, groups as isize, 0]);
    }
}
