//! A parallel allocator with a settable number of arenas, a choice of locks, and optional caches.
//!
//! It repeats, in modern form, an allocator that an article of 2012 described: arenas that threads
//! share, slabs of fixed size, blocks of up to 1 024 bytes, and no memory returned. It is made to
//! be read and measured (`docs/experiments/parallel.md`). Use Toft in programs.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | the parameters, and the variables that set them |
//! | `allocator.rs` | which heap a block comes from, under which lock, through which cache |
//! | `heap.rs` | for each class the slabs with free slots, and the inbox of remote frees |
//! | `slab.rs` | 64 KiB of slots of one class, and what each slot is |
//! | `cache.rs` | the blocks that a thread keeps |
//! | `thread.rs`, `counts.rs` | what a thread has, and what it counts |
//! | `lock.rs` | a lock that spins and then sleeps |
//! | `class.rs`, `region.rs` | size classes; the address range of all slabs |
//! | `process.rs`, `current.rs` | the allocator of a process: start, threads that exit, fork |
//! | `calls.rs`, `next.rs` | allocating and freeing; the allocator that large requests pass through to |
//! | `global.rs`, `preload.rs` | the two ways to use it: in a Rust program, and preloaded |
//! | `fault.rs`, `errno.rs`, `sync.rs` | messages; errno; atomics that can be a model's |
//!
//! In a model (`cfg(loom)`) only the parts exist that threads share.

// All types of shared state have a `new` that is const: a static is made by it.
#![allow(clippy::new_without_default, clippy::len_without_is_empty)]

pub mod cache;
pub mod class;
pub mod heap;
pub mod lock;
pub mod slab;
pub mod sync;

/// Items that are in no model.
macro_rules! outside_models {
    ($($item:item)*) => { $(#[cfg(not(loom))] $item)* };
}

outside_models! {
    pub mod allocator;
    mod calls;
    mod counts;
    mod current;
    mod errno;
    mod fault;
    mod global;
    mod next;
    #[cfg(feature = "preload")]
    pub mod preload;
    mod process;
    mod region;
    mod settings;
    mod thread;

    pub use allocator::{Allocator, Report};
    pub use counts::Sums;
    pub use global::ArMalloc;
    pub use settings::{ARENAS_MAX, Locks, Settings};
    pub use thread::Thread;
}
