//! The first chunk of each bin, and bits that say which bins have one: on one level where one word
//! has enough of them, else on two.

use crate::word::Word;

/// The bins of a heap of one shape.
///
/// # Safety
/// 1. It keeps what it is given: `first` is the last that `set_first` or `replace_first` gave for
///    this bin, and 0 in a new one and after `clear`; `parked` and `waiting` likewise.
/// 2. `find` returns a bin from this one up, below `BINS`, of which `first` is not 0; `None` only
///    if there is none.
/// 3. `PARKS <= BINS`, and `BOUNDS <= BINS`.
/// 4. `bound` is what `set_bound` gave last for this bin, or more.
pub unsafe trait Tables<W: Word> {
    /// How many bins there are.
    const BINS: usize;
    /// How many bins have a list of parked chunks beside them, from the first; none for those that
    /// follow.
    const PARKS: usize;
    /// Of how many bins, the highest, it is known how large their chunks are at most.
    const BOUNDS: usize;
    /// No chunks.
    const EMPTY: Self;
    /// The first chunk of a bin, or 0.
    fn first(&self, bin: usize) -> usize;
    /// Gives a bin a first chunk.
    fn set_first(&mut self, bin: usize, chunk: usize);
    /// Gives a bin that has a first chunk another.
    fn replace_first(&mut self, bin: usize, chunk: usize);
    /// Makes a bin empty.
    fn clear(&mut self, bin: usize);
    /// No chunk of a bin that has one is larger than this.
    fn bound(&self, bin: usize) -> usize;
    /// Says so; nothing where it is not known of this bin.
    fn set_bound(&mut self, bin: usize, size: usize);
    /// The first parked chunk of a bin; of no meaning where none is. `bin < PARKS`.
    fn parked(&self, bin: usize) -> usize;
    /// Another first parked chunk. `bin < PARKS`.
    fn set_parked(&mut self, bin: usize, chunk: usize);
    /// How many chunks are parked. `bin < PARKS`.
    fn waiting(&self, bin: usize) -> u8;
    /// Another number of them. `bin < PARKS`.
    fn set_waiting(&mut self, bin: usize, count: u8);
    /// The lowest bin with a chunk, from this one up. `bin` may be `BINS`.
    fn find(&self, bin: usize) -> Option<usize>;
}

/// `BINS` bins, and `WORDS` words of a bit for each: `BINS <= WORDS * B::BITS`, and no more words
/// than a word has bits. The first `PARKS` have a list of parked chunks too (see `heap/park.rs`),
/// and of the last `BOUNDS` it is known how large their chunks are at most.
///
/// Invariants (`check` names them): a bit is set exactly if the bin's first chunk is not 0, and a
/// bit of `summary` exactly if the word of that number is not 0.
#[derive(Clone, Debug)]
pub struct Table<
    W,
    const BINS: usize,
    const WORDS: usize,
    const PARKS: usize = 0,
    const BOUNDS: usize = 0,
    B = W,
> {
    summary: B,
    filled: [B; WORDS],
    first: [W; BINS],
    parked: [W; PARKS],
    bound: [W; BOUNDS],
    waiting: [u8; PARKS],
}

impl<
    W: Word,
    const BINS: usize,
    const WORDS: usize,
    const PARKS: usize,
    const BOUNDS: usize,
    B: Word,
> Table<W, BINS, WORDS, PARKS, BOUNDS, B>
{
    const SOUND: () = assert!(
        PARKS <= BINS
            && BOUNDS <= BINS
            && BINS <= WORDS * B::BITS as usize
            && WORDS <= B::BITS as usize
            && BINS > 0,
        "a bin needs a bit, and a word of bits needs one"
    );
}

// SAFETY: 1. and 4. arrays keep what they are given. 2. bits follow the first chunks. 3. SOUND.
unsafe impl<
    W: Word,
    const BINS: usize,
    const WORDS: usize,
    const PARKS: usize,
    const BOUNDS: usize,
    B: Word,
> Tables<W> for Table<W, BINS, WORDS, PARKS, BOUNDS, B>
{
    const BINS: usize = BINS;
    const PARKS: usize = PARKS;
    const BOUNDS: usize = BOUNDS;
    const EMPTY: Self = {
        () = Self::SOUND;
        Self {
            summary: B::ZERO,
            filled: [B::ZERO; WORDS],
            first: [W::ZERO; BINS],
            parked: [W::ZERO; PARKS],
            bound: [W::ZERO; BOUNDS],
            waiting: [0; PARKS],
        }
    };

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn first(&self, bin: usize) -> usize {
        debug_assert!(bin < BINS);
        // SAFETY: bins come from `index`, which stays below BINS, and from `find`.
        unsafe { self.first.get_unchecked(bin) }.to_usize()
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn set_first(&mut self, bin: usize, chunk: usize) {
        debug_assert!(bin < BINS && chunk != 0);
        let (word, bit) = (bin / B::BITS as usize, B::bit(bin as u32 % B::BITS));
        // SAFETY: bins come from `index`, which stays below BINS, and from `find`; SOUND says that
        // a bin has a word.
        let (first, filled) =
            unsafe { (self.first.get_unchecked_mut(bin), self.filled.get_unchecked_mut(word)) };
        *first = W::from_usize(chunk);
        *filled = filled.or(bit);
        if WORDS > 1 {
            self.summary = self.summary.or(B::bit(word as u32));
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn replace_first(&mut self, bin: usize, chunk: usize) {
        debug_assert!(bin < BINS && chunk != 0);
        // SAFETY: as in `set_first`.
        *unsafe { self.first.get_unchecked_mut(bin) } = W::from_usize(chunk);
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn clear(&mut self, bin: usize) {
        debug_assert!(bin < BINS);
        let (word, bit) = (bin / B::BITS as usize, B::bit(bin as u32 % B::BITS));
        // SAFETY: as in `set_first`.
        let (first, filled) =
            unsafe { (self.first.get_unchecked_mut(bin), self.filled.get_unchecked_mut(word)) };
        *first = W::ZERO;
        *filled = filled.without(bit);
        if WORDS > 1 && *filled == B::ZERO {
            self.summary = self.summary.without(B::bit(word as u32));
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn bound(&self, bin: usize) -> usize {
        match bin.checked_sub(BINS - BOUNDS).and_then(|place| self.bound.get(place)) {
            Some(bound) => bound.to_usize(),
            None => usize::MAX,
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn set_bound(&mut self, bin: usize, size: usize) {
        if let Some(bound) =
            bin.checked_sub(BINS - BOUNDS).and_then(|place| self.bound.get_mut(place))
        {
            *bound = W::from_usize(size);
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn parked(&self, bin: usize) -> usize {
        debug_assert!(bin < PARKS);
        // SAFETY: callers compare with PARKS, as the trait asks of them.
        unsafe { self.parked.get_unchecked(bin) }.to_usize()
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn set_parked(&mut self, bin: usize, chunk: usize) {
        debug_assert!(bin < PARKS);
        // SAFETY: callers compare with PARKS, as the trait asks of them.
        *unsafe { self.parked.get_unchecked_mut(bin) } = W::from_usize(chunk);
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn waiting(&self, bin: usize) -> u8 {
        debug_assert!(bin < PARKS);
        // SAFETY: callers compare with PARKS, as the trait asks of them.
        *unsafe { self.waiting.get_unchecked(bin) }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn set_waiting(&mut self, bin: usize, count: u8) {
        debug_assert!(bin < PARKS);
        // SAFETY: callers compare with PARKS, as the trait asks of them.
        *unsafe { self.waiting.get_unchecked_mut(bin) } = count;
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    fn find(&self, bin: usize) -> Option<usize> {
        if bin >= BINS {
            return None;
        }
        let word = bin / B::BITS as usize;
        // SAFETY: SOUND says that a bin has a word.
        let own = unsafe { *self.filled.get_unchecked(word) };
        let own = own.and(B::from_bit_up(bin as u32 % B::BITS));
        if own != B::ZERO {
            return Some(word * B::BITS as usize + own.lowest() as usize);
        }
        if WORDS == 1 {
            return None;
        }
        let above = self.summary.and(B::from_bit_up(word as u32)).without(B::bit(word as u32));
        if above == B::ZERO {
            return None;
        }
        let word = above.lowest() as usize;
        // SAFETY: bits of the summary are set by `set_first` only, for words that exist.
        let other = unsafe { *self.filled.get_unchecked(word) };
        Some(word * B::BITS as usize + other.lowest() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn model<W: Word, const BINS: usize, const WORDS: usize>() {
        let mut table = Table::<W, BINS, WORDS>::EMPTY;
        let mut filled = BTreeSet::new();
        let mut random = 1_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bin = (random >> 33) as usize % BINS;
            if random >> 63 == 0 && filled.insert(bin) {
                table.set_first(bin, bin + 1);
            } else if filled.remove(&bin) {
                table.clear(bin);
            }
            let from = (random >> 40) as usize % (BINS + 1);
            assert_eq!(table.find(from), filled.range(from..).next().copied());
            assert_eq!(table.first(bin), if filled.contains(&bin) { bin + 1 } else { 0 });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long, and touches no memory but its own")]
    fn the_lowest_filled_bin_is_found() {
        model::<usize, 512, 16>();
        model::<u32, 320, 10>();
        model::<u32, 1024, 32>();
        model::<u32, 5, 1>();
    }
}
