//! The words of a chunk. The heap is chunks without gaps, and the free memory at its end (`top`).
//!
//! ```text
//!             word 0           word 1     word 2     ...     last word
//! live       | size + flags   | the block ...                         |
//! free       | size           | next     | previous | ...  | size     |
//! cached     | size + flags   | next     | mark     | ...             |
//! ```
//!
//! A chunk is named by the offset of its word 0 from the base of the heap. Offsets of chunks are 8
//! more than a multiple of 16, so that blocks are aligned to 16 bytes.
//!
//! Two free chunks never touch, and none touches `top`. So the chunk below a free one is live, and
//! a free chunk needs no flags.

/// The bytes of a word.
pub(crate) const WORD: usize = 8;
/// The alignment of blocks, and the step of sizes.
pub(crate) const ALIGN: usize = 16;
/// The bytes of the smallest chunk.
pub const SMALLEST: usize = 32;
/// The bytes of the smallest chunk that has no exact bin.
pub(crate) const LARGE: usize = 1024;
/// The bytes of the largest chunk that a cache holds, as in glibc.
pub(crate) const CACHED: usize = 1040;

/// In word 0: the chunk is a block, or is in the cache of a thread.
pub(crate) const LIVE: usize = 1;
/// In word 0 of a live chunk: the chunk below is free, and the word before this one is its size.
pub(crate) const BELOW_FREE: usize = 2;
/// The bits of word 0 that are not of the size.
pub(crate) const FLAGS: usize = ALIGN - 1;

/// The offset of a chunk's word 0. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk(pub usize);

impl Chunk {
    /// No chunk.
    pub(crate) const NONE: Self = Self(0);

    /// The chunk `size` bytes above.
    #[inline(always)]
    pub(crate) fn above(self, size: usize) -> Self {
        Self(self.0 + size)
    }

    /// The offset of its block.
    #[inline(always)]
    pub(crate) fn block(self) -> usize {
        self.0 + WORD
    }

    /// The second word of its block while it is in a cache: a number that no program has by chance.
    #[inline(always)]
    pub(crate) fn mark(self) -> usize {
        self.0 ^ 0x9e37_79b9_7f4a_7c15
    }
}

/// Returns the size of the chunk for a request, or `None` if no address space holds it.
#[inline(always)]
pub(crate) fn size_for(request: usize) -> Option<usize> {
    if request > isize::MAX as usize - 2 * ALIGN {
        return None;
    }
    Some(((request + WORD + ALIGN - 1) & !(ALIGN - 1)).max(SMALLEST))
}

#[cfg(test)]
#[path = "../tests/unit/chunk.rs"]
mod tests;
