//! What surrounds the program's run: reading the environment, saying that the library is in place,
//! keeping it out of children, and the statistics at the end.

use super::leaks::To;
use super::misuse::Line;
use crate::options::Leaks;
use crate::os::process;
use crate::stats::Resident;
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
        if !options.stats && options.leaks == Leaks::Off {
            process::close(descriptor);
        } else if options.program_only {
            process::close_on_exec(descriptor);
        }
    }
    if options.program_only {
        hide_from_children();
    }
    super::profile::at_start(allocator);
}

/// Takes this library out of LD_PRELOAD, and every option out of the environment.
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

/// Removes this library from a list in place; says whether anything is left. Under another name it
/// is taken to be the first, where `toft run` puts it.
///
/// # Safety
/// 1. `list` is `len` writable bytes and a zero.
unsafe fn keep_rest_of_list(list: *mut u8, len: usize) -> bool {
    let (start, end) = {
        // SAFETY: duty 1; the borrow ends with this block.
        own_entry(unsafe { core::slice::from_raw_parts(list, len) })
    };
    // SAFETY: duty 1: both indices are at most `len`. What is behind the entry and its separator, the
    // final zero included, moves to where the entry began; or the list ends before the entry.
    unsafe {
        if end < len {
            core::ptr::copy(list.add(end + 1), list.add(start), len - end);
        } else if start > 0 {
            list.add(start - 1).write(0);
        }
    }
    end < len || start > 0
}

/// Where this library stands in a list.
fn own_entry(list: &[u8]) -> (usize, usize) {
    let mut first = None;
    let mut start = 0;
    for entry in list.split(|byte| matches!(byte, b':' | b' ')) {
        let range = (start, start + entry.len());
        if entry.windows(7).any(|part| part == b"libtoft") {
            return range;
        }
        first.get_or_insert(range);
        start = range.1 + 1;
    }
    first.unwrap_or((0, list.len()))
}

/// What a line of the process's mappings begins with in a report.
const PREFIX: &[u8; 4] = b"map ";

/// When the program ends: a profile, leaks and statistics, if they were asked for.
pub fn at_exit() {
    let Some(instance) = super::process::instance() else { return };
    super::profile::at_exit(instance);
    let options = instance.options();
    if options.verify != 0 {
        super::process::verify();
    }
    if options.dangling != 0 {
        instance.sweep_for_dangling(None);
    }
    if !options.stats && options.leaks == Leaks::Off {
        return;
    }
    let starter = match options.report_descriptor {
        // A program that closes what it does not know may have opened something else there.
        Some(descriptor) if process::is_pipe(descriptor) => Some(descriptor),
        Some(_) => return,
        None => None,
    };
    if options.leaks != Leaks::Off {
        instance.tell_leaks(starter.map_or(To::Person, To::Starter));
    }
    if starter.is_none() && !options.stats {
        return;
    }
    let descriptor = starter.unwrap_or(libc::STDERR_FILENO);
    if options.stats {
        let resident = Resident::now(&instance.layout());
        crate::stats::write_json(instance, descriptor, Some(&resident));
    }
    process::read_lines(c"/proc/self/maps", |line| {
        // Executable mappings are what addresses of call sites are looked up in.
        if !line.split(|&b| b == b' ').nth(1).is_some_and(|rights| rights.contains(&b'x')) {
            return;
        }
        // At once, so that the lines of two processes do not run into each other.
        let mut whole = [0u8; PREFIX.len() + 512 + 1];
        let bytes = PREFIX.iter().chain(line).chain(b"\n");
        let len = whole.iter_mut().zip(bytes).map(|(place, &byte)| *place = byte).count();
        process::write_all(descriptor, whole.get(..len).unwrap_or(&[]));
    });
    process::write_all(descriptor, b"toft-end\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_library_leaves_the_list() {
        for (list, left) in [
            ("/a/libtoft.so", None),
            ("/a/libtoft.so:b.so", Some("b.so")),
            ("b.so:/a/libtoft.so", Some("b.so")),
            ("b.so /a/libtoft.so.0:c.so", Some("b.so c.so")),
            ("/proc/7/fd/9:b.so", Some("b.so")),
            ("/proc/7/fd/9", None),
        ] {
            let mut bytes = [list.as_bytes(), &[0]].concat();
            // SAFETY: (1) as many bytes as stated, and a zero.
            let kept = unsafe { keep_rest_of_list(bytes.as_mut_ptr(), list.len()) };
            assert_eq!(kept, left.is_some(), "{list}");
            if let Some(left) = left {
                let rest = CStr::from_bytes_until_nul(&bytes).unwrap();
                assert_eq!(rest.to_str(), Ok(left), "{list}");
            }
        }
    }
}
