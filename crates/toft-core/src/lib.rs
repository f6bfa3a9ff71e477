//! The parts of Toft, a memory allocator that groups blocks by call site. The crate `toft` is what
//! Rust programs use, and `toft-preload` makes the library for all others. This crate has no stable
//! interface.
//!
//! ```text
//! malloc: path -> site -> bin -> slab -> region -> os     (large: path -> large -> region -> os)
//! free:   path -> region (owner) -> bin (mine) | remote (another thread's) | large
//! ```
//!
//! The folders are layers, and a folder uses only those below it, and `options`, `stats`, `sync`
//! (`tests/layers.rs` holds it):
//!
//! | layer | folder | what |
//! |---|---|---|
//! | 11 | `process` | the process's own allocator, and the calls of C, C++ and Rust |
//! | 10 | `path` | malloc, free, realloc, aligned, calloc, once for all callers |
//! | 9 | `keeper` | what returns memory |
//! | 8 | `watch` | what observes |
//! | 7 | `allocator` | all parts of an allocator in one value |
//! | 6 | `thread` | the heap that a thread owns |
//! | 5 | `site` | call site to partition |
//! | 4 | `bin`, `remote`, `reclaim` | free slots of this thread; frees by others; returned pages |
//! | 3 | `slab`, `large`, `zero_size` | slots in a run; a block to an extent; zero-size blocks |
//! | 3 | `guarded` | sampled blocks between guard pages |
//! | 3 | `sample` | sampled allocations with their stacks |
//! | 2 | `region`, `harden` | which addresses are ours and whose; what hardening does to bytes |
//! | 2 | `report` | what a report says of code: stacks, files, build-ids |
//! | 1 | `os` | the only system calls |
//! | 0 | `sync`, `options` | atomics; the table of options |
//!
//! `policy.rs` lists what the secure build does more, and `keyed.rs` makes unpredictable
//! numbers for it. `hook.rs` has the functions of the crates above that this one calls.
//!
//! What writes reports and statistics is kept out of line, so that the pages of code that every
//! program touches are few. Nothing in this crate allocates or panics. Nothing depends on another
//! thread going on. If one is between a mapping and the word that publishes it, others spin for
//! some microseconds (`sync::spin_until`), and then go another way.

#![cfg_attr(not(test), no_std)]

/// Items for what Toft runs on, and an item for everything else. The name is the one under which
/// rustfmt finds the files.
macro_rules! cfg_if {
    (if #[cfg($condition:meta)] { $($item:item)* } else { $($other:item)* }) => {
        $(#[cfg($condition)] $item)*
        $(#[cfg(not($condition))] $other)*
    };
}

cfg_if! {
    if #[cfg(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(
            all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")),
            all(target_env = "musl", target_arch = "x86_64")
        )
    ))] {
        #[cfg(test)]
        extern crate std;

        pub mod policy;
        pub mod sync;

        #[cfg(not(loom))]
        pub mod keyed;

        pub mod large;
        pub mod remote;
        pub mod slab;

        #[cfg(not(loom))]
        pub mod bin;
        #[cfg(not(loom))]
        pub mod allocator;
        #[cfg(not(loom))]
        pub mod keeper;
        #[cfg(not(loom))]
        pub mod path;
        #[cfg(not(loom))]
        pub mod process;
        #[cfg(not(loom))]
        pub mod watch;
        #[cfg(not(loom))]
        pub mod guarded;
        #[cfg(not(loom))]
        pub mod harden;
        #[cfg(not(loom))]
        pub mod hook;
        #[cfg(not(loom))]
        pub mod options;
        #[cfg(not(loom))]
        pub mod os;
        pub mod reclaim;
        pub mod region;
        #[cfg(not(loom))]
        pub mod report;
        #[cfg(not(loom))]
        pub mod sample;
        #[cfg(not(loom))]
        pub mod site;
        #[cfg(not(loom))]
        pub mod stats;
        #[cfg(not(loom))]
        pub mod thread;
        #[cfg(not(loom))]
        pub mod zero_size;

        #[cfg(not(loom))]
        pub use allocator::Allocator;

        /// This library's version.
        pub const VERSION: &str = env!("CARGO_PKG_VERSION");
    } else {
        // Nothing else is compiled there, so that this is the only error.
        compile_error! {
            "Toft runs on Linux: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu, and \
             x86_64-unknown-linux-musl. \
             Elsewhere the crate toft-arena allocates from memory that the program hands over"
        }
    }
}
