//! A request that no exact bin serves sorts the unsorted list, the oldest chunk first, until one
//! has exactly its size.

use super::{Heap, count};
use crate::bins::UNSORTED;
use crate::chunk::{LARGE, SMALLEST};
use crate::links::{Way, head};
use crate::variant::{Variant, unlikely};

impl<V: Variant> Heap<V> {
    /// Sorts the list, and returns a block if a chunk of it has exactly this size.
    #[inline]
    pub(super) fn sort(&mut self, size: usize) -> Option<*mut u8> {
        let list = head(UNSORTED);
        loop {
            // SAFETY: a head, and the chunks of its list, which are free.
            unsafe {
                let chunk = self.link(list, Way::Previous);
                if chunk == list {
                    return None;
                }
                // Small requests in a row are cut from one chunk, as glibc does.
                let alone = self.link(chunk, Way::Previous) == list;
                let found = self.unlink(chunk);
                if size < LARGE && alone && chunk == self.rest && found >= size + SMALLEST {
                    return Some(self.split(chunk, found, size));
                }
                if found == size {
                    return Some(self.hand_out(chunk, found));
                }
                if V::CHOICES.unlikely && found < LARGE {
                    unlikely();
                }
                count!(self.sorted);
                self.put_in_bin(chunk, found);
            }
        }
    }
}
