//! Requests for no bytes, in the secure build.

use crate::allocator::Allocator;
use crate::nothing::Place;
use crate::os::Os;
use crate::report::{Call, Line, head};
use crate::thread::Heap;

/// The largest alignment that a block has which asks for none.
const ALIGN: usize = 16;

impl<O: Os> Allocator<O> {
    /// Allocates a zero-size block at a multiple of `align`. An alignment above the usual one gets
    /// a large block, which has no pages either.
    #[cold]
    #[inline(never)]
    pub fn allocate_nothing(&self, heap: &Heap, align: usize, site: usize) -> Option<usize> {
        if align > ALIGN {
            return self.allocate_large(heap, 0, align, site).map(|(address, _)| address);
        }
        self.nothing.allocate(&self.os).ok()
    }

    /// Frees a zero-size block, or names what is wrong with it.
    pub(crate) fn free_nothing(&self, place: Place, address: usize, call: Call) {
        let freed = match place {
            Place::Block(number) => self.nothing.free(number),
            Place::Between => false,
        };
        if !freed {
            self.misused(call, address);
        }
    }

    /// Whether a zero-size block is live.
    pub(crate) fn has_nothing(&self, place: Place) -> bool {
        matches!(place, Place::Block(number) if self.nothing.is_live(number))
    }

    /// Says what a bad pointer into the addresses of such blocks is.
    pub(crate) fn describe_nothing(
        &self,
        line: &mut Line,
        call: Call,
        place: Place,
        address: usize,
    ) {
        match place {
            Place::Block(number) if self.nothing.is_in_use(number) => {
                // It is not recorded whether it was ever handed out.
                head(line, "double free", call, address);
                line.text("this 0-byte block is already free (of no bytes)");
            }
            Place::Block(_) => {
                head(line, "invalid free", call, address);
                line.text("not a block of this allocator");
            }
            Place::Between => {
                head(line, "invalid free", call, address);
                let inside = address % ALIGN;
                line.number(inside as u64).text(" bytes inside the 0-byte block at ");
                line.address(address - inside).text(" (of no bytes)");
            }
        }
    }
}
