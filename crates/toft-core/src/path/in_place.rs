//! What jemalloc's interface asks for beyond C's: a resize that never moves the block, and the
//! number of bytes that a request gets.

use super::large::{SIZE_MAX, large_bytes};
use super::malloc::{aligned_class, bytes_with_slack};
use crate::allocator::Found;
use crate::large::{Block, BlockState, Resize};
use crate::os::{Os, probes, process};
use crate::path::InPlace;
use crate::policy::{CANARY, SECURE, SLACK_MIN};
use crate::report::Call;
use crate::slab::{MEDIUM_MAX, SLACK_MOST, SizeClass};
use crate::thread::Heap;
use crate::zero_size::ALIGN;

/// Returns the usable bytes of a block of `size` bytes at a multiple of `align`, a power of two.
/// Returns zero if no such block can exist.
pub fn served_bytes(size: usize, align: usize) -> usize {
    if size > SIZE_MAX || align > SIZE_MAX {
        return 0;
    }
    let class = match align > ALIGN {
        true => aligned_class(size, align),
        false => SizeClass::of(bytes_with_slack(size)),
    };
    match class {
        // In the secure build the rest of the slot is checked, as far as its bytes are counted.
        Some(class) if SECURE => size.max(class.size().saturating_sub(SLACK_MOST)),
        Some(class) => class.size(),
        None => large_bytes(size, process::page_size()),
    }
}

impl<O: Os> InPlace<'_, O> {
    /// Gives the live block at `address` `size` bytes, which is not zero, if it can stay where it
    /// is. Returns the usable bytes that the block then has, which may be fewer. Reports the misuse
    /// and returns `None` if no live block begins there.
    ///
    /// A slot has all of its bytes already in the default build. In the secure build it gets the
    /// exact size, as far as the slot has room. A large block becomes smaller, and larger only
    /// within its last page.
    pub fn resize_in_place(
        self,
        heap: &Heap,
        address: usize,
        size: usize,
        call: Call,
    ) -> Option<usize> {
        match self.find(address) {
            Found::Slot(slab, slot) if SECURE && slab.is_in_use(slot) => {
                if CANARY {
                    self.slot_checks().verify_canary(slab, slot, address, call);
                }
                if size <= slab.size().saturating_sub(SLACK_MIN) {
                    self.secure_slots().resize_slot(slab, slot, address, size);
                }
                Some(slab.block_bytes(slot))
            }
            Found::Large(block) if block.state() == BlockState::Live => {
                let is_smaller = size < block.bytes() && bytes_with_slack(size) > MEDIUM_MAX;
                if SECURE && size != block.bytes() || is_smaller {
                    self.resize_large_in_place(heap, block, address, size, call);
                }
                Some(block.bytes())
            }
            _ => self.requests().usable_size(address, call),
        }
    }

    /// Gives a large block another size, if that needs no other pages.
    fn resize_large_in_place(
        self,
        heap: &Heap,
        block: &Block,
        address: usize,
        size: usize,
        call: Call,
    ) {
        let before = block.bytes();
        let was_sampled = probes::THERE && block.take_sampled();
        let sample = if was_sampled { self.samples.take_out(address) } else { None };
        let damaged = |damage| self.reports().missed_large(call, block, damage);
        // Without permission for more pages the block stays where it is.
        let done = self.large.resize(&self.os, block, size, &|_| false, &damaged);
        if done == Resize::InPlace && block.bytes() != before {
            heap.count_resize(before, block.bytes());
            self.samples.count_freed(sample);
            let site = block.site();
            self.profiler().sample_resized(heap, (address, address), was_sampled, site);
        } else {
            self.samples.put_back(&self.os, address, sample);
            block.restore_sampled(was_sampled);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Programs count the usable bytes as the size of what they keep (decision 0078).
    #[test]
    fn usable_bytes_above_a_kibibyte_are_at_most_a_quarter_more_than_requested() {
        for size in 1025..=1 << 20 {
            for align in [1, 16, 64, 256] {
                let usable = served_bytes(size, align);
                // Large blocks are whole pages, which may be of 64 KiB.
                let page = if size > MEDIUM_MAX { process::page_size() } else { 0 };
                let most = if SECURE { size } else { size + page.max(size / 4) };
                assert!((size..=most).contains(&usable), "{size} at {align}: {usable}");
            }
        }
    }
}
