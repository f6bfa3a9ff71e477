//! The process's environment: read when the allocator starts, and kept as it would be without this
//! library for the programs that the process starts.
//!
//! ```text
//! the kernel's vector, on the stack   argc | argv ... 0 | environment ... 0 | auxiliary vector ... 0 0
//! ```
//!
//! The vector is never moved: runtimes (Go's) look for the auxiliary vector after the environment.
//! `environ` is pointed at a copy of the whole vector that lacks the hidden variables; main's
//! `envp` is what `environ` is when libc calls main, so the auxiliary vector is found after it,
//! too. In the kernel's own vector a hidden variable becomes an empty string. No variable's text is
//! changed: `/proc/PID/environ` shows what the process was started with.

use crate::os::process;
use core::ffi::CStr;

const WORD: usize = size_of::<usize>();

/// An array of pointers to C strings, ended by null.
type Strings = *mut *mut u8;

/// The environment as pointers to `NAME=value`. The first allocation may come before libc has set
/// `environ`: then it is found where the kernel put it.
fn variables() -> Strings {
    let known = process::environment();
    if known.is_null() { initial_variables() } else { known }
}

/// The environment in the kernel's vector.
#[cfg(target_env = "gnu")]
fn initial_variables() -> Strings {
    unsafe extern "C" {
        /// Where the kernel put argc; set by the loader before anything else runs.
        static __libc_stack_end: *mut usize;
    }
    // SAFETY: the loader sets this before any allocation; argc, argv, null, environment follow.
    unsafe {
        let stack = __libc_stack_end;
        if stack.is_null() { core::ptr::null_mut() } else { stack.add(1 + *stack + 1).cast() }
    }
}

/// musl sets `environ` before it calls anything: where it is null there is none.
#[cfg(not(target_env = "gnu"))]
fn initial_variables() -> Strings {
    core::ptr::null_mut()
}

/// Each variable of the environment.
pub(crate) fn for_each_variable(mut each: impl FnMut(&[u8])) {
    let array = variables();
    if !array.is_null() {
        // SAFETY: (1) the process's own environment.
        unsafe { places(array) }.for_each(|place| each(unsafe { text(place) }));
    }
}

/// The places of an array, up to its null.
///
/// # Safety
/// 1. `array` is ended by null, and stays so while the iterator is used.
unsafe fn places(array: Strings) -> impl Iterator<Item = Strings> {
    // SAFETY: duty 1: each place up to the null is within the array.
    (0..).map(move |number| unsafe { array.add(number) }).take_while(|&place| {
        // SAFETY: as above.
        !unsafe { *place }.is_null()
    })
}

/// The string that a place of an array leads to.
///
/// # Safety
/// 1. `place` is one that [`places`] gave, and its string is not changed while the result is used.
unsafe fn text<'a>(place: Strings) -> &'a [u8] {
    // SAFETY: duty 1: a C string.
    unsafe { CStr::from_ptr((*place).cast()) }.to_bytes()
}

/// What children see of a variable.
#[derive(Debug, PartialEq)]
enum Seen<'a> {
    All,
    Nothing,
    /// `LD_PRELOAD` with these two pieces, in this order, as its list.
    Preload(&'a [u8], &'a [u8]),
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

fn seen(variable: &[u8]) -> Seen<'_> {
    if variable.starts_with(b"TOFT_") {
        return Seen::Nothing;
    }
    let Some(list) = variable.strip_prefix(PRELOAD) else { return Seen::All };
    let (start, end) = own_entry(list);
    let after = list.get(end + 1..).unwrap_or(&[]);
    // Behind the entry its separator goes; at the end of the list the one before it.
    let start = if after.is_empty() { start.saturating_sub(1) } else { start };
    match list.get(..start).unwrap_or(&[]) {
        [] if after.is_empty() => Seen::Nothing,
        before => Seen::Preload(before, after),
    }
}

/// Where this library stands in a list. Under another name it is taken to be the first, where `toft
/// run` puts it.
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

/// Takes this library out of `LD_PRELOAD`, and every option out of the environment, as far as
/// programs that this process starts can see them. Where there is no memory for the copy, nothing
/// is changed.
///
/// # Safety
/// 1. `argc` and `argv` are what the kernel put on the stack, with what follows them.
/// 2. No other thread uses the environment meanwhile.
pub(crate) unsafe fn hide_from_children(argc: usize, argv: Strings) {
    // SAFETY: duties 1 and 2.
    if let Some(environment) = unsafe { hide(argc, argv, variables()) } {
        // SAFETY: (1) ended by null and never unmapped; (2) duty 2.
        unsafe { process::set_environment(environment) };
    }
}

/// Hides variables in the kernel's vector, and returns the environment of a copy of it that has
/// those of `current` instead: a constructor that ran earlier may have set some.
///
/// # Safety
/// 1. As for [`hide_from_children`].
/// 2. As for [`hide_from_children`].
/// 3. `current` is ended by null, as [`places`] wants it.
unsafe fn hide(argc: usize, argv: Strings, current: Strings) -> Option<Strings> {
    // SAFETY: duty 1: the environment follows the arguments and their null, the auxiliary vector
    // the environment. (1) of `places` and `text`: duties 1 and 3; no string is changed at all.
    unsafe {
        let initial = argv.add(argc + 1);
        let auxiliary = initial.add(places(initial).count() + 1).cast::<[usize; 2]>();
        let pairs = (0..).take_while(|&number| (*auxiliary.add(number))[0] != 0).count() + 1;
        // The count, the arguments, the variables, and a null after each list.
        let words = 1 + argc + 1 + places(current).count() + 1 + 2 * pairs;
        let preload = |array| {
            let texts = places(array).map(|place| text(place));
            texts.filter(|text| text.starts_with(PRELOAD)).map(|text| text.len() + 1).sum::<usize>()
        };
        let memory = process::scratch(words * WORD + preload(initial) + preload(current))?;
        let copy = core::ptr::with_exposed_provenance_mut::<*mut u8>(memory);
        let mut texts = copy.add(words).cast::<u8>();
        // The string that children see; null for none. Room was counted above.
        let mut shown = |place: Strings| match seen(text(place)) {
            Seen::All => *place,
            Seen::Nothing => core::ptr::null_mut(),
            Seen::Preload(before, after) => {
                let whole = texts;
                for piece in [PRELOAD, before, after] {
                    texts.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
                    texts = texts.add(piece.len());
                }
                // The memory is zero: the string ends here.
                texts = texts.add(1);
                whole
            }
        };
        copy.cast::<usize>().write(argc);
        copy.add(1).copy_from_nonoverlapping(argv, argc);
        let environment = copy.add(1 + argc + 1);
        let mut next = environment;
        for string in places(current).map(&mut shown).filter(|string| !string.is_null()) {
            next.write(string);
            next = next.add(1);
        }
        next.add(1).cast::<[usize; 2]>().copy_from_nonoverlapping(auxiliary, pairs);
        for place in places(initial) {
            let string = shown(place);
            *place = if string.is_null() { c"".as_ptr().cast_mut().cast() } else { string };
        }
        Some(environment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn read(array: Strings) -> Vec<String> {
        // SAFETY: (1) arrays of these tests.
        let texts = unsafe { places(array) }.map(|place| unsafe { text(place) });
        texts.map(|text| std::str::from_utf8(text).unwrap().to_string()).collect()
    }

    #[test]
    fn only_this_library_leaves_the_list() {
        for (list, left) in [
            ("/a/libtoft.so", None),
            ("/a/libtoft.so:b.so", Some("b.so")),
            ("b.so:/a/libtoft.so", Some("b.so")),
            ("b.so /a/libtoft.so.0:c.so", Some("b.so c.so")),
            ("/proc/7/fd/9:b.so", Some("b.so")),
            ("/proc/7/fd/9", None),
            ("", None),
        ] {
            let variable = std::format!("LD_PRELOAD={list}");
            let found = match seen(variable.as_bytes()) {
                Seen::All => panic!("{list}"),
                Seen::Nothing => None,
                Seen::Preload(before, after) => Some([before, after].concat()),
            };
            assert_eq!(found.as_deref(), left.map(str::as_bytes), "{list}");
        }
    }

    /// A kernel's vector; the second list of variables is the one in force.
    fn hidden(initial: &[&'static CStr], current: &[&'static CStr]) -> (Vec<usize>, Vec<usize>) {
        let pointers = |list: &[&'static CStr]| -> Vec<usize> {
            list.iter().map(|text| text.as_ptr().expose_provenance()).chain([0]).collect()
        };
        let arguments = pointers(&[c"name", c"word"]);
        let mut vector = [std::vec![2], arguments, pointers(initial)].concat();
        vector.extend([6, 4096, 25, 0x7777, 0, 0]);
        let before = vector.clone();
        let mut current = pointers(current);
        let argv: Strings = vector[1..].as_mut_ptr().cast();
        // SAFETY: (1), (3) made above; (2) used by this thread only.
        let environment = unsafe { hide(2, argv, current.as_mut_ptr().cast()) }.unwrap();
        // SAFETY: the copy is as long as what it was made of, at most; its strings stay mapped.
        let copy = unsafe {
            core::slice::from_raw_parts(environment.sub(4).cast(), 4 + current.len() + 6)
        };
        assert_eq!(copy[..4], before[..4], "the arguments are before the environment");
        assert_eq!(vector.len(), before.len());
        assert_eq!(vector[vector.len() - 7..], before[before.len() - 7..], "nothing has moved");
        (vector[4..].to_vec(), copy[4..].to_vec())
    }

    #[test]
    fn the_vector_stays_in_place_and_the_copy_lacks_what_is_hidden() {
        let variables = [
            c"A=1",
            c"TOFT_SCOPE=program",
            c"LD_PRELOAD=/libtoft.so:b.so",
            c"TOFT_=",
            c"B=LD_PRELOAD=",
        ];
        let (mut vector, mut copy) = hidden(&variables, &variables);
        let left = ["A=1", "LD_PRELOAD=b.so", "B=LD_PRELOAD="];
        assert_eq!(read(vector.as_mut_ptr().cast()), ["A=1", "", left[1], "", left[2]]);
        assert_eq!(read(copy.as_mut_ptr().cast()), left);
        assert_eq!(copy[4..10], [6, 4096, 25, 0x7777, 0, 0], "the auxiliary vector follows");
        // A constructor has set variables before.
        let (mut vector, mut copy) =
            hidden(&variables[..2], &[c"C=3", c"LD_PRELOAD=/libtoft.so", c"TOFT_X=1"]);
        assert_eq!(read(vector.as_mut_ptr().cast()), ["A=1", ""]);
        assert_eq!(read(copy.as_mut_ptr().cast()), ["C=3"]);
        assert_eq!(copy[2..8], [6, 4096, 25, 0x7777, 0, 0]);
    }
}
