//! The allocator of a Rust program.

use crate::calls;
use crate::settings::{Locks, Settings};
use std::alloc::{GlobalAlloc, Layout};

/// A global allocator with the parameters of [`Settings::ARTICLE`], except for those given here.
/// The readme has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArMalloc<const ARENAS: usize = 4, const LOCKS: u8 = 1, const CACHE: bool = false>;

impl<const ARENAS: usize, const LOCKS: u8, const CACHE: bool> ArMalloc<ARENAS, LOCKS, CACHE> {
    /// The parameters. Fails to compile if `LOCKS` is not one of [`Locks`].
    pub const SETTINGS: Settings =
        Settings { arenas: ARENAS, locks: Locks::ALL[LOCKS as usize], cache: CACHE, stats: false };
}

// SAFETY: blocks are of the size and alignment of their layout, apart from each other, and live
// until they are freed; no function here panics.
unsafe impl<const ARENAS: usize, const LOCKS: u8, const CACHE: bool> GlobalAlloc
    for ArMalloc<ARENAS, LOCKS, CACHE>
{
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        calls::aligned(layout.align(), layout.size(), || Self::SETTINGS).cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: (1) the caller's: a live block of this allocator.
        unsafe { calls::free(block.cast(), || Self::SETTINGS) };
    }
}
