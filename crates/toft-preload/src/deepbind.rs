//! `dlopen` and `dlmopen`, because a library that is opened with `RTLD_DEEPBIND` finds the C
//! library's `malloc` before Toft's: a block that crosses between the two ends the process. PHP
//! opens its modules so.
//!
//! Both prepare for the flag ([`redirect`]) and jump to the loader's function with the arguments
//! and the return address of the caller: the loader takes the caller's search paths and namespace
//! from there.

use crate::redirect::redirect;
use core::ffi::{CStr, c_int};
use toft_core::process::{deepbind_is_cleared, instance};

/// What a call goes on with. C returns it in two registers.
#[repr(C)]
struct Next {
    function: usize,
    mode: usize,
}

/// Finds the loader's function, and leaves the flag out if the C library's `malloc` cannot be
/// replaced for it. `archived` is the function of a program that is linked statically, or zero.
fn before(name: &CStr, mode: usize, archived: usize) -> Next {
    // SAFETY: a C string. No call of malloc leads here.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    let function = match (found, archived) {
        (0, 0) => nowhere as *const () as usize,
        (0, archived) => archived,
        (found, _) => found,
    };
    let deep = libc::RTLD_DEEPBIND as usize;
    if mode & deep == 0 || is_left_alone() || redirect() {
        return Next { function, mode };
    }
    deepbind_is_cleared();
    Next { function, mode: mode & !deep }
}

/// Whether the flag is to mean what the loader makes of it (`TOFT_DEEPBIND=0`).
fn is_left_alone() -> bool {
    instance().is_some_and(|allocator| !allocator.options().deepbind)
}

extern "C" fn before_dlopen(mode: usize, archived: usize) -> Next {
    before(c"dlopen", mode, archived)
}

extern "C" fn before_dlmopen(mode: usize, archived: usize) -> Next {
    before(c"dlmopen", mode, archived)
}

/// Stands in for a function that is not there.
extern "C" fn nowhere(_: usize, _: usize, _: c_int) -> usize {
    0
}

/// `open!(name, preparation, name in libc.a, register of the mode on x86-64, and on aarch64)`. The
/// name in libc.a is weak: it is zero unless the program is static and has it anyway.
macro_rules! open {
    ($name:ident, $before:ident, $archived:literal, $x86:literal, $arm:literal) => {
        #[doc = concat!("`", stringify!($name), "`: prepares for `RTLD_DEEPBIND`, and jumps to the loader's.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                concat!(".weak ", $archived),
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                concat!("mov edi, ", $x86),
                concat!("mov rsi, [rip + ", $archived, "@GOTPCREL]"),
                "call {before}",
                "mov rcx, rdx",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                concat!("mov ", $x86, ", ecx"),
                "jmp rax",
                ".cfi_endproc",
                before = sym $before,
            );
            // Untested.
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                concat!(".weak ", $archived),
                ".cfi_startproc",
                "stp x29, x30, [sp, -48]!",
                ".cfi_adjust_cfa_offset 48",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "stp x0, x1, [sp, 16]",
                "str x2, [sp, 32]",
                concat!("mov w0, ", $arm),
                concat!("adrp x1, :got:", $archived),
                concat!("ldr x1, [x1, :got_lo12:", $archived, "]"),
                "bl {before}",
                "mov x16, x0",
                "mov x17, x1",
                "ldr x2, [sp, 32]",
                "ldp x0, x1, [sp, 16]",
                "ldp x29, x30, [sp], 48",
                concat!("mov ", $arm, ", w17"),
                "br x16",
                ".cfi_endproc",
                before = sym $before,
            );
        }
    };
}

open!(dlopen, before_dlopen, "___dlopen", "esi", "w1");
open!(dlmopen, before_dlmopen, "___dlmopen", "edx", "w2");
