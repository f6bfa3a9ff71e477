//! Loading, fork, exec and exit.

use crate::next::{Next, Words};
use crate::{current, file, objects, session, sites, thread};
use std::ffi::{CStr, c_char, c_int};
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
    current::set(word);
    // SAFETY: (1) the loader has not started the program yet.
    unsafe { leave_out_of_children() };
}

/// Takes the library, which `toft record` puts in front of the list, out of the environment that
/// programs started by this one inherit; unless they are to be recorded, too.
///
/// # Safety
/// 1. Nobody else uses the environment.
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

/// The child begins a file of its own, and knows nothing of the blocks that it inherits.
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
                static NEXT: Next = Next::new(
                    // SAFETY: ends in its only zero.
                    unsafe {
                        CStr::from_bytes_with_nul_unchecked(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                    },
                );
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
}
