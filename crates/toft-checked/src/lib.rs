//! `memcpy`, `mempcpy`, `memmove`, `memset` and `bzero`, and what fortified programs call instead,
//! that ask `libtoft.so` whether they stay within the block they begin in.
//!
//! To be preloaded beside it. Without it, or before it has begun, they do what the C library's do.
//! Each is an instruction that copies or fills, so that nothing here needs the functions that it
//! replaces, nor the loader. What a compiler puts in place of a call, and what the C library calls
//! itself, is not seen.

// Without std in what ships, which aborts. A dev build unwinds, as tests do, and is there to be
// checked only.
#![cfg_attr(panic = "abort", no_std)]

#[cfg(all(panic = "unwind", not(debug_assertions)))]
compile_error!("this library needs panic = \"abort\": std has no place inside malloc");

use core::arch::{asm, global_asm, naked_asm};
use core::ffi::{c_int, c_void};

type Pointer = *mut c_void;

/// The functions, as `toft_check_range` counts them; a write has the next bit set.
const MEMCPY: c_int = 0;
const MEMMOVE: c_int = 1;
const MEMSET: c_int = 2;
const BZERO: c_int = 3;
const MEMPCPY: c_int = 4;
const WRITES: c_int = 8;

// Where no library has it, its address is zero.
global_asm!(".weak toft_check_range");

/// Asks `libtoft.so`, if it is there.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn check(_address: *const c_void, _bytes: usize, _access: c_int) {
    naked_asm!(
        "mov rax, qword ptr [rip + toft_check_range@GOTPCREL]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "ret",
    );
}

/// Asks `libtoft.so`, if it is there. (Untested.)
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn check(_address: *const c_void, _bytes: usize, _access: c_int) {
    naked_asm!(
        "adrp x3, :got:toft_check_range",
        "ldr x3, [x3, :got_lo12:toft_check_range]",
        "cbz x3, 2f",
        "br x3",
        "2:",
        "ret",
    );
}

/// Copies from the first byte to the last.
///
/// # Safety
/// 1. As for C's memcpy, but `to` may also lie before `from` and overlap it.
#[inline(always)]
unsafe fn copy_up(to: Pointer, from: *const c_void, bytes: usize) {
    // SAFETY: (1) the caller's.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack));
    }
    // SAFETY: (1) the caller's. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "2:", "cbz {n}, 3f", "ldrb {b:w}, [{from}], #1", "strb {b:w}, [{to}], #1", "sub {n}, {n}, #1", "b 2b", "3:",
            n = inout(reg) bytes => _, from = inout(reg) from => _, to = inout(reg) to => _, b = out(reg) _, options(nostack)
        );
    }
}

/// Copies from the last byte to the first.
///
/// # Safety
/// 1. As for C's memmove.
#[inline(always)]
unsafe fn copy_down(to: Pointer, from: *const c_void, bytes: usize) {
    let (to, from) = (to.wrapping_byte_add(bytes), from.wrapping_byte_add(bytes));
    // SAFETY: (1) the caller's. The direction is put back.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "std", "rep movsb", "cld",
            inout("rcx") bytes => _, inout("rdi") to.wrapping_byte_sub(1) => _, inout("rsi") from.wrapping_byte_sub(1) => _,
            options(nostack)
        );
    }
    // SAFETY: (1) the caller's. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "2:", "cbz {n}, 3f", "ldrb {b:w}, [{from}, #-1]!", "strb {b:w}, [{to}, #-1]!", "sub {n}, {n}, #1", "b 2b", "3:",
            n = inout(reg) bytes => _, from = inout(reg) from => _, to = inout(reg) to => _, b = out(reg) _, options(nostack)
        );
    }
}

/// Fills.
///
/// # Safety
/// 1. As for C's memset.
#[inline(always)]
unsafe fn fill(to: Pointer, byte: c_int, bytes: usize) {
    // SAFETY: (1) the caller's.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8, options(nostack));
    }
    // SAFETY: (1) the caller's. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "2:", "cbz {n}, 3f", "strb {b:w}, [{to}], #1", "sub {n}, {n}, #1", "b 2b", "3:",
            n = inout(reg) bytes => _, to = inout(reg) to => _, b = in(reg) byte, options(nostack)
        );
    }
}

/// # Safety
/// 1. As for C's memmove.
#[inline(always)]
unsafe fn copy(to: Pointer, from: *const c_void, bytes: usize) {
    // SAFETY: (1) the caller's; from whichever end nothing is overwritten that is yet to be copied.
    unsafe {
        if to.addr().wrapping_sub(from.addr()) >= bytes {
            copy_up(to, from, bytes);
        } else {
            copy_down(to, from, bytes);
        }
    }
}

/// `exported!(name(arguments) -> result, body)`.
macro_rules! exported {
    ($(#[$doc:meta] $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            #[$doc]
            ///
            /// # Safety
            /// 1. As for the C library's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: (1) the caller's.
                unsafe { $body }
            }
        )*
    };
}

exported! {
    /// Copies.
    memcpy(to: Pointer, from: *const c_void, bytes: usize) -> Pointer {
        check(from, bytes, MEMCPY);
        check(to, bytes, MEMCPY | WRITES);
        copy_up(to, from, bytes);
        to
    }
    /// Copies, and says where that ended.
    mempcpy(to: Pointer, from: *const c_void, bytes: usize) -> Pointer {
        check(from, bytes, MEMPCPY);
        check(to, bytes, MEMPCPY | WRITES);
        copy_up(to, from, bytes);
        to.wrapping_byte_add(bytes)
    }
    /// Copies what may overlap.
    memmove(to: Pointer, from: *const c_void, bytes: usize) -> Pointer {
        check(from, bytes, MEMMOVE);
        check(to, bytes, MEMMOVE | WRITES);
        copy(to, from, bytes);
        to
    }
    /// Fills.
    memset(to: Pointer, byte: c_int, bytes: usize) -> Pointer {
        check(to, bytes, MEMSET | WRITES);
        fill(to, byte, bytes);
        to
    }
    /// Fills with zeros.
    bzero(to: Pointer, bytes: usize) {
        check(to, bytes, BZERO | WRITES);
        fill(to, 0, bytes);
    }
    /// What `memcpy` is in a fortified program: the size of what is written to is known there.
    __memcpy_chk(to: Pointer, from: *const c_void, bytes: usize, room: usize) -> Pointer {
        within(bytes, room);
        memcpy(to, from, bytes)
    }
    /// What `mempcpy` is in a fortified program.
    __mempcpy_chk(to: Pointer, from: *const c_void, bytes: usize, room: usize) -> Pointer {
        within(bytes, room);
        mempcpy(to, from, bytes)
    }
    /// What `memmove` is in a fortified program.
    __memmove_chk(to: Pointer, from: *const c_void, bytes: usize, room: usize) -> Pointer {
        within(bytes, room);
        memmove(to, from, bytes)
    }
    /// What `memset` is in a fortified program.
    __memset_chk(to: Pointer, byte: c_int, bytes: usize, room: usize) -> Pointer {
        within(bytes, room);
        memset(to, byte, bytes)
    }
}

unsafe extern "C" {
    safe fn __chk_fail() -> !;
}

fn within(bytes: usize, room: usize) {
    if bytes > room {
        __chk_fail();
    }
}

/// Nothing here panics; a symbol of this must exist all the same.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    __chk_fail()
}
