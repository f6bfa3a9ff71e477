//! A thread's cache: for each small class the last blocks that it has freed, last in first out.
//!
//! The simplest that helps, as in the allocators that the article names: a fixed number of blocks;
//! an empty one is filled by half of that under one lock, a full one gives its older half back. It
//! keeps partitions apart: a block goes to a call site in the same partition or not at all. Blocks
//! in it count as live in the statistics of memory.

use crate::slab::SMALL_CLASSES;
use crate::sync::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Blocks of a class that a cache holds.
pub(super) const BLOCKS: usize = 16;
/// Blocks that move between a cache and an arena at a time.
pub(super) const BATCH: usize = BLOCKS / 2;

/// The blocks of one class. The thread's own.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shelf {
    len: AtomicU32,
    blocks: [AtomicUsize; BLOCKS],
}

/// All of a thread's blocks. The thread's own.
#[derive(Debug)]
pub(super) struct Cache {
    shelves: [Shelf; SMALL_CLASSES],
}

impl Cache {
    pub(super) const fn new() -> Cache {
        Cache {
            shelves: [const {
                Shelf { len: AtomicU32::new(0), blocks: [const { AtomicUsize::new(0) }; BLOCKS] }
            }; SMALL_CLASSES],
        }
    }

    /// Forgets all blocks.
    pub(super) fn clear(&self) {
        for shelf in &self.shelves {
            shelf.len.store(0, Relaxed);
        }
    }

    /// The shelf of a class; `None` for one that is not cached.
    #[inline(always)]
    pub(super) fn shelf(&self, class: usize) -> Option<&Shelf> {
        self.shelves.get(class)
    }
}

impl Shelf {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block that came last.
    #[inline(always)]
    pub(super) fn last(&self) -> Option<usize> {
        let at = self.len().checked_sub(1)?;
        Some(self.blocks.get(at)?.load(Relaxed))
    }

    /// Takes the block that came last off.
    #[inline(always)]
    pub(super) fn drop_last(&self) {
        self.len.store((self.len() as u32).saturating_sub(1), Relaxed);
    }

    /// Puts a block on; returns true if there was room.
    #[inline(always)]
    pub(super) fn push(&self, block: usize) -> bool {
        let Some(place) = self.blocks.get(self.len()) else { return false };
        place.store(block, Relaxed);
        self.len.store(self.len() as u32 + 1, Relaxed);
        true
    }

    /// Takes the older half off, and hands each block to `each`.
    pub(super) fn drop_older(&self, mut each: impl FnMut(usize)) {
        let mut older = [0; BATCH];
        let count = BATCH.min(self.len());
        for (block, place) in older.iter_mut().zip(&self.blocks) {
            *block = place.load(Relaxed);
        }
        for (to, from) in self.blocks.iter().zip(self.blocks.iter().skip(count)) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.len.store((self.len() - count) as u32, Relaxed);
        older.into_iter().take(count).for_each(&mut each);
    }
}
