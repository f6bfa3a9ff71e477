//! The names that C programs call. Only in a library that is preloaded.

use crate::calls::{self, Pointer};
use crate::next;
use crate::fault::Line;
use crate::process::ALLOCATOR;
use crate::settings::Settings;
use std::ffi::CStr;
use std::fmt::Write;
use std::ptr::null_mut;

#[path = "../../c_names.rs"]
mod c_names;

#[inline]
fn plain(size: usize) -> Pointer {
    aligned(1, size)
}

/// # Safety
/// 1. As C's `free`.
#[inline]
unsafe fn freed(block: Pointer) {
    // SAFETY: (1).
    unsafe { calls::free(block, from_environment) }
}

/// # Safety
/// 1. As C's `malloc_usable_size`.
unsafe fn usable(block: Pointer) -> usize {
    match ALLOCATOR.owns(block.addr()) {
        true => ALLOCATOR.usable(block.addr()),
        // SAFETY: (1).
        false => unsafe { next::usable_size(block) },
    }
}

/// Leaves errno as it is.
fn quietly_aligned(align: usize, size: usize) -> Pointer {
    let _errno = crate::errno::Errno::kept();
    aligned(align, size)
}

#[inline]
fn aligned(align: usize, size: usize) -> Pointer {
    calls::aligned(align, size, from_environment)
}

/// A block of zeros.
#[inline]
fn zeroed(count: usize, size: usize) -> Pointer {
    // A product that overflows is for the C library to refuse.
    let bytes = count.saturating_mul(size);
    let block = calls::small(bytes, from_environment);
    if block.is_null() {
        // SAFETY: no duties.
        return unsafe { next::calloc(count, size) };
    }
    // SAFETY: a block of at least `bytes` bytes that only this call knows.
    unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    block
}

/// A block with the content of another one, which is freed. Size zero only frees, as in glibc.
///
/// # Safety
/// 1. `block` is null, or a live block of this allocator or of the next. It is not used any more,
///    unless this function returns null for a size that is not zero.
unsafe fn resized(block: Pointer, size: usize) -> Pointer {
    if block.is_null() {
        return aligned(1, size);
    }
    if !ALLOCATOR.owns(block.addr()) {
        // A block that was large stays large.
        // SAFETY: (1) the caller's.
        return unsafe { next::realloc(block, size) };
    }
    if size == 0 {
        // SAFETY: (1) the caller's.
        unsafe { calls::free(block, from_environment) };
        return null_mut();
    }
    let usable = ALLOCATOR.usable(block.addr());
    if size <= usable && size > usable / 2 {
        return block;
    }
    let new = aligned(1, size);
    if new.is_null() {
        return if size <= usable { block } else { new };
    }
    // SAFETY: two different live blocks, which have at least as many bytes as are copied.
    unsafe { new.cast::<u8>().copy_from_nonoverlapping(block.cast(), usable.min(size)) };
    // SAFETY: (1) the caller's.
    unsafe { calls::free(block, from_environment) };
    new
}

fn no_memory() -> Pointer {
    // SAFETY: the location is a thread-local int of the calling thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

/// The settings that the environment asks for. Stops the process if a value is none.
fn from_environment() -> Settings {
    let value = |name: &CStr| {
        // SAFETY: the name is a C string; no thread changes the environment this early.
        let value = unsafe { libc::getenv(name.as_ptr()) };
        // SAFETY: a C string of the environment, which stays.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
    };
    Settings::read(value).unwrap_or_else(|(name, values)| {
        let (mut line, name) = (Line::new(), name.to_str().unwrap_or("?"));
        let _ = writeln!(line, "ar-malloc: the value of {name} must be {values}");
        line.print();
        // SAFETY: ends the process.
        unsafe { libc::_exit(2) }
    })
}

/// Writes the counts to standard error as one line, if the settings ask for it.
extern "C" fn at_exit() {
    let settings = ALLOCATOR.settings();
    if !settings.stats {
        return;
    }
    let (report, mut line) = (ALLOCATOR.report(), Line::new());
    let cache = if settings.cache { "on" } else { "off" };
    let (arenas, lock) = (settings.arenas, settings.locks.word());
    let _ = write!(line, "ar-malloc: arenas={arenas} lock={lock} cache={cache}");
    report.sums.for_each(|name, count| _ = write!(line, " {name}={count}"));
    let _ = writeln!(line, " live={} lost={}", report.census.live, report.lost());
    line.print();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
