//! L10: malloc, free, realloc, calloc and aligned allocation.
//!
//! Each is written once, for every operating system and for both builds. The interfaces for C, C++
//! and Rust call these functions, and so do the property tests and the fuzzer.
//!
//! In this order: each type uses only those above it.
//!
//! | type | files | what |
//! |---|---|---|
//! | `CallSites` | `wrappers.rs` | the row of a call site; the call site above a wrapper of malloc |
//! | `Supply` | `refill.rs` | the sources of slots for an empty bin |
//! | | `shared_heaps.rs` | slots of shared heaps, for bins that a thread rarely uses |
//! | | `large.rs` | allocation of large blocks |
//! | `SecureSlots` | `secure/` | the additional steps of the secure build |
//! | `Requests` | `malloc.rs` | malloc, calloc and aligned allocation from the slots of a bin |
//! | | `free.rs` | free, for blocks of every kind |
//! | | `realloc.rs` | realloc: in place, by moving pages, or by copying |
//! | | `permanent_free.rs` | frees after which an address is never used again |
//! | | `zero_size.rs` | zero-size blocks, which have an address and no memory |
//! | | `guarded.rs` | sampling, fill patterns and verification on slow paths |
//! | | `caller.rs` | the calling thread, with its allocator and its heap |
//! | `InPlace` | `in_place.rs` | a resize that never moves the block; the bytes that a request gets |

mod caller;
mod free;
mod guarded;
mod in_place;
mod large;
mod malloc;
mod permanent_free;
mod realloc;
mod refill;
mod secure;
mod shared_heaps;
mod wrappers;
mod zero_size;

use crate::allocator::{Allocator, handle};
pub use caller::{Caller, On, Pointer};
pub use free::{free, free_sized};
pub use in_place::served_bytes;
pub use malloc::{aligned, calloc, malloc};
pub(crate) use malloc::{large_from, refilled_from, slower_from, through_from};
pub use realloc::{Resized, realloc};

handle!(Supply, supply);

handle!(Requests, requests);

handle!(InPlace, in_place);
