//! Requests for no bytes, in the secure build.

use crate::allocator::Allocator;
use crate::os::Os;
use crate::report::{Call, Line, head};
use crate::thread::Heap;
use crate::zero_size::ZeroSizePlace;

/// The largest alignment that a block has which asks for none.
const ALIGN: usize = 16;

impl<O: Os> Allocator<O> {
    /// Allocates a zero-size block at a multiple of `align`. An alignment above the usual one gets
    /// a large block, which has no pages either.
    #[cold]
    #[inline(never)]
    pub fn allocate_zero_size(&self, heap: &Heap, align: usize, site: usize) -> Option<usize> {
        if align > ALIGN {
            return self.allocate_large(heap, 0, align, site).map(|(address, _)| address);
        }
        self.zero_size.allocate(&self.os).ok()
    }

    /// Frees a zero-size block, or names what is wrong with it.
    pub(crate) fn free_zero_size(&self, place: ZeroSizePlace, address: usize, call: Call) {
        let freed = match place {
            ZeroSizePlace::Block(number) => self.zero_size.free(number),
            ZeroSizePlace::Between => false,
        };
        if !freed {
            self.misused(call, address);
        }
    }

    /// Whether a zero-size block is live.
    pub(crate) fn has_zero_size(&self, place: ZeroSizePlace) -> bool {
        matches!(place, ZeroSizePlace::Block(number) if self.zero_size.is_live(number))
    }

    /// Says what a bad pointer into the addresses of such blocks is.
    pub(crate) fn describe_zero_size(
        &self,
        line: &mut Line,
        call: Call,
        place: ZeroSizePlace,
        address: usize,
    ) {
        match place {
            ZeroSizePlace::Block(number) if self.zero_size.is_in_use(number) => {
                // It is not recorded whether it was ever handed out.
                head(line, "double free", call, address);
                line.text("this 0-byte block is already free (of no bytes)");
            }
            ZeroSizePlace::Block(_) => {
                head(line, "invalid free", call, address);
                line.text("not a block of this allocator");
            }
            ZeroSizePlace::Between => {
                head(line, "invalid free", call, address);
                let inside = address % ALIGN;
                line.number(inside as u64).text(" bytes inside the 0-byte block at ");
                line.address(address - inside).text(" (of no bytes)");
            }
        }
    }
}
