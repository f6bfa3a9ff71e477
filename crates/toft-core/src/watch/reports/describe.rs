//! What a bad pointer is that leads to guarded or zero-size blocks.

use crate::guarded::{Slot, SlotCondition};
use crate::os::Os;
use crate::report::{Call, Line, head};
use crate::watch::reports::Reports;
use crate::watch::reports::facts::site_of;
use crate::zero_size::{ALIGN, ZeroSizePlace};

impl<O: Os> Reports<'_, O> {
    /// Says what a bad pointer into the addresses of such blocks is.
    pub(crate) fn describe_zero_size(
        self,
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

    /// Describes an address in the pool that is not a live block.
    pub(crate) fn describe_guarded(self, line: &mut Line, call: Call, address: usize, slot: &Slot) {
        let (begin, size) = (slot.begin(), slot.bytes());
        let live = slot.condition() == SlotCondition::Live;
        let inside = address.wrapping_sub(begin);
        if inside == 0 && !live {
            head(line, "double free", call, address);
            line.text("this ")
                .number(size as u64)
                .text("-byte block is already free (guarded block");
        } else if inside < size {
            head(line, "invalid free", call, address);
            line.number(inside as u64).text(" bytes inside the ").number(size as u64);
            line.text("-byte block at ").address(begin).text(" (guarded block");
            line.text(if live { ", live" } else { ", free" });
        } else {
            head(line, "invalid free", call, address);
            line.text("not a block of this allocator");
            return;
        }
        line.text("; call site ").address(site_of(slot).address()).text(")");
    }
}
