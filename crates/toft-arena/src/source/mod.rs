//! Where memory comes from when a heap has none, and where it goes.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the trait; no source at all |
//! | `once.rs` | one range of memory, claimed with the first request |
//! | `reserved.rs` | address space that is reserved at once and committed in steps, with hysteresis |
//! | `linear.rs` | memory that grows at its end and never shrinks, as WebAssembly's |
//! | `blocks.rs` | another allocator |
//! | `system.rs` | (feature `system`) pages of a Unix system, for `reserved.rs` |
//! | `wasm.rs` | WebAssembly's memory, for `linear.rs` |

mod blocks;
mod linear;
mod once;
mod reserved;
#[cfg(all(feature = "system", unix))]
mod system;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use blocks::Blocks;
pub use linear::{Grows, Linear};
pub use once::{Array, Bytes, Given, Once};
pub use reserved::{Pages, Reserved};
#[cfg(all(feature = "system", unix))]
pub use system::SystemPages;
#[cfg(target_arch = "wasm32")]
pub use wasm::WasmMemory;

use crate::fault::NoMemory;
use crate::heap::Heap;
use crate::shape::Shape;
use core::alloc::Layout;

/// A source of memory.
///
/// It gets the heap, and claims, extends, truncates and releases there. It may have a state, and it
/// may be wrong: if it says that it has given memory and has not, the request fails.
///
/// # Safety
/// 1. The heap stays the one that it is: a source puts no other in its place, and frees no block of
///    it.
/// 2. Memory that a source has given stays valid until the heap has let go of it, or the source is
///    dropped.
pub unsafe trait Source<S: Shape> {
    /// Whether `less` is ever to be called.
    const TAKES_BACK: bool = false;

    /// Gives the heap memory in which a block of this layout finds room.
    ///
    /// ```compile_fail,E0133
    /// use std::alloc::{Layout, System};
    /// use toft_arena::{Anywhere, Heap, shape::Packed, source::{Blocks, Source}};
    /// let mut heap = Heap::<Packed>::new(Anywhere);
    /// let _ = Blocks::new(System, 65_536).more(&mut heap, Layout::new::<u8>());
    /// heap.allocate(Layout::new::<u8>());
    /// ```
    ///
    /// # Errors
    /// There is none.
    ///
    /// # Safety
    /// 1. It is the same heap in every call on this source.
    /// 2. When the source is dropped, the heap and its blocks are not used any more.
    /// 3. Only the source uses what the heap gives up of this source's spans, whichever caller made
    ///    it do so.
    unsafe fn more(&mut self, heap: &mut Heap<S>, layout: Layout) -> Result<(), NoMemory>;

    /// Takes back what is worth it: a free chunk has become large. Returns how large one must be
    /// for the next call to be of use.
    ///
    /// # Safety
    /// 1. As `more`.
    unsafe fn less(&mut self, _: &mut Heap<S>) -> usize {
        usize::MAX
    }

    /// Takes back all that it can.
    ///
    /// # Safety
    /// 1. As `more`.
    unsafe fn least(&mut self, _: &mut Heap<S>) {}
}

/// No source: memory is claimed by hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manual;

// SAFETY: 1. and 2. it does nothing.
unsafe impl<S: Shape> Source<S> for Manual {
    unsafe fn more(&mut self, _: &mut Heap<S>, _: Layout) -> Result<(), NoMemory> {
        Err(NoMemory)
    }
}

/// At least how many bytes a span must have for a block of this layout: the block with its tag, the
/// largest gap that its alignment may ask for, a fence with its record, and what is lost to
/// alignment.
pub(crate) fn room_for<S: Shape>(layout: Layout) -> Result<usize, NoMemory> {
    use crate::shape::Sizes;
    let size = S::chunk_of(layout).ok_or(NoMemory)?;
    // A layout takes less than half of all addresses, with what its alignment adds.
    Ok(size + layout.align() + S::MIN + 4 * S::ALIGN + 4 * S::WORD)
}
