//! Slots whose pages are not resident, in the secure build: malloc checks only the resident
//! pages, and does not bring in the rest.
//!
//! Reading a page that is not resident costs a fault, and the program's first write to it another.
//! Smaller slots get each page for writing at once (`harden/wipe`); a program that requests more
//! often uses the beginning only. For larger slots malloc asks the kernel which pages are resident.
//! It discards the others again, so that they read as zero in any case. Where there is swap, malloc
//! checks every byte all the same: a write after a free may be there.

use crate::harden::{PAGE_LEAST, is_zero, touch};
use crate::keeper::mappings::Mapper;
use crate::os::seccomp::Calls;
use crate::os::{Os, PIECE_BYTES};

impl<O: Os> Mapper<'_, O> {
    /// Whether a slot is zero, of which some pages may not be resident, as far as that can be told
    /// without bringing them; those are zero from here on. No, where it is not, or nothing can be
    /// told: then every byte is to be looked at.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_zero_or_non_resident(self, address: usize, bytes: usize) -> bool {
        let page = self.os.page_size().max(PAGE_LEAST);
        let (first, end) = (address.next_multiple_of(page), (address + bytes) & !(page - 1));
        if first >= end {
            return false;
        }
        // What shares a page with another slot is in memory most often, and will be used soon.
        let edges = [(address, first), (end, address + bytes)];
        let sound = edges.iter().filter(|(from, to)| from < to).all(|&(from, to)| {
            // SAFETY: (1) a part of a slot that malloc has taken and not given to anybody yet; both
            // ends are multiples of 16; (2) the processor was asked.
            unsafe {
                touch(from, to - from);
                is_zero(from, to - from, self.long_vectors)
            }
        });
        let kept = |_permit| !self.os.may_be_in_swap();
        let (mut at, sound) = (first, sound && self.permit(Calls::SWAP).is_some_and(kept));
        while sound && at < end {
            let len = (end - at).min(PIECE_BYTES);
            if !self.is_piece_zero(at, len) {
                return false;
            }
            at += len;
        }
        sound
    }

    /// Whether whole pages of a slot are zero or not resident, as many as one query of the kernel
    /// covers.
    fn is_piece_zero(self, start: usize, len: usize) -> bool {
        let (mut zero, mut seen) = (true, start);
        let known = self.permit(Calls::RESIDENT).is_some_and(|_permit| {
            self.os.resident_pieces(start, len, |at, bytes| {
                // SAFETY: (1) as above; (2) the processor was asked.
                zero = zero
                    && self.discard_non_resident(seen, at)
                    && unsafe { is_zero(at, bytes, self.long_vectors) };
                seen = at + bytes;
            })
        });
        known && zero && self.discard_non_resident(seen, start + len)
    }

    /// Makes pages zero that are not in memory, if they are not.
    fn discard_non_resident(self, start: usize, end: usize) -> bool {
        // SAFETY: (1) pages of a slot that malloc has taken and not given to anybody yet.
        start >= end || unsafe { self.os.discard(start, end - start) }.is_ok()
    }
}
