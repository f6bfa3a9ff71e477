//! Toft as a Rust global allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use toft_core::call_site_shim;
use toft_core::process;
use toft_core::report::Call;
use toft_core::site::Site;

/// The process's allocator as a `#[global_allocator]`.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: toft::Toft = toft::Toft;
///
/// fn main() {
///     let numbers: Vec<u32> = (0..1000).collect();
///     assert_eq!(numbers.iter().sum::<u32>(), 499_500);
/// }
/// ```
///
/// Errors: a request that cannot be met returns null, as `GlobalAlloc` asks. A block that is freed
/// twice, or was never allocated, is named on stderr and ends the process. Statistics, leaks and
/// profiles that the environment asks for are written when the program ends, but not when it
/// aborts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toft;

/// Alignment that every block has.
const ALIGNMENT: usize = 16;

// Without optimization malloc does not find its call on the stack.
#[cfg(any(feature = "secure-light", debug_assertions))]
use toft_core::call_site_shim as malloc_shim;
#[cfg(not(any(feature = "secure-light", debug_assertions)))]
use toft_core::short_call_site_shim as malloc_shim;

malloc_shim!(fn malloc_here(_size: usize) -> *mut c_void, malloc_entry, "rsi", "x1");
call_site_shim!(
    fn zeroed_here(_count: usize, _size: usize) -> *mut c_void, calloc_entry, "rdx", "x2"
);
call_site_shim!(
    fn aligned_here(_align: usize, _size: usize) -> *mut c_void, aligned_entry, "rdx", "x2"
);
call_site_shim!(
    fn realloc_here(_address: usize, _size: usize) -> *mut c_void, realloc_entry, "rdx", "x2"
);

// Nothing unwinds. With `C`, a program that unwinds would have code here that ends it, and so a
// frame in each of these: they end in a jump instead, and malloc finds its call on the stack.

extern "C-unwind" fn malloc_entry(size: usize, site: Site) -> *mut c_void {
    // SAFETY: (1) no duties.
    unsafe { process::malloc_at(size, site) }
}

extern "C-unwind" fn calloc_entry(count: usize, size: usize, site: Site) -> *mut c_void {
    // SAFETY: (1) no duties.
    unsafe { process::calloc_at(count, size, site) }
}

extern "C-unwind" fn aligned_entry(align: usize, size: usize, site: Site) -> *mut c_void {
    // SAFETY: (1) no duties.
    unsafe { process::aligned_at(align, size, site) }
}

unsafe extern "C-unwind" fn realloc_entry(address: usize, size: usize, site: Site) -> *mut c_void {
    // SAFETY: (1) the caller's.
    unsafe { process::realloc_at(core::ptr::with_exposed_provenance_mut(address), size, site) }
}

/// What runs before main and when the program ends, by `exit` or by main's return.
///
/// libc runs the functions in these sections: nothing is registered, so nothing is allocated for
/// it. Each program that allocates here has them once. A program that merely has this crate has
/// none; nor has `libtoft.so`, which has its own.
/// The first of them runs before those without a number: before the first allocation.
#[unsafe(link_section = ".init_array.00098")]
static ON_START: extern "C" fn() = started;
#[unsafe(link_section = ".fini_array")]
static ON_END: extern "C" fn() = ended;

/// In the constants of each program that allocates here, so that `toft run` knows one without
/// symbols. The linker leaves it out of all others: only the functions that allocate refer to it,
/// and they are left out, too.
static MARK: [u8; 34] = *b"toft::Toft is the global allocator";

extern "C" fn started() {
    process::linked_at_start(started as extern "C" fn() as usize);
}

extern "C" fn ended() {
    process::linked_at_exit();
}

/// Keeps all three where it is called from. No instruction: the mark is kept by a relocation that
/// changes nothing.
#[inline(always)]
fn with_start_and_end() {
    // SAFETY: a comment.
    unsafe {
        core::arch::asm!(
            "/* {} {} */",
            ".reloc ., BFD_RELOC_NONE, {}",
            sym ON_START,
            sym ON_END,
            sym MARK,
            options(nomem, nostack, preserves_flags)
        );
    }
}

impl Toft {
    /// Allocates as `GlobalAlloc::alloc` does, with a number that the program chooses in place of
    /// the call site. Blocks of one token are in one partition, wherever they are requested. Where
    /// sites are exact, no other token and no call site has it (below 2^47). Null where there is no
    /// memory. Freed by `dealloc`.
    ///
    /// ```
    /// use std::alloc::{GlobalAlloc, Layout};
    /// let layout = Layout::new::<u64>();
    /// let block = toft::Toft.alloc_at(layout, 7);
    /// assert!(!block.is_null());
    /// // SAFETY: allocated above, with this layout.
    /// unsafe { toft::Toft.dealloc(block, layout) };
    /// ```
    pub fn alloc_at(&self, layout: Layout, token: u64) -> *mut u8 {
        with_start_and_end();
        let site = Site::of_token(token);
        // SAFETY: (1) no duties.
        let block = unsafe {
            if layout.align() <= ALIGNMENT {
                process::malloc_at(layout.size(), site)
            } else {
                process::aligned_at(layout.align(), layout.size(), site)
            }
        };
        block.cast()
    }
}

// SAFETY: blocks are live, distinct, aligned and large enough until they are freed; nothing
// unwinds.
unsafe impl GlobalAlloc for Toft {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        with_start_and_end();
        // SAFETY: (1) no duties.
        unsafe {
            if layout.align() <= ALIGNMENT {
                malloc_here(layout.size()).cast()
            } else {
                aligned_here(layout.align(), layout.size()).cast()
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            // SAFETY: (1) no duties.
            return unsafe { zeroed_here(1, layout.size()) }.cast();
        }
        // SAFETY: the caller's layout is passed on.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: a new block of at least this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: (1) the caller's.
        unsafe { process::free_sized_for(block.cast(), layout.size(), layout.align(), Call::Free) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            // SAFETY: (1) the caller's.
            return unsafe { realloc_here(block.expose_provenance(), size) }.cast();
        }
        // SAFETY: the caller promises that `size` makes a valid layout with this alignment, and
        // both blocks are live for the copy.
        unsafe {
            let to = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !to.is_null() {
                core::ptr::copy_nonoverlapping(block, to, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            to
        }
    }
}
