//! The malloc of C's library on top of an allocator that is a Rust crate: one lock around a heap.
//! `heap.rs`, beside this file, comes from the peer's file. No part of this workspace compiles it.
//!
//! Such an allocator wants to know a block's layout when the block is freed, which C does not say.
//! It is kept in the 16 bytes before the block; blocks are that much larger than the crate alone
//! would make them.
#![allow(clippy::missing_safety_doc)]

mod heap;

use libc::{c_int, c_void};
pub use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// An allocator. Its address never changes.
pub trait Heap: Sized {
    /// Before any memory is there.
    const NEW: Self;
    /// Called once, first.
    unsafe fn begin(&mut self);
    /// Null when there is no memory; sizes are never zero.
    unsafe fn allocate(&mut self, layout: Layout) -> *mut u8;
    /// As `allocate`, but filled with zeros.
    unsafe fn allocate_zeroed(&mut self, layout: Layout) -> *mut u8 {
        let block = self.allocate(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }
    /// Frees a block of this layout.
    unsafe fn free(&mut self, block: *mut u8, layout: Layout);
    /// Makes a block of this layout `size` bytes large, elsewhere if need be. Null leaves it alone.
    unsafe fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8;
}

/// Resizes by allocating, copying and freeing.
pub unsafe fn move_to_new(
    heap: &mut impl Heap,
    block: *mut u8,
    layout: Layout,
    size: usize,
) -> *mut u8 {
    let new = heap.allocate(Layout::from_size_align_unchecked(size, layout.align()));
    if !new.is_null() {
        new.copy_from_nonoverlapping(block, size.min(layout.size()));
        heap.free(block, layout);
    }
    new
}

/// Address space for a heap that cannot grow: up to just under 64 GiB, backed as it is touched.
pub fn region() -> (*mut u8, usize) {
    let mut size = (64 << 30) - (64 << 10);
    while size >= 64 << 20 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(null_mut(), size, access, flags, -1, 0) };
        if start != libc::MAP_FAILED {
            return (start.cast(), size);
        }
        size /= 2;
    }
    (null_mut(), 0)
}

struct Global {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    /// Behind `lock`: the heap, and whether it has begun.
    heap: UnsafeCell<(heap::Heap, bool)>,
}

// SAFETY: the heap is reached in `with` only, which holds the lock.
unsafe impl Sync for Global {}

static GLOBAL: Global = Global {
    lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    heap: UnsafeCell::new((heap::Heap::NEW, false)),
};

fn with<T>(work: impl FnOnce(&mut heap::Heap) -> T) -> T {
    // SAFETY: the mutex lives as long as the process, and the heap is ours while we hold it.
    unsafe {
        libc::pthread_mutex_lock(GLOBAL.lock.get());
        let (heap, begun) = &mut *GLOBAL.heap.get();
        if !*begun {
            *begun = true;
            heap.begin();
        }
        let result = work(heap);
        libc::pthread_mutex_unlock(GLOBAL.lock.get());
        result
    }
}

unsafe extern "C" fn lock() {
    libc::pthread_mutex_lock(GLOBAL.lock.get());
}

unsafe extern "C" fn unlock() {
    libc::pthread_mutex_unlock(GLOBAL.lock.get());
}

// A child must not find the lock in the hands of a thread that it does not have.
extern "C" fn around_forks() {
    // SAFETY: three functions of the right type.
    unsafe { libc::pthread_atfork(Some(lock), Some(unlock), Some(unlock)) };
}

#[used]
#[link_section = ".init_array"]
static AROUND_FORKS: extern "C" fn() = around_forks;

/// What is kept before each block.
#[repr(C)]
struct Before {
    size: usize,
    align: usize,
}

const SMALLEST: usize = 16;

unsafe fn before(block: *mut c_void) -> *mut Before {
    block.cast::<Before>().sub(1)
}

/// The whole of what a block was allocated as; the block begins `align` bytes after its start.
fn whole(size: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(align)?, align).ok()
}

unsafe fn layout_of(block: *mut c_void) -> Layout {
    let Before { size, align } = *before(block);
    Layout::from_size_align_unchecked(size + align, align)
}

fn no_memory() -> *mut c_void {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

unsafe fn hand_out(start: *mut u8, size: usize, align: usize) -> *mut c_void {
    if start.is_null() {
        return no_memory();
    }
    let block = start.add(align).cast();
    before(block).write(Before { size, align });
    block
}

unsafe fn allocate(size: usize, align: usize) -> *mut c_void {
    let align = align.max(SMALLEST);
    let Some(layout) = whole(size, align) else { return no_memory() };
    hand_out(with(|heap| heap.allocate(layout)), size, align)
}

#[no_mangle]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    allocate(size, SMALLEST)
}

#[no_mangle]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if !block.is_null() {
        let layout = layout_of(block);
        with(|heap| heap.free(block.cast::<u8>().sub(layout.align()), layout));
    }
}

#[no_mangle]
pub unsafe extern "C" fn calloc(count: usize, each: usize) -> *mut c_void {
    let size = count.checked_mul(each);
    let Some((size, layout)) = size.and_then(|size| Some((size, whole(size, SMALLEST)?))) else {
        return no_memory();
    };
    hand_out(with(|heap| heap.allocate_zeroed(layout)), size, SMALLEST)
}

#[no_mangle]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if size == 0 {
        free(block);
        return null_mut();
    }
    let layout = layout_of(block);
    let align = layout.align();
    let Some(new) = whole(size, align) else { return no_memory() };
    let start = block.cast::<u8>().sub(align);
    hand_out(with(|heap| heap.resize(start, layout, new.size())), size, align)
}

#[no_mangle]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align % size_of::<usize>() != 0 {
        return libc::EINVAL;
    }
    let errno = *libc::__errno_location();
    let block = allocate(size, align);
    *libc::__errno_location() = errno;
    if block.is_null() {
        return libc::ENOMEM;
    }
    *out = block;
    0
}

#[no_mangle]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        *libc::__errno_location() = libc::EINVAL;
        return null_mut();
    }
    allocate(size, align)
}

#[no_mangle]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    aligned_alloc(align, size)
}

#[no_mangle]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    allocate(size, libc::sysconf(libc::_SC_PAGESIZE) as usize)
}

#[no_mangle]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
    size.checked_next_multiple_of(page).map_or_else(no_memory, |size| allocate(size, page))
}

#[no_mangle]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() { 0 } else { (*before(block)).size }
}
