//! Zero-size blocks: requests for no bytes, and what the program does with their addresses.

use crate::os::Os;
use crate::path::Requests;
use crate::policy::SECURE;
use crate::region::Site;
use crate::report::Call;
use crate::thread::Heap;
use crate::zero_size::{ALIGN, ALIGN_MAX, ZeroSizePlace};

impl<O: Os> Requests<'_, O> {
    /// Allocates a zero-size block at a multiple of `align`. An alignment that the set does not
    /// serve gets a large block, which has no pages either: in the secure build above the usual
    /// one. So does a request that finds no bit: another thread may have been stopped while it
    /// maps the first bits.
    #[cold]
    #[inline(never)]
    pub fn allocate_zero_size(self, heap: &Heap, align: usize, site: Site) -> Option<usize> {
        // With one cursor for all threads, a freed address comes back late in every thread.
        let cursor = if SECURE { None } else { heap.zero_size_cursor() };
        if align <= if SECURE { ALIGN } else { ALIGN_MAX }
            && let Ok(address) = self.zero_size.allocate(&self.os, align, cursor)
        {
            return Some(address);
        }
        self.supply().allocate_large(heap, 0, align, site).map(|(address, _)| address)
    }

    /// Frees a zero-size block, or names what is wrong with it.
    pub(crate) fn free_zero_size(self, place: ZeroSizePlace, address: usize, call: Call) {
        let freed = match place {
            ZeroSizePlace::Block(number) => self.zero_size.free(number),
            ZeroSizePlace::Between => false,
        };
        if !freed {
            self.reports().misused(call, address);
        }
    }

    /// Returns true if a zero-size block is live.
    pub(crate) fn has_zero_size(self, place: ZeroSizePlace) -> bool {
        matches!(place, ZeroSizePlace::Block(number) if self.zero_size.is_live(number))
    }
}
