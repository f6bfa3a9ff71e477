//! Checks that a function that copies or fills memory stays within the block where it begins.
//! `libtoft_checked.so` uses this check: it replaces `memcpy` and similar functions of the C
//! library.

use crate::allocator::Found;
use crate::harden::CLEARED_AT_ONCE;
use crate::os::Os;
use crate::policy::WIPE;
use crate::report::{Call, Line, head};
use crate::watch::reports::Reports;

impl<O: Os> Reports<'_, O> {
    /// Reports an access of `bytes` bytes at `address` that leaves its live block. Returns true if
    /// it stays within. Ignores foreign addresses, and guarded blocks, whose faults are reported
    /// separately.
    pub fn stays_within(self, call: Call, writes: bool, address: usize, bytes: usize) -> bool {
        if bytes == 0 || !self.may_be_block(address) || self.is_being_cleared(address, bytes) {
            return true;
        }
        let Some(block) = self.facts(address) else { return true };
        let inside = address - block.begin;
        let what = match block.state {
            "live" if bytes <= block.size.saturating_sub(inside) => return true,
            "live" => "heap overflow",
            "free" => "use after free",
            _ => "invalid access",
        };
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, what, call, address);
        line.subject.companion = true;
        line.text(if writes { "writes " } else { "reads " }).number(bytes as u64);
        line.text(" bytes from byte ").number(inside as u64).text(" on of the ");
        line.number(block.size as u64).text("-byte block at ").address(block.begin).text(" (");
        line.text(block.kind);
        line.text(if block.kind == "large" { " block" } else { " slab, slot " });
        if block.kind != "large" {
            line.number(block.slot as u64);
        }
        line.text(", partition ")
            .number(block.partition.number() as u64)
            .text(", ")
            .text(block.state);
        line.text("; call site ").address(block.site.address()).text(")");
        self.conclude(&mut line);
        false
    }

    /// Returns true if this may be the secure build itself, which clears a freed slot by this
    /// `memset`. It clears whole slots, or pieces of `CLEARED_AT_ONCE` bytes counted from a slot's
    /// start. A program has no reason for such a call.
    fn is_being_cleared(self, address: usize, bytes: usize) -> bool {
        if !WIPE {
            return false;
        }
        let (slab, slot, inside) = match self.find(address) {
            Found::Slot(slab, slot) => (slab, Some(slot), 0),
            Found::InSlab(slab, offset) => (slab, slab.slot_around(offset), offset % slab.size()),
            _ => return false,
        };
        let rest = slab.size().saturating_sub(inside);
        slot.is_some_and(|slot| slab.states.is_quarantined(slot))
            && inside.is_multiple_of(CLEARED_AT_ONCE)
            && bytes == rest.min(CLEARED_AT_ONCE)
    }
}
