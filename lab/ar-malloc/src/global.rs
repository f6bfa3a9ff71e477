//! The allocator of a Rust program.

use crate::calls;
use crate::settings::{Locks, Settings};
use std::alloc::{GlobalAlloc, Layout};

/// A global allocator with the parameters of [`Settings::ARTICLE`], except for those given here.
///
/// ```
/// use toft_ar_malloc::{ArMalloc, Locks};
///
/// #[global_allocator]
/// static GLOBAL: ArMalloc<8, { Locks::Class as u8 }, true> = ArMalloc;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ArMalloc<const ARENAS: usize = 4, const LOCKS: u8 = 1, const CACHE: bool = false>;

impl<const ARENAS: usize, const LOCKS: u8, const CACHE: bool> ArMalloc<ARENAS, LOCKS, CACHE> {
    /// The parameters. Fails to compile if `LOCKS` is not one of [`Locks`].
    pub const SETTINGS: Settings =
        Settings { arenas: ARENAS, locks: Locks::ALL[LOCKS as usize], cache: CACHE, stats: false };

    fn settings() -> Settings {
        Self::SETTINGS
    }
}

// SAFETY: blocks are of the size and alignment of their layout, apart from each other, and live
// until they are freed; no function here panics.
unsafe impl<const ARENAS: usize, const LOCKS: u8, const CACHE: bool> GlobalAlloc
    for ArMalloc<ARENAS, LOCKS, CACHE>
{
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        calls::aligned(layout.align(), layout.size(), Self::settings).cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= crate::class::STEP {
            return calls::calloc(1, layout.size(), Self::settings).cast();
        }
        // SAFETY: the caller's layout.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: a block of this many bytes that only this call knows.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: (1) the caller's: a live block of this allocator.
        unsafe { calls::free(block.cast(), Self::settings) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= crate::class::STEP {
            // SAFETY: (1) the caller's: a live block of this allocator, and a size above zero.
            return unsafe { calls::realloc(block.cast(), size, Self::settings) }.cast();
        }
        // SAFETY: the size does not overflow when it is rounded up, as the caller sees to.
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the size is above zero, as the caller sees to.
        let new = unsafe { self.alloc(new_layout) };
        if !new.is_null() {
            // SAFETY: two live blocks, which have at least as many bytes as are copied; then the
            // old one is the caller's to give up.
            unsafe {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
        }
        new
    }
}
