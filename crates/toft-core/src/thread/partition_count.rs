//! The number of partitions in use where call sites are hashed and no number was asked for: few at
//! first, more as the heap grows.
//!
//! Each partition has separate slabs for each size class, and so pages, descriptors and page
//! tables. In a small process that is more than its data. So the number doubles each time that
//! slabs of [`BYTES_EACH`] for each partition have been filled. What a call site has allocated
//! before stays where it is. A heap learns of a new number when a bin is empty ([`Heaps::row`]).
//!
//! [`Heaps::row`]: super::Heaps::row

use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::Relaxed;

/// The number of partitions that a process begins with. A power of two.
pub const PARTITIONS_FIRST: usize = 8;

/// The bytes of filled slabs for each partition after which the number doubles.
const BYTES_EACH: usize = 1 << 20;

/// The number of partitions in use. In the metadata tables, zero at first.
///
/// Both words only grow, and nothing is published by them: a thread that reads an old number uses
/// fewer partitions a little longer.
#[derive(Debug)]
pub(super) struct PartitionCount {
    /// How often the number has doubled. Any thread raises it, by compare and exchange.
    doublings: AtomicU32,
    /// The bytes of slabs that were full when their bin got a new one. Any thread adds.
    filled: AtomicUsize,
}

impl PartitionCount {
    /// Returns the number of partitions in use, of `all`.
    pub fn now(&self, all: usize) -> usize {
        (PARTITIONS_FIRST << self.doublings.load(Relaxed)).min(all)
    }

    /// Returns a number that is not smaller than that of any thread of the parent, in the child of
    /// a fork, whatever was copied first. Twice as many are enough: other threads get no new pages
    /// while the kernel copies.
    pub fn after_fork(&self, all: usize) -> usize {
        (2 * self.now(all)).min(all)
    }

    /// Notes that a bin has filled a slab of this number of bytes and gets a new one. The number is
    /// zero if it had no slab.
    pub fn note_filled(&self, bytes: usize, all: usize) {
        let filled = self.filled.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let doublings = self.doublings.load(Relaxed);
        let now = PARTITIONS_FIRST << doublings;
        if now < all && filled / BYTES_EACH >= now {
            // Another thread may have done it.
            let _ = self.doublings.compare_exchange(doublings, doublings + 1, Relaxed, Relaxed);
        }
    }
}
