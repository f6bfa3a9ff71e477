//! The canary in the slack of a live block, which is the bytes between the requested size and the
//! slot's end.
//!
//! ```text
//! slack      1        T                             no byte is zero
//!            2..8     c c c T
//!            9..16    c T c c c c c c c T           the same eight bytes again before the last eight
//!            more     c c c c c c c T  ......  c c c c c c c T    the bytes between are not compared
//! ```
//!
//! `c` and `T` are bytes of a word of the slot (`slab/canary_seeds.rs`), which is made from two
//! words that are random for each slab. A byte that would be zero is one instead. So a zero that is
//! written over any of these bytes is found, in particular the first byte after the block, where a
//! string that is a byte too long ends. Each byte has one of 255 values, up to 8 bytes.
//!
//! The last byte of a slot is zero if the slot is not in use, and `T` if it is. From that one byte
//! and the slot's state, the thread that frees the next slot detects a write in front of it.
//!
//! An unterminated read may run over the canary. It then tells the reader this slot's bytes, and
//! none of another slot's. The lowest byte of the slots' random words would tell: the lowest bits
//! of two words of a slab are related. So each of the lower four bytes is combined with one of the
//! upper four. The uppermost byte stays as it is.
//!
//! Malloc writes a slack of up to 16 bytes by one store. A block may be freed before that store is
//! in the cache. A read of the bytes of two pending stores would wait for both (decision 0037).

/// The contents of the slack of one slot.
#[derive(Clone, Copy, Debug)]
pub struct Canary {
    word: u64,
}

const LAST: u32 = 56;

/// One in each byte.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
const ONES: u64 = u64::MAX / 0xFF;

impl Canary {
    /// Returns the canary of a slot, from its random word. No byte of it is zero.
    #[inline(always)]
    pub fn new(word: u64) -> Canary {
        Canary { word: without_zeros(spread(word)) }
    }

    /// Returns the last byte of the slot while the slot is in use.
    #[inline]
    pub fn last(self) -> u8 {
        (self.word >> LAST) as u8
    }

    /// Returns a number other than zero if the slot's last byte is neither zero nor that of the
    /// canary. `only_zero` is zero if the canary may be there, and another number below 2^8 if only
    /// a zero may. The result is not zero in a few cases in which the byte fits: the slow path
    /// decides those.
    ///
    /// # Safety
    /// 1. `end` is the address after a slot's last byte, which is mapped.
    #[inline(always)]
    pub unsafe fn last_byte_differs(word: u64, only_zero: u32, end: usize) -> u32 {
        // SAFETY: duty 1.
        let byte = u32::from(unsafe { Canary::last_byte(end) });
        // The product is zero if the byte is zero or fits. There is no branch, because the case
        // cannot be predicted. If the word's last byte is zero, the canary's differs from it.
        byte.wrapping_mul(byte ^ (word >> LAST) as u32 | only_zero)
    }

    /// Returns the last byte of a slot.
    ///
    /// # Safety
    /// 1. As for `last_byte_differs`.
    #[inline(always)]
    pub unsafe fn last_byte(end: usize) -> u8 {
        let last: *const u8 = core::ptr::with_exposed_provenance(end - 1);
        // SAFETY: duty 1. Volatile, because another thread may be handing the slot out or freeing
        // it.
        unsafe { last.read_volatile() }
    }

    /// Returns the bits of the last word that belong to a slack of a number of bytes.
    #[inline(always)]
    fn covered(slack: usize) -> u64 {
        u64::MAX << (64 - 8 * slack.min(8))
    }

    /// Returns the first eight bytes of a slack of more than eight.
    #[inline(always)]
    fn head(self, slack: usize) -> u64 {
        let turn = if slack <= 16 { 8 * (slack % 8) as u32 } else { 0 };
        self.word.rotate_left(turn)
    }

    /// Writes the canary after `size` bytes at `begin`, in a slot of `slot_bytes`, which are more.
    ///
    /// # Safety
    /// 1. The slot is mapped and aligned to 16, and only the caller uses it.
    #[inline(always)]
    pub unsafe fn arm(self, begin: usize, size: usize, slot_bytes: usize) {
        let slack = slot_bytes - size;
        let covered = Canary::covered(slack);
        // SAFETY: duty 1: the first word of a slack of more than 8 bytes, and the last word of the
        // slot. The latter is one aligned store, so other threads see the last byte zero or right.
        unsafe {
            if slack > 8 {
                word_at(begin + size).write_unaligned(self.head(slack));
            }
            let last = word_at(begin + slot_bytes - 8);
            last.write_volatile(last.read() & !covered | self.word & covered);
        }
    }

    /// Writes the canary of a slack of `slack` bytes, in a slot that ends at `end`, by the slot's
    /// random word. A slot that was all zero still is, outside the slack. Other bytes of the last
    /// 16 become zero.
    ///
    /// # Safety
    /// 1. As for `arm`; the slack is not zero, and no more than the slot.
    #[inline(always)]
    pub unsafe fn arm_zeroed(word: u64, end: usize, slack: usize) {
        // SAFETY: duty 1: the slot has at least 16 bytes. Bytes outside the slack get zeros over
        // zeros. Other threads see the last byte zero or right.
        unsafe {
            if slack <= 16 {
                Canary::write_masked(word, end - 16, slack);
            } else {
                let canary = Canary::new(word);
                word_at(end - slack).write_unaligned(canary.head(slack));
                word_at(end - 8).write_volatile(canary.word);
            }
        }
    }

    /// Writes the last 16 bytes of a slot by one store. Only those of the slack are not zero.
    ///
    /// # Safety
    /// 1. As for `arm_zeroed`, of at most 16 bytes: `last` is the address of the slot's last 16.
    #[inline(always)]
    unsafe fn write_masked(word: u64, last: usize, slack: usize) {
        // SAFETY: duty 1: the slot is aligned to 16.
        unsafe {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                use core::arch::x86_64::{_mm_and_si128, _mm_store_si128};
                let both = _mm_and_si128(covered_bytes(slack), twice(word));
                _mm_store_si128(word_at(last).cast(), both);
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            {
                let word = Canary::new(word).word;
                let [first, second] = covered_of_two(slack);
                word_at(last).write_volatile(word & first);
                word_at(last + 8).write_volatile(word & second);
            }
        }
    }

    /// Returns true if the slack of a slot that ends at `end` is as `arm` or `arm_zeroed` left it,
    /// by the slot's random word. `damage` finds what is wrong. There is no branch for up to 16
    /// bytes, because the order of slacks cannot be predicted.
    ///
    /// # Safety
    /// 1. As for `arm_zeroed`.
    #[inline(always)]
    pub unsafe fn is_whole(word: u64, end: usize, slack: usize) -> bool {
        // SAFETY: duty 1.
        unsafe {
            if slack <= 16 {
                return Canary::is_masked(word, end - 16, slack);
            }
            let canary = Canary::new(word);
            word_at(end - slack).read_unaligned() == canary.head(slack)
                && word_at(end - 8).read() == canary.word
        }
    }

    /// Returns true if the last 16 bytes of a slot are as `write_masked` left them, as far as they
    /// belong to the slack.
    ///
    /// # Safety
    /// 1. As for `write_masked`.
    #[inline(always)]
    unsafe fn is_masked(word: u64, last: usize, slack: usize) -> bool {
        // SAFETY: duty 1: the slot is aligned to 16.
        unsafe {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                use core::arch::x86_64::{
                    _mm_and_si128, _mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8,
                };
                let covered = covered_bytes(slack);
                let must = _mm_and_si128(covered, twice(word));
                let seen = _mm_and_si128(covered, _mm_load_si128(word_at(last).cast()));
                _mm_movemask_epi8(_mm_cmpeq_epi8(must, seen)) == 0xFFFF
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            {
                let word = Canary::new(word).word;
                let [first, second] = covered_of_two(slack);
                let wrong = |at: usize| word_at(at).read() ^ word;
                wrong(last) & first | wrong(last + 8) & second == 0
            }
        }
    }

    /// Writes zeros over the canary that `arm` wrote.
    ///
    /// # Safety
    /// 1. As for `arm`.
    #[inline]
    pub unsafe fn disarm(begin: usize, size: usize, slot_bytes: usize) {
        let slack = slot_bytes - size;
        let covered = Canary::covered(slack);
        // SAFETY: duty 1, as in `arm`.
        unsafe {
            let last = word_at(begin + slot_bytes - 8);
            last.write_volatile(last.read() & !covered);
            if slack > 8 {
                word_at(begin + size).write_unaligned(0);
            }
        }
    }

    /// Writes zeros over the canary of a freed slot that ends at `end`, and over up to 15 bytes of
    /// the block before it. The next block in the slot must not be able to read the canary.
    ///
    /// # Safety
    /// 1. As for `arm_zeroed`.
    #[inline(always)]
    pub unsafe fn erase(end: usize, slack: usize) {
        // SAFETY: duty 1: the slot has at least 16 bytes.
        unsafe {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            core::arch::x86_64::_mm_store_si128(
                word_at(end - 16).cast(),
                core::arch::x86_64::_mm_setzero_si128(),
            );
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            {
                word_at(end - 8).write_volatile(0);
                word_at(end - 16).write(0);
            }
            if slack > 16 {
                word_at(end - slack).write_unaligned(0);
            }
        }
    }

    /// Returns the byte `place` bytes after a block's end, in a slack of `slack` bytes. Returns
    /// `None` if any value may be there.
    fn byte_at(self, place: usize, slack: usize) -> Option<u8> {
        let from_end = slack - place;
        match (place, from_end) {
            (_, 1..=8) => self.word.to_le_bytes().get(8 - from_end).copied(),
            (0..8, _) => self.head(slack).to_le_bytes().get(place).copied(),
            _ => None,
        }
    }

    /// Finds damage like `damage`, but through `read`, which reads a byte by its place after the
    /// block's end. Ignores bytes that `read` cannot read.
    pub fn damage_read(self, slack: usize, read: impl Fn(usize) -> Option<u8>) -> Option<usize> {
        let mut places = (0..slack.min(8)).chain(slack.saturating_sub(8).max(8)..slack);
        let differs = |&place: &usize| {
            let must = self.byte_at(place, slack);
            must.is_some_and(|must| read(place).is_some_and(|byte| byte != must))
        };
        places.find(differs)
    }

    /// Returns the place of the first byte after the `size` requested bytes that is not as `arm`
    /// left it, if there is one.
    ///
    /// # Safety
    /// 1. As for `arm`.
    #[inline(always)]
    pub unsafe fn damage(self, begin: usize, size: usize, slot_bytes: usize) -> Option<usize> {
        let slack = slot_bytes - size;
        // SAFETY: duty 1, as in `arm`.
        let last = unsafe { word_at(begin + slot_bytes - 8).read() };
        let wrong = (last ^ self.word) & Canary::covered(slack);
        let mut head = 0;
        if slack > 8 {
            // The part of the first word that the last word does not cover.
            let own = u64::MAX >> (64 - 8 * (slack - 8).min(8));
            // SAFETY: duty 1, as in `arm`.
            head = (unsafe { word_at(begin + size).read_unaligned() } ^ self.head(slack)) & own;
        }
        if wrong | head == 0 {
            return None;
        }
        if head != 0 {
            return Some(head.trailing_zeros() as usize / 8);
        }
        Some(slack + wrong.trailing_zeros() as usize / 8 - 8)
    }
}

/// Combines each of the lower four bytes of a slot's random word with one of the upper four.
#[inline(always)]
pub(crate) fn spread(word: u64) -> u64 {
    word ^ word >> 32
}

/// Returns the word with one in place of each zero byte.
#[inline(always)]
fn without_zeros(word: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{
            _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_max_epu8, _mm_set1_epi8,
        };
        // SAFETY: every x86-64 processor has SSE2.
        unsafe {
            let bytes = _mm_max_epu8(_mm_cvtsi64_si128(word as i64), _mm_set1_epi8(1));
            _mm_cvtsi128_si64(bytes) as u64
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    without_zeros_by_words(word)
}

/// Does what `without_zeros` does, without vectors.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn without_zeros_by_words(word: u64) -> u64 {
    const LOW: u64 = ONES * 0x7F;
    // The top bit of each byte that is not zero.
    let some = (word & LOW).wrapping_add(LOW) | word;
    word | (!some >> 7 & ONES)
}

/// The window of 16 bytes from byte `n` on has ones in its last `n` bytes, and zeros before them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
static COVERED: [u8; 32] = {
    let mut bytes = [0; 32];
    let mut at = 16;
    while at < 32 {
        bytes[at] = 0xFF;
        at += 1;
    }
    bytes
};

/// Returns the bits of a slot's last 16 bytes that belong to a slack of up to 16 bytes.
///
/// # Safety
/// 1. `slack` is at most 16.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn covered_bytes(slack: usize) -> core::arch::x86_64::__m128i {
    debug_assert!(slack <= 16);
    // SAFETY: by duty 1 the window is within the array.
    unsafe { core::arch::x86_64::_mm_loadu_si128(COVERED.as_ptr().add(slack).cast()) }
}

/// Returns the canary of a slot twice, from its random word.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn twice(word: u64) -> core::arch::x86_64::__m128i {
    use core::arch::x86_64::{
        _mm_cvtsi64_si128, _mm_max_epu8, _mm_set1_epi8, _mm_shuffle_epi32, _mm_xor_si128,
    };
    // SAFETY: every x86-64 processor has SSE2. This does what `new` does.
    unsafe {
        let word = _mm_cvtsi64_si128(word as i64);
        // Its two halves, twice, and the upper one and a zero, twice: `spread`.
        let (both, upper) = (_mm_shuffle_epi32::<0x44>(word), _mm_shuffle_epi32::<0x99>(word));
        _mm_max_epu8(_mm_xor_si128(both, upper), _mm_set1_epi8(1))
    }
}

/// Returns the bits of a slot's last two words that belong to a slack of 1 to 16 bytes.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn covered_of_two(slack: usize) -> [u64; 2] {
    let covered = u128::MAX << (128 - 8 * slack);
    [covered as u64, (covered >> 64) as u64]
}

#[inline(always)]
fn word_at(address: usize) -> *mut u64 {
    core::ptr::with_exposed_provenance_mut(address)
}

#[cfg(test)]
mod tests;
