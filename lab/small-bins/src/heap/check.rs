//! The invariants of a heap, checked from the first chunk to the last and along every list.

use super::Heap;
use super::large::is_head;
use crate::bins::{self, FIRST_LARGE, LISTS, UNSORTED};
use crate::chunk::{BELOW_FREE, Chunk, FLAGS, LARGE, LIVE, SMALLEST, WORD};
use crate::links::{FIRST, Way, head};
use crate::variant::{To, Variant};

impl<V: Variant> Heap<V> {
    /// Checks every invariant. A corrupted link stops the process, as it does in any other call.
    ///
    /// # Errors
    /// Names the invariant that does not hold, and the offset of the chunk.
    pub fn check(&self) -> Result<(), String> {
        if self.memory.usable == 0 {
            return Ok(());
        }
        if self.top.0 + SMALLEST > self.memory.usable || self.top.0 > self.memory.clean {
            return Err(format!("top {:#x} is beyond what is usable or resident", self.top.0));
        }
        let (free, mut listed) = (self.check_chunks()?, self.check_lists()?);
        if self.run != Chunk::NONE {
            // SAFETY: `run` is a free chunk; a corrupted one stops the process.
            unsafe { self.free_size(self.run) };
            listed += 1;
        }
        if free != listed {
            return Err(format!("{free} free chunks, {listed} in lists"));
        }
        Ok(())
    }

    /// Walks all chunks. Returns how many are free.
    fn check_chunks(&self) -> Result<usize, String> {
        let mut free = 0;
        let (mut chunk, mut below_free) = (Chunk(FIRST), false);
        while chunk != self.top {
            // SAFETY: between the first chunk and `top`, as the loop keeps.
            let tag = unsafe { self.memory.tag(chunk) };
            let size = tag & !FLAGS;
            if size < SMALLEST || size > self.top.0 - chunk.0 {
                return Err(format!("chunk {:#x} has {size} bytes", chunk.0));
            }
            if tag & LIVE == 0 {
                if below_free || chunk.above(size) == self.top {
                    return Err(format!("free chunk {:#x} is beside free memory", chunk.0));
                }
                // SAFETY: the last word of the chunk.
                if tag & FLAGS != 0 || unsafe { self.memory.get(chunk.0 + size - WORD) } != size {
                    return Err(format!("free chunk {:#x} has two sizes", chunk.0));
                }
                free += 1;
            } else if (tag & BELOW_FREE != 0) != below_free {
                return Err(format!("chunk {:#x} is wrong about the one below", chunk.0));
            }
            below_free = tag & LIVE == 0;
            chunk = chunk.above(size);
        }
        Ok(free)
    }

    /// Walks all lists. Returns how many chunks are in them.
    fn check_lists(&self) -> Result<usize, String> {
        let mut count = 0;
        for list in 0..LISTS {
            let head = head(list);
            let mut larger = usize::MAX;
            // SAFETY: a head, and the chunks of its list.
            let mut chunk = unsafe { self.neighbour(head, Way::Next) };
            if chunk != head && list != UNSORTED && !self.marks.has(list) {
                return Err(format!("bin {list} has chunks and no mark"));
            }
            while chunk != head {
                // SAFETY: as above.
                let (size, next) =
                    unsafe { (self.free_size(chunk), self.neighbour(chunk, Way::Next)) };
                if list == UNSORTED {
                    self.check_unsorted(size)?;
                } else if bins::of(size) != list || size > larger {
                    return Err(format!("chunk {:#x} of {size} bytes: bin {list}", chunk.0));
                }
                if list >= FIRST_LARGE {
                    self.check_leader(chunk, next, size)?;
                }
                (chunk, larger, count) = (next, size, count + 1);
            }
        }
        Ok(count)
    }

    /// Checks that a chunk of a large bin is a leader if it is the last of its size, and that the
    /// leaders around it are those of the next sizes.
    fn check_leader(&self, chunk: Chunk, next: Chunk, size: usize) -> Result<(), String> {
        // SAFETY: a chunk of a large bin, and the one after it.
        unsafe {
            let leads = self.memory.get(chunk.0 + Way::Larger as usize) != Chunk::NONE.0;
            if leads == (!is_head(next) && self.memory.tag(next) == size) {
                return Err(format!("chunk {:#x} of {size} bytes leads: {leads}", chunk.0));
            }
            if leads {
                let (larger, smaller) =
                    (self.leader(chunk, Way::Larger), self.leader(chunk, Way::Smaller));
                let beyond = |leader, than: bool| {
                    is_head(leader) || (self.memory.tag(leader) > size) == than
                };
                let last = is_head(next) == is_head(smaller);
                if !beyond(larger, true) || !beyond(smaller, false) || !last {
                    return Err(format!("leader {:#x} of {size} bytes has others", chunk.0));
                }
            }
        }
        Ok(())
    }

    /// Checks that a variant has only such chunks in its unsorted list as its choices put there.
    fn check_unsorted(&self, size: usize) -> Result<(), String> {
        let choices = V::CHOICES;
        let freed = if size < LARGE { choices.small } else { choices.large };
        if freed == To::Unsorted || choices.remainders == To::Unsorted {
            return Ok(());
        }
        Err(format!("{}: a chunk of {size} bytes waits to be sorted", V::NAME))
    }
}
