//! WebAssembly's linear memory.

use super::Grows;
use crate::space::grown;
use core::arch::wasm32::memory_grow;

/// The linear memory of this module, which grows by pages of 64 KiB. Others may grow it too: see
/// [`Linear`](super::Linear).
#[derive(Clone, Copy, Debug, Default)]
pub struct WasmMemory;

// SAFETY: 1. memory that has grown is zero, and was unowned before.
unsafe impl Grows for WasmMemory {
    const PAGE: usize = 64 << 10;

    fn grow(&mut self, size: usize) -> Option<*mut u8> {
        let before = memory_grow::<0>(size / <Self as Grows>::PAGE);
        // What it says when there is none; a memory never has that many pages.
        (before != usize::MAX).then(|| grown(before * <Self as Grows>::PAGE))
    }
}
