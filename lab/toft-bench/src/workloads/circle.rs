//! Threads in a circle, each of which hands blocks to the next one to be freed there. A thread that
//! finds the ring to its neighbour full frees what has arrived from the other side meanwhile, so a
//! circle in which everybody is ahead of everybody still turns.

use super::prelude::*;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

pub const CELLS: usize = 4096;

/// The rings between the threads.
pub struct Circle {
    rings: Vec<Ring>,
}

impl Circle {
    /// The rings of that many threads; a single one hands its blocks to itself.
    pub fn of(threads: usize) -> Self {
        Self { rings: (0..threads).map(|_| Ring::new()).collect() }
    }

    /// Hands live blocks from thread `index` to the next. Returns how many others were freed here
    /// because the way was full.
    pub fn pass<H: Heap>(&self, heap: H, index: usize, mut blocks: &[*mut u8]) -> u64 {
        let mut patience = Patience::default();
        let mut freed = 0;
        loop {
            let sent = self.rings[index].send(blocks);
            blocks = &blocks[sent..];
            if blocks.is_empty() {
                return freed;
            }
            let arrived = self.accept(heap, index);
            freed += arrived;
            if sent == 0 && arrived == 0 {
                patience.wait();
            }
        }
    }

    /// Frees what has arrived at thread `index`; returns how many blocks that were.
    pub fn accept<H: Heap>(&self, heap: H, index: usize) -> u64 {
        self.before(index).receive(|block| {
            // SAFETY: the sender gave the block away, and the ring hands out each block once.
            unsafe { heap.free(block) };
        })
    }

    /// Thread `index` sends nothing more. Frees what still arrives, until the thread before it has
    /// said the same; returns how many blocks that were.
    pub fn finish<H: Heap>(&self, heap: H, index: usize) -> u64 {
        self.rings[index].closed.0.store(1, Release);
        let mut patience = Patience::default();
        let mut freed = 0;
        loop {
            // Looked at first: what was sent before the end is then seen below.
            let last = self.before(index).closed.0.load(Acquire) == 1;
            let arrived = self.accept(heap, index);
            freed += arrived;
            if last {
                return freed;
            }
            if arrived == 0 {
                patience.wait();
            }
        }
    }

    fn before(&self, index: usize) -> &Ring {
        &self.rings[(index + self.rings.len() - 1) % self.rings.len()]
    }
}

/// A word that fills a cache line and the next.
#[repr(align(128))]
pub struct Line(pub AtomicUsize);

/// A ring with one sender, which writes `head` and `closed`, and one receiver, which writes `tail`.
pub struct Ring {
    pub head: Line,
    pub tail: Line,
    closed: Line,
    pub cells: Mapped<AtomicPtr<u8>>,
}

impl Ring {
    pub fn new() -> Self {
        let line = || Line(AtomicUsize::new(0));
        Self { head: line(), tail: line(), closed: line(), cells: Mapped::new(CELLS) }
    }

    /// Sends as many as there is room for; returns how many.
    fn send(&self, blocks: &[*mut u8]) -> usize {
        let head = self.head.0.load(Relaxed);
        // Acquire pairs with the release in `receive`: the cells have been read.
        let room = CELLS - (head - self.tail.0.load(Acquire));
        let count = room.min(blocks.len());
        for (at, block) in (head..).zip(&blocks[..count]) {
            self.cells[at % CELLS].store(*block, Relaxed);
        }
        self.head.0.store(head + count, Release);
        count
    }

    /// Gives `each` all that was sent; returns how many.
    fn receive(&self, mut each: impl FnMut(*mut u8)) -> u64 {
        let tail = self.tail.0.load(Relaxed);
        // Acquire pairs with the release in `send`: the cells and the blocks have been written.
        let head = self.head.0.load(Acquire);
        for at in tail..head {
            each(self.cells[at % CELLS].load(Relaxed));
        }
        self.tail.0.store(head, Release);
        (head - tail) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{Libc, take};
    use crate::threads::{Placed, together};

    #[test]
    fn a_ring_takes_what_fits_and_gives_each_block_once() {
        let ring = Ring::new();
        let words: Vec<*mut u8> = (1..=CELLS + 5).map(std::ptr::without_provenance_mut).collect();
        assert_eq!(ring.send(&words), CELLS);
        assert_eq!(ring.send(&words[CELLS..]), 0);
        let mut seen = Vec::new();
        assert_eq!(ring.receive(|word| seen.push(word)), CELLS as u64);
        assert_eq!(seen, words[..CELLS]);
        assert_eq!(ring.send(&words[CELLS..]), 5);
        assert_eq!(ring.receive(|_| ()), 5);
        assert_eq!(ring.receive(|_| ()), 0);
    }

    #[test]
    fn all_that_is_passed_is_freed_by_others_though_all_send_more_than_fits() {
        let circle = Circle::of(3);
        let (_, freed) = together(3, Placed::Anywhere, |index| {
            let blocks: Vec<*mut u8> = (0..2 * CELLS + 7).map(|_| take(Libc, 16)).collect();
            circle.pass(Libc, index, &blocks) + circle.finish(Libc, index)
        });
        assert_eq!(freed, [2 * CELLS as u64 + 7; 3]);
    }
}
