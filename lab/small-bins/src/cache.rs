//! The cache of one thread: blocks that it freed, for its next requests of their size. Their
//! neighbours take them for live, so a hit takes no lock. It stands for a thread's cache and the
//! fast bins of glibc. Blocks move between it and the heap in batches, under the heap's lock.

use crate::chunk::{ALIGN, BELOW_FREE, CACHED, Chunk, FLAGS, LIVE, SMALLEST, WORD, size_for};
use crate::fault::{Fault, stop};
use crate::heap::Heap;
use crate::links::FIRST;
use crate::memory::Words;
use crate::variant::Variant;
use std::iter::successors;
use std::ptr::null_mut;
use std::sync::atomic::{Ordering::Release, compiler_fence};

/// Blocks that move at a time, if there are as many.
const BATCH: usize = 8;

/// A cache. All zeros is an empty one, of no heap.
///
/// Invariants:
/// 1. A list has chunks of its size, linked by the first word of their blocks. The second word is
///    the mark. Of such a chunk, the heap changes no more than the flag `BELOW_FREE`.
/// 2. A list is whole between any two stores, so that a forked process can empty it. Its number may
///    then be that of a moment before.
#[derive(Debug)]
pub struct Cache {
    /// The heap's words at the last batch.
    words: Words,
    /// The first chunk of each size, and the number of chunks.
    lists: [(Chunk, usize); CACHED / ALIGN + 1],
}

impl Cache {
    /// Returns the size of the chunk for a request, if a cache of this variant may hold it.
    #[inline(always)]
    #[must_use]
    pub fn size<V: Variant>(request: usize) -> Option<usize> {
        if !V::CACHES || request > CACHED - WORD {
            return None;
        }
        size_for(request)
    }

    /// Takes out a block of this size.
    ///
    /// # Safety
    /// 1. The cache is used with one heap, of the variant `V`, and by one thread at a time.
    #[inline(always)]
    pub unsafe fn take<V: Variant>(&mut self, size: usize) -> Option<*mut u8> {
        // SAFETY: (1).
        let chunk = unsafe { self.pop::<V>(size) };
        chunk.map(|chunk| self.words.pointer(chunk.block()))
    }

    /// Takes the first chunk out of a list. It is live again.
    ///
    /// # Safety
    /// 1. As `take`.
    #[inline(always)]
    unsafe fn pop<V: Variant>(&mut self, size: usize) -> Option<Chunk> {
        let (chunk, count) = self.lists[size / ALIGN];
        if chunk == Chunk::NONE {
            return None;
        }
        // SAFETY: (1); a chunk of the list.
        let next = unsafe { self.next::<V>(chunk, size) };
        self.lists[size / ALIGN] = (next, count.wrapping_sub(1));
        compiler_fence(Release);
        // SAFETY: a word of a block that is in no list any more.
        unsafe { self.words.put(chunk.block() + WORD, 0) };
        Some(chunk)
    }

    /// Puts in a freed block. Returns false if it has to go to the heap.
    ///
    /// # Safety
    /// 1. As `take`.
    /// 2. `block` is a live block of the heap that is not used any more, or a mistake that the heap
    ///    will see.
    #[inline(always)]
    pub unsafe fn put<V: Variant>(&mut self, block: *mut u8) -> bool {
        // SAFETY: (1, 2).
        let live = unsafe { self.words.live::<V>(self.words.usable, block) };
        let Ok((chunk, size, _)) = live else { return false };
        let room = size <= CACHED && self.lists[size / ALIGN].1 < V::CHOICES.parked_of(size);
        if room {
            // SAFETY: (2).
            unsafe { self.push(chunk, size) };
        }
        room
    }

    /// Checks a chunk of a list, and returns the one that its link leads to.
    ///
    /// # Safety
    /// 1. `chunk` is the first of the list of `size`, or was returned by this function.
    #[inline(always)]
    unsafe fn next<V: Variant>(&self, chunk: Chunk, size: usize) -> Chunk {
        let words = &self.words;
        // SAFETY: (1): a link, or a block that was put in, is checked to be in the usable part.
        let (tag, next, mark) = unsafe {
            (words.tag(chunk), words.get(chunk.block()), words.get(chunk.block() + WORD))
        };
        let cached = tag & !BELOW_FREE == size | LIVE && mark == chunk.mark();
        let inside = next.wrapping_sub(FIRST) < words.usable - SMALLEST - FIRST;
        if !cached || (!(inside && next % ALIGN == WORD) && next != Chunk::NONE.0) {
            self.broken::<V>(chunk, cached.then_some(next));
        }
        Chunk(next)
    }

    /// Names a chunk of a list that is not as it was put in, or its link.
    #[cold]
    #[inline(never)]
    fn broken<V: Variant>(&self, chunk: Chunk, link: Option<usize>) -> ! {
        let block = self.words.pointer(chunk.block()).addr();
        stop(V::NAME, link.map_or(Fault::State { block }, |link| Fault::Link { block, link }))
    }

    /// Puts a chunk of this size in front of its list.
    ///
    /// # Safety
    /// 1. The chunk is live, and nothing else uses it.
    #[inline(always)]
    unsafe fn push(&mut self, chunk: Chunk, size: usize) {
        let (first, count) = self.lists[size / ALIGN];
        // SAFETY: (1): two words of its block.
        unsafe {
            self.words.put(chunk.block(), first.0);
            self.words.put(chunk.block() + WORD, chunk.mark());
        }
        compiler_fence(Release);
        self.lists[size / ALIGN] = (chunk, count + 1);
    }

    /// Returns a block from the heap, because the cache has none of its size, and puts in more of
    /// those that the heap has at hand. Returns null if there is no memory.
    ///
    /// # Safety
    /// 1. As `take`, and `heap` is that heap.
    pub unsafe fn fill<V: Variant>(&mut self, heap: &mut Heap<V>, size: usize) -> *mut u8 {
        let block = heap.allocate_chunk(size);
        self.renew(heap);
        // What is put in last is handed out first.
        let mut batch = [null_mut(); BATCH - 1];
        let mut n = 0;
        while n < BATCH - 1
            && let Some(more) = heap.allocate_ready(size)
        {
            batch[n] = more;
            n += 1;
        }
        for more in batch[..n].iter().rev() {
            let chunk = Chunk(self.words.offset(*more) - WORD);
            // SAFETY: (1); a fresh block. A chunk that was too small to be split may be larger.
            unsafe {
                if self.words.tag(chunk) & !FLAGS == size {
                    self.push(chunk, size);
                } else {
                    heap.free(*more);
                }
            }
        }
        block
    }

    /// Frees a block that `put` did not take. If its list is full, a batch goes to the heap.
    ///
    /// # Safety
    /// 1. As `put`, and `heap` is that heap.
    pub unsafe fn flush<V: Variant>(&mut self, heap: &mut Heap<V>, block: *mut u8) {
        self.renew(heap);
        // SAFETY: (1). Blocks that leave a cache are live.
        unsafe {
            const { assert!(!V::CACHES || V::CHOICES.parked >= BATCH) };
            let (chunk, size, tag) = heap.live(block);
            if size > CACHED {
                return heap.free_chunk(chunk, size, tag);
            }
            if self.lists[size / ALIGN].1 >= V::CHOICES.parked_of(size) {
                // In the order in which they were freed. A full list has as many.
                let mut batch = [Chunk::NONE; BATCH];
                for place in batch.iter_mut().rev() {
                    *place = self.pop::<V>(size).unwrap_or(Chunk::NONE);
                }
                for chunk in batch {
                    heap.free_chunk(chunk, size, self.words.tag(chunk));
                }
            }
            self.put::<V>(block);
        }
    }

    /// Gives every block back to the heap.
    ///
    /// # Safety
    /// 1. As `take`, and `heap` is that heap.
    pub unsafe fn empty<V: Variant>(&mut self, heap: &mut Heap<V>) {
        for list in 0..self.lists.len() {
            // SAFETY: (1). Blocks that leave a cache are live.
            unsafe {
                while let Some(block) = self.take::<V>(ALIGN * list) {
                    heap.free(block);
                }
            }
        }
        *self = Self::default();
    }

    /// Notes how far the heap's memory is usable.
    pub(crate) fn renew<V: Variant>(&mut self, heap: &Heap<V>) {
        self.words = *heap.memory;
    }

    /// Checks every list. Returns the number of blocks.
    ///
    /// # Errors
    /// Names the list that is longer or shorter than its number, or than may be.
    ///
    /// # Safety
    /// 1. As `take`.
    pub unsafe fn check<V: Variant>(&self) -> Result<usize, String> {
        for (list, (first, count)) in self.lists.iter().enumerate() {
            let there = |chunk: Chunk| (chunk != Chunk::NONE).then_some(chunk);
            // SAFETY: (1); a chunk of the list.
            let next = |chunk: &Chunk| there(unsafe { self.next::<V>(*chunk, ALIGN * list) });
            let found = successors(there(*first), next).take(count + 1).count();
            if found != *count || found > V::CHOICES.parked_of(ALIGN * list) {
                return Err(format!("the cache of {} bytes has not {count} chunks", ALIGN * list));
            }
        }
        Ok(self.lists.iter().map(|(_, count)| count).sum())
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self { words: Words::none(), lists: [(Chunk::NONE, 0); CACHED / ALIGN + 1] }
    }
}
