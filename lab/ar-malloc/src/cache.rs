//! A thread's cache: for each class the blocks that the thread freed last, newest first out.
//!
//! An empty shelf is filled by half under one lock, and a full shelf gives its older half back.

use crate::sync::{AtomicUsize, Ordering, const_outside_models, each};
use Ordering::Relaxed;

/// The number of blocks that a shelf holds.
pub const BLOCKS: usize = if cfg!(loom) { 2 } else { 16 };
/// The number of blocks that move between a shelf and a heap at a time.
pub const BATCH: usize = BLOCKS / 2;

/// The cached blocks of one class. Only the thread that owns the cache uses it.
#[derive(Debug)]
pub struct Shelf {
    len: AtomicUsize,
    /// Addresses, oldest first.
    blocks: [AtomicUsize; BLOCKS],
}

impl Shelf {
    const_outside_models! {
        /// An empty shelf.
        new() -> Shelf {
            Shelf { len: AtomicUsize::new(0), blocks: each!(BLOCKS, AtomicUsize::new(0)) }
        }
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Takes the newest block.
    #[inline]
    pub fn pop(&self) -> Option<usize> {
        let last = self.len.load(Relaxed).checked_sub(1)?;
        let block = self.blocks.get(last)?.load(Relaxed);
        self.len.store(last, Relaxed);
        Some(block)
    }

    /// Adds a block; returns false if the shelf is full.
    #[inline]
    pub fn push(&self, block: usize) -> bool {
        let len = self.len.load(Relaxed);
        let Some(place) = self.blocks.get(len) else { return false };
        place.store(block, Relaxed);
        self.len.store(len + 1, Relaxed);
        true
    }

    /// Removes up to `count` of the oldest blocks and hands each to `each`.
    pub fn take_oldest(&self, count: usize, mut each: impl FnMut(usize)) {
        let len = self.len.load(Relaxed);
        let count = count.min(len);
        for block in self.blocks.iter().take(count) {
            each(block.load(Relaxed));
        }
        for (to, from) in self.blocks.iter().zip(self.blocks.iter().skip(count)) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.len.store(len - count, Relaxed);
    }
}
