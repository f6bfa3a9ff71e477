//! malloc, calloc and aligned allocation: the fast path, and how a call goes on from there.
//!
//! ```text
//! malloc -> a claimed slot                                                    37 instructions
//!   malloc_medium -> a claimed slot             malloc_large -> large.rs
//!   malloc_slow   -> a claimed slot of the site's own row, where sites are exact
//!     malloc_refill -> more slots of the bin's slab        a claim begins: observers
//!       malloc_slower -> refill.rs                         memory grows: keepers
//! ```
//!
//! Each step is a last call of the one before it, so that none saves registers for the next. The
//! hardened build has its own first steps (`secure/fast.rs`), and the others in common.

use super::caller::{Caller, Pointer};
use crate::allocator::Allocator;
use crate::bin::{BIN_WORDS, ROW_WORDS};
use crate::os::{Os, probes, process};
use crate::policy::{HARDENED, SLACK_MIN, WIPE};
use crate::site::Place;
use crate::slab::{Class, MEDIUM_MAX, SMALL_MAX, class_of_medium, class_of_small};
use crate::thread::Heap;
use crate::watch::guarded::Stands;
use core::ptr::{null_mut, with_exposed_provenance_mut};

/// Words between the stack pointer and the return address of the program's call in a form of
/// `operator new` that has called malloc: three that it has put there, and its own return address.
/// `toft-preload` checks its count of pushes against it.
pub const NEW_WORDS: usize = 4;

/// Bytes that a slot must have for a request.
#[inline(always)]
pub(crate) fn room(size: usize) -> usize {
    size.saturating_add(SLACK_MIN)
}

/// malloc. Null and `ENOMEM` if there is no memory.
///
/// The usual way: class by one table load, partition by two multiplications, slab and slot by one
/// load each. No atomic read-modify-write, no lock, no search.
#[inline(always)]
pub fn malloc<C: Caller>(caller: C, size: usize, site: usize) -> Pointer {
    let heap = caller.heap();
    if HARDENED {
        return match caller.allocator().malloc_small(heap, size, site) {
            Some(block) => block.cast(),
            None => malloc_hardened(caller, size, site),
        };
    }
    if size > SMALL_MAX {
        return malloc_medium(caller, size, site);
    }
    let index = heap.small_bin(size, site);
    match heap.pop(index) {
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_slow(caller, index, site),
    }
}

/// The hardened build has no slot of this size at hand, or it is not a small one.
#[inline(never)]
fn malloc_hardened<C: Caller>(caller: C, size: usize, site: usize) -> Pointer {
    let (allocator, heap) = (caller.allocator(), caller.heap());
    if let Some(address) = allocator.malloc_slot(heap, size, site) {
        return with_exposed_provenance_mut(address);
    }
    match allocator.malloc_refill(heap, size, site) {
        Some(address) if allocator.watchful => malloc_sampled(caller, address, site),
        Some(address) => with_exposed_provenance_mut(address),
        None => with_heap(caller, |allocator, heap| {
            let address = allocator.block(heap, size, 1, site)?;
            Some(allocator.sample(heap, address, 16, site, Stands::ForItsClaim))
        }),
    }
}

/// The medium tier, apart so that each is straight code.
#[inline(never)]
fn malloc_medium<C: Caller>(caller: C, size: usize, site: usize) -> Pointer {
    if size > MEDIUM_MAX {
        return malloc_large(caller, size, site);
    }
    let heap = caller.heap();
    let index = heap.bin(class_of_medium(size), site);
    match heap.pop(index) {
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_slow(caller, index, site),
    }
}

/// The claim of a bin is used up. Or each site has a separate row: then row 0, where malloc has
/// looked in vain, is empty for ever. Its index is the class's, and every malloc takes this way.
///
/// Has no frame, for that.
#[inline(never)]
fn malloc_slow<C: Caller>(caller: C, index: usize, site: usize) -> Pointer {
    let heap = caller.heap();
    if !heap.is_exact() {
        return malloc_refill(caller, index, site, heap);
    }
    let row = heap.known_row(site);
    if row == 0 {
        return caller.through(index, site);
    }
    match heap.pop(row + index) {
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_refill(caller, row + index, site, heap),
    }
}

/// A site that this thread does not remember, or one of a wrapper: then the caller's return address
/// is needed. It is at `stack`, or, where a form of `operator new` has called, [`NEW_WORDS`] words
/// above.
pub(crate) fn through_from<C: Caller>(
    caller: C,
    index: usize,
    site: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    const NEW: usize = NEW_WORDS * size_of::<usize>();
    let top = [stack, stack.wrapping_add(NEW)].into_iter().find(|&stack| {
        // SAFETY: words of this thread's stack, which is longer than the frames of those who have
        // called us.
        stack > NEW && unsafe { Place { stack, frame }.site() } == site
    });
    let (allocator, heap) = (caller.allocator(), caller.heap());
    let site = match top {
        Some(stack) if allocator.wrappers.are_there() => {
            allocator.site_behind(heap, Place { stack, frame })
        }
        _ => site,
    };
    let row = allocator.row(heap, site);
    match heap.pop(row + index) {
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_refill(caller, row + index, site, heap),
    }
}

/// Usually the current slab has more. Kept short, because a program that replaces blocks at random
/// comes here every few calls.
#[inline(never)]
fn malloc_refill<C: Caller>(caller: C, index: usize, site: usize, heap: &Heap) -> Pointer {
    match heap.pop_after_refill(index) {
        Some(address) if probes::wants_allocations() => caller.refilled(address, site, index),
        Some(address) if caller.allocator().watchful => malloc_sampled(caller, address, site),
        Some(address) => with_exposed_provenance_mut(address),
        None => malloc_slower(caller, index, site),
    }
}

/// A claim was begun, and blocks are sampled.
#[cold]
#[inline(never)]
fn malloc_sampled<C: Caller>(caller: C, address: usize, site: usize) -> Pointer {
    let stands = Stands::ForItsClaim;
    with_exposed_provenance_mut(caller.allocator().sample(caller.heap(), address, 16, site, stands))
}

/// A claim was begun, and a probe or the sampler follows allocations.
#[cold]
#[inline(never)]
pub(crate) fn refilled_from<C: Caller>(
    caller: C,
    address: usize,
    site: usize,
    index: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    let (allocator, heap) = (caller.allocator(), caller.heap());
    let address = allocator.sample(heap, address, 16, site, Stands::ForItsClaim);
    if let Some(seat) = heap.sit() {
        heap.set_call(stack, frame);
        allocator.tell_claim(heap, &seat, index, address, site);
        heap.set_call(0, 0);
    }
    with_exposed_provenance_mut(address)
}

/// A thread without a heap has one row of bins: its index tells the class, and no more.
#[cold]
#[inline(never)]
fn malloc_slower<C: Caller>(caller: C, index: usize, site: usize) -> Pointer {
    if probes::wants_allocations() {
        return caller.slower(index, site);
    }
    slower(caller, index, site)
}

/// As `malloc_slower`, where a probe or the sampler follows allocations.
pub(crate) fn slower_from<C: Caller>(
    caller: C,
    index: usize,
    site: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    from_call(caller, stack, frame, || slower(caller, index, site))
}

#[inline]
fn slower<C: Caller>(caller: C, index: usize, site: usize) -> Pointer {
    let class = index % ROW_WORDS / BIN_WORDS;
    with_heap(caller, |allocator, heap| {
        let address = allocator.allocate_slow(heap, class, site)?;
        Some(allocator.sample(heap, address, 16, site, Stands::ForItsClaim))
    })
}

#[cold]
#[inline(never)]
fn malloc_large<C: Caller>(caller: C, size: usize, site: usize) -> Pointer {
    if probes::wants_allocations() {
        return caller.large(size, site);
    }
    large(caller, size, site)
}

/// As `malloc_large`, where a probe or the sampler follows allocations.
pub(crate) fn large_from<C: Caller>(
    caller: C,
    size: usize,
    site: usize,
    stack: usize,
    frame: usize,
) -> Pointer {
    from_call(caller, stack, frame, || large(caller, size, site))
}

#[inline]
fn large<C: Caller>(caller: C, size: usize, site: usize) -> Pointer {
    with_heap(caller, |allocator, heap| Some(allocator.allocate_large(heap, size, 1, site)?.0))
}

/// Runs with the heap knowing the place of the program's call, for keeping its stack.
#[inline]
fn from_call<C: Caller>(
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

/// calloc. Null and `ENOMEM` if there is no memory, or if the product of both numbers is too large.
#[inline(always)]
pub fn calloc<C: Caller>(caller: C, count: usize, size: usize, site: usize) -> Pointer {
    let Some(bytes) = count.checked_mul(size) else { return no_memory() };
    let heap = caller.heap();
    if !HARDENED
        && bytes <= SMALL_MAX
        && let Some(address) = heap.pop(heap.small_bin(bytes, site))
    {
        clear(address, bytes);
        return with_exposed_provenance_mut(address);
    }
    with_heap(caller, |allocator, heap| {
        let address = allocator.block_zeroed(heap, bytes, site)?;
        Some(allocator.sample(heap, address, 16, site, Stands::Zeroed))
    })
}

/// Aligned allocation; `align` is a power of two. Null and `ENOMEM` if there is no memory.
pub fn aligned<C: Caller>(caller: C, align: usize, size: usize, site: usize) -> Pointer {
    with_heap(caller, |allocator, heap| {
        let address = allocator.block(heap, size, align, site)?;
        Some(allocator.sample(heap, address, align, site, Stands::Alone))
    })
}

/// Runs `body` with the thread's heap, or with a borrowed one where the thread has none any more.
#[cfg_attr(not(feature = "hardened"), cold)]
#[cfg_attr(feature = "hardened", inline(always))]
fn with_heap<C: Caller>(
    caller: C,
    body: impl FnOnce(&Allocator<C::Os>, &Heap) -> Option<usize>,
) -> Pointer {
    match caller.heap_or_start().and_then(|heap| body(caller.allocator(), heap)) {
        Some(address) => with_exposed_provenance_mut(address),
        None => no_memory(),
    }
}

#[cold]
pub(crate) fn no_memory() -> Pointer {
    process::set_errno(libc::ENOMEM);
    null_mut()
}

impl<O: Os> Allocator<O> {
    /// A block of any size at a multiple of `align`, a power of two. Nothing observes it yet.
    #[inline(always)]
    pub(crate) fn block(
        &self,
        heap: &Heap,
        size: usize,
        align: usize,
        site: usize,
    ) -> Option<usize> {
        if HARDENED && size == 0 {
            return self.allocate_nothing(heap, align, site);
        }
        let bytes = room(size);
        let class = if align > 16 {
            Class::of_aligned(bytes, align).map(Class::index)
        } else if bytes <= SMALL_MAX {
            Some(class_of_small(bytes))
        } else {
            (bytes <= MEDIUM_MAX).then(|| class_of_medium(bytes))
        };
        let Some(class) = class else {
            let (address, dirty) = self.allocate_large(heap, size, align, site)?;
            if WIPE {
                clear(address, size.min(dirty));
            }
            return Some(address);
        };
        self.slot(heap, class, size, site)
    }

    /// A slot of a class, for `size` bytes.
    #[inline(always)]
    fn slot(&self, heap: &Heap, class: usize, size: usize, site: usize) -> Option<usize> {
        let index = heap.known_bin(class, site);
        if HARDENED {
            return match heap.take(index).or_else(|| self.take_after_refill(heap, index)) {
                Some(taken) => {
                    let slack = taken.slab.slack_for(size);
                    Some(self.hand_over(heap, taken, slack))
                }
                None => {
                    let address = self.allocate_slow(heap, class, site)?;
                    self.prepare(heap, address, size);
                    Some(address)
                }
            };
        }
        heap.pop(index).or_else(|| self.allocate_slow(heap, class, site))
    }

    /// A block with every byte zero. Does not write pages that were never written.
    fn block_zeroed(&self, heap: &Heap, size: usize, site: usize) -> Option<usize> {
        if WIPE {
            // All new memory is zero.
            return self.block(heap, size, 1, site);
        }
        if size > MEDIUM_MAX {
            let (address, dirty) = self.allocate_large(heap, size, 1, site)?;
            clear(address, size.min(dirty));
            return Some(address);
        }
        let address = self.block(heap, size, 1, site)?;
        if size > SMALL_MAX {
            // The slot came from the current slab of the bin, or, on a slow path with a borrowed
            // heap, from another: ask the slab that contains it.
            let slab = self.medium.slab_at(address);
            if slab.is_some_and(|slab| heap.owns(slab) && slab.handed_out_zero(address)) {
                return Some(address);
            }
        }
        clear(address, size);
        Some(address)
    }
}

fn clear(address: usize, size: usize) {
    let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the block was allocated a moment ago with at least `size` bytes, and not handed out
    // yet.
    unsafe { target.write_bytes(0, size) };
}
