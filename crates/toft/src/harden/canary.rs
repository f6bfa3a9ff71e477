//! The canary in the slack of a live block: the bytes between the requested size and the slot's
//! end.
//!
//! ```text
//! slack      1        T                             T, the last byte, is never zero
//!            2..8     0 c c T                       the first is zero, so that strlen stops there
//!            9..16    0 T c c c c c c c T           the same eight bytes again before the last eight
//!            more     0 c c c c c c T  ......  c c c c c c c T      what lies between is not looked at
//! ```
//!
//! `c` and `T` are bytes of a word of the slot (`slab/canary_seeds.rs`), made from two that are
//! random for each slab. So a slack of one byte has all but 8 random bits (one of 255 values), and
//! one of two bytes too. One of `n` bytes has 8 more for each up to 56, and at least 56 from 8
//! bytes on. The last byte of a slot that is not in use is zero, and of one that is in use it is
//! `T`. The thread that frees the next slot sees by that one byte if something was written in front
//! of it, without knowing anything of this slot.
//!
//! What the leading zero costs: a zero that is written there is not seen, where the slack is more
//! than a byte. It changes nothing either.
//!
//! Malloc writes a slack of up to 16 bytes at once: a block may be freed before that write is in
//! the cache, and a read of the bytes of two pending writes would wait for both (decision 0037).

/// What the slack of one slot carries.
#[derive(Clone, Copy, Debug)]
pub struct Canary {
    word: u64,
}

const LAST: u32 = 56;

impl Canary {
    /// The canary of a slot, from its random word. Its last byte is not zero: where that of the
    /// word is, it is one.
    #[inline(always)]
    pub fn new(word: u64) -> Canary {
        Canary { word: word | u64::from(word < 1 << LAST) << LAST }
    }

    /// Whether the last byte of the slot is as it must be, in use or not.
    ///
    /// # Safety
    /// 1. `end` is the address behind a slot's last byte, which is mapped.
    #[inline(always)]
    pub unsafe fn fits_last_byte(self, end: usize) -> bool {
        // SAFETY: duty 1.
        unsafe { Canary::last_byte_differs(self.word, end) == 0 }
    }

    /// Not zero if the slot's last byte does not fit the slot's random word, and in a few cases
    /// where it does: `fits_last_byte` decides those.
    ///
    /// # Safety
    /// 1. As for `fits_last_byte`.
    #[inline(always)]
    pub unsafe fn last_byte_differs(word: u64, end: usize) -> u32 {
        let last: *const u8 = core::ptr::with_exposed_provenance(end - 1);
        // SAFETY: duty 1. Volatile: another thread may just be handing the slot out, or freeing it.
        let byte = u32::from(unsafe { last.read_volatile() });
        // One of them is zero: without a branch, because which one cannot be predicted. A last byte
        // of a word that is zero no canary has.
        byte.wrapping_mul(byte ^ (word >> LAST) as u32)
    }

    /// The bits of the last word that belong to a slack of 1 to 8 bytes, and what they must be.
    #[inline(always)]
    fn tail(self, slack: usize) -> (u64, u64) {
        let covered = u64::MAX << (64 - 8 * slack.min(8));
        let random = u64::MAX << (64 - 8 * (slack - 1).clamp(1, 8));
        (covered, self.word & random)
    }

    /// The first eight bytes of a slack, or all where it is shorter: but where it is one byte,
    /// which is not zero.
    #[inline(always)]
    fn head(self, slack: usize) -> u64 {
        let turn = if slack <= 16 { 8 * (slack % 8) as u32 } else { 0 };
        self.word.rotate_left(turn) & !0xFF
    }

    /// Writes the canary behind `size` bytes at `begin`, in a slot of `slot_bytes`, which are more.
    ///
    /// # Safety
    /// 1. The slot is mapped and aligned to 16, and only the caller uses it.
    #[inline(always)]
    pub unsafe fn arm(self, begin: usize, size: usize, slot_bytes: usize) {
        let slack = slot_bytes - size;
        let (covered, value) = self.tail(slack);
        // SAFETY: duty 1: the first word of a slack of more than 8 bytes; and the last of the slot.
        // One aligned store, so that others see the last byte zero or right.
        unsafe {
            if slack > 8 {
                word_at(begin + size).write_unaligned(self.head(slack));
            }
            let last = word_at(begin + slot_bytes - 8);
            last.write_volatile(last.read() & !covered | value);
        }
    }

    /// As `arm`, in a slot that is all zero and ends at `end`, with `slack` bytes left, by its
    /// random word.
    ///
    /// # Safety
    /// 1. As for `arm`; the slack is not zero, and no more than the slot.
    #[inline(always)]
    pub unsafe fn arm_zeroed(word: u64, end: usize, slack: usize) {
        // SAFETY: duty 1: the slot has 16 bytes at least. What does not belong to the slack is
        // zeros over zeros, and others see the last byte zero or right.
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

    /// The last 16 bytes of a slot at once, of which only those of the slack are not zero.
    ///
    /// # Safety
    /// 1. As for `arm_zeroed`, of at most 16 bytes: `last` is the address of the slot's last 16.
    #[inline(always)]
    unsafe fn write_masked(self, last: usize, slack: usize) {
        // SAFETY: no slack is more than the table is long, says duty 1; the slot is aligned to 16.
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

    /// Whether the slack of a slot that ends at `end` is certainly as `arm` or `arm_zeroed` has
    /// left it, by the slot's random word. If it returns false, `damage` tells what is wrong with
    /// it, if anything is. Up to 16 bytes without a branch, because the order of slacks cannot be
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
            // A last byte of a word that is zero no canary has.
            word_at(end - slack).read_unaligned() == canary.head(slack)
                && word_at(end - 8).read() == word
        }
    }

    /// Whether the last 16 bytes of a slot are as `write_masked` has left them, as far as they are
    /// the slack's.
    ///
    /// # Safety
    /// 1. As for `write_masked`.
    #[inline(always)]
    unsafe fn is_masked(self, last: usize, slack: usize) -> bool {
        // SAFETY: no slack is more than the table is long, says duty 1; the slot is aligned to 16.
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

    /// The last two words of a slot with so much slack, from its random word.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    fn masked(self, masks: &Masks) -> core::arch::x86_64::__m128i {
        use core::arch::x86_64::{_mm_and_si128, _mm_load_si128, _mm_max_epu8, _mm_set1_epi64x};
        const LEAST: i64 = 1 << LAST;
        // SAFETY: every processor has these instructions; the masks are aligned to 32.
        unsafe {
            // As `new` does it.
            let words = _mm_max_epu8(_mm_set1_epi64x(self.word as i64), _mm_set1_epi64x(LEAST));
            _mm_and_si128(words, _mm_load_si128((&raw const masks.random).cast()))
        }
    }

    /// Makes zero what `arm` has written.
    ///
    /// # Safety
    /// 1. As for `arm`.
    #[inline]
    pub unsafe fn disarm(self, begin: usize, size: usize, slot_bytes: usize) {
        let slack = slot_bytes - size;
        let (covered, _) = self.tail(slack);
        // SAFETY: duty 1, as in `arm`. The last byte first: who looks from outside takes what has
        // none for not armed, wherever this thread is stopped.
        unsafe {
            let last = word_at(begin + slot_bytes - 8);
            last.write_volatile(last.read() & !covered);
            if slack > 8 {
                word_at(begin + size).write_unaligned(0);
            }
        }
    }

    /// The byte `place` bytes after a block's end, in a slack of `slack` bytes; `None` if any may
    /// be there.
    fn byte_at(self, place: usize, slack: usize) -> Option<u8> {
        let (_, tail) = self.tail(slack);
        let from_end = slack - place;
        match (place, from_end) {
            (_, 1..=8) => tail.to_le_bytes().get(8 - from_end).copied(),
            (0..8, _) => self.head(slack).to_le_bytes().get(place).copied(),
            _ => None,
        }
    }

    /// As `damage`, by bytes that are read as the caller likes, each by its place behind the
    /// block's end: of what it cannot read nothing is said, nor of a slack that is not armed.
    pub fn damage_read(self, slack: usize, read: impl Fn(usize) -> Option<u8>) -> Option<usize> {
        let last = slack.checked_sub(1)?;
        if read(last)? == 0 {
            return None;
        }
        let mut places = (0..slack.min(8)).chain(slack.saturating_sub(8).max(8)..slack);
        let differs = |&place: &usize| {
            let must = self.byte_at(place, slack);
            must.is_some_and(|must| read(place).is_some_and(|byte| byte != must))
        };
        places.find(differs)
    }

    /// Which byte behind the `size` bytes asked for is not as `arm` has left it, if one is not.
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
            // Of the first word, what the last has not covered.
            let own = u64::MAX >> (64 - 8 * (slack - 8).min(8));
            // SAFETY: as above.
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

/// The part of a slot's last two words that belongs to a slack of a given number of bytes, and
/// which of its bits are random.
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
        // But for the first byte, which is zero, where it is not the only one.
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
