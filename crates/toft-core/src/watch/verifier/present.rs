//! The pages of a slab that are in memory. Others are not verified: a read would bring them there.

use crate::os::seccomp::Calls;
use crate::os::{Os, PIECE_BYTES};
use crate::slab::{SPAN_MAX, Slab};
use crate::watch::verifier::Verifier;
use core::ops::Range;

/// The number of words with a bit for each page of a slab.
const WORDS: usize = SPAN_MAX / 4096 / 64;

/// The pages of a slab that are in memory.
pub(crate) struct Present {
    pages: [u64; WORDS],
    shift: u32,
}

impl Present {
    /// Finds out which pages of a slab are in memory. Returns `None` if the system does not say.
    pub(super) fn of<O: Os>(verifier: Verifier<'_, O>, slab: &Slab) -> Option<Present> {
        let page = verifier.os.page_size();
        let mut present = Present { pages: [0; WORDS], shift: page.trailing_zeros() };
        let _permit = verifier.permit(Calls::RESIDENT)?;
        let all = slab.pages().mapped_bytes(page);
        let mut at = 0;
        while at < all {
            let (start, len) = (slab.base() + at, PIECE_BYTES.min(all - at));
            let note = |address: usize, len| present.note(address - slab.base(), len);
            if !verifier.os.resident_pieces(start, len, note) {
                return None;
            }
            at += PIECE_BYTES;
        }
        Some(present)
    }

    /// Notes that the pages of a range are in memory.
    pub(super) fn note(&mut self, start: usize, len: usize) {
        for page in start >> self.shift..(start + len) >> self.shift {
            if let Some(word) = self.pages.get_mut(page / 64) {
                *word |= 1 << (page % 64);
            }
        }
    }

    /// Returns the number of bytes of the pages in memory.
    pub(super) fn bytes(&self) -> usize {
        let pages: u32 = self.pages.iter().map(|word| word.count_ones()).sum();
        (pages as usize) << self.shift
    }

    /// Returns true if the pages of the first and of the last bytes of a slack are in memory. The
    /// pages between may never have been touched, and are not read.
    pub(super) fn has_canary(&self, start: usize, end: usize) -> bool {
        self.has_all(&(start..end.min(start + 8))) && self.has_all(&(end - 16..end))
    }

    /// Returns true if all pages of a range, which is not empty, are in memory.
    pub(super) fn has_all(&self, bytes: &Range<usize>) -> bool {
        (bytes.start >> self.shift..=(bytes.end - 1) >> self.shift)
            .all(|page| self.pages.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages in the middle of a large slack have never been touched.
    #[test]
    fn a_canary_needs_the_pages_of_its_two_ends() {
        let mut present = Present { pages: [0; WORDS], shift: 12 };
        present.note(0, 4096);
        assert!(!present.has_canary(100, 4 * 4096) && present.has_canary(100, 4096));
        present.note(3 * 4096, 4096);
        assert!(present.has_canary(100, 4 * 4096) && !present.has_all(&(100..4 * 4096)));
        assert!(!present.has_canary(4092, 4 * 4096), "its first word is on two pages");
    }
}
