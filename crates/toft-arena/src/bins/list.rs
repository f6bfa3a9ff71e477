//! The chunks of a bin: a list that is linked through themselves, last in first out.
//!
//! The first chunk's `previous` is 0, and the last one's `next`. Lists end in 0 and not in the
//! table, so a heap may be moved, and a bin of one chunk, which most are, touches no other chunk.

use super::index;
use crate::chunk::Memory;
use crate::shape::{Checks, Shape};
use crate::table::Tables;

/// A link that does not belong to its list; the chunk that has it.
pub(crate) struct Broken(pub(crate) usize);

/// Puts a free chunk into a bin, where it is the next that is taken, and writes all of its words.
///
/// # Safety
/// 1. `[chunk, chunk + size)` is in a span, is a chunk's place and size, and is not in use: by no
///    list, no register, no live block.
/// 2. `bin` is that of its size.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) unsafe fn push<S: Shape>(
    bins: &mut S::Bins,
    memory: &Memory<S>,
    bin: usize,
    chunk: usize,
    size: usize,
) -> Result<(), Broken> {
    // SAFETY: by 1.
    unsafe { memory.put_free_size(chunk, size) };
    let first = bins.first(bin);
    if S::Bins::BOUNDS != 0 && (first == 0 || bins.bound(bin) < size) {
        bins.set_bound(bin, size);
    }
    // SAFETY: the chunk is in a span and has three words. `first` is a free chunk, or, where checks
    // are on, some place where three words may be read.
    unsafe {
        memory.put(chunk, first);
        memory.put_previous(chunk, 0);
        bins.set_first(bin, chunk);
        if first != 0 {
            if S::CHECKS >= Checks::Links && memory.previous(first) != 0 {
                // Go on without it: what was in the list is not found again.
                memory.put(chunk, 0);
                return Err(Broken(first));
            }
            memory.put_previous(first, chunk);
        }
    }
    Ok(())
}

/// Takes the first chunk out of a bin that has one; returns it and its size, which belongs to the
/// bin.
///
/// # Safety
/// 1. `bin` has a chunk.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) unsafe fn pop<S: Shape>(
    bins: &mut S::Bins,
    memory: &Memory<S>,
    bin: usize,
) -> Result<(usize, usize), Broken> {
    // SAFETY: by 1.
    unsafe {
        pop_if::<S>(bins, memory, bin, |size| {
            size % S::ALIGN == 0 && index::of_free::<S>(size) == bin && memory.may_be(size)
        })
    }
}

/// As `pop`, for a bin of which all chunks have this size.
///
/// # Safety
/// 1. `bin` has a chunk, and is that of `size`, which is below [`EXACT`](Shape::EXACT).
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) unsafe fn pop_exact<S: Shape>(
    bins: &mut S::Bins,
    memory: &Memory<S>,
    bin: usize,
    size: usize,
) -> Result<usize, Broken> {
    // SAFETY: by 1.
    unsafe { pop_if::<S>(bins, memory, bin, |own| own == size).map(|(chunk, _)| chunk) }
}

/// # Safety
/// 1. `bin` has a chunk.
/// 2. `belongs` returns true if the bin has chunks of a size.
#[cfg_attr(not(feature = "small"), inline(always))]
unsafe fn pop_if<S: Shape>(
    bins: &mut S::Bins,
    memory: &Memory<S>,
    bin: usize,
    belongs: impl FnOnce(usize) -> bool,
) -> Result<(usize, usize), Broken> {
    let chunk = bins.first(bin);
    // SAFETY: the first of a list is a free chunk of a span: only `push` and this set it, and this
    // checks a link before it follows it, where checks are on.
    unsafe {
        let next = memory.get(chunk);
        let size = memory.free_size(chunk);
        if S::CHECKS >= Checks::Links && (memory.previous(chunk) != 0 || !belongs(size)) {
            bins.clear(bin);
            return Err(Broken(chunk));
        }
        if next == 0 {
            bins.clear(bin);
        } else {
            if S::CHECKS >= Checks::Links && !points_back::<S>(memory, next, chunk) {
                bins.clear(bin);
                return Err(Broken(chunk));
            }
            memory.put_previous(next, 0);
            bins.replace_first(bin, next);
        }
        Ok((chunk, size))
    }
}

/// Takes a chunk out of the bin of its size.
///
/// # Safety
/// 1. `chunk` is free, of this size, and in a list; or, where checks are on, it is a place where
///    three words may be read.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) unsafe fn unlink<S: Shape>(
    bins: &mut S::Bins,
    memory: &Memory<S>,
    chunk: usize,
    size: usize,
) -> Result<(), Broken> {
    // SAFETY: three words may be read here, and a link is looked at before it is followed.
    unsafe {
        let (next, previous) = (memory.get(chunk), memory.previous(chunk));
        if S::CHECKS >= Checks::Links && next != 0 && !points_back::<S>(memory, next, chunk) {
            return Err(Broken(chunk));
        }
        if previous != 0 {
            if S::CHECKS >= Checks::Links && !points_on::<S>(memory, previous, chunk) {
                return Err(Broken(chunk));
            }
            memory.put(previous, next);
        } else {
            let bin = index::of_free::<S>(size);
            if S::CHECKS >= Checks::Links && bins.first(bin) != chunk {
                return Err(Broken(chunk));
            }
            if next == 0 {
                bins.clear(bin);
                return Ok(());
            }
            bins.replace_first(bin, next);
        }
        if next != 0 {
            memory.put_previous(next, previous);
        }
    }
    Ok(())
}

/// The first chunk of a bin, to look through its list; 0 if it has none.
///
/// # Safety
/// 1. The bins are those of this memory.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) unsafe fn first<S: Shape>(
    bins: &S::Bins,
    memory: &Memory<S>,
    bin: usize,
) -> Result<usize, Broken> {
    let chunk = bins.first(bin);
    // SAFETY: the first of a list is a free chunk.
    let sound = S::CHECKS < Checks::Links || chunk == 0 || unsafe { memory.previous(chunk) } == 0;
    if sound { Ok(chunk) } else { Err(Broken(chunk)) }
}

/// The chunk behind one of a list, or 0. Each points back to the one before, and the first to none,
/// so a list that is looked through so has no circle, where checks are on.
///
/// # Safety
/// 1. `chunk` came from `first`, or from this.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) unsafe fn next<S: Shape>(memory: &Memory<S>, chunk: usize) -> Result<usize, Broken> {
    // SAFETY: a free chunk, or a place of three words that points to where this came from.
    unsafe {
        let next = memory.get(chunk);
        if S::CHECKS >= Checks::Links && next != 0 && !points_back::<S>(memory, next, chunk) {
            return Err(Broken(chunk));
        }
        Ok(next)
    }
}

/// Whether `unlink` would take this chunk out.
///
/// # Safety
/// 1. As `unlink`.
pub(crate) unsafe fn is_linked<S: Shape>(
    bins: &S::Bins,
    memory: &Memory<S>,
    chunk: usize,
    size: usize,
) -> bool {
    // SAFETY: as in `unlink`.
    unsafe {
        let (next, previous) = (memory.get(chunk), memory.previous(chunk));
        (next == 0 || points_back::<S>(memory, next, chunk))
            && match previous {
                0 => bins.first(index::of_free::<S>(size)) == chunk,
                _ => points_on::<S>(memory, previous, chunk),
            }
    }
}

/// # Safety
/// 1. Where checks are off, `next` is a free chunk.
#[cfg_attr(not(feature = "small"), inline(always))]
unsafe fn points_back<S: Shape>(memory: &Memory<S>, next: usize, chunk: usize) -> bool {
    // SAFETY: `may_hold` says that this lies between the lowest and the highest of the spans; where
    // it lies between two of them, reading it may fault, which is no worse than following the link.
    memory.may_hold(next) && unsafe { memory.previous(next) } == chunk
}

/// # Safety
/// 1. Where checks are off, `previous` is a free chunk.
#[cfg_attr(not(feature = "small"), inline(always))]
unsafe fn points_on<S: Shape>(memory: &Memory<S>, previous: usize, chunk: usize) -> bool {
    // SAFETY: as in `points_back`.
    memory.may_hold(previous) && unsafe { memory.get(previous) } == chunk
}
