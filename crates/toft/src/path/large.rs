//! Blocks with a separate extent.

use super::wrappers::LARGE;
use crate::allocator::Allocator;
use crate::bin::ROW_WORDS;
use crate::keeper::limit::Grant;
use crate::os::{Error, Os};
use crate::thread::Heap;

/// The largest request that any allocation honours: a pointer difference must be able to span it.
pub(crate) const SIZE_MAX: usize = isize::MAX as usize;
/// Bytes that no system is expected to refuse while it has memory.
const MODEST: usize = 16 << 20;

impl<O: Os> Allocator<O> {
    /// Allocates a block with a separate extent; returns also how many first bytes may be nonzero.
    #[cold]
    #[inline(never)]
    pub fn allocate_large(
        &self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: usize,
    ) -> Option<(usize, usize)> {
        if size > SIZE_MAX || align > SIZE_MAX {
            return None;
        }
        self.watch_sizes(heap, LARGE, site);
        let partition = self.row(heap, site) / ROW_WORDS;
        let grant = Grant::new(self, heap);
        let admit = |bytes| grant.admit(bytes);
        let allocate = || self.large.allocate(&self.os, size, align, partition, site, &admit);
        let allocated = match allocate() {
            Err(Error::NoMemory) if !grant.is_refused() && self.may_be_met(size) => {
                self.relieve(heap, heap.sit().as_ref());
                allocate()
            }
            result => result,
        };
        let (address, dirty) = allocated.ok()?;
        self.system_has_granted();
        self.block_was_mapped(address, size);
        self.tell_large(heap, address, site);
        Some((address, dirty))
    }

    /// Whether a large block of `size` bytes, refused by the system, could be had if everything
    /// mapped was given back. Otherwise the request is impossible, and tells nothing about how much
    /// memory there is, unless any system has that size.
    #[cold]
    fn may_be_met(&self, size: usize) -> bool {
        let slabs = self.small.mapped_at_most() + self.medium.mapped_at_most();
        let mapped = slabs + self.large.mapped_at_most();
        size <= mapped.max(MODEST) || self.large.could_map(&self.os, size - mapped)
    }
}
