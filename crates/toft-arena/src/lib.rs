//! An allocator for memory that the program hands over: a static array, a kernel's pages, a mapping
//! that two processes share, WebAssembly's linear memory.
//!
//! `no_std`, no `alloc`, no dependency. Boundary tags: a block costs one word.
//!
//! The layers; one uses only those below it (`tests/layers.rs` holds it):
//!
//! | layer | what | |
//! |---|---|---|
//! | 7 | `shared` | an arena behind a shared reference: locks, `GlobalAlloc`, `Allocator` |
//! | 6 | `arena` | a heap that asks a source for memory, and offers it back |
//! | 5 | `source` | where memory comes from and goes to |
//! | 4 | `heap` | the engine: allocate, free, resize; spans; walk and check |
//! | 3 | `bins` | free chunks by size; lists that are checked at every link |
//! | 2 | `chunk` | the words of a chunk |
//! | 1 | `shape` | what is fixed at compile time |
//! | 0 | `space`, `table`, `word` | where memory is; bits for bins; how wide a word is |
//! | 0 | `fault`, `sanitizer` | faults; calls of sanitizers |
//!
//! How it is laid out in memory, what it promises, and what it does not: `docs/arena.md`.

#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![forbid(unsafe_op_in_unsafe_fn)]

mod arena;
mod bins;
mod chunk;
mod fault;
mod heap;
mod sanitizer;
mod shape;
mod shared;
pub mod source;
mod space;
mod table;
mod word;

pub use arena::Arena;
pub use fault::{Fault, NoMemory, SpanError};
pub use heap::{Block, Counters, Heap, Histogram, Invariant, Span, Survey};
pub use shape::{Bare, Checked, Checks, Narrow, Packed, Relative, Shape, Small, Standard, Swift};
#[cfg(feature = "lock_api")]
pub use shared::LockApi;
#[cfg(feature = "std")]
pub use shared::StdLock;
#[cfg(target_has_atomic = "8")]
pub use shared::{ByStack, Spin, Spread, Striped, Ticket};
pub use shared::{Exclusive, Interrupts, NoInterrupts, OneThread, Shared, Unlocked};
pub use space::{Anywhere, Space, Within};
pub use table::{Table, Tables};
pub use word::Word;
