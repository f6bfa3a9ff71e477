//! realloc: in place if possible, by moving pages if the block is large, else by copying.

use super::caller::{Caller, Pointer};
use super::free::free;
use super::large::{SIZE_MAX, large_bytes};
use super::malloc::{bytes_with_slack, malloc, no_memory};
use crate::allocator::Found;
use crate::keeper::limit::Grant;
use crate::large::{BlockState, Resize};
use crate::os::{Os, probes, process};
use crate::path::Requests;
use crate::path::guarded::SamplingScope;
use crate::policy::{CANARY, SECURE, SLACK_MIN};
use crate::region::Site;
use crate::report::Call;
use crate::slab::{MEDIUM_MAX, SLACK_MOST};
use crate::thread::Heap;
use core::ptr::null_mut;

/// Changes the size of a block, with C's meaning for null and for size zero.
///
/// Returns null and sets `ENOMEM` if there is no memory. Returns null and sets `EINVAL` if the
/// pointer is no live block and the program continues after the report.
#[inline(always)]
pub fn realloc<C: Caller>(caller: C, address: usize, size: usize, site: Site) -> Pointer {
    if address == 0 {
        return malloc(caller, size, site);
    }
    if size == 0 {
        free(caller, address, Call::Realloc);
        return null_mut();
    }
    let Some(heap) = caller.heap_or_start() else { return no_memory() };
    match caller.allocator().requests().resize(heap, address, size, site) {
        Resized::At(to) => core::ptr::with_exposed_provenance_mut(to),
        Resized::NoMemory => no_memory(),
        Resized::Misused => {
            process::set_errno(libc::EINVAL);
            null_mut()
        }
    }
}

/// The result of a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// The block's address after the resize.
    At(usize),
    /// There is no memory, and the old block is unchanged.
    NoMemory,
    /// The pointer was not a live block, and the misuse was reported.
    Misused,
}

impl<O: Os> Requests<'_, O> {
    /// Changes the size of the live block at `address` to `size` bytes, which is not zero.
    ///
    /// The address is looked up once: a slot that is replaced is freed without a second look-up.
    pub fn resize(self, heap: &Heap, address: usize, size: usize, site: Site) -> Resized {
        let found = self.find(address);
        // The block's bytes now, and the most that it can have in the same place.
        let (usable, most) = match found {
            Found::Slot(slab, slot) if slab.is_in_use(slot) => {
                if CANARY {
                    self.slot_checks().verify_canary(slab, slot, address, Call::Realloc);
                }
                (slab.block_bytes(slot), slab.size().saturating_sub(SLACK_MIN))
            }
            Found::Large(block) if block.state() == BlockState::Live => {
                (block.bytes(), block.bytes())
            }
            Found::Guarded(slot) if self.guarded.live_at(address).is_some() => {
                (slot.bytes(), slot.bytes())
            }
            Found::ZeroSize(place) if self.has_zero_size(place) => (0, 0),
            _ => {
                self.misused_unless_sampled(Call::Realloc, address);
                return Resized::Misused;
            }
        };
        if size > SIZE_MAX {
            return Resized::NoMemory;
        }
        // In the secure build a block that stays in place gets exactly `size` bytes.
        let stays_in_place = SECURE && size <= usable && is_worth_keeping(size, usable);
        if let Found::Large(block) = found
            && (bytes_with_slack(size) > MEDIUM_MAX || stays_in_place)
        {
            let grant = Grant::new(&self, heap);
            let damaged = |damage| self.reports().missed_large(Call::Realloc, block, damage);
            let admit = |bytes| grant.admit(bytes);
            let was_sampled = probes::THERE && block.take_sampled();
            // The sample goes before another thread can get the address.
            let sample = if was_sampled { self.samples.take_out(address) } else { None };
            match self.large.resize(&self.os, block, size, &admit, &damaged) {
                Resize::InPlace if block.bytes() == usable => {
                    self.samples.put_back(&self.os, address, sample);
                    block.restore_sampled(was_sampled);
                    return Resized::At(address);
                }
                Resize::InPlace => {
                    heap.count_resize(usable, block.bytes());
                    self.samples.count_freed(sample);
                    self.profiler().sample_resized(heap, (address, address), was_sampled, site);
                    return Resized::At(address);
                }
                Resize::Moved(to) => {
                    heap.count_resize(usable, large_bytes(size, self.os.page_size()));
                    self.samples.count_freed(sample);
                    self.profiler().sample_resized(heap, (address, to), was_sampled, site);
                    return Resized::At(to);
                }
                Resize::No => {
                    self.samples.put_back(&self.os, address, sample);
                    block.restore_sampled(was_sampled);
                }
            }
        }
        let in_place = || {
            if SECURE && let Found::Slot(slab, slot) = found {
                self.secure_slots().resize_slot(slab, slot, address, size);
            }
            Resized::At(address)
        };
        let is_kept = match found {
            // The slot's descriptor keeps the number of bytes after the block. The largest number
            // stands for any larger one, too (slack_for); the block stays as it is then.
            Found::Slot(slab, _) if SECURE => {
                size == usable || slab.size().saturating_sub(size) < SLACK_MOST
            }
            _ => true,
        };
        if size <= most && is_kept && (is_worth_keeping(size, most) || size == usable) {
            return in_place();
        }
        let Some(to) = self.block(heap, size, 1, site) else {
            // A smaller block always fits in the old place.
            if SECURE
                && size <= most
                && let Found::Large(block) = found
            {
                let damaged = |damage| self.reports().missed_large(Call::Realloc, block, damage);
                self.large.resize(&self.os, block, size, &|_| false, &damaged);
            }
            return if size <= most { in_place() } else { Resized::NoMemory };
        };
        let to = self.sample(heap, to, 16, site, SamplingScope::OneBlock);
        if let Found::Guarded(slot) = found {
            // The copy below may read uninitialized bytes, and is no read by the program.
            self.guarded.unwatch(slot);
        }
        let from: *const u8 = core::ptr::with_exposed_provenance(address);
        let target: *mut u8 = core::ptr::with_exposed_provenance_mut(to);
        // SAFETY: both blocks are live and distinct, and hold at least the smaller of the sizes.
        unsafe { core::ptr::copy_nonoverlapping(from, target, size.min(usable)) };
        if self.watchful
            && let Found::Slot(slab, slot) = found
        {
            self.before_free(slab, slot);
        }
        match found {
            Found::Slot(slab, slot) => self.free_slot(heap, slab, slot, address, Call::Realloc),
            _ => self.free_other(heap, address, Call::Realloc),
        }
        Resized::At(to)
    }
}

/// Returns true if a block of `usable` bytes stays in place for a request of `size` bytes. A move
/// would then save less than half of the block, or less than a copy costs.
pub(crate) fn is_worth_keeping(size: usize, usable: usize) -> bool {
    size >= usable / 2 || usable <= 128
}
