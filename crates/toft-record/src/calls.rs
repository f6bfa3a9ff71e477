//! The names that programs call.

use crate::next::{self, Next, Pointer};
use crate::session::Turn;
use std::ffi::c_int;

/// `shim!(name, target, register of the extra argument on x86-64, and on aarch64)`: an exported
/// function that passes on its return address, the call site, as one argument more.
macro_rules! shim {
    ($name:ident, $target:path, $x86:literal, $arm:literal) => {
        #[doc = concat!("`", stringify!($name), "`: passes its return address on as the call site.")]
        ///
        /// # Safety
        /// 1. As in C.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(concat!("mov ", $x86, ", [rsp]"), "jmp {}", sym $target);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {}", sym $target);
        }
    };
}

/// Records a block, unless it is null.
#[inline]
fn had(block: Pointer, size: usize, align: usize, site: usize, zeroed: bool) -> Pointer {
    if !block.is_null()
        && !next::is_early(block)
        && let Some(turn) = Turn::begin()
    {
        turn.allocated(block as usize, size, align, site, zeroed);
    }
    block
}

extern "C" fn malloc_at(size: usize, site: usize) -> Pointer {
    had(next::malloc(size), size, 1, site, false)
}

extern "C" fn calloc_at(count: usize, size: usize, site: usize) -> Pointer {
    // A product that overflows gives no block.
    had(next::calloc(count, size), count.wrapping_mul(size), 1, site, true)
}

/// The alignment that an allocator makes of one that is no power of two.
fn power(align: usize) -> usize {
    align.max(1).checked_next_power_of_two().unwrap_or(1)
}

extern "C" fn memalign_at(align: usize, size: usize, site: usize) -> Pointer {
    had(next::memalign(align, size), size, power(align), site, false)
}

extern "C" fn aligned_alloc_at(align: usize, size: usize, site: usize) -> Pointer {
    had(next::aligned_alloc(align, size), size, power(align), site, false)
}

unsafe extern "C" fn posix_memalign_at(
    out: *mut Pointer,
    align: usize,
    size: usize,
    site: usize,
) -> c_int {
    // SAFETY: (1) the caller's.
    let status = unsafe { next::posix_memalign(out, align, size) };
    if status == 0 {
        // SAFETY: the caller's pointer, which was just written.
        had(unsafe { *out }, size, power(align), site, false);
    }
    status
}

fn page_size() -> usize {
    // SAFETY: no duties.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs() as usize
}

extern "C" fn valloc_at(size: usize, site: usize) -> Pointer {
    memalign_at(page_size(), size, site)
}

extern "C" fn pvalloc_at(size: usize, site: usize) -> Pointer {
    let page = page_size();
    // What overflows is too large for any allocator, which says so.
    let size = size.max(1).checked_next_multiple_of(page).unwrap_or(isize::MAX as usize);
    memalign_at(page, size, site)
}

unsafe extern "C" fn realloc_at(address: Pointer, size: usize, site: usize) -> Pointer {
    if address.is_null() {
        return malloc_at(size, site);
    }
    if next::is_early(address) {
        // SAFETY: (1) it is.
        return had(unsafe { next::move_early(address, size) }, size, 1, site, false);
    }
    let turn = Turn::begin();
    let object = turn.as_ref().and_then(|turn| turn.resizing(address as usize));
    // SAFETY: (1) the caller's.
    let block = unsafe { next::realloc(address, size) };
    if let (Some(turn), Some(object)) = (turn, object) {
        match (block.is_null(), size) {
            (false, _) => turn.resized(object, block as usize, size, site),
            // glibc gives the block back when the new size is 0.
            (true, 0) => turn.gone(object),
            (true, _) => turn.stayed(object, address as usize),
        }
    }
    block
}

unsafe extern "C" fn reallocarray_at(
    address: Pointer,
    count: usize,
    size: usize,
    site: usize,
) -> Pointer {
    match count.checked_mul(size) {
        // SAFETY: (1) the caller's.
        Some(bytes) => unsafe { realloc_at(address, bytes, site) },
        None => {
            // SAFETY: libc's errno is a thread-local int.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            std::ptr::null_mut()
        }
    }
}

shim!(malloc, malloc_at, "rsi", "x1");
shim!(calloc, calloc_at, "rdx", "x2");
shim!(realloc, realloc_at, "rdx", "x2");
shim!(reallocarray, reallocarray_at, "rcx", "x3");
shim!(memalign, memalign_at, "rdx", "x2");
shim!(aligned_alloc, aligned_alloc_at, "rdx", "x2");
shim!(posix_memalign, posix_memalign_at, "rcx", "x3");
shim!(valloc, valloc_at, "rsi", "x1");
shim!(pvalloc, pvalloc_at, "rsi", "x1");

extern "C" fn new_at(size: usize, site: usize) -> Pointer {
    malloc_at(size.max(1), site)
}

extern "C" fn new_nothrow_at(size: usize, _nothrow: usize, site: usize) -> Pointer {
    malloc_at(size.max(1), site)
}

extern "C" fn new_aligned_at(size: usize, align: usize, site: usize) -> Pointer {
    memalign_at(align, size.max(1), site)
}

extern "C" fn new_aligned_nothrow_at(
    size: usize,
    align: usize,
    _nothrow: usize,
    site: usize,
) -> Pointer {
    memalign_at(align, size.max(1), site)
}

/// `new!(name, function behind, target, as the shim)`: a block for C++. Where there is none, it
/// jumps to the C++ library's function of the same name, with its own arguments and return address:
/// that knows about handlers and throws, and no exception passes through Rust code, which would end
/// the process. The frame is described for a signal handler that walks the stack.
macro_rules! new {
    ($name:ident, $behind:ident, $target:ident, $x86:literal, $arm:literal) => {
        extern "C" fn $behind() -> usize {
            static NEXT: Next = Next::ending(concat!(stringify!($name), "\0"));
            NEXT.address()
        }

        #[doc = concat!("`", stringify!($name), "`, a form of `operator new`.")]
        ///
        /// # Safety
        /// 1. As in C++.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                concat!("mov ", $x86, ", [rsp + 24]"),
                "call {target}",
                "test rax, rax",
                "jz 2f",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_adjust_cfa_offset 24",
                "2:",
                "call {behind}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "jz 3f",
                "jmp rax",
                // A program that is none of C++ has no function behind: null says what there is to
                // say.
                "3:",
                "ret",
                ".cfi_endproc",
                target = sym $target,
                behind = sym $behind,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, -48]!",
                ".cfi_adjust_cfa_offset 48",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "stp x0, x1, [sp, 16]",
                "str x2, [sp, 32]",
                concat!("mov ", $arm, ", x30"),
                "bl {target}",
                "cbz x0, 2f",
                "ldp x29, x30, [sp], 48",
                "ret",
                "2:",
                "bl {behind}",
                "mov x16, x0",
                "ldp x0, x1, [sp, 16]",
                "ldr x2, [sp, 32]",
                "ldp x29, x30, [sp], 48",
                "cbz x16, 3f",
                "br x16",
                "3:",
                "mov x0, xzr",
                "ret",
                ".cfi_endproc",
                target = sym $target,
                behind = sym $behind,
            );
        }
    };
}

new!(_Znwm, behind_new, new_at, "rsi", "x1");
new!(_Znam, behind_new_array, new_at, "rsi", "x1");
new!(_ZnwmRKSt9nothrow_t, behind_new_nothrow, new_nothrow_at, "rdx", "x2");
new!(_ZnamRKSt9nothrow_t, behind_new_array_nothrow, new_nothrow_at, "rdx", "x2");
new!(_ZnwmSt11align_val_t, behind_new_aligned, new_aligned_at, "rdx", "x2");
new!(_ZnamSt11align_val_t, behind_new_array_aligned, new_aligned_at, "rdx", "x2");
new!(
    _ZnwmSt11align_val_tRKSt9nothrow_t,
    behind_new_aligned_nothrow,
    new_aligned_nothrow_at,
    "rcx",
    "x3"
);
new!(
    _ZnamSt11align_val_tRKSt9nothrow_t,
    behind_new_array_aligned_nothrow,
    new_aligned_nothrow_at,
    "rcx",
    "x3"
);

/// `frees!(names)`: sizes and alignments that follow the address are not needed.
macro_rules! frees {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            ///
            /// # Safety
            /// 1. As C's free.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $name(address: Pointer) {
                if address.is_null() || next::is_early(address) {
                    return;
                }
                if let Some(turn) = Turn::begin() {
                    turn.freed(address as usize);
                }
                // SAFETY: (1) the caller's.
                unsafe { next::free(address) }
            }
        )*
    };
}

frees! {
    free cfree free_sized free_aligned_sized
    _ZdlPv _ZdaPv
    _ZdlPvm _ZdaPvm
    _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
    _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
}
