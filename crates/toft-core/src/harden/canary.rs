//! The canary in the slack of a live block, which is the bytes between the requested size and the
//! slot's end.
//!
//! ```text
//! slack      1        T                             T, the last byte, is never zero
//!            2..8     0 c c T                       the first is zero, so that strlen stops there
//!            9..16    0 T c c c c c c c T           the same eight bytes again before the last eight
//!            more     0 c c c c c c T  ......  c c c c c c c T      what lies between is not looked at
//! ```
//!
//! `c` and `T` are bytes of a word of the slot (`slab/canary_seeds.rs`), which is made from two
//! words that are random for each slab. A slack of one byte or of two bytes has almost 8 random
//! bits (one of 255 values). Each further byte adds 8 random bits, up to 56 bits for 8 bytes. A
//! longer slack has at least 56. The last byte of a slot is zero if the slot is not in use, and `T`
//! if it is. From that one byte, the thread that frees the next slot detects a write in front of
//! it. It needs to know nothing else of this slot.
//!
//! The leading zero has a cost. If the slack is more than a byte, a zero that is written there is
//! not detected. Such a write changes nothing either.
//!
//! Malloc writes a slack of up to 16 bytes by one store. A block may be freed before that store is
//! in the cache. A read of the bytes of two pending stores would wait for both (decision 0037).

/// The contents of the slack of one slot.
#[derive(Clone, Copy, Debug)]
pub struct Canary {
    word: u64,
}

const LAST: u32 = 56;

impl Canary {
    /// Returns the canary of a slot, from its random word. Its last byte is that of the word, or
    /// one if that is zero.
    #[inline(always)]
    pub fn new(word: u64) -> Canary {
        Canary { word: word | u64::from(word < 1 << LAST) << LAST }
    }

    /// Returns true if the last byte of the slot is valid, in use or not.
    ///
    /// # Safety
    /// 1. `end` is the address after a slot's last byte, which is mapped.
    #[inline(always)]
    pub unsafe fn fits_last_byte(self, end: usize) -> bool {
        // SAFETY: duty 1.
        unsafe { Canary::last_byte_differs(self.word, end) == 0 }
    }

    /// Returns a number other than zero if the slot's last byte does not fit the slot's random
    /// word. It also does so in a few cases in which the byte fits: `fits_last_byte` decides those.
    ///
    /// # Safety
    /// 1. As for `fits_last_byte`.
    #[inline(always)]
    pub unsafe fn last_byte_differs(word: u64, end: usize) -> u32 {
        let last: *const u8 = core::ptr::with_exposed_provenance(end - 1);
        // SAFETY: duty 1. Volatile, because another thread may be handing the slot out or freeing
        // it.
        let byte = u32::from(unsafe { last.read_volatile() });
        // The product is zero if the byte is zero or fits. There is no branch, because the case
        // cannot be predicted. If the word's last byte is zero, the canary's differs from it.
        byte.wrapping_mul(byte ^ (word >> LAST) as u32)
    }

    /// Returns the bits of the last word that belong to a slack of 1 to 8 bytes, and their values.
    #[inline(always)]
    fn tail(self, slack: usize) -> (u64, u64) {
        let covered = u64::MAX << (64 - 8 * slack.min(8));
        let random = u64::MAX << (64 - 8 * (slack - 1).clamp(1, 8));
        (covered, self.word & random)
    }

    /// Returns the first eight bytes of a slack, or all of a shorter slack. A slack of one byte is
    /// an exception, because that byte is not zero.
    #[inline(always)]
    fn head(self, slack: usize) -> u64 {
        let turn = if slack <= 16 { 8 * (slack % 8) as u32 } else { 0 };
        self.word.rotate_left(turn) & !0xFF
    }

    /// Writes the canary after `size` bytes at `begin`, in a slot of `slot_bytes`, which are more.
    ///
    /// # Safety
    /// 1. The slot is mapped and aligned to 16, and only the caller uses it.
    #[inline(always)]
    pub unsafe fn arm(self, begin: usize, size: usize, slot_bytes: usize) {
        let slack = slot_bytes - size;
        let (covered, value) = self.tail(slack);
        // SAFETY: duty 1: the first word of a slack of more than 8 bytes, and the last word of the
        // slot. The latter is one aligned store, so other threads see the last byte zero or right.
        unsafe {
            if slack > 8 {
                word_at(begin + size).write_unaligned(self.head(slack));
            }
            let last = word_at(begin + slot_bytes - 8);
            last.write_volatile(last.read() & !covered | value);
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
            if slack < MASKS.len() {
                Canary { word }.write_masked(end - 16, slack);
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
    unsafe fn write_masked(self, last: usize, slack: usize) {
        // SAFETY: by duty 1 the table has an entry for the slack; the slot is aligned to 16.
        unsafe {
            let masks = MASKS.get_unchecked(slack);
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            core::arch::x86_64::_mm_store_si128(word_at(last).cast(), self.masked(masks));
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            {
                let word = Canary::new(self.word).word;
                word_at(last).write_volatile(word & masks.random[0]);
                word_at(last + 8).write_volatile(word & masks.random[1]);
            }
        }
    }

    /// Returns true if the slack of a slot that ends at `end` is certainly as `arm` or `arm_zeroed`
    /// left it, by the slot's random word. If it returns false, `damage` finds what is wrong, if
    /// anything is. There is no branch for up to 16 bytes, because the order of slacks cannot be
    /// predicted.
    ///
    /// # Safety
    /// 1. As for `arm_zeroed`.
    #[inline(always)]
    pub unsafe fn is_surely_whole(word: u64, end: usize, slack: usize) -> bool {
        let canary = Canary { word };
        // SAFETY: duty 1.
        unsafe {
            if slack < MASKS.len() {
                return canary.is_masked(end - 16, slack);
            }
            // If the word's last byte is zero, the canary's differs from it, and this returns
            // false.
            word_at(end - slack).read_unaligned() == canary.head(slack)
                && word_at(end - 8).read() == word
        }
    }

    /// Returns true if the last 16 bytes of a slot are as `write_masked` left them, as far as they
    /// belong to the slack.
    ///
    /// # Safety
    /// 1. As for `write_masked`.
    #[inline(always)]
    unsafe fn is_masked(self, last: usize, slack: usize) -> bool {
        // SAFETY: by duty 1 the table has an entry for the slack; the slot is aligned to 16.
        unsafe {
            let masks = MASKS.get_unchecked(slack);
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                use core::arch::x86_64::{
                    _mm_and_si128, _mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8,
                };
                let covered = _mm_load_si128((&raw const masks.covered).cast());
                let seen = _mm_and_si128(covered, _mm_load_si128(word_at(last).cast()));
                _mm_movemask_epi8(_mm_cmpeq_epi8(self.masked(masks), seen)) == 0xFFFF
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            {
                let word = Canary::new(self.word).word;
                let wrong = |at: usize| {
                    let seen = word_at(last + 8 * at).read() & masks.covered[at];
                    seen ^ word & masks.random[at]
                };
                wrong(0) | wrong(1) == 0
            }
        }
    }

    /// Returns the last two words of a slot with this slack, from its random word.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    fn masked(self, masks: &Masks) -> core::arch::x86_64::__m128i {
        use core::arch::x86_64::{_mm_and_si128, _mm_load_si128, _mm_max_epu8, _mm_set1_epi64x};
        const LEAST: i64 = 1 << LAST;
        // SAFETY: every processor has these instructions; the masks are aligned to 32.
        unsafe {
            // This does what `new` does.
            let words = _mm_max_epu8(_mm_set1_epi64x(self.word as i64), _mm_set1_epi64x(LEAST));
            _mm_and_si128(words, _mm_load_si128((&raw const masks.random).cast()))
        }
    }

    /// Writes zeros over the canary that `arm` wrote.
    ///
    /// # Safety
    /// 1. As for `arm`.
    #[inline]
    pub unsafe fn disarm(self, begin: usize, size: usize, slot_bytes: usize) {
        let slack = slot_bytes - size;
        let (covered, _) = self.tail(slack);
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
        let (_, tail) = self.tail(slack);
        let from_end = slack - place;
        match (place, from_end) {
            (_, 1..=8) => tail.to_le_bytes().get(8 - from_end).copied(),
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
        let (covered, value) = self.tail(slack);
        // SAFETY: duty 1, as in `arm`.
        let wrong = unsafe { word_at(begin + slot_bytes - 8).read() } & covered ^ value;
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

/// The part of a slot's last two words that belongs to a slack of a given number of bytes, and the
/// random bits of that part.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Masks {
    random: [u64; 2],
    covered: [u64; 2],
}

/// The masks of slacks of 0 to 16 bytes.
static MASKS: [Masks; 17] = {
    let mut all = [Masks { random: [0; 2], covered: [0; 2] }; 17];
    let mut slack = 1;
    while slack <= 16 {
        let covered = u128::MAX << (128 - 8 * slack);
        // The first byte is zero, unless it is the only one.
        let random = if slack == 1 { covered } else { covered << 8 };
        all[slack] = Masks {
            random: [random as u64, (random >> 64) as u64],
            covered: [covered as u64, (covered >> 64) as u64],
        };
        slack += 1;
    }
    all
};

#[inline(always)]
fn word_at(address: usize) -> *mut u64 {
    core::ptr::with_exposed_provenance_mut(address)
}

#[cfg(test)]
mod tests;
