//! Freeing: a chunk is merged with what is free on either side, and goes straight to where it is
//! found again: `top` or `rest` if it touches that, else the bin of its size. There is no list of
//! chunks that have yet to be sorted.

use super::Heap;
use crate::bins::list;
use crate::chunk::{BELOW_FREE, LIVE, PARKED};
use crate::fault::Fault;
use crate::shape::{Checks, Shape, Sizes};
use crate::space::Space;
use crate::table::Tables;
use core::alloc::Layout;
use core::ptr::NonNull;

impl<S: Shape> Heap<S> {
    /// Frees a block of which nothing but its address is known. Returns how large the free chunk is
    /// that it is a part of now. In a shape that checks pointers a fault has no other effect than
    /// that it is noted, and 0 is returned.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, unless the shape checks pointers.
    /// 2. The caller no longer uses the block.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>) -> usize {
        if S::CHECKS >= Checks::Pointers {
            // SAFETY: by 2.
            return unsafe { self.try_deallocate(block) }.unwrap_or(0);
        }
        if !self.believes(block) {
            return 0;
        }
        // SAFETY: by 1 it is the place of a live chunk.
        unsafe { self.release(self.chunk_of(block.as_ptr())) }
    }

    /// Frees a block of a layout. In a shape that checks pointers a block that is smaller or less
    /// aligned than that is a fault.
    ///
    /// # Safety
    /// 1. As `deallocate`, 1 and 2.
    /// 2. `layout` is what it was allocated or last resized as, unless the shape checks pointers.
    #[inline]
    pub unsafe fn deallocate_sized(&mut self, block: NonNull<u8>, layout: Layout) -> usize {
        if S::CHECKS >= Checks::Pointers && self.verify_sized(block, layout).is_err() {
            return 0;
        }
        // SAFETY: by 1.
        unsafe { self.deallocate(block) }
    }

    /// As `deallocate`, if it is a block: checks everything that can be seen from there, in any
    /// shape.
    ///
    /// # Errors
    /// What is wrong; nothing has been freed.
    ///
    /// # Safety
    /// 1. The caller no longer uses the block, if it is one.
    pub unsafe fn try_deallocate(&mut self, block: NonNull<u8>) -> Result<usize, Fault> {
        self.verify(block)?;
        // SAFETY: it looks like a live block.
        Ok(unsafe { self.release(self.chunk_of(block.as_ptr())) })
    }

    /// Makes a live chunk free; returns how large what it is part of is.
    ///
    /// # Safety
    /// 1. `chunk` is live, and its block is not used any more.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) unsafe fn release(&mut self, chunk: usize) -> usize {
        // SAFETY: a live chunk begins with its tag. Behind it is a chunk or a fence.
        unsafe {
            let tag = self.memory.get(chunk);
            let size = tag & !S::FLAGS;
            self.memory.close(chunk + S::WORD, chunk + size);
            if S::Bins::PARKS == 0 {
                return self.free(chunk, tag);
            }
            if Self::parks(size) {
                if S::CHECKS >= Checks::Links && tag & PARKED != 0 {
                    return self.fault_of_parked(chunk);
                }
                if self.park(chunk, tag) {
                    self.count_gone(size);
                    return self.settle_if_low(size);
                }
            }
            self.free_not_parked(chunk, size)
        }
    }

    /// As `free`, out of line: what parks a chunk needs no room on the stack.
    ///
    /// # Safety
    /// 1. As `release`, 1.
    #[inline(never)]
    unsafe fn free_not_parked(&mut self, chunk: usize, size: usize) -> usize {
        if Self::parks(size) {
            self.passed_by();
        }
        // SAFETY: by 1. The chunk below may be free by now, so the tag is read again.
        unsafe { self.free(chunk, self.memory.get(chunk)) }
    }

    /// Makes a live chunk free at once.
    ///
    /// # Safety
    /// 1. As `release`, 1, and this is its tag.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn free(&mut self, chunk: usize, tag: usize) -> usize {
        // SAFETY: by 1.
        unsafe {
            let size = tag & !S::FLAGS;
            self.count_gone(size);
            let free = self.insert(chunk, size, tag & BELOW_FREE != 0);
            self.settle_if_low(free)
        }
    }

    #[cold]
    #[inline(never)]
    fn fault_of_parked(&mut self, chunk: usize) -> usize {
        self.fault(Fault::NotLive(self.memory.space.address(chunk + S::WORD)));
        0
    }

    /// Makes memory free: merges it with its neighbours, keeps the result, and returns its size.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is a chunk's place and size, in a span, not in use, and in no
    ///    list.
    /// 2. `below_free` is true if the chunk below is free; then the word before this is its size
    ///    unless it is `rest`.
    /// 3. What is after it does not say that this is free.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) unsafe fn insert(&mut self, chunk: usize, size: usize, below_free: bool) -> usize {
        let after = chunk + size;
        let (mut start, freed, mut size) = (chunk, size, size);
        let mut in_rest = false;
        // SAFETY: 1. and 2. say which words there are. Neighbours that are free are taken out of
        // their lists before they are counted in.
        unsafe {
            if below_free {
                if S::RESTS && chunk == self.rest + self.rest_size {
                    in_rest = true;
                    start = self.rest;
                    size += self.rest_size;
                } else {
                    let below = self.memory.get(chunk - S::WORD);
                    if self.unlink_neighbour(chunk.wrapping_sub(below), below, chunk) {
                        start = chunk - below;
                        size += below;
                    }
                }
                // The old tag is in the middle now, and would pass for a live block's.
                self.memory.put(chunk, 0);
            }
            if after == self.top {
                self.join_top(start, size, in_rest);
                return self.top_size;
            }
            if self.is_rest(after) {
                self.memory.put(chunk, 0);
                size += self.rest_size;
                in_rest = true;
            } else {
                let tag = self.memory.get(after);
                if tag & LIVE != 0 {
                    self.memory.put(after, tag | BELOW_FREE);
                } else if !self.may_be_chunk(after) {
                    self.broken_above(after);
                    self.mark_below(after, true);
                } else {
                    let above = self.memory.free_size(after);
                    if self.unlink_neighbour(after, above, after) {
                        size += above;
                    } else {
                        self.mark_below(after, true);
                    }
                }
            }
            if !in_rest && S::RESTS && S::RUNS && size != freed {
                // What has grown before, and now again, is a run. The rest makes room for it.
                in_rest = self.rest_size == 0 || self.grown.wrapping_sub(start) < size;
                self.grown = start;
                if in_rest && self.rest_size != 0 {
                    self.file(self.rest, self.rest_size);
                }
            }
            if in_rest {
                self.memory.put(start, 0);
                (self.rest, self.rest_size) = (start, size);
            } else {
                self.file(start, size);
            }
        }
        size
    }

    /// Takes the free chunk beside `seen_from` out of its list. If it does not belong there it
    /// becomes a live one without a user, and this returns `false`.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + size)` is a free chunk in a list, or, where checks are on, what the
    ///    words there say of one.
    #[inline(always)]
    unsafe fn unlink_neighbour(&mut self, chunk: usize, size: usize, seen_from: usize) -> bool {
        // SAFETY: where checks are on, the sizes at both ends are compared before the links, and
        // the links are compared before they are changed; `is_whole` says that these words may be
        // read.
        unsafe {
            // The end of a chunk above is read too: a larger size there would give away what is
            // after it.
            if S::CHECKS >= Checks::Links && !self.is_whole(chunk, size) {
                // The hook is called last: it may end the program.
                self.lose(chunk, seen_from);
                self.broken(list::Broken(seen_from));
                return false;
            }
            match list::unlink::<S>(&mut self.bins, &self.memory, chunk, size) {
                Ok(()) => true,
                Err(broken) => {
                    self.lose(chunk, seen_from);
                    self.broken(broken);
                    false
                }
            }
        }
    }

    /// Whether what does not say that it is live may be a free chunk, so that three words may be
    /// read there. A fence that was written over is none; behind the first span's there may be
    /// nothing.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn may_be_chunk(&self, after: usize) -> bool {
        S::CHECKS < Checks::Links || after != self.spans.fence && self.memory.may_hold(after)
    }

    /// What is done about what should be a fence: it is one again.
    ///
    /// # Safety
    /// 1. `after` is where a chunk ends.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn broken_above(&mut self, after: usize) {
        if self.bounds().any(|span| span.fence == after) {
            // SAFETY: the word of a fence.
            unsafe { self.memory.put(after, LIVE) };
        }
        self.broken(list::Broken(after));
    }

    /// Whether both ends of a free chunk say this size.
    ///
    /// # Safety
    /// 1. One of the two words is in a span.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) unsafe fn is_whole(&self, chunk: usize, size: usize) -> bool {
        size % S::ALIGN == 0
            && size >= S::MIN
            && self.memory.may_hold(chunk)
            && self.memory.may_reach(chunk, size)
            // SAFETY: the chunk and its end are between the lowest and the highest of the spans.
            && unsafe {
                self.memory.free_size(chunk) == size
                    && self.memory.get(chunk + size - S::WORD) == size
            }
    }

    /// What is done about a neighbour that cannot be merged: nothing says any more that it is free.
    ///
    /// # Safety
    /// 1. `seen_from` is the place of the chunk above it, or its own.
    #[cold]
    #[inline(never)]
    unsafe fn lose(&mut self, chunk: usize, seen_from: usize) {
        if chunk == seen_from && self.memory.may_hold(chunk) {
            // SAFETY: the place of a chunk, of which word 0 is no part of a block.
            unsafe {
                let size = self.memory.free_size(chunk);
                let size = if size % S::ALIGN == 0 && size >= S::MIN { size } else { S::MIN };
                let is_fence = self.bounds().any(|span| span.fence == chunk);
                self.memory.put(chunk, if is_fence { LIVE } else { size | LIVE });
            }
        }
    }

    /// Lets `top` begin earlier.
    ///
    /// # Safety
    /// 1. `[start, start + size)` is free, in no list, and reaches up to `top`.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn join_top(&mut self, start: usize, size: usize, in_rest: bool) {
        if in_rest {
            (self.rest, self.rest_size) = (0, 0);
        }
        // Up to here the memory has been used.
        self.clean = self.clean.max(self.top);
        if S::Bins::PARKS != 0 {
            self.reached = self.reached.max(self.top);
        }
        self.top = start;
        self.top_size += size;
        // SAFETY: the memory is not in use. A tag here would pass for a live block's.
        unsafe { self.memory.put(start, 0) };
    }
}
