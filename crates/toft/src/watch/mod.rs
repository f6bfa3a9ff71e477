//! L8: what observes: reports, checks, samples, profiles.
//!
//! | file | what |
//! |---|---|
//! | `misuse.rs`, `damage.rs`, `detail.rs` | the report of a bad call, of damage, and what is added |
//! | `bounds.rs` | copies that leave their block |
//! | `guarded.rs`, `fault.rs` | blocks between guard pages; accesses that fault there |
//! | `sampling.rs` | allocations by chance, with their stacks |
//! | `profile/` | profiles by call site, written from inside |
//! | `leaks.rs`, `reachability.rs`, `dangling.rs` | unreachable blocks; pointers to freed ones |
//! | `verify*.rs`, `contents.rs`, `extent.rs` | the whole heap, for a bounded time |
//! | `uninitialized.rs` | reads of memory that was never written |
//! | `hints.rs` | what an earlier run showed of call sites |

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
mod verify_slots;
