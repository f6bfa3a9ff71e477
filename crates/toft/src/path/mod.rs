//! L9: the spine: malloc, free, realloc, calloc and aligned allocation, each once, over any
//! operating system and in both builds. C, C++ and Rust enter here, and so do the property tests
//! and the fuzzer.
//!
//! | file | what |
//! |---|---|
//! | `caller.rs` | the thread that calls: what it passes on |
//! | `malloc.rs` | malloc, calloc and aligned allocation, as far as a bin has slots |
//! | `refill.rs` | where slots come from when a bin is empty |
//! | `large.rs` | blocks with a separate extent |
//! | `free.rs` | every way in which a free can go |
//! | `realloc.rs` | in place, by moving pages, or by copying |
//! | `orphans.rs` | heaps that no thread has |
//! | `wrappers.rs` | the caller of a wrapper of malloc |
//! | `permanent_free.rs` | frees after which an address is never used again |
//! | `secure/` | what the hardened build does more |

mod caller;
mod free;
mod large;
mod malloc;
mod orphans;
mod permanent_free;
mod realloc;
mod refill;
mod secure;
mod wrappers;

pub use caller::{Caller, On, Pointer};
pub use free::{free, free_sized};
pub use malloc::{NEW_WORDS, aligned, calloc, malloc};
pub(crate) use malloc::{large_from, refilled_from, slower_from, through_from};
pub use realloc::{Resized, realloc};
