//! Private zones for C: `toft_zone_create` and its family.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use toft_zone::{Handle, Name, Tagged, Terms, calls};

/// `TOFT_ZONE_TAGGED`: pointers into the zone can have tags.
const TAGGED: c_uint = 1;

/// `struct toft_zone_stats`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ZoneStats {
    live_blocks: u64,
    live_bytes: u64,
    allocations: u64,
    mapped_bytes: u64,
    object_bytes: u64,
    name_is_shown: c_int,
    name: [u8; 64],
}

/// # Safety
/// 1. `name` is null, or a C string.
unsafe fn name_of(name: *const c_char) -> Name {
    if name.is_null() {
        return Name::new(b"");
    }
    // SAFETY: duty 1.
    Name::new(unsafe { CStr::from_ptr(name) }.to_bytes())
}

fn zone(word: u64) -> Handle {
    Handle::from_word(word)
}

/// Makes a zone for blocks of any size.
///
/// # Safety
/// 1. `name` is null, or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn toft_zone_create(name: *const c_char) -> u64 {
    // SAFETY: (1) the caller's.
    unsafe { toft_zone_create_with(name, 0, 0) }
}

/// Makes a zone: for objects of one size, unless that is zero; with flags.
///
/// # Safety
/// 1. `name` is null, or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn toft_zone_create_with(
    name: *const c_char,
    object: usize,
    flags: c_uint,
) -> u64 {
    if flags & !TAGGED != 0 {
        toft_core::os::process::set_errno(libc::EINVAL);
        return 0;
    }
    // SAFETY: (1) the caller's.
    let name = unsafe { name_of(name) };
    let terms = Terms { name, object, tagged: flags & TAGGED != 0 };
    calls::create(&terms).map_or(0, Handle::word)
}

/// A block of a zone.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_malloc(handle: u64, size: usize) -> *mut c_void {
    calls::allocate(zone(handle), size, 1, false)
}

/// A block of a zone, all zero.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_calloc(handle: u64, count: usize, size: usize) -> *mut c_void {
    calls::allocate_zeroed(zone(handle), count, size)
}

/// A block of a zone, at a multiple of `align`.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_aligned_alloc(handle: u64, align: usize, size: usize) -> *mut c_void {
    calls::allocate(zone(handle), size, align, false)
}

/// Takes a block back.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn toft_zone_free(handle: u64, block: *mut c_void) {
    // SAFETY: (1) the caller's.
    unsafe { calls::free(zone(handle), block) }
}

/// Usable bytes of a live block.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_usable_size(handle: u64, block: *const c_void) -> usize {
    calls::usable_size(zone(handle), block)
}

/// Verifies a zone: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_verify(handle: u64) -> c_int {
    if calls::verify(zone(handle)) { 0 } else { -1 }
}

/// Ends a zone: 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_destroy(handle: u64) -> c_int {
    if calls::destroy(zone(handle)) { 0 } else { -1 }
}

/// Gives a zone another name: 0, or -1.
///
/// # Safety
/// 1. `name` is null, or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn toft_zone_rename(handle: u64, name: *const c_char) -> c_int {
    // SAFETY: (1) the caller's.
    if calls::rename(zone(handle), &unsafe { name_of(name) }) { 0 } else { -1 }
}

/// Writes a zone's figures: 0, or -1.
///
/// # Safety
/// 1. `into` is a `struct toft_zone_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn toft_zone_stats(handle: u64, into: *mut ZoneStats) -> c_int {
    let Some((name, figures)) = calls::figures(zone(handle)) else { return -1 };
    let stats = ZoneStats {
        live_blocks: figures.live_blocks,
        live_bytes: figures.live_bytes,
        allocations: figures.allocations,
        mapped_bytes: figures.mapped_bytes,
        object_bytes: figures.object_bytes,
        name_is_shown: c_int::from(figures.name_is_shown),
        name: name.padded(),
    };
    // SAFETY: duty 1.
    unsafe { into.write(stats) };
    0
}

/// The tagged word for an address in a live block of a tagged zone, or zero.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_tag(address: *const c_void) -> u64 {
    calls::tag(address).0
}

/// The pointer of a tagged word, or null.
#[unsafe(no_mangle)]
pub extern "C" fn toft_zone_resolve(tagged: u64) -> *mut c_void {
    calls::resolve(Tagged(tagged))
}
