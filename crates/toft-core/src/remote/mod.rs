//! L4: frees by threads that do not own the slab.
//!
//! A remote free is one atomic bit. The first one in a slab also pushes the slab on its owner's
//! pending stack, by two atomic operations. No thread loops, and no thread waits.
//!
//! A thread that frees several slots of a slab marks them in its outbox first, and sets their bits
//! together (`slab/batch.rs`).
//!
//! ```text
//! freer:  remote[w] |= bit   -> owner has PENDING? done : set it -> its setter: push slab
//! owner:  take the stack -> for each slab: read link, reopen link, clear PENDING, collect bits
//! ```
//!
//! # Orderings
//! The freer sets its bit and then reads PENDING. The owner clears PENDING and then reads the bits.
//! Both first steps are SeqCst read-modify-writes, and both reads are SeqCst loads. So at least one
//! of the two threads sees the other's write. A set bit is therefore never left with PENDING clear
//! (model `no_bit_is_lost`, `tests/loom.rs`).

mod inbox;
#[cfg(not(loom))]
mod outbox;

pub use inbox::{Inbox, Marked, announce, mark_remote};
#[cfg(not(loom))]
pub use outbox::{Last, Outbox};
