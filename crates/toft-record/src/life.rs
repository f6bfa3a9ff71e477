//! Loading, fork, exec and exit.

use crate::next::{Next, Words};
use crate::{current, file, objects, session, sites, thread};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The variable that lets programs that the program starts be recorded, too.
const CHILDREN: &CStr = c"LIBTOFT_RECORD_CHILDREN";

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = loaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_END: extern "C" fn() = ended;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
    /// What glibc's `at_quick_exit` is made of, which itself is in no shared library.
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

/// Calls before this one were recorded on the chance that there is a file.
extern "C" fn loaded() {
    if !file::named() {
        session::turn_off();
        return;
    }
    let word = current::get();
    current::set(current::BUSY);
    // SAFETY: three functions of the type that is asked for; they live as long as this library,
    // which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    // SAFETY: a function of the type that is asked for, which lives as long as this library. Those
    // for `quick_exit` are called in the reverse order, and no other function is before ours.
    unsafe { __cxa_at_quick_exit(ended_quickly, std::ptr::null_mut()) };
    current::set(word);
    // SAFETY: (1) the loader has not started the program yet.
    unsafe { leave_out_of_children() };
}

/// Takes the library, which `toft record` puts in front of the list, out of the environment that
/// programs started by this one inherit; unless they are to be recorded, too.
///
/// # Safety
/// 1. No other thread uses the environment.
unsafe fn leave_out_of_children() {
    // SAFETY: (1) an array of C strings that are writable, ended by null.
    unsafe {
        if !libc::getenv(CHILDREN.as_ptr()).is_null() {
            return;
        }
        let (mut from, mut to) = (environ, environ);
        while !from.is_null() && !(*from).is_null() {
            let text = CStr::from_ptr(*from).to_bytes();
            let list = text.strip_prefix(b"LD_PRELOAD=");
            let rest = list.map(|list| list.iter().position(|byte| matches!(byte, b':' | b' ')));
            let keep = match rest {
                None => !text.starts_with(b"LIBTOFT_RECORD_"),
                Some(None) => false,
                Some(Some(first)) => {
                    let start = (*from).add(b"LD_PRELOAD=".len());
                    let behind = start.add(first + 1);
                    std::ptr::copy(behind, start, libc::strlen(behind) + 1);
                    true
                }
            };
            if keep {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        if !to.is_null() {
            *to = std::ptr::null_mut();
        }
    }
}

/// Writes what was gathered. What comes afterwards is gathered again, or written at once.
fn finish(late: bool) {
    let word = current::get();
    if word == current::BUSY || session::is_off() || !file::is_worth_it(!late) {
        return;
    }
    current::set(current::BUSY);
    if late {
        file::set_late();
    }
    thread::write_all();
    file::append_last();
    current::set(word);
}

extern "C" fn ended() {
    finish(true);
}

/// `quick_exit` calls no function that can be stood before, and none of `.fini_array`.
extern "C" fn ended_quickly(_: *mut c_void) {
    finish(true);
}

/// Whether the locks were not closed, because the thread was in the recorder when a signal came
/// whose handler forks.
static INSIDE: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn before_fork() {
    if current::get() == current::BUSY {
        INSIDE.store(true, Relaxed);
        return;
    }
    thread::close();
    objects::close();
    file::close();
}

fn open() -> bool {
    if INSIDE.swap(false, Relaxed) {
        return false;
    }
    file::open();
    objects::open();
    thread::open();
    true
}

unsafe extern "C" fn in_parent() {
    open();
}

/// The child begins a separate file, and knows nothing of the blocks that it inherits.
unsafe extern "C" fn in_child() {
    if !open() {
        session::turn_off();
        return;
    }
    file::forget();
    // SAFETY: (1) the child of a fork has one thread.
    unsafe { objects::forget() };
    sites::forget();
    thread::forget();
    session::forget();
    current::set(current::FRESH);
}

/// An end without the functions of `atexit`.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    finish(true);
    // SAFETY: ends the process.
    unsafe {
        libc::syscall(libc::SYS_exit_group, status);
        libc::abort()
    }
}

/// As [`_exit`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// `exec!(name(arguments))`: writes what was gathered, since the memory that it is in goes away.
macro_rules! exec {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[doc = concat!("C's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// 1. As in C.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                static NEXT: Next = Next::ending(concat!(stringify!($name), "\0"));
                finish(false);
                // SAFETY: (1) the caller's; the function of this name has this type.
                unsafe {
                    let next: unsafe extern "C" fn($($type),*) -> c_int =
                        std::mem::transmute(NEXT.address());
                    next($($argument),*)
                }
            }
        )*
    };
}

exec! {
    execve(path: *const c_char, words: Words, environment: Words);
    execv(path: *const c_char, words: Words);
    execvp(file: *const c_char, words: Words);
    execvpe(file: *const c_char, words: Words, environment: Words);
    fexecve(descriptor: c_int, words: Words, environment: Words);
    execveat(directory: c_int, path: *const c_char, words: Words, environment: Words, flags: c_int);
}

/// `list!(name, function)`: as `exec!` for those whose arguments are a list of any length, which
/// must stay where they are.
macro_rules! list {
    ($($name:ident, $before:ident;)*) => {
        $(
            /// Writes what was gathered; gives the function behind.
            extern "C" fn $before() -> usize {
                static NEXT: Next = Next::ending(concat!(stringify!($name), "\0"));
                finish(false);
                NEXT.address()
            }

            #[doc = concat!("C's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// 1. As in C.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                // The registers that hold arguments are kept over the call, and the stack is
                // aligned.
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    "sub rsp, 56",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx",
                    "mov [rsp + 32], r8",
                    "mov [rsp + 40], r9",
                    "mov [rsp + 48], rax",
                    "call {}",
                    "mov r11, rax",
                    "mov rdi, [rsp]",
                    "mov rsi, [rsp + 8]",
                    "mov rdx, [rsp + 16]",
                    "mov rcx, [rsp + 24]",
                    "mov r8, [rsp + 32]",
                    "mov r9, [rsp + 40]",
                    "mov rax, [rsp + 48]",
                    "add rsp, 56",
                    "jmp r11",
                    sym $before,
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, -80]!",
                    "stp x0, x1, [sp, 16]",
                    "stp x2, x3, [sp, 32]",
                    "stp x4, x5, [sp, 48]",
                    "stp x6, x7, [sp, 64]",
                    "bl {}",
                    "mov x16, x0",
                    "ldp x0, x1, [sp, 16]",
                    "ldp x2, x3, [sp, 32]",
                    "ldp x4, x5, [sp, 48]",
                    "ldp x6, x7, [sp, 64]",
                    "ldp x29, x30, [sp], 80",
                    "br x16",
                    sym $before,
                );
            }
        )*
    };
}

list! {
    execl, before_execl;
    execlp, before_execlp;
    execle, before_execle;
}
