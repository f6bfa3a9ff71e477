//! Pages for a slab that is about to be filled: one call before, in place of a fault for each.

use crate::keeper::mappings::Mapper;
use crate::os::seccomp::Calls;
use crate::os::{MIDDLE, Os};
use crate::policy::SECURE;
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;

/// Bytes that are prefaulted of a slab, at most, and at least: a call costs as much as two faults.
const MOST: usize = 256 << 10;
const LEAST: usize = 16 << 10;
/// Slabs that a bin must have filled in a row.
const ROW: usize = 4;
/// The share of what a bin has filled in a row that may be prefaulted in vain, as a divisor.
const SHARE: usize = 16;

/// Bytes to prefault of a slab with `used` bytes of slots, after a row of `row` slabs like it.
fn worth(used: usize, row: usize, page: usize) -> usize {
    let bytes = used.min(used.saturating_mul(row) / SHARE).min(MOST) & !(page - 1);
    if row < ROW || bytes < LEAST { 0 } else { bytes }
}

impl<O: Os> Mapper<'_, O> {
    /// A bin goes on in a new slab, after a row of `row` slabs that it has filled. If they are
    /// many, it will fill this one.
    #[inline]
    pub(crate) fn prefault(self, slab: &Slab, row: u8) {
        if self.options.prefault {
            self.prefault_now(slab, row);
        }
    }

    #[cold]
    #[inline(never)]
    fn prefault_now(self, slab: &Slab, row: u8) {
        slab.row.store(row, Relaxed);
        let page = self.os.page_size();
        let bytes = worth(slab.slots() * slab.size(), row.into(), page);
        let bytes =
            if SECURE { bytes.min(slab.guard_pages().bytes_before_first(page)) } else { bytes };
        // Of a block that is larger than a page the program may never touch some pages. Pages of an
        // empty slab may have come here, or the attempt has cost the mapping.
        if bytes == 0
            || slab.size() > page
            || slab.is_dormant()
            || slab.has_received()
            || self.limit.has_group_pressure()
        {
            return;
        }
        // Filters check the advice, too.
        let Some(_permit) = self.permit(Calls::POPULATE.and(Calls::HUGE)) else { return };
        // One page in place of sixteen, where there is one: it is asked for here and nowhere else.
        let middle = bytes & !(MIDDLE - 1);
        let fits = middle != 0 && slab.base().is_multiple_of(MIDDLE);
        if fits {
            self.learn_huge_habit();
        }
        let larger =
            fits && self.has_middle_pages() && self.os.allow_huge(slab.base(), middle).is_ok();
        // SAFETY: (1) a slab that is not dormant is mapped.
        let done = unsafe { self.os.populate(slab.base(), bytes) }.is_ok();
        if larger {
            self.os.keep_small(slab.base(), middle);
        }
        if done {
            slab.note_prefault(bytes);
        } else {
            // A system that cannot is asked again after a while only.
            slab.row.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_sixteenth_of_what_was_filled() {
        for used in [4 << 10, 16 << 10, 60 << 10, 64 << 10, 500_000, 512 << 10] {
            for row in 0..=u8::MAX {
                let bytes = worth(used, row.into(), 4096);
                assert!(bytes <= used * usize::from(row) / 16 && bytes <= used && bytes <= MOST);
                assert!(bytes == 0 || bytes >= LEAST && bytes.is_multiple_of(4096));
            }
        }
        assert_eq!(worth(64 << 10, 3, 4096), 0);
        assert_eq!(worth(64 << 10, 4, 4096), 16 << 10);
        assert_eq!(worth(64 << 10, 16, 4096), 64 << 10);
        assert_eq!(worth(512 << 10, 3, 4096), 0);
        assert_eq!(worth(512 << 10, 8, 4096), 256 << 10);
        assert_eq!(worth(8 << 10, 255, 4096), 0);
    }
}
