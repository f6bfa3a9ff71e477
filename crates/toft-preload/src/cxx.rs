//! `operator new` and `operator delete` in all their forms, each with its own caller as call site.
//!
//! Where memory runs out, a form of `new` jumps to the C++ library's function of the same name,
//! with its own arguments and return address: that calls the new-handler, tries again through
//! `malloc`, and throws `std::bad_alloc` or returns null. So no exception ever passes through Rust
//! code.
//!
//! A program may replace the plain forms of new and delete alone. The sized and nothrow forms for
//! one object then lead to the program's, as the C++ library's own do, for every block: what those
//! do with it is theirs to know. The forms for arrays stay here, all of them: each block of theirs
//! comes back to a form that is here, too.

use crate::process;
use core::ffi::{CStr, c_void};
use core::ptr::null;
use toft_core::process::{
    Delete, delete_by_program, program_deletes, program_deletes_by, sizes_may_be_rounded,
};
use toft_core::report::Call;
use toft_core::site::Site;

type Pointer = *mut c_void;

/// Learns whether the program has replaced the plain forms of new and delete, and no others: those
/// others then lead to them, as the C++ library's own do. Also learns whether it has replaced the
/// aligned forms of new, which may round sizes up. To be called once, when the library is loaded.
pub fn find_replaced() {
    // SAFETY: as in `library_function`: a plain question. A static program has no loader to ask.
    if unsafe { libc::getauxval(libc::AT_BASE) } == 0 {
        return;
    }
    // SAFETY: null asks for the program and what was loaded with it, in the order of the loader.
    // Names that this library uses itself, as below, are its own first: it is linked so.
    let first = unsafe { libc::dlsym(libc::dlopen(null(), libc::RTLD_LAZY), c"_ZdlPv".as_ptr()) };
    if !first.is_null() && first.addr() != _ZdlPv as *const () as usize {
        // SAFETY: the program's plain `operator delete` has this type.
        program_deletes_by(unsafe { core::mem::transmute::<Pointer, Delete>(first) });
    }
    let ours: [(&CStr, *const ()); 2] = [
        (c"_ZnwmSt11align_val_t", forms::_ZnwmSt11align_val_t as *const ()),
        (c"_ZnamSt11align_val_t", forms::_ZnamSt11align_val_t as *const ()),
    ];
    for (name, ours) in ours {
        // SAFETY: as above.
        let first = unsafe { libc::dlsym(libc::dlopen(null(), libc::RTLD_LAZY), name.as_ptr()) };
        if !first.is_null() && first.addr() != ours.addr() {
            sizes_may_be_rounded();
        }
    }
}

extern "C" fn new_at(size: usize, site: Site) -> Pointer {
    // SAFETY: (1) no duties.
    unsafe { process::malloc_at(size, site) }
}

/// A program that has replaced the plain forms gets its blocks from them: the C++ library's form
/// asks those.
extern "C" fn new_nothrow_at(size: usize, site: Site) -> Pointer {
    if program_deletes() { core::ptr::null_mut() } else { new_at(size, site) }
}

extern "C" fn new_aligned_at(size: usize, align: usize, site: Site) -> Pointer {
    let align = if align.is_power_of_two() { align } else { 1 };
    // SAFETY: (1) no duties.
    unsafe { process::aligned_at(align, size, site) }
}

/// The C++ library's own function of this name. Called only when there is no memory.
///
/// No size above the largest may reach an aligned form: libstdc++ 12 rounds it up without a check,
/// and gets a small block. The plain form of the same kind fails as it should.
extern "C" fn library_function(name: *const u8, size: usize) -> Pointer {
    sizes_may_be_rounded();
    let mut name: *const core::ffi::c_char = name.cast();
    if size > isize::MAX as usize {
        // SAFETY: callers pass one of the C strings below.
        let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
        name =
            if bytes.ends_with(b"nothrow_t") { c"_ZnwmRKSt9nothrow_t" } else { c"_Znwm" }.as_ptr();
    }
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
    if found.is_null() {
        toft_core::os::process::write_all(
            libc::STDERR_FILENO,
            b"toft: operator new: no memory, and no C++ library to throw std::bad_alloc\n",
        );
        toft_core::os::process::abort();
    }
    found
}

/// Bytes between the stack pointer, when a form of `operator new` calls malloc, and its return
/// address. malloc finds the program's call by the same number.
#[cfg(target_arch = "x86_64")]
const SAVED: usize = (toft_core::site::NEW_WORDS - 1) * size_of::<usize>();

/// `new!(name, target, register for the site)`: saves both arguments, so that they are there again
/// for the C++ library. The frame is described for the unwinder, because the call below may run a
/// signal handler that walks the stack. Where wrappers are looked through, it asks who called, as
/// `shim!` does.
macro_rules! new {
    ($name:ident, $target:path, $register:literal) => {
        new!($name, $target, $register, [
            "cmp qword ptr [rip + {global} + {through}], 0",
            "jne 3f",
            concat!("mov ", $register, ", [rsp + {saved}]"),
            "jmp 4f",
            "3:",
            "lea rdi, [rsp + {saved}]",
            "mov rsi, rbp",
            "call {behind}",
            "mov rdi, [rsp + {saved} - 8]",
            "mov rsi, [rsp + {saved} - 16]",
            concat!("mov ", $register, ", rax"),
            "4:"
        ], {
            global = sym toft_core::process::GLOBAL,
            through = const toft_core::process::LOOKS_THROUGH,
            behind = sym toft_core::process::site_behind,
        });
    };
    ($name:ident, $target:path, $register:literal, [$($site:expr),*], { $($operands:tt)* }) => {
        #[doc = concat!("`", stringify!($name), "`, a form of `operator new`.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            const NAME: &CStr = {
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            };
            static TEXT: Name = Name(NAME.as_ptr().cast());
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "sub rsp, {saved} - 16",
                ".cfi_adjust_cfa_offset {saved} - 16",
                $($site,)*
                "call {target}",
                "test rax, rax",
                "jz 2f",
                "add rsp, {saved}",
                ".cfi_adjust_cfa_offset -{saved}",
                "ret",
                ".cfi_adjust_cfa_offset {saved}",
                "2:",
                "mov rsi, [rsp + {saved} - 8]",
                "mov rdi, [rip + {text}]",
                "call {library}",
                "add rsp, {saved} - 16",
                ".cfi_adjust_cfa_offset 16 - {saved}",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                $($operands)*
                saved = const SAVED,
                target = sym $target,
                text = sym TEXT,
                library = sym library_function,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, -32]!",
                ".cfi_adjust_cfa_offset 32",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "stp x0, x1, [sp, 16]",
                concat!("mov ", $register, ", x30"),
                "bl {target}",
                "cbz x0, 2f",
                "ldp x29, x30, [sp], 32",
                "ret",
                "2:",
                "ldr x1, [sp, 16]",
                "adrp x0, {text}",
                "ldr x0, [x0, :lo12:{text}]",
                "bl {library}",
                "mov x16, x0",
                "ldp x0, x1, [sp, 16]",
                "ldp x29, x30, [sp], 32",
                "br x16",
                ".cfi_endproc",
                target = sym $target,
                text = sym TEXT,
                library = sym library_function,
            );
        }
    };
}

/// As `new!`, as short as can be: for a target that looks through wrappers itself.
#[cfg(all(target_arch = "x86_64", not(feature = "secure-light")))]
macro_rules! short_new {
    ($name:ident, $target:path, $register:literal) => {
        new!($name, $target, $register, [concat!("mov ", $register, ", [rsp + {saved}]")], {});
    };
}
#[cfg(all(target_arch = "x86_64", feature = "secure-light"))]
use new as short_new;

/// A C string's address in a static.
#[repr(transparent)]
struct Name(*const u8);
// SAFETY: leads to constant bytes.
unsafe impl Sync for Name {}

#[cfg(target_arch = "x86_64")]
mod forms {
    use super::*;
    short_new!(_Znwm, new_at, "rsi");
    short_new!(_Znam, new_at, "rsi");
    short_new!(_ZnwmRKSt9nothrow_t, new_nothrow_at, "rsi");
    short_new!(_ZnamRKSt9nothrow_t, new_at, "rsi");
    new!(_ZnwmSt11align_val_t, new_aligned_at, "rdx");
    new!(_ZnamSt11align_val_t, new_aligned_at, "rdx");
}
#[cfg(target_arch = "aarch64")]
mod forms {
    use super::*;
    new!(_Znwm, new_at, "x1");
    new!(_Znam, new_at, "x1");
    new!(_ZnwmRKSt9nothrow_t, new_nothrow_at, "x1");
    new!(_ZnamRKSt9nothrow_t, new_at, "x1");
    new!(_ZnwmSt11align_val_t, new_aligned_at, "x2");
    new!(_ZnamSt11align_val_t, new_aligned_at, "x2");
}

/// The aligned nothrow forms have a third argument, which is only passed on: the C++ library's
/// function of that name gets it in a new call.
extern "C" fn new_aligned_nothrow_at(
    size: usize,
    align: usize,
    nothrow: usize,
    site: Site,
    name: *const u8,
) -> Pointer {
    let block = new_aligned_at(size, align, site);
    if !block.is_null() {
        return block;
    }
    let found = library_function(name, size);
    // SAFETY: the C++ library's functions of these names take these arguments and throw nothing;
    // the plain form that stands in for sizes above the largest takes the nothrow value second.
    unsafe {
        if size > isize::MAX as usize {
            let plain: extern "C" fn(usize, usize) -> Pointer = core::mem::transmute(found);
            return plain(size, nothrow);
        }
        let aligned: extern "C" fn(usize, usize, usize) -> Pointer = core::mem::transmute(found);
        aligned(size, align, nothrow)
    }
}

macro_rules! new_aligned_nothrow {
    ($name:ident, $target:ident) => {
        extern "C" fn $target(size: usize, align: usize, nothrow: usize, site: Site) -> Pointer {
            let name = concat!(stringify!($name), "\0").as_ptr();
            new_aligned_nothrow_at(size, align, nothrow, site, name)
        }
        shim!($name, $target, "rcx", "x3");
    };
}

new_aligned_nothrow!(_ZnwmSt11align_val_tRKSt9nothrow_t, new_single_aligned_nothrow);
new_aligned_nothrow!(_ZnamSt11align_val_tRKSt9nothrow_t, new_array_aligned_nothrow);

/// `delete!(names)`: the plain forms. No size is named, and alignments are believed.
macro_rules! delete {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, a form of `operator delete`.")]
            ///
            /// # Safety
            /// 1. As for C's free.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(address: Pointer) {
                // SAFETY: (1) the caller's.
                unsafe { process::free_for(address, Call::Delete) }
            }
        )*
    };
}

/// `delete_sized_aligned!(names)`: the default build believes the size and the alignment, the
/// secure one compares them.
macro_rules! delete_sized_aligned {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, a form of `operator delete`.")]
            ///
            /// # Safety
            /// 1. As for C's free.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(address: Pointer, size: usize, align: usize) {
                // SAFETY: (1) the caller's.
                unsafe { process::free_sized_for(address, size, align, Call::Delete) }
            }
        )*
    };
}

/// The sized forms without an alignment, where they do not lead to the program's. A function of its
/// own, so that the code is there once.
///
/// # Safety
/// 1. As for C's free.
#[inline(never)]
unsafe extern "C" fn delete_sized(address: Pointer, size: usize) {
    // SAFETY: (1) the caller's.
    unsafe { process::free_sized_for(address, size, 1, Call::Delete) }
}

/// The sized form for arrays.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdaPvm(address: Pointer, size: usize) {
    // SAFETY: (1) the caller's.
    unsafe { delete_sized(address, size) }
}

/// The sized form for one object. It leads to the program's plain form, if there is one.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdlPvm(address: Pointer, size: usize) {
    // SAFETY: (1) the caller's, for both.
    unsafe {
        if !delete_by_program(address) {
            delete_sized(address, size);
        }
    }
}

/// The nothrow form for one object, as the sized one.
///
/// # Safety
/// 1. As for C's free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdlPvRKSt9nothrow_t(address: Pointer) {
    // SAFETY: (1) the caller's, for both.
    unsafe {
        if !delete_by_program(address) {
            process::free_for(address, Call::Delete);
        }
    }
}

delete! {
    _ZdlPv _ZdaPv
    _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
}

delete_sized_aligned!(_ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t);
