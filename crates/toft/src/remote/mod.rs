//! L4: frees by threads that do not own the slab.
//!
//! A remote free is one atomic bit. The first one in a slab also puts the slab on its owner's
//! pending stack, by one exchange; no thread loops, no thread waits.
//!
//! ```text
//! freer:  remote[w] |= bit   -> owner has PENDING? done : set it -> whoever set it: push slab
//! owner:  take the stack -> for each slab: read link, reopen link, clear PENDING, collect bits
//! ```
//!
//! # Orderings
//! The freer sets its bit and then reads PENDING; the owner clears PENDING and then reads the bits.
//! Both first steps are SeqCst read-modify-writes and both reads are SeqCst loads, so at least one
//! of the two sees the other: a bit is never left behind with PENDING clear (model
//! `no_bit_is_lost`, `tests/loom.rs`).

mod inbox;

pub use inbox::{Inbox, Marked, announce, mark_remote};
