//! L10: malloc, free, realloc, calloc and aligned allocation.
//!
//! Each is written once, for every operating system and for both builds. The interfaces for C, C++
//! and Rust call these functions, and so do the property tests and the fuzzer.
//!
//! | file | what |
//! |---|---|
//! | `caller.rs` | the calling thread, with its allocator and its heap |
//! | `malloc.rs` | malloc, calloc and aligned allocation from the slots of a bin |
//! | `refill.rs` | the sources of slots for an empty bin |
//! | `large.rs` | allocation of large blocks |
//! | `free.rs` | free, for blocks of every kind |
//! | `guarded.rs` | sampling, fill patterns and verification on slow paths |
//! | `realloc.rs` | realloc: in place, by moving pages, or by copying |
//! | `shared_heaps.rs` | slots of shared heaps, for bins that a thread rarely uses |
//! | `wrappers.rs` | the call site above a wrapper of malloc |
//! | `permanent_free.rs` | frees after which an address is never used again |
//! | `secure/` | the additional steps of the secure build |

mod caller;
mod free;
mod guarded;
mod large;
mod malloc;
mod permanent_free;
mod realloc;
mod refill;
mod secure;
mod shared_heaps;
mod wrappers;

pub use caller::{Caller, On, Pointer};
pub use free::{free, free_sized};
pub use malloc::{NEW_WORDS, aligned, calloc, malloc};
pub(crate) use malloc::{large_from, refilled_from, slower_from, through_from};
pub use realloc::{Resized, realloc};
