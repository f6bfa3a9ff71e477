//! Requests for no bytes, in the secure build.

use crate::os::Os;
use crate::path::secure::SecureSlots;
use crate::region::Site;
use crate::report::Call;
use crate::thread::Heap;
use crate::zero_size::{ALIGN, ZeroSizePlace};

impl<O: Os> SecureSlots<'_, O> {
    /// Allocates a zero-size block at a multiple of `align`. An alignment above the usual one gets
    /// a large block, which has no pages either. So does a request that finds no bit: another
    /// thread may have been stopped while it maps the first bits.
    #[cold]
    #[inline(never)]
    pub fn allocate_zero_size(self, heap: &Heap, align: usize, site: Site) -> Option<usize> {
        if align <= ALIGN
            && let Ok(address) = self.zero_size.allocate(&self.os)
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

    /// Whether a zero-size block is live.
    pub(crate) fn has_zero_size(self, place: ZeroSizePlace) -> bool {
        matches!(place, ZeroSizePlace::Block(number) if self.zero_size.is_live(number))
    }
}
