//! What happens when the library is loaded, and when the program ends.

use core::ffi::{c_char, c_int};

extern "C" fn loaded() {
    crate::filter::watch();
    toft_core::entry::process::at_start();
}

extern "C" fn ended() {
    toft_core::entry::process::at_exit();
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = loaded;

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
#[unsafe(no_mangle)]
pub extern "C" fn toft_stats_json(descriptor: c_int) -> c_int {
    match toft_core::entry::process::instance() {
        Some(allocator) if toft_core::stats::write_json(allocator, descriptor, None) => 0,
        _ => -1,
    }
}
