//! The calls about blocks. A size of zero counts as one, as in jemalloc.

use super::flags::Flags;
use crate::process;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use toft_core::os::process::set_errno;
use toft_core::path::served_bytes;
use toft_core::report::Call;
use toft_core::site::Site;

type Pointer = *mut c_void;

/// The alignment of every block.
const USUAL: usize = 16;
/// A block of this size or less stays where it is if it becomes smaller.
const ALWAYS_KEPT: usize = 128;
/// True if a block has exactly the requested bytes, which `sdallocx` compares.
const EXACT: bool = cfg!(feature = "secure-light");

/// Writes zeros to the bytes of a block from the first number to the second.
///
/// # Safety
/// 1. The block is the caller's, and has the second number of bytes.
unsafe fn clear(block: Pointer, from: usize, to: usize) {
    if from < to {
        // SAFETY: duty 1.
        unsafe { block.cast::<u8>().add(from).write_bytes(0, to - from) };
    }
}

extern "C" fn mallocx_at(size: usize, flags: c_int, site: Site) -> Pointer {
    let (size, flags) = (size.max(1), Flags::new(flags));
    let align = flags.align();
    if align > USUAL {
        // SAFETY: (1) no duties.
        let block = unsafe { process::aligned_at(align, size, site) };
        if flags.zero() && !block.is_null() {
            // SAFETY: (1) the block is new, and the program does not have it yet.
            unsafe { clear(block, 0, process::usable_size(block)) };
        }
        return block;
    }
    if !flags.zero() {
        // SAFETY: (1) no duties.
        return unsafe { process::malloc_at(size, site) };
    }
    // All usable bytes are zero: those after `size` are the program's, too.
    match served_bytes(size, align) {
        0 => {
            set_errno(libc::ENOMEM);
            null_mut()
        }
        // SAFETY: (1) no duties.
        bytes => unsafe { process::calloc_at(1, bytes, site) },
    }
}

unsafe extern "C" fn rallocx_at(
    address: Pointer,
    size: usize,
    flags: c_int,
    site: Site,
) -> Pointer {
    if address.is_null() {
        return mallocx_at(size, flags, site);
    }
    let (size, flags) = (size.max(1), Flags::new(flags));
    // SAFETY: (1) the caller's.
    let Some(old) = (unsafe { process::usable_size_for(address, Call::Rallocx) }) else {
        set_errno(libc::EINVAL);
        return null_mut();
    };
    let block = if flags.align() <= USUAL {
        // SAFETY: (1) the caller's.
        unsafe { process::realloc_at(address, size, site) }
    } else {
        // SAFETY: (1) the caller's, and the block has `old` bytes.
        unsafe { realloc_aligned(address, old, size, flags.align(), site) }
    };
    if flags.zero() && !block.is_null() {
        // SAFETY: (1) the block is the program's, which does not know its new bytes yet.
        unsafe { clear(block, old, process::usable_size(block)) };
    }
    block
}

/// Gives a block of `old` bytes `size` bytes at a multiple of `align`. Returns null and leaves the
/// block alone if there is no memory.
///
/// # Safety
/// 1. As for C's realloc, and `old` is the block's usable size.
unsafe fn realloc_aligned(
    address: Pointer,
    old: usize,
    size: usize,
    align: usize,
    site: Site,
) -> Pointer {
    let is_kept = size >= old / 2 || old <= ALWAYS_KEPT;
    if is_kept && address.addr() & (align - 1) == 0 {
        // SAFETY: (1) duty 1.
        let bytes = unsafe { process::resize_in_place(address, size, Call::Rallocx) };
        if bytes.is_some_and(|bytes| bytes >= size) {
            return address;
        }
    }
    // SAFETY: (1) no duties.
    let to = unsafe { process::aligned_at(align, size, site) };
    if !to.is_null() {
        // SAFETY: both blocks are live, distinct, and hold at least the smaller of the sizes.
        unsafe { to.copy_from_nonoverlapping(address, old.min(size)) };
        // SAFETY: (1) duty 1: the program does not use the old block any more.
        unsafe { process::free_for(address, Call::Rallocx) };
    }
    to
}

shim!(mallocx, mallocx_at, "rdx", "x2");
shim!(rallocx, rallocx_at, "rcx", "x3");

/// `xallocx`: resizes a block where it is, and returns its usable bytes, whether or not they are
/// enough.
///
/// # Safety
/// 1. As for C's realloc, but the block stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xallocx(
    address: Pointer,
    size: usize,
    extra: usize,
    flags: c_int,
) -> usize {
    let size = size.max(1);
    // SAFETY: (1) the caller's.
    let Some(old) = (unsafe { process::usable_size_for(address, Call::Xallocx) }) else { return 0 };
    if size > isize::MAX as usize {
        return old;
    }
    // The program may give `size` back to sdallocx. Where that compares, nothing more is granted.
    let wanted = if EXACT { size } else { size.saturating_add(extra) };
    // SAFETY: (1) the caller's.
    let new = unsafe { process::resize_in_place(address, wanted, Call::Xallocx) }.unwrap_or(0);
    if Flags::new(flags).zero() {
        // SAFETY: (1) the block is the program's, which does not know its new bytes yet.
        unsafe { clear(address, old, new) };
    }
    new
}

/// `sallocx`: the usable bytes of a block.
///
/// # Safety
/// 1. As for C's free, but the block stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sallocx(address: Pointer, _flags: c_int) -> usize {
    // SAFETY: (1) the caller's.
    unsafe { process::usable_size_for(address, Call::Sallocx) }.unwrap_or(0)
}

/// `dallocx`: frees a block.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dallocx(address: Pointer, _flags: c_int) {
    // SAFETY: (1) the caller's.
    unsafe { process::free_for(address, Call::Dallocx) }
}

/// `sdallocx`: frees a block of a size. The secure build compares the size, the default one
/// believes it.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sdallocx(address: Pointer, size: usize, flags: c_int) {
    let align = Flags::new(flags).align();
    // SAFETY: (1) the caller's.
    unsafe { process::free_sized_for(address, size.max(1), align, Call::Sdallocx) }
}

/// `nallocx`: the usable bytes that `mallocx` would give; zero if it would fail whatever memory
/// there is.
#[unsafe(no_mangle)]
pub extern "C" fn nallocx(size: usize, flags: c_int) -> usize {
    served_bytes(size.max(1), Flags::new(flags).align())
}
