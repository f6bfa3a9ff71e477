//! Allocation of large blocks: each has a separate extent.

use super::refill::NoSlot;
use crate::keeper::limit::Grant;
use crate::os::{Error, Os};
use crate::path::Supply;
use crate::policy::SECURE;
use crate::region::Site;
use crate::thread::Heap;

/// The largest request that Toft serves, in bytes: a pointer difference must span the block.
pub(crate) const SIZE_MAX: usize = isize::MAX as usize;
/// The size in bytes up to which a refusal by the system always means that memory is short.
const ALWAYS_SATISFIABLE: usize = 16 << 20;

/// Returns the usable bytes of a large block of `size` bytes, at most [`SIZE_MAX`].
pub(crate) fn large_bytes(size: usize, page: usize) -> usize {
    if SECURE { size } else { (size.max(1) + page - 1) & !(page - 1) }
}

impl<O: Os> Supply<'_, O> {
    /// Allocates a block with a separate extent. Returns its address and the number of leading
    /// bytes that may be nonzero.
    #[cold]
    #[inline(never)]
    pub fn allocate_large(
        self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: Site,
    ) -> Option<(usize, usize)> {
        if size > SIZE_MAX || align > SIZE_MAX {
            return None;
        }
        self.announce_growth(size);
        let partition = self.call_sites().row(heap, site).partition();
        let grant = Grant::new(&self, heap);
        let admit = |bytes| grant.admit(bytes);
        let allocate = || self.large.allocate(&self.os, size, align, partition, site, &admit);
        let allocated = match allocate() {
            Err(Error::NoMemory) if !grant.is_refused() && self.is_satisfiable(size) => {
                self.memory_limit().relieve(heap, heap.enter().as_ref(), size);
                allocate()
            }
            result => result,
        };
        let (address, dirty) = allocated.ok()?;
        self.memory_limit().system_has_granted();
        self.mapper().block_was_mapped(address, size);
        if let Some(counters) = heap.counters() {
            counters.allocated_apart(large_bytes(size, self.os.page_size()));
        }
        self.profiler().sample_large(heap, address, site);
        Some((address, dirty))
    }

    /// Allocates a block of `size` bytes with a separate extent, because there was no slot for it.
    /// Returns the block's address, and the number of leading bytes that may be nonzero.
    ///
    /// A slab may take 512 KiB of address space, and such a block takes one page. No other thread
    /// can keep it from this one. A refusal by `TOFT_LIMIT` is final.
    #[cold]
    #[inline(never)]
    pub(crate) fn allocate_without_slot(
        self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: Site,
        why: NoSlot,
    ) -> Option<(usize, usize)> {
        if why == NoSlot::Limit {
            return None;
        }
        let (address, dirty) = self.allocate_large(heap, size, align, site)?;
        if let Some(block) = self.large.units().block_at(address) {
            block.set_replaces_slot(true);
        }
        Some((address, dirty))
    }

    /// Returns true if the system could grant a refused block of `size` bytes after Toft unmaps all
    /// it has mapped. Otherwise the request is impossible, and its refusal does not mean that
    /// memory is short. Returns true for every size up to `ALWAYS_SATISFIABLE`.
    #[cold]
    fn is_satisfiable(self, size: usize) -> bool {
        let slabs = self.slabs.mapped_at_most();
        let mapped = slabs + self.large.figures().mapped_at_most();
        size <= mapped.max(ALWAYS_SATISFIABLE)
            || self.large.units().could_map(&self.os, size - mapped)
    }
}
