//! The allocator behind this one, and a little memory for the time until it is found.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// A block, as C names it.
pub type Pointer = *mut c_void;

/// A function of the library behind.
pub struct Next {
    name: &'static CStr,
    /// Written by the thread that finds it first; all find the same.
    address: AtomicUsize,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicUsize::new(0) }
    }

    /// The function of a name that ends with its only zero.
    pub const fn ending(name: &'static str) -> Next {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Next::new(name),
            Err(_) => panic!("the name does not end with its only zero"),
        }
    }

    /// Its address; 0 when there is none.
    pub fn address(&self) -> usize {
        match self.address.load(Relaxed) {
            0 => self.find(),
            found => found,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        // SAFETY: a C string; the answer is an address or null.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.address.store(found, Relaxed);
        found
    }
}

static MALLOC: Next = Next::new(c"malloc");
static CALLOC: Next = Next::new(c"calloc");
static REALLOC: Next = Next::new(c"realloc");
static FREE: Next = Next::new(c"free");
static MEMALIGN: Next = Next::new(c"memalign");
static ALIGNED_ALLOC: Next = Next::new(c"aligned_alloc");
static POSIX_MEMALIGN: Next = Next::new(c"posix_memalign");

/// 0 before the first call, 1 while the functions are looked for, 2 once they are found.
static STATE: AtomicU32 = AtomicU32::new(0);

/// Whether there is an allocator behind by now. The first caller looks for it; what the search
/// itself allocates comes from [`early`].
#[inline]
fn ready() -> bool {
    // Pairs with the Release in `look`.
    STATE.load(Acquire) == 2 || look()
}

#[cold]
fn look() -> bool {
    if STATE.compare_exchange(0, 1, Acquire, Acquire).is_err() {
        return STATE.load(Acquire) == 2;
    }
    for next in [&MALLOC, &CALLOC, &REALLOC, &FREE, &MEMALIGN, &ALIGNED_ALLOC, &POSIX_MEMALIGN] {
        if next.address() == 0 {
            // SAFETY: ends the process; there is no malloc, and no way to say so that needs none.
            unsafe { libc::abort() };
        }
    }
    STATE.store(2, Release);
    true
}

/// Calls a function that [`ready`] has found.
macro_rules! call {
    ($next:ident as fn($($type:ty),*) $(-> $result:ty)? : $($argument:expr),*) => {{
        let function: unsafe extern "C" fn($($type),*) $(-> $result)? =
            // SAFETY: the function of this name, which has this type.
            unsafe { std::mem::transmute($next.address.load(Relaxed)) };
        // SAFETY: the caller's duties are those of the C function.
        unsafe { function($($argument),*) }
    }};
}

/// C's `malloc`.
pub fn malloc(size: usize) -> Pointer {
    if !ready() {
        return early(16, size);
    }
    call!(MALLOC as fn(usize) -> Pointer: size)
}

/// C's `calloc`.
pub fn calloc(count: usize, size: usize) -> Pointer {
    if !ready() {
        return count.checked_mul(size).map_or(null_mut(), |bytes| early(16, bytes));
    }
    call!(CALLOC as fn(usize, usize) -> Pointer: count, size)
}

/// C's `memalign`.
pub fn memalign(align: usize, size: usize) -> Pointer {
    if !ready() {
        return early(align, size);
    }
    call!(MEMALIGN as fn(usize, usize) -> Pointer: align, size)
}

/// C's `aligned_alloc`.
pub fn aligned_alloc(align: usize, size: usize) -> Pointer {
    if !ready() {
        return early(align, size);
    }
    call!(ALIGNED_ALLOC as fn(usize, usize) -> Pointer: align, size)
}

/// C's `posix_memalign`.
///
/// # Safety
/// 1. As in C.
pub unsafe fn posix_memalign(out: *mut Pointer, align: usize, size: usize) -> c_int {
    if !ready() {
        return libc::ENOMEM;
    }
    call!(POSIX_MEMALIGN as fn(*mut Pointer, usize, usize) -> c_int: out, align, size)
}

/// C's `realloc`, of a block that is not [`is_early`].
///
/// # Safety
/// 1. As in C.
pub unsafe fn realloc(address: Pointer, size: usize) -> Pointer {
    if !ready() {
        return null_mut();
    }
    call!(REALLOC as fn(Pointer, usize) -> Pointer: address, size)
}

/// C's `free`.
///
/// # Safety
/// 1. As in C.
pub unsafe fn free(address: Pointer) {
    // Without an allocator behind, there are only early blocks, which stay.
    if ready() && !is_early(address) {
        call!(FREE as fn(Pointer): address);
    }
}

const EARLY: usize = 64 * 1024;

#[repr(align(4096))]
struct Early([u8; EARLY]);

static mut BYTES: Early = Early([0; EARLY]);
static TOP: AtomicUsize = AtomicUsize::new(0);

/// A block of zeros that is never given back. Its size is in the word before it.
fn early(align: usize, size: usize) -> Pointer {
    let align = align.max(16);
    if !align.is_power_of_two() || align > 4096 || size > EARLY {
        return null_mut();
    }
    let room = align + size.next_multiple_of(16);
    let place = TOP.fetch_add(room + align, Relaxed);
    let start = (place + 16).next_multiple_of(align);
    if start + size > EARLY {
        return null_mut();
    }
    // SAFETY: within the array, and this part of it was claimed for this block alone.
    unsafe {
        let block = (&raw mut BYTES.0).cast::<u8>().add(start);
        block.sub(16).cast::<usize>().write(size);
        block.cast()
    }
}

/// Whether a block is from before there was an allocator.
pub fn is_early(address: Pointer) -> bool {
    let start = (&raw const BYTES) as usize;
    (start..start + EARLY).contains(&(address as usize))
}

/// Moves an early block to the allocator behind.
///
/// # Safety
/// 1. `address` is an early block.
pub unsafe fn move_early(address: Pointer, size: usize) -> Pointer {
    let block = malloc(size);
    if !block.is_null() {
        // SAFETY: (1) the word before an early block is its size; both blocks have as many bytes as
        // are copied, and are different blocks.
        unsafe {
            let old = address.cast::<u8>().sub(16).cast::<usize>().read();
            std::ptr::copy_nonoverlapping(address.cast::<u8>(), block.cast(), old.min(size));
        }
    }
    block
}

/// A C string array, as `exec` takes it.
pub type Words = *const *const c_char;
