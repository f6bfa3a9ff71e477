//! The live blocks of a workload that knows the size and the alignment of each. Such a workload may
//! be given a budget of live bytes, beyond which it asks for nothing.

use super::prelude::*;
use crate::mapped::{Mapped, Plain};

/// A block of a known size and alignment.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub start: *mut u8,
    pub size: usize,
    /// The power of two that its address is a multiple of.
    pub align: usize,
}

// SAFETY: null and zeros are values, and a block has no drop glue.
unsafe impl Plain for Block {}

/// The alignment of every block that `malloc` returns.
const NATURAL: usize = 16;

/// Blocks that are freed when this is dropped.
///
/// The first `len` places hold live blocks, and their sizes add up to `used`, which is at most
/// `budget`.
pub struct Live<H: Heap> {
    heap: H,
    blocks: Mapped<Block>,
    len: usize,
    used: usize,
    budget: usize,
}

impl<H: Heap> Live<H> {
    /// No blocks yet, and room for `most`; a budget of 0 is none.
    pub fn new(heap: H, budget: usize, most: usize) -> Self {
        let budget = if budget == 0 { usize::MAX } else { budget };
        Self { heap, blocks: Mapped::new(most), len: 0, used: 0, budget }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn used(&self) -> usize {
        self.used
    }

    /// Whether the budget admits `size` bytes more.
    pub fn admits(&self, size: usize) -> bool {
        size <= self.budget - self.used
    }

    /// Asks the heap for a block.
    #[inline(always)]
    pub fn ask(&self, size: usize, align: usize) -> *mut u8 {
        launder(if align <= NATURAL {
            self.heap.malloc(size)
        } else {
            self.heap.aligned(align, size)
        })
    }

    /// Touches a block that the heap gave, and keeps it.
    #[inline]
    pub fn keep(&mut self, block: Block) {
        touched(block.start, block.size);
        self.blocks[self.len] = block;
        self.len += 1;
        self.used += block.size;
    }

    /// Allocates a block; returns false if the budget does not admit it.
    #[inline]
    pub fn allocate(&mut self, size: usize, align: usize) -> bool {
        let admitted = self.admits(size);
        if admitted {
            self.keep(Block { start: self.ask(size, align), size, align });
        }
        admitted
    }

    /// Takes a block out; the caller frees it.
    #[inline]
    pub fn take_out(&mut self, index: usize) -> Block {
        assert!(index < self.len, "there is no live block {index}");
        let block = self.blocks[index];
        self.len -= 1;
        self.blocks[index] = self.blocks[self.len];
        self.used -= block.size;
        block
    }

    /// Frees a block; the last one takes its place.
    #[inline]
    pub fn free(&mut self, index: usize) {
        let block = self.take_out(index);
        // SAFETY: the block was live, and is in no table any more.
        unsafe { self.heap.free(block.start) };
    }

    /// Gives a block another size and keeps its alignment. Returns false if the budget does not
    /// admit it; the block then stays as it is.
    #[inline]
    pub fn resize(&mut self, index: usize, size: usize) -> bool {
        assert!(index < self.len, "there is no live block {index}");
        let old = self.blocks[index];
        if size > old.size && !self.admits(size - old.size) {
            return false;
        }
        let start = if old.align <= NATURAL {
            // SAFETY: a live block, which is replaced below.
            launder(unsafe { self.heap.realloc(old.start, size) })
        } else {
            self.moved(old, size)
        };
        touched(start, size);
        self.blocks[index] = Block { start, size, align: old.align };
        self.used = self.used - old.size + size;
        true
    }

    /// As `realloc`, which does not know of alignments: a new block, and a copy.
    fn moved(&self, old: Block, size: usize) -> *mut u8 {
        let start = touched(self.ask(size, old.align), size);
        // SAFETY: both are live and different blocks, of which neither is shorter than what is
        // copied; the old one is replaced by the caller.
        unsafe {
            start.copy_from_nonoverlapping(old.start, old.size.min(size));
            self.heap.free(old.start);
        }
        start
    }

    pub fn clear(&mut self) {
        while self.len > 0 {
            self.free(self.len - 1);
        }
    }
}

impl<H: Heap> Drop for Live<H> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// An alignment: `least` in three of four draws, and four times rarer with each doubling, up to 256
/// times `least`.
pub fn alignment(rng: &mut Rng, least: usize) -> usize {
    let bits = (rng.next_u64() >> 48) as u16;
    least << (bits.trailing_zeros() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::{Call, Recorder};

    #[test]
    fn the_budget_refuses_what_would_be_live_beyond_it() {
        let mut blocks = Live::new(Libc, 1000, 10);
        assert!(blocks.allocate(600, 8) && !blocks.allocate(401, 8) && blocks.allocate(400, 8));
        assert_eq!((blocks.len(), blocks.used()), (2, 1000));
        assert!(!blocks.resize(0, 601) && blocks.resize(0, 500) && blocks.resize(1, 500));
        blocks.free(0);
        assert_eq!((blocks.len(), blocks.used()), (1, 500));
        blocks.clear();
        assert!(blocks.is_empty() && blocks.used() == 0 && blocks.allocate(1000, 8));
        assert!(Live::new(Libc, 0, 1).admits(usize::MAX));
    }

    #[test]
    fn alignment_and_contents_survive_another_size() {
        let mut blocks = Live::new(Libc, 0, 1);
        for align in [8, 512] {
            assert!(blocks.allocate(300, align));
            let start = blocks.blocks[0].start;
            // SAFETY: the block is 300 bytes long.
            unsafe { start.add(99).write(77) };
            for size in [9000, 100, 50_000] {
                assert!(blocks.resize(0, size));
                let block = blocks.blocks[0];
                assert!(block.start.addr().is_multiple_of(align) && block.size == size);
                if size == 100 {
                    // The touch of the last byte.
                    continue;
                }
                // SAFETY: the block is longer than 99 bytes.
                let kept = unsafe { block.start.add(99).read() };
                assert_eq!(kept, if size == 9000 { 77 } else { 1 });
            }
            blocks.free(0);
        }
    }

    #[test]
    fn what_malloc_aligns_by_itself_is_asked_of_malloc() {
        for (align, asked) in [(16, Call::Malloc(100)), (64, Call::Aligned(64, 100))] {
            let recorder = Recorder::new();
            assert!(Live::new(recorder, 0, 1).allocate(100, align));
            assert_eq!(recorder.calls()[0], asked);
        }
    }

    #[test]
    fn three_of_four_alignments_are_the_least() {
        let mut rng = Rng::new(1);
        let draws: Vec<usize> = (0..200_000).map(|_| alignment(&mut rng, 8)).collect();
        let share = |align| {
            draws.iter().filter(|&&drawn| drawn == align).count() as f64 / draws.len() as f64
        };
        assert!((share(8) - 0.75).abs() < 0.01 && (share(16) - 0.1875).abs() < 0.01);
        assert!((share(32) - 0.047).abs() < 0.01);
        assert!(draws.iter().all(|&align| align.is_power_of_two() && (8..=2048).contains(&align)));
        assert_eq!(draws.iter().max(), Some(&2048));
    }
}
