//! Asking the process's allocator to give back all that it can, at once, in its own way.
//!
//! Each allocator has another name for it, so the names are looked for among the symbols of the
//! process, the most particular first. `malloc_trim`, which the C library has in any case, is last:
//! the other allocators replace it if they have something to do for it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// The symbol that a way is found by, and a function that takes the address of that symbol.
type Way = (&'static CStr, unsafe fn(*mut c_void));

const WAYS: &[Way] = &[
    (c"toft_purge", toft),
    (c"mallctl", jemalloc),
    (c"mi_collect", mimalloc),
    (c"MallocExtension_ReleaseFreeMemory", tcmalloc),
    (c"malloc_trim", trim),
];

/// Asks, and says in which way: by the name of the function.
pub fn purge() -> &'static CStr {
    let found = WAYS.iter().find_map(|(symbol, ask)| Some((symbol, ask, address(symbol)?)));
    let (symbol, ask, at) = found.expect("the C library has malloc_trim");
    // SAFETY: the address is that of the function which is called so.
    unsafe { ask(at) };
    symbol
}

fn address(symbol: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a terminated string.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    (!at.is_null()).then_some(at)
}

/// # Safety
/// `at` is the address of `size_t toft_purge(void)`.
unsafe fn toft(at: *mut c_void) {
    // SAFETY: the function has this type, as the caller says.
    let purge = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> usize>(at) };
    purge();
}

/// # Safety
/// `at` is the address of jemalloc's `mallctl`.
unsafe fn jemalloc(at: *mut c_void) {
    type Control =
        unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
    // SAFETY: the function has this type, as the caller says.
    let control = unsafe { std::mem::transmute::<*mut c_void, Control>(at) };
    // The calling thread's own cache, and then all arenas, which is what number 4096 stands for.
    for what in [c"thread.tcache.flush", c"arena.4096.purge"] {
        // SAFETY: both are commands, which read and write nothing.
        unsafe { control(what.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    }
}

/// # Safety
/// `at` is the address of `void mi_collect(bool force)`.
unsafe fn mimalloc(at: *mut c_void) {
    // SAFETY: the function has this type, as the caller says.
    let collect = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(bool)>(at) };
    collect(true);
}

/// # Safety
/// `at` is the address of `void MallocExtension_ReleaseFreeMemory(void)`.
unsafe fn tcmalloc(at: *mut c_void) {
    // SAFETY: the function has this type, as the caller says.
    let release = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(at) };
    release();
}

/// # Safety
/// `at` is the address of `int malloc_trim(size_t pad)`.
unsafe fn trim(at: *mut c_void) {
    // SAFETY: the function has this type, as the caller says.
    let trim = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(usize) -> c_int>(at) };
    trim(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_asked_to_trim() {
        assert_eq!(purge(), c"malloc_trim");
    }

    #[test]
    fn the_last_way_is_the_one_that_is_always_there() {
        assert_eq!(WAYS.last().unwrap().0, c"malloc_trim");
        assert!(address(c"no_such_symbol_anywhere").is_none());
    }
}
