//! The names that C programs call. Only in a library that is preloaded.

use crate::calls::{self, Pointer};
use crate::next;
use crate::fault::Line;
use crate::process::ALLOCATOR;
use crate::settings::Settings;
use std::ffi::{CStr, c_int};
use std::fmt::Write;
use std::ptr::null_mut;

/// `c!(name(arguments) -> result = value)`: exports a function of C.
macro_rules! c {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $value:expr) => {
        #[doc = concat!("C's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// 1. As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: (1) the caller's.
            #[allow(unused_unsafe)]
            unsafe { $value }
        }
    };
}

c!(malloc(size: usize) -> Pointer = aligned(1, size));
c!(calloc(count: usize, size: usize) -> Pointer = zeroed(count, size));
c!(free(block: Pointer) = calls::free(block, from_environment));
c!(realloc(block: Pointer, size: usize) -> Pointer = resized(block, size));
c!(reallocarray(block: Pointer, count: usize, size: usize) -> Pointer =
match count.checked_mul(size) {
    Some(bytes) => resized(block, bytes),
    None => out_of_memory(),
});
c!(memalign(align: usize, size: usize) -> Pointer = aligned(align, size));
c!(aligned_alloc(align: usize, size: usize) -> Pointer = aligned(align, size));
c!(valloc(size: usize) -> Pointer = aligned(page(), size));
c!(pvalloc(size: usize) -> Pointer = match size.max(1).checked_next_multiple_of(page()) {
    Some(bytes) => aligned(page(), bytes),
    None => out_of_memory(),
});
c!(malloc_usable_size(block: Pointer) -> usize = match ALLOCATOR.owns(block.addr()) {
    true => ALLOCATOR.usable(block.addr()),
    false => next::usable_size(block),
});

/// C's `posix_memalign`.
///
/// # Safety
/// 1. As in C: `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut Pointer, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let errno = crate::errno::Errno::kept();
    let block = aligned(align, size);
    drop(errno);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: (1) the caller's.
    unsafe { out.write(block) };
    0
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

fn page() -> usize {
    // SAFETY: no duties.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs() as usize
}

fn out_of_memory() -> Pointer {
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
