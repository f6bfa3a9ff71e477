//! What surrounds the program's run: reading the environment, saying that the library is in place,
//! keeping it out of children, and the statistics at the end.

use super::misuse::Line;
use super::start::allocator;
use crate::os::process;
use core::ffi::CStr;

unsafe extern "C" {
    /// Where the kernel put argc; set by the loader before anything else runs.
    static __libc_stack_end: *mut usize;
}

/// The environment as pointers to `NAME=value`. The first allocation may come before libc has set
/// `environ`: then it is found where the kernel put it.
fn variables() -> *mut *mut u8 {
    let known = process::environment();
    if !known.is_null() {
        return known;
    }
    // SAFETY: the loader sets this before any allocation; argc, argv, null, environment follow.
    unsafe {
        let stack = __libc_stack_end;
        if stack.is_null() { core::ptr::null_mut() } else { stack.add(1 + *stack + 1).cast() }
    }
}

/// Each variable of the environment.
pub(super) fn for_each_variable(mut each: impl FnMut(&[u8])) {
    let mut place = variables();
    if place.is_null() {
        return;
    }
    // SAFETY: an array of C strings, ended by null.
    unsafe {
        while !(*place).is_null() {
            each(CStr::from_ptr((*place).cast()).to_bytes());
            place = place.add(1);
        }
    }
}

/// When the library has been loaded: says so to whoever asked, and leaves the environment to
/// children as it would be without us, where that was asked for.
pub fn at_start() {
    let Some(allocator) = super::process::instance() else { return };
    let options = allocator.options();
    if let Some(descriptor) = options.report_descriptor {
        let mut line = Line::new(false);
        line.text("toft-ready ").text(env!("CARGO_PKG_VERSION")).text(" ");
        line.number(process::pid() as u64);
        process::write_all(descriptor, line.end());
        if !options.stats {
            process::close(descriptor);
        } else if options.program_only {
            process::close_on_exec(descriptor);
        }
    }
    if options.program_only {
        hide_from_children();
    }
}

/// Takes the first entry out of LD_PRELOAD, and every option out of the environment.
fn hide_from_children() {
    let mut from = variables();
    if from.is_null() {
        return;
    }
    let mut to = from;
    // SAFETY: the array is ended by null and its strings are writable memory of this process; this
    // runs in the library's constructor, before the program has a second thread.
    unsafe {
        while !(*from).is_null() {
            let variable = *from;
            let bytes = CStr::from_ptr(variable.cast()).to_bytes();
            let keep = if bytes.starts_with(b"TOFT_") {
                false
            } else if let Some(list) = bytes.strip_prefix(b"LD_PRELOAD=") {
                keep_rest_of_list(variable.add(bytes.len() - list.len()), list.len())
            } else {
                true
            };
            if keep {
                *to = variable;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = core::ptr::null_mut();
    }
}

/// Removes the first entry of a list in place; says whether anything is left.
///
/// # Safety
/// 1. `list` is `len` writable bytes and a zero.
unsafe fn keep_rest_of_list(list: *mut u8, len: usize) -> bool {
    // SAFETY: duty 1.
    let bytes = unsafe { core::slice::from_raw_parts(list, len) };
    let is_separator = |byte: &u8| matches!(byte, b':' | b' ');
    let Some(end) = bytes.iter().position(is_separator) else { return false };
    // SAFETY: duty 1: what is behind the separator, and the final zero, moves to the front.
    unsafe { core::ptr::copy(list.add(end + 1), list, len - end) };
    true
}

/// What a line of the process's mappings begins with in a report.
const PREFIX: &[u8; 4] = b"map ";

/// When the program ends: statistics, if they were asked for.
pub fn at_exit() {
    let Some(instance) = super::process::instance() else { return };
    if !instance.options().stats {
        return;
    }
    let descriptor = match instance.options().report_descriptor {
        // A program that closes what it does not know may have opened something else there.
        Some(descriptor) if process::is_pipe(descriptor) => descriptor,
        Some(_) => return,
        None => libc::STDERR_FILENO,
    };
    crate::stats::write_json(allocator(), descriptor);
    let mut partial = [0u8; 512];
    let mut len = PREFIX.len();
    for (place, &byte) in partial.iter_mut().zip(PREFIX) {
        *place = byte;
    }
    process::read_file(c"/proc/self/maps", |chunk| {
        for &byte in chunk {
            if byte != b'\n' {
                if let Some(place) = partial.get_mut(len) {
                    *place = byte;
                    len += 1;
                }
                continue;
            }
            // Executable mappings are what addresses of call sites are looked up in.
            if let Some(end) = partial.get_mut(len) {
                *end = b'\n';
            }
            let line = partial.get(..=len).unwrap_or(&[]);
            if line.split(|&b| b == b' ').nth(2).is_some_and(|rights| rights.contains(&b'x')) {
                process::write_all(descriptor, line);
            }
            len = PREFIX.len();
        }
    });
    process::write_all(descriptor, b"toft-end\n");
}
