//! realloc: in place where it can, by moving pages where the block is large, else by copying.

use super::allocator::Found;
use super::limit::Grant;
use super::malloc::SIZE_MAX;
use super::{Allocator, Call};
use crate::large::{BlockState, Resize};
use crate::os::Os;
use crate::policy::HARDENED;
use crate::slab::MEDIUM_MAX;
use crate::thread::Heap;

/// What a resize came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// The block is here now.
    At(usize),
    /// No memory; the old block is untouched.
    NoMemory,
    /// The pointer was not a live block; it has been named.
    Misused,
}

impl<O: Os> Allocator<O> {
    /// Changes the size of the live block at `address` to `size` bytes, more than none.
    ///
    /// The block is found once, and the old one is freed without asking again.
    pub fn resize(&self, heap: &Heap, address: usize, size: usize, site: usize) -> Resized {
        let found = self.find(address);
        let usable = match found {
            Found::Slot(slab, slot) if slab.is_in_use(slot) => slab.size(),
            Found::Large(block) if block.state() == BlockState::Live => block.bytes(),
            Found::Nothing(place) if self.has_nothing(place) => 0,
            _ => {
                self.misused(Call::Realloc, address);
                return Resized::Misused;
            }
        };
        if size > SIZE_MAX {
            return Resized::NoMemory;
        }
        // In the hardened build a block that stays ends where its program says that it does.
        let stays = HARDENED && size <= usable && is_worth_keeping(size, usable);
        if let Found::Large(block) = found
            && (size > MEDIUM_MAX || stays)
        {
            let grant = Grant::new(self, heap);
            let damaged = |damage| self.missed_large(Call::Realloc, block, damage);
            let admit = |bytes| grant.admit(bytes);
            match self.large.resize(&self.os, block, size, &admit, &damaged) {
                Resize::InPlace => return Resized::At(address),
                Resize::Moved(to) => return Resized::At(to),
                Resize::No => {}
            }
        }
        if size <= usable && is_worth_keeping(size, usable) {
            return Resized::At(address);
        }
        let Some(to) = self.allocate(heap, size, site) else {
            // A smaller size always fits where the block is.
            return if size <= usable { Resized::At(address) } else { Resized::NoMemory };
        };
        let from: *const u8 = core::ptr::with_exposed_provenance(address);
        let target: *mut u8 = core::ptr::with_exposed_provenance_mut(to);
        // SAFETY: both blocks are live and distinct, and hold at least the smaller of the sizes.
        unsafe { core::ptr::copy_nonoverlapping(from, target, size.min(usable)) };
        match found {
            Found::Slot(slab, slot) => self.free_found(heap, slab, slot, address, Call::Realloc),
            _ => self.free_other(address, Call::Realloc),
        }
        Resized::At(to)
    }
}

/// Whether a block of `usable` bytes is left in place for `size`: moving would save less than half,
/// or less than a copy is worth.
pub(super) fn is_worth_keeping(size: usize, usable: usize) -> bool {
    size >= usable / 2 || usable <= 128
}
