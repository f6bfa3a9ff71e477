//! L8: observation of the heap: reports, checks, samples and profiles.
//!
//! | file | contents |
//! |---|---|
//! | `misuse.rs`, `damage.rs`, `detail.rs` | reports of bad calls and damage, and their details |
//! | `bounds.rs` | copies that leave their block |
//! | `guarded.rs`, `fault.rs` | blocks between guard pages, and accesses that fault there |
//! | `sampling.rs` | random samples of allocations, with their stacks |
//! | `profile/` | profiles by call site, written from inside the process |
//! | `leaks.rs`, `reachability.rs`, `dangling.rs` | unreachable blocks; pointers to freed ones |
//! | `verify*.rs`, `contents.rs`, `extent.rs` | verification of the heap, perhaps in part |
//! | `uninitialized.rs` | reads of memory that was never written |
//! | `hints.rs` | what an earlier run has shown about call sites |

mod bounds;
mod contents;
pub(crate) mod damage;
mod dangling;
mod detail;
mod extent;
pub(crate) mod fault;
pub(crate) mod guarded;
pub(crate) mod hints;
pub(crate) mod leaks;
pub(crate) mod misuse;
pub(crate) mod profile;
mod reachability;
mod sampling;
mod uninitialized;
mod verify;
mod verify_others;
mod verify_share;
mod verify_slots;

use crate::allocator::{Allocator, handle};

handle! {
    /// The allocator, as what observes it sees it: all parts, and the methods of this folder.
    Observer,
    /// Returns what observes this allocator.
    observer
}
