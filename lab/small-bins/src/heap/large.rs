//! Large bins: sorted by size, the smallest chunk last. Of each size the last chunk in the list is
//! the leader, and the leaders of a bin have a separate list: a walk passes sizes, not chunks.
//!
//! ```text
//! list of the bin:      head, 1088, 1088*, 1056*, 1040, 1040, 1040*, head
//! from leader to leader:      head, 1088*, 1056*,             1040*, head
//! leader:     | size | next | previous | larger | smaller | ...
//! other:      | size | next | previous | 0      |         | ...
//! ```

use super::{Heap, count};
use crate::bins;
use crate::chunk::Chunk;
use crate::fault::{Fault, stop};
use crate::links::{FIRST, Way, head};
use crate::variant::Variant;

impl<V: Variant> Heap<V> {
    /// Puts a chunk into its large bin.
    ///
    /// # Safety
    /// 1. `chunk` is free, has both sizes of `size >= LARGE`, and is in no list.
    pub(super) unsafe fn put_in_large_bin(&mut self, chunk: Chunk, size: usize) {
        let list = bins::large(size);
        self.marks.set(list);
        // SAFETY: (1); a head, and leaders of its list.
        unsafe {
            let (smaller, found) = self.first_leader(list, size);
            if found != head(list) && self.memory.tag(found) == size {
                // In front of the leader, which stays.
                let before = self.neighbour(found, Way::Previous);
                self.set_leader(chunk, Chunk::NONE, Chunk::NONE);
                self.insert(chunk, before);
                return;
            }
            self.insert(chunk, found);
            self.set_leader(chunk, found, smaller);
            self.between(found, smaller, chunk, chunk);
        }
    }

    /// Finds the first leader, from the smallest up, of at least `size` bytes, and the one before
    /// it. The head of the list stands for none.
    ///
    /// # Safety
    /// 1. `list` is a large bin.
    unsafe fn first_leader(&mut self, list: usize, size: usize) -> (Chunk, Chunk) {
        let head = head(list);
        // SAFETY: (1); the last chunk of a list is a leader.
        unsafe {
            let (mut smaller, mut leader) = (head, self.link(head, Way::Previous));
            while leader != head && self.free_size(leader) < size {
                count!(self.walked);
                let larger = self.leader(leader, Way::Larger);
                (smaller, leader) = (leader, larger);
            }
            (smaller, leader)
        }
    }

    /// Takes the smallest chunk of at least `size` bytes out of a large bin, but a leader only if
    /// it is the last of its size.
    ///
    /// # Safety
    /// 1. `list` is a large bin.
    pub(super) unsafe fn fit_large(&mut self, list: usize, size: usize) -> Option<(Chunk, usize)> {
        // SAFETY: (1); a leader and the chunk before it in the list are free.
        unsafe {
            let (_, leader) = self.first_leader(list, size);
            if leader == head(list) {
                return None;
            }
            let before = self.neighbour(leader, Way::Previous);
            let same = !is_head(before) && self.memory.tag(before) == self.memory.tag(leader);
            let chunk = if same { before } else { leader };
            Some((chunk, self.unlink(chunk)))
        }
    }

    /// Takes a chunk out of the list of leaders, if it is one. The chunk before it takes its place
    /// if it has the same size.
    ///
    /// # Safety
    /// 1. `chunk` is a free large chunk in a list, and `previous` is the one before it.
    pub(crate) unsafe fn unlead(&mut self, chunk: Chunk, previous: Chunk, size: usize) {
        // SAFETY: (1): a large chunk has five words; leaders of its list are chunks or the head.
        unsafe {
            if self.memory.get(chunk.0 + Way::Larger as usize) == Chunk::NONE.0 {
                return;
            }
            let larger = self.leader(chunk, Way::Larger);
            let smaller = self.leader(chunk, Way::Smaller);
            if !is_head(previous) && self.memory.tag(previous) == size {
                self.set_leader(previous, larger, smaller);
                self.between(larger, smaller, previous, previous);
            } else {
                self.between(larger, smaller, smaller, larger);
            }
        }
    }

    /// Makes `below` the next smaller leader of `larger`, and `above` the next larger one of
    /// `smaller`. A head keeps no leaders.
    ///
    /// # Safety
    /// 1. All are leaders of one list, or its head.
    unsafe fn between(&mut self, larger: Chunk, smaller: Chunk, below: Chunk, above: Chunk) {
        // SAFETY: (1): leaders are free large chunks.
        unsafe {
            if !is_head(larger) {
                self.set_link(larger, Way::Smaller, below);
            }
            if !is_head(smaller) {
                self.set_link(smaller, Way::Larger, above);
            }
        }
    }

    /// Writes both links of a leader, or none.
    ///
    /// # Safety
    /// 1. `chunk` is a free large chunk.
    pub(super) unsafe fn set_leader(&mut self, chunk: Chunk, larger: Chunk, smaller: Chunk) {
        // SAFETY: (1): it has five words.
        unsafe {
            self.set_link(chunk, Way::Larger, larger);
            self.set_link(chunk, Way::Smaller, smaller);
        }
    }

    /// The next leader in a direction, which is known to link back, or the head.
    ///
    /// # Safety
    /// 1. `from` is a leader.
    pub(super) unsafe fn leader(&self, from: Chunk, way: Way) -> Chunk {
        let back = if let Way::Larger = way { Way::Smaller } else { Way::Larger };
        // SAFETY: (1); below `top` there are as many usable words as a leader has.
        unsafe {
            let to = self.link(from, way);
            if !is_head(to) && self.memory.get(to.0 + back as usize) != from.0 {
                stop(V::NAME, Fault::Back { block: self.named(from), link: self.named(to) });
            }
            to
        }
    }
}

/// Returns true if a link leads to the head of a list.
#[inline(always)]
pub(super) fn is_head(chunk: Chunk) -> bool {
    chunk.0 < FIRST
}
