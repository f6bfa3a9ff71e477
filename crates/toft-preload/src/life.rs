//! What happens when the library is loaded, and when the program ends.

use core::ffi::{c_char, c_int, c_void};
use toft_core::report::Call;

/// libc hands `main`'s arguments to constructors.
extern "C" fn loaded(argc: c_int, argv: *mut *mut c_char) {
    crate::filter::watch();
    crate::cxx::find_replaced();
    // SAFETY: (1) libc's own; (2) the loader runs this before the program has a second thread.
    unsafe { toft_core::process::at_start(argc as usize, argv.cast()) };
    if toft_core::process::verifies_at_exit() {
        at_quick_exit();
    }
}

/// Has `quick_exit` call [`ended_quickly`], because it runs no function of `.fini_array`. Only
/// glibc can be asked for it, which is found by name: a relocation would cost every start.
fn at_quick_exit() {
    type AtQuickExit =
        unsafe extern "C" fn(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
    // SAFETY: a plain question. A static program has no loader to ask.
    if unsafe { libc::getauxval(libc::AT_BASE) } == 0 {
        return;
    }
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_at_quick_exit".as_ptr()) };
    if !found.is_null() {
        // SAFETY: glibc's function, which `at_quick_exit` is made of, has this type.
        let register = unsafe { core::mem::transmute::<*mut c_void, AtQuickExit>(found) };
        // SAFETY: a function of the type that is asked for, in a library that is never unloaded.
        unsafe { register(ended_quickly, core::ptr::null_mut()) };
    }
}

extern "C" fn ended_quickly(_: *mut c_void) {
    toft_core::process::verify_as_asked();
}

extern "C" fn ended() {
    toft_core::process::at_exit();
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn(c_int, *mut *mut c_char) = loaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_END: extern "C" fn() = ended;

/// This library's version, as a C string that lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn toft_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Writes the allocator's figures to a descriptor, as one line of JSON. Returns 0, or -1 when there
/// is no allocator or the descriptor does not take them.
#[cfg(feature = "watch")]
#[unsafe(no_mangle)]
pub extern "C" fn toft_stats_json(descriptor: c_int) -> c_int {
    let done = toft_core::process::inside(|| {
        let allocator = toft_core::process::instance();
        allocator.is_some_and(|allocator| toft_watch::write_json(allocator, descriptor, None))
    });
    if done { 0 } else { -1 }
}

/// Writes a profile, who has how much by call site, to a descriptor. Returns 0, or -1.
#[cfg(feature = "watch")]
#[unsafe(no_mangle)]
pub extern "C" fn toft_profile(descriptor: c_int) -> c_int {
    if toft_watch::profile_to(descriptor) { 0 } else { -1 }
}

/// Writes the process's figures to a descriptor in Prometheus' text format. Returns 0, or -1.
#[cfg(feature = "watch")]
#[unsafe(no_mangle)]
pub extern "C" fn toft_metrics(descriptor: c_int) -> c_int {
    if toft_watch::metrics_to(descriptor) { 0 } else { -1 }
}

/// Verifies the whole heap; names what is wrong and ends the process, or returns -1 where
/// misuse is only named. 0 when nothing is wrong.
#[unsafe(no_mangle)]
pub extern "C" fn toft_verify() -> c_int {
    if toft_core::process::verify() { 0 } else { -1 }
}

/// Looks for words in the program's memory that lead into freed blocks, names them on stderr, and
/// returns the number of them.
#[cfg(feature = "watch")]
#[unsafe(no_mangle)]
pub extern "C" fn toft_dangling() -> usize {
    toft_watch::dangling()
}

/// Frees a block whose address is never handed out again.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn toft_free_permanently(address: *mut c_void) {
    // SAFETY: (1) the caller's.
    unsafe { toft_core::process::free_permanently(address) }
}

/// For `libtoft_checked.so`: an access to `bytes` bytes at `address` by one of its functions.
#[unsafe(no_mangle)]
pub extern "C" fn toft_check_range(address: *const c_void, bytes: usize, access: c_int) {
    let call = match access & 7 {
        0 => Call::Memcpy,
        1 => Call::Memmove,
        2 => Call::Memset,
        3 => Call::Bzero,
        _ => Call::Mempcpy,
    };
    let writes = access & 8 != 0;
    toft_core::process::check_range(call, writes, address.addr(), bytes);
}
