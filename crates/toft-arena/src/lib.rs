//! An allocator for memory that the program provides: a static array, a kernel's pages, a mapping
//! that two processes share, WebAssembly's linear memory.
//!
//! It is `no_std`, needs no `alloc`, and has no mandatory dependency. A block costs one word.
//!
//! # Firmware and kernels: a static array as the global allocator
//!
//! ```
//! use toft_arena::{Anywhere, Shared, Small, Spin, source::Once};
//!
//! toft_arena::array!(Memory, 64 * 1024);
//!
//! #[global_allocator]
//! static ARENA: Shared<Small, Once<Memory>, Spin> =
//!     Shared::new(Anywhere, Once::array(), Spin::new());
//!
//! fn main() {
//!     let words: Vec<String> = (0..100).map(|number| format!("word {number}")).collect();
//!     assert_eq!(words.len(), 100);
//! }
//! ```
//!
//! The array and the arena are zero at first, so they take room in RAM only. Where interrupt
//! handlers allocate, put [`NoInterrupts`] around the lock. Where the processor has no atomic
//! exchange (`thumbv6m`), `Once::array` is unsafe, and `NoInterrupts` around [`Unlocked`] is the
//! lock.
//!
//! A kernel that finds its memory later starts without a source:
//!
//! ```
//! use core::mem::MaybeUninit;
//! use toft_arena::{Anywhere, Fast, Shared, SpanError, Spin, source::Manual};
//!
//! # /*
//! #[global_allocator]
//! # */
//! static ARENA: Shared<Fast, Manual, Spin> = Shared::new(Anywhere, Manual, Spin::new());
//!
//! fn add(pages: &'static mut [MaybeUninit<u8>]) -> Result<(), SpanError> {
//!     ARENA.claim(pages)?;
//!     Ok(())
//! }
//! # add(Box::leak(Box::new([MaybeUninit::uninit(); 8192]))).unwrap();
//! ```
//!
//! # WebAssembly
//!
//! ```ignore (only for wasm32)
//! #[global_allocator]
//! static ARENA: toft_arena::Wasm<toft_arena::Small> = toft_arena::Wasm::wasm();
//! ```
//!
//! # A heap without a lock
//!
//! ```
//! use core::alloc::Layout;
//! use toft_arena::{Anywhere, Fast, Heap};
//!
//! let mut memory = vec![0_u8; 65_536];
//! let mut heap = Heap::<Fast>::new(Anywhere);
//! // SAFETY: the vector outlives the heap, and is not used otherwise.
//! unsafe { heap.claim(memory.as_mut_ptr(), memory.len()) }?;
//! let layout = Layout::new::<[u64; 4]>();
//! let block = heap.allocate(layout)?;
//! // SAFETY: the block is live, and of this layout.
//! unsafe { heap.deallocate_sized(block, layout) };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which one
//!
//! | shape | for |
//! |---|---|
//! | [`Fast`] | speed |
//! | [`Small`] | little code, few bins: WebAssembly, microcontrollers ([`shape::Micro`] for a few KiB) |
//! | [`Checked`] | finding bugs: every pointer is checked, calls are counted |
//!
//! [`shape`] has others, and [`shape::OnFault`], which calls a function with each fault. [`source`]
//! says where memory comes from. [`Striped`] is for many threads.
//!
//! How it is laid out in memory, what it promises, and what it does not: `docs/arena.md`.

// The layers. Each uses only those below it (`tests/layers.rs`):
//
// - 7 shared: an arena behind a shared reference; locks, `GlobalAlloc`, `Allocator`
// - 6 arena: a heap that asks a source for memory, and offers it back
// - 5 source: where memory comes from and is returned to
// - 4 heap: the engine
// - 3 bins: free chunks by size, in lists that are checked at every link
// - 2 chunk: the words of a chunk
// - 1 shape: what is fixed at compile time
// - 0 space, table, word, fault, sanitizer

#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![forbid(unsafe_op_in_unsafe_fn)]

mod arena;
mod bins;
mod chunk;
mod fault;
mod heap;
mod sanitizer;
pub mod shape;
mod shared;
pub mod source;
mod space;
mod table;
mod word;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use arena::Arena;
pub use fault::{Fault, NoMemory, SpanError};
pub use heap::{Block, Counters, Heap, Histogram, Invariant, Span, Survey};
pub use shape::{Checked, Fast, Small};
#[cfg(feature = "lock_api")]
pub use shared::LockApi;
#[cfg(feature = "std")]
pub use shared::StdLock;
#[cfg(target_has_atomic = "8")]
pub use shared::{ByStack, ByStripes, Spin, Spread, Striped, Ticket};
pub use shared::{Exclusive, Interrupts, NoInterrupts, OneThread, Shared, Unlocked};
#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
pub use shared::{OneModule, Wasm};
pub use space::Anywhere;
