//! malloc, calloc and aligned allocation: the fast path, and the steps after it.
//!
//! ```text
//! malloc -> a claimed slot                                                    35 instructions
//!   malloc_by_row -> a claimed slot: of a medium class, or of the row of a site that has one
//!     malloc_large -> large.rs
//!     malloc_refill -> more slots of the bin's slab        a claim begins: observers
//!       malloc_slower -> refill.rs                         memory grows: keepers
//! ```
//!
//! Each step ends with a tail call of the next, so no step saves registers. The secure build has
//! separate first steps (`secure/fast.rs`) and shares the others.

use super::caller::{Caller, Pointer};
use super::refill::NoSlot;
use crate::allocator::Allocator;
use crate::bin::BinIndex;
use crate::os::{Os, probes, process};
use crate::path::Requests;
use crate::path::guarded::SamplingScope;
use crate::policy::{SECURE, SLACK_MIN, WIPE};
use crate::region::{Partition, Site};
use crate::site::{NEW_WORDS, Place};
use crate::slab::{MEDIUM_MAX, MediumSize, NO_SLOTS, SLACK_MOST, SMALL_MAX, SizeClass, SmallSize};
use crate::thread::Heap;
use crate::zero_size::ALIGN;
use core::ptr::{null_mut, with_exposed_provenance_mut};

/// Returns the number of bytes that a slot needs for a request: its size plus the least slack.
#[inline(always)]
pub(crate) fn bytes_with_slack(size: usize) -> usize {
    size.saturating_add(SLACK_MIN)
}

/// Allocates `size` bytes. Returns null and sets `ENOMEM` if there is no memory.
///
/// The fast path finds the class by one table load and the partition by two multiplications. It
/// finds the slab and the slot by one load each. It has no atomic read-modify-write, no lock and no
/// search. In exact mode it ends at the first comparison.
#[inline(always)]
pub fn malloc<C: Caller>(caller: C, size: usize, site: Site) -> Pointer {
    let heap = caller.heap();
    if SECURE {
        return match caller.allocator().secure_slots().malloc_small(heap, size, site) {
            Some(block) => block.cast(),
            None => malloc_secure(caller, size, site),
        };
    }
    let Some(small) = heap.hashed_size(size) else {
        return malloc_by_row(caller, size, site);
    };
    let index = heap.small_bin(small, site);
    match heap.pop(index) {
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_refill(caller, index, site, heap),
    }
}

/// Allocates if `malloc_small` has no claimed slot, or the size is not small. Secure build only.
#[inline(never)]
fn malloc_secure<C: Caller>(caller: C, size: usize, site: Site) -> Pointer {
    let (allocator, heap) = (caller.allocator(), caller.heap());
    if let Some(address) = allocator.secure_slots().malloc_slot(heap, size, site) {
        return with_exposed_provenance_mut(address);
    }
    match allocator.secure_slots().malloc_refill(heap, size, site) {
        Some(address) if allocator.watchful => malloc_sampled(caller, address, site),
        Some(address) => with_exposed_provenance_mut(address),
        None => with_heap(caller, |allocator, heap| {
            let address = allocator.requests().block(heap, size, 1, site)?;
            Some(allocator.requests().sample(heap, address, 16, site, SamplingScope::Claim))
        }),
    }
}

/// Allocates a medium block, or a large one if `size` requires it, or in exact mode a block of any
/// size. This is a separate function, so that the code of `malloc` is straight-line code. It has no
/// stack frame.
#[inline(never)]
fn malloc_by_row<C: Caller>(caller: C, size: usize, site: Site) -> Pointer {
    let heap = caller.heap();
    let class = if let Some(medium) = MediumSize::of(size) {
        BinIndex::row(Partition::new(0)).of_class(medium.class())
    } else if let Some(small) = SmallSize::of(size) {
        heap.small_class(small)
    } else {
        return malloc_large(caller, size, site);
    };
    let Some(row) = heap.remembered_row(site) else {
        return caller.through(class, site);
    };
    let index = row.of_class_of(class);
    match heap.pop(index) {
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_refill(caller, index, site, heap),
    }
}

/// Allocates for a site that this thread does not remember, or that is in a wrapper of malloc.
pub(crate) fn through_from<C: Caller>(
    caller: C,
    index: BinIndex,
    site: Site,
    stack: usize,
    frame: usize,
) -> Pointer {
    let (allocator, heap) = (caller.allocator(), caller.heap());
    let site = site_above(allocator, heap, site, stack, frame);
    let row = allocator.call_sites().row(heap, site);
    let index = row.of_class_of(index);
    match heap.pop(index) {
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_refill(caller, index, site, heap),
    }
}

/// Returns the site of a call: the return address `site`, or the one above if that is in a wrapper.
/// Its place is at `stack`, or [`NEW_WORDS`] words above if a form of `operator new` called malloc.
fn site_above<O: Os>(
    allocator: &Allocator<O>,
    heap: &Heap,
    site: Site,
    stack: usize,
    frame: usize,
) -> Site {
    const NEW: usize = NEW_WORDS * size_of::<usize>();
    if !allocator.wrappers.are_there() {
        return site;
    }
    let top = [stack, stack.wrapping_add(NEW)].into_iter().find(|&stack| {
        // SAFETY: words of this thread's stack: the frames of the calling functions are longer.
        stack > NEW && unsafe { Place { stack, frame }.site() } == site
    });
    top.map_or(site, |stack| allocator.call_sites().site_behind(heap, Place { stack, frame }))
}

/// Allocates from a new claim of the bin's current slab, which usually has free slots. The function
/// is short, because a program that replaces blocks at random calls it every few allocations.
#[inline(never)]
fn malloc_refill<C: Caller>(caller: C, index: BinIndex, site: Site, heap: &Heap) -> Pointer {
    match heap.pop_after_refill(index) {
        Some(address) if probes::wants_allocations() => caller.refilled(address, site, index),
        Some(address) if caller.allocator().watchful => malloc_sampled(caller, address, site),
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_slower(caller, index, site),
    }
}

/// Passes the first block of a new claim to the sampler, and returns the block or its replacement.
#[cold]
#[inline(never)]
fn malloc_sampled<C: Caller>(caller: C, address: usize, site: Site) -> Pointer {
    let scope = SamplingScope::Claim;
    with_exposed_provenance_mut(caller.allocator().requests().sample(
        caller.heap(),
        address,
        16,
        site,
        scope,
    ))
}

/// Reports the first block of a new claim to the probe or the sampler that follows allocations, and
/// returns the block or its replacement.
#[cold]
#[inline(never)]
pub(crate) fn refilled_from<C: Caller>(
    caller: C,
    address: usize,
    site: Site,
    index: BinIndex,
    stack: usize,
    frame: usize,
) -> Pointer {
    let (allocator, heap) = (caller.allocator(), caller.heap());
    let address = allocator.requests().sample(heap, address, 16, site, SamplingScope::Claim);
    if let Some(guard) = heap.enter() {
        heap.set_call(stack, frame);
        allocator.profiler().sample_claim(heap, &guard, index, address, site);
        heap.set_call(0, 0);
    }
    with_exposed_provenance_mut(address)
}

/// Allocates after the bin's current slab had no free slot either.
#[cold]
#[inline(never)]
fn malloc_slower<C: Caller>(caller: C, index: BinIndex, site: Site) -> Pointer {
    if probes::wants_allocations() {
        return caller.slower(index, site);
    }
    slower(caller, index, site)
}

/// Allocates like `malloc_slower`, while a probe or the sampler follows allocations.
pub(crate) fn slower_from<C: Caller>(
    caller: C,
    index: BinIndex,
    site: Site,
    stack: usize,
    frame: usize,
) -> Pointer {
    with_call_place(caller, stack, frame, || slower(caller, index, site))
}

/// Allocates a slot of the class of bin `index` from the sources in `refill.rs`.
#[inline]
fn slower<C: Caller>(caller: C, index: BinIndex, site: Site) -> Pointer {
    // Only the class is used: the empty heap of a thread without a heap has one row of bins.
    let class = index.class().index();
    with_heap(caller, |allocator, heap| {
        if class == NO_SLOTS {
            return allocator.requests().allocate_zero_size(heap, ALIGN, site);
        }
        let slot = allocator.supply().allocate_slow(heap, class, site);
        let address = slot.or_else(|why| {
            let size = SizeClass::new(class).size();
            let block = allocator.supply().allocate_without_slot(heap, size, 1, site, why);
            block.map(|(address, _)| address).ok_or(why)
        });
        let address = address.ok()?;
        Some(allocator.requests().sample(heap, address, 16, site, SamplingScope::Claim))
    })
}

/// Allocates a large block.
#[cold]
#[inline(never)]
fn malloc_large<C: Caller>(caller: C, size: usize, site: Site) -> Pointer {
    if probes::wants_allocations() || caller.allocator().wrappers.are_there() {
        return caller.large(size, site);
    }
    large(caller, size, site)
}

/// Allocates like `malloc_large`, for the call site above a wrapper, and while a probe or the
/// sampler follows allocations.
pub(crate) fn large_from<C: Caller>(
    caller: C,
    size: usize,
    site: Site,
    stack: usize,
    frame: usize,
) -> Pointer {
    with_call_place(caller, stack, frame, || {
        let above = |heap| site_above(caller.allocator(), heap, site, stack, frame);
        large(caller, size, caller.heap_or_start().map_or(site, above))
    })
}

/// Allocates a block with a separate extent.
#[inline]
fn large<C: Caller>(caller: C, size: usize, site: Site) -> Pointer {
    with_heap(caller, |allocator, heap| {
        Some(allocator.supply().allocate_large(heap, size, 1, site)?.0)
    })
}

/// Runs `body` while the heap knows the place of the program's call, so that `body` can record the
/// call's stack.
#[inline]
fn with_call_place<C: Caller>(
    caller: C,
    stack: usize,
    frame: usize,
    body: impl FnOnce() -> Pointer,
) -> Pointer {
    if let Some(heap) = caller.heap_or_start() {
        heap.set_call(stack, frame);
    }
    let block = body();
    caller.heap().set_call(0, 0);
    block
}

/// Allocates `count * size` zero bytes. Returns null and sets `ENOMEM` if there is no memory or the
/// product overflows.
#[inline(always)]
pub fn calloc<C: Caller>(caller: C, count: usize, size: usize, site: Site) -> Pointer {
    let Some(bytes) = count.checked_mul(size) else { return no_memory() };
    let heap = caller.heap();
    if !SECURE
        && let Some(small) = SmallSize::of(bytes)
        && let Some(address) = heap.pop(heap.small_bin(small, site))
    {
        clear(address, bytes);
        return with_exposed_provenance_mut(address);
    }
    with_heap(caller, |allocator, heap| {
        let address = allocator.requests().block_zeroed(heap, bytes, site)?;
        Some(allocator.requests().sample(heap, address, 16, site, SamplingScope::Zeroed))
    })
}

/// Allocates `size` bytes at a multiple of `align`, a power of two. Returns null and sets `ENOMEM`
/// if there is no memory.
///
/// Slots whose size is a multiple of `align` are aligned, and so are those of the class of such a
/// size.
pub fn aligned<C: Caller>(caller: C, align: usize, size: usize, site: Site) -> Pointer {
    let mut scope = SamplingScope::OneBlock;
    if !SECURE && (1..=MEDIUM_MAX).contains(&size) && align <= MEDIUM_MAX {
        let heap = caller.heap();
        let bytes = (size + align - 1) & !(align - 1);
        let index = match SmallSize::of(bytes) {
            Some(small) => Some(heap.small_bin(small, site)),
            None => MediumSize::of(bytes).map(|medium| heap.bin(medium.class(), site)),
        };
        if let Some(index) = index {
            if let Some(address) = heap.pop(index) {
                return with_exposed_provenance_mut(address);
            }
            scope = SamplingScope::Claim;
        }
    }
    with_heap(caller, |allocator, heap| {
        let address = allocator.requests().block(heap, size, align, site)?;
        Some(allocator.requests().sample(heap, address, align, site, scope))
    })
}

/// Runs `body` with the thread's heap, which is created first if the thread has none. Returns null
/// and sets `ENOMEM` if there is no memory.
#[cfg_attr(not(feature = "secure-light"), cold)]
#[cfg_attr(feature = "secure-light", inline(always))]
fn with_heap<C: Caller>(
    caller: C,
    body: impl FnOnce(&Allocator<C::Os>, &Heap) -> Option<usize>,
) -> Pointer {
    match caller.heap_or_start().and_then(|heap| body(caller.allocator(), heap)) {
        Some(address) => with_exposed_provenance_mut(address),
        None => no_memory(),
    }
}

/// Sets `ENOMEM` and returns null.
#[cold]
pub(crate) fn no_memory() -> Pointer {
    process::set_errno(libc::ENOMEM);
    null_mut()
}

impl<O: Os> Requests<'_, O> {
    /// Allocates a block of any size at a multiple of `align`, a power of two. The caller passes it
    /// to the sampler.
    #[inline(always)]
    pub(crate) fn block(self, heap: &Heap, size: usize, align: usize, site: Site) -> Option<usize> {
        if size == 0 {
            return self.allocate_zero_size(heap, align, site);
        }
        let bytes = bytes_with_slack(size);
        let class = if align > 16 {
            aligned_class(size, align).map(SizeClass::index)
        } else {
            SizeClass::of(bytes).map(SizeClass::index)
        };
        let Some(class) = class else {
            let (address, dirty) = self.supply().allocate_large(heap, size, align, site)?;
            if SECURE {
                clear(address, size.min(dirty));
            }
            return Some(address);
        };
        match self.slot(heap, class, size, site) {
            Ok(address) => Some(address),
            Err(why) => self.without_slot(heap, size, align, site, why),
        }
    }

    /// Allocates a block for which there was no slot.
    #[cold]
    #[inline(never)]
    fn without_slot(
        self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: Site,
        why: NoSlot,
    ) -> Option<usize> {
        let block = self.supply().allocate_without_slot(heap, size, align, site, why);
        let (address, dirty) = block?;
        if SECURE {
            clear(address, size.min(dirty));
        }
        Some(address)
    }

    /// Allocates a slot of a class for a request of `size` bytes.
    #[inline(always)]
    fn slot(self, heap: &Heap, class: usize, size: usize, site: Site) -> Result<usize, NoSlot> {
        let index = heap.known_bin(class, site);
        if SECURE {
            return match heap
                .take(index)
                .or_else(|| self.secure_slots().take_after_refill(heap, index))
            {
                Some(taken) => {
                    let slack = taken.slab.slack_for(size);
                    Ok(self.secure_slots().hand_over(heap, taken, slack))
                }
                None => {
                    let address = self.supply().allocate_slow(heap, class, site)?;
                    self.secure_slots().prepare(heap, address, size);
                    Ok(address)
                }
            };
        }
        match heap.pop(index) {
            Some(address) => Ok(address),
            None => self.supply().allocate_slow(heap, class, site),
        }
    }

    /// Allocates a block with every byte zero. Does not write to pages that were never written.
    fn block_zeroed(self, heap: &Heap, size: usize, site: Site) -> Option<usize> {
        if WIPE {
            // Every new block is zero in this build.
            return self.block(heap, size, 1, site);
        }
        if bytes_with_slack(size) > MEDIUM_MAX {
            let (address, dirty) = self.supply().allocate_large(heap, size, 1, site)?;
            clear(address, size.min(dirty));
            return Some(address);
        }
        let address = self.block(heap, size, 1, site)?;
        if size > SMALL_MAX {
            // The slot is from the bin's current slab, or from a slab of a borrowed heap. The slab
            // that contains the slot knows whether it is zero.
            let slab = self.slabs.slab_at(address);
            if slab.is_some_and(|slab| heap.owns(slab) && slab.handed_out_zero(address)) {
                return Some(address);
            }
        }
        clear(address, size);
        Some(address)
    }
}

/// Returns the class of a request of `size` bytes at a multiple of `align`, or `None` if the
/// request is large. In the secure build a slot is not used if its descriptor cannot keep the
/// number of bytes after the block.
pub(crate) fn aligned_class(size: usize, align: usize) -> Option<SizeClass> {
    let class = SizeClass::of_aligned(bytes_with_slack(size), align)?;
    (!SECURE || class.size().saturating_sub(size) < SLACK_MOST).then_some(class)
}

/// Writes zeros to the first `size` bytes of a new block.
fn clear(address: usize, size: usize) {
    let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the new block has at least `size` bytes, and the program does not have it yet.
    unsafe { target.write_bytes(0, size) };
}
