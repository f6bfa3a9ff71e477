//! The words of a chunk. A span is chunks without gaps, and a fence.
//!
//! ```text
//!           word 0          word 1          word 2                  last word
//! live     | size + flags  | the block ...                                    |
//! free     | next          | previous      | size          | ...  | size      |
//! fence    | flags         |                          (nothing of it is a chunk)
//! ```
//!
//! Word 0 tells them apart: [`LIVE`] is set in a tag, and a link is a place, which is even. The
//! smallest chunk has three words, and then both sizes of a free one are the same word. So a block
//! costs one word, and nothing of that is lost while it is free.
//!
//! [`BELOW_FREE`] in a tag or a fence says that the chunk below is free: then the word before it is
//! that chunk's size. Two free chunks never touch, so the chunk below a free one is live, and a
//! free chunk needs no flags.
//!
//! The two registers of the heap (`top` and `rest`) are free memory of which no word is kept here:
//! a heap compares with them before it reads a word 0.

use crate::sanitizer;
use crate::shape::{Checks, Shape, Sizes};
use crate::space::Space;
use crate::word::Word;

/// In a tag: the chunk is a live block, or a fence.
pub(crate) const LIVE: usize = 1;
/// In a tag or a fence: the chunk below is free.
pub(crate) const BELOW_FREE: usize = 2;
/// In a tag that is [`LIVE`] for its neighbours: the chunk is parked, and no live block. Only where
/// sizes leave three bits, which [`Sizes::FLAGS`] says.
pub(crate) const PARKED: usize = 4;

/// The memory of a heap, word by word.
pub(crate) struct Memory<S: Shape> {
    pub(crate) space: S::Space,
    /// All spans are between `low` and `low + extent + MIN`; what else is there is not known.
    /// Without any span, and where links are not checked, both are 0.
    pub(crate) low: usize,
    pub(crate) extent: usize,
}

impl<S: Shape> Memory<S> {
    /// Reads a word.
    ///
    /// # Safety
    /// 1. `place` is that of a word inside of a span, and a multiple of the size of a word.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) unsafe fn get(&self, place: usize) -> usize {
        let word = self.space.pointer(place).cast::<<S::Space as Space>::Word>();
        // SAFETY: the span was admitted, so its words may be read (Space, 1); any bits are a word.
        // Claimed memory may not have been written, but the heap reads only what it has written, or
        // what was zero or the content of an object that was there.
        sanitizer::own(word.cast(), S::WORD, || unsafe { word.read() }).to_usize()
    }

    /// Writes a word.
    ///
    /// # Safety
    /// 1. As `get`.
    /// 2. The word is no part of a live block.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) unsafe fn put(&self, place: usize, value: usize) {
        let value = <S::Space as Space>::Word::from_usize(value);
        let word = self.space.pointer(place).cast::<<S::Space as Space>::Word>();
        // SAFETY: the span was admitted, so its words may be written (Space, 1).
        sanitizer::own(word.cast(), S::WORD, || unsafe { word.write(value) });
    }

    /// Writes both sizes of a free chunk, and not its links.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is in a span, at least `MIN` long, and no live block.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) unsafe fn put_free_size(&self, chunk: usize, size: usize) {
        // SAFETY: both words are in the chunk.
        unsafe {
            self.put(chunk.unchecked_add(2 * S::WORD), size);
            self.put(chunk + size - S::WORD, size);
        }
    }

    /// The size of a free chunk that has a list.
    ///
    /// # Safety
    /// 1. `chunk` is a free chunk.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) unsafe fn free_size(&self, chunk: usize) -> usize {
        // SAFETY: a chunk has three words.
        unsafe { self.get(chunk.unchecked_add(2 * S::WORD)) }
    }

    /// The link of a free chunk to the one before it in its list.
    ///
    /// # Safety
    /// 1. As `free_size`.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) unsafe fn previous(&self, chunk: usize) -> usize {
        // SAFETY: a chunk has three words.
        unsafe { self.get(chunk.unchecked_add(S::WORD)) }
    }

    /// Writes that link.
    ///
    /// # Safety
    /// 1. As `free_size`.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) unsafe fn put_previous(&self, chunk: usize, previous: usize) {
        // SAFETY: a chunk has three words.
        unsafe { self.put(chunk.unchecked_add(S::WORD), previous) }
    }

    /// Whether this is between the lowest and the highest of the spans, and where a chunk may
    /// begin, so that a link to it may be followed by three words. `low` is the base of a span, so
    /// distances are multiples.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) fn may_hold(&self, chunk: usize) -> bool {
        if S::CHECKS < Checks::Links {
            return chunk % S::ALIGN == S::LEAD;
        }
        let distance = chunk.wrapping_sub(self.low);
        (distance < self.extent) & (distance % S::ALIGN == 0)
    }

    /// Whether a chunk may be this large: all spans together are not larger.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) fn may_be(&self, size: usize) -> bool {
        S::CHECKS < Checks::Links || size <= self.extent + S::MIN
    }

    /// Whether what begins where a chunk may, and has this size, ends before the highest of the
    /// spans does.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) fn may_reach(&self, chunk: usize, size: usize) -> bool {
        S::CHECKS < Checks::Links || size <= self.low + self.extent + S::MIN - chunk
    }

    /// Widens the range in which links are believed.
    pub(crate) fn cover(&mut self, base: usize, end: usize) {
        if S::CHECKS < Checks::Links {
            return;
        }
        let high = end.max(self.low.saturating_add(self.extent).saturating_add(S::MIN));
        let first = self.extent == 0;
        let high = if first { end } else { high };
        self.low = if first { base } else { self.low.min(base) };
        self.extent = high - self.low - S::MIN;
    }

    /// Tells a sanitizer that `[from, to)` is no block's.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) fn close(&self, from: usize, to: usize) {
        sanitizer::close(self.space.pointer(from), to.wrapping_sub(from));
    }

    /// Tells a sanitizer that `[from, to)` is a block's, or not the heap's any more.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) fn open(&self, from: usize, to: usize) {
        sanitizer::open(self.space.pointer(from), to.wrapping_sub(from));
    }

    /// The pointer to a chunk's block.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(crate) fn block(&self, chunk: usize) -> *mut u8 {
        self.space.pointer(chunk + S::WORD)
    }
}
