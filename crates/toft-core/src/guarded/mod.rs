//! L3: sampled blocks between guard pages, in a separate pool: `TOFT_GUARDED`.
//!
//! ```text
//! | guard | ......... slot 0: up to 32 pages | guard | ......... slot 1 | guard | ... | guard |
//!                          |     block at end|        |block at start   |
//! ```
//!
//! A block usually ends where the guard page after its slot begins. By chance it begins where the
//! guard page before its slot ends. A freed block is inaccessible, and its slot is used again when
//! all others have been: that is the quarantine. Each access beyond a block, or to a freed one,
//! faults at the very instruction (`watch/guarded/fault.rs`).
//!
//! The records of the slots are apart from the pool. Invariant, verified by `Guarded::check`:
//! - Q1 a slot that is live has a block within it, at its start or its end.

mod fault;
mod pool;
mod slot;
mod watch;

pub use fault::Access;
pub use pool::{Guarded, SLOT_BYTES};
pub use slot::{Slot, SlotCondition};
pub use watch::Watcher;
