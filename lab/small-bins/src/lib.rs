//! A boundary-tag allocator of glibc's kind: exact small bins, sorted large bins, and a list of
//! chunks that are not sorted yet. It exists to answer one question: what is it worth that `free`
//! sends a small chunk straight to its bin?
//!
//! Each possible answer is a [`Variant`], chosen by one type parameter: `Allocator<Original>`,
//! `Allocator<Mod>`. All else is the same code. `docs/experiments/small-bins.md` compares them.
//!
//! The source has less than 2 000 lines of code. Comments do not count, since each `unsafe` block
//! has one.
//!
//! | file | what |
//! |---|---|
//! | `variant.rs` | the choices, and a type for each set of them |
//! | `chunk.rs` | the words of a chunk |
//! | `memory.rs` | the range of addresses: reserved, used, returned to the OS |
//! | `bins.rs` | which bin a size has, and which bins may hold chunks |
//! | `links.rs` | the lists, each link checked before it is followed |
//! | `heap/` | allocate, free, sort, resize, the end of the heap, the invariants |
//! | `cache.rs`, `thread.rs` | the cache of a thread |
//! | `mapped.rs` | blocks too large for the heap |
//! | `shared.rs`, `lock.rs` | one lock for all threads, their caches; `GlobalAlloc` |
//! | `fault.rs` | how a corrupted heap is named, and the process stopped |
//! | `c.rs` | the names of C, for a library that is preloaded |

mod bins;
#[cfg(feature = "preload")]
mod c;
mod cache;
mod chunk;
mod fault;
mod heap;
mod links;
mod lock;
mod mapped;
mod memory;
mod shared;
mod thread;
pub mod variant;

pub use cache::Cache;
pub use chunk::SMALLEST;
pub use heap::{Counts, Heap};
pub use shared::Allocator;
pub use variant::Variant;
