//! Another size for a block: in place, if what is after it allows; else downwards or elsewhere, if
//! the caller does.

use super::Heap;
use crate::bins::list;
use crate::chunk::{BELOW_FREE, LIVE};
use crate::fault::NoMemory;
use crate::shape::{Checks, Shape, Sizes};
use core::alloc::Layout;
use core::ptr::NonNull;

impl<S: Shape> Heap<S> {
    /// The bytes that a block has, which may be more than were asked for.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap.
    #[must_use]
    #[inline]
    pub unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: by 1 it is a live chunk's.
        unsafe { self.live_size(self.chunk_of(block.as_ptr())) - S::WORD }
    }

    /// Makes a block larger without moving it. `false`, and nothing has happened, if there is no
    /// room.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, unless the shape checks pointers.
    #[inline]
    pub unsafe fn grow_in_place(&mut self, block: NonNull<u8>, size: usize) -> bool {
        if !self.believes(block) {
            return false;
        }
        let Some(size) = S::chunk_size(size) else { return false };
        let chunk = self.chunk_of(block.as_ptr());
        // SAFETY: by 1 the chunk is live.
        unsafe { size <= self.live_size(chunk) || self.grow_chunk(chunk, S::rounded(size)) }
    }

    /// Makes a chunk larger, to at least this size.
    ///
    /// # Safety
    /// 1. `chunk` is live, and smaller than that.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn grow_chunk(&mut self, chunk: usize, size: usize) -> bool {
        // SAFETY: by 1, so behind it is a chunk or a fence.
        unsafe {
            let tag = self.memory.get(chunk);
            let old = tag & !S::FLAGS;
            let after = chunk + old;
            let more = size - old;
            let got = if after == self.top {
                if more > self.top_size {
                    return false;
                }
                self.take_top(more);
                self.memory.put(after, 0);
                self.top - after
            } else if self.is_rest(after) {
                if more > self.rest_size {
                    return false;
                }
                let had = self.rest_size;
                self.take_rest(more);
                // No tag is left in the middle of a block, where it would pass for one's.
                self.memory.put(after, 0);
                had - self.rest_size
            } else if self.memory.get(after) & LIVE == 0 {
                if !self.may_be_chunk(after) {
                    self.broken_above(after);
                    return false;
                }
                let whole = self.memory.free_size(after);
                if more > whole || !self.take_above(after, whole) {
                    return false;
                }
                let left = whole - more;
                if left < S::MIN {
                    self.mark_below(after + whole, false);
                    whole
                } else {
                    self.file(after + more, left);
                    more
                }
            } else {
                return false;
            };
            self.memory.put(chunk, tag + got);
            self.memory.open(after, after + got);
            self.count_bytes(old, old + got);
        }
        true
    }

    /// How much is free at the place behind a block, where both ends say it.
    ///
    /// # Safety
    /// 1. `after` is where a live chunk ends.
    unsafe fn free_above(&self, after: usize) -> usize {
        if after == self.top {
            return self.top_size;
        }
        if after == self.rest {
            return self.rest_size;
        }
        // SAFETY: by 1 there is a chunk or a fence; what is not live says its size at both ends.
        unsafe {
            if self.memory.get(after) & LIVE != 0 || !self.may_be_chunk(after) {
                return 0;
            }
            let size = self.memory.free_size(after);
            if self.is_whole(after, size) { size } else { 0 }
        }
    }

    /// Takes the free chunk behind a block out of its list.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + whole)` is that chunk.
    unsafe fn take_above(&mut self, chunk: usize, whole: usize) -> bool {
        // SAFETY: looked at from both ends first, where checks are on.
        unsafe {
            match self.take_listed(chunk, whole) {
                Ok(()) => true,
                Err(_) => {
                    self.broken_above(chunk);
                    false
                }
            }
        }
    }

    /// Makes a block smaller. What it does not need any more is free at once, if it is a chunk or
    /// touches free memory.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, unless the shape checks pointers.
    /// 2. What lies beyond `size` is not used any more.
    #[inline]
    pub unsafe fn shrink_in_place(&mut self, block: NonNull<u8>, size: usize) {
        if !self.believes(block) {
            return;
        }
        let Some(size) = S::chunk_size(size).map(S::rounded) else { return };
        let chunk = self.chunk_of(block.as_ptr());
        // SAFETY: by 1 the chunk is live. What is cut off is not in use (by 2).
        unsafe {
            let tag = self.memory.get(chunk);
            let old = tag & !S::FLAGS;
            if size >= old {
                return;
            }
            let (cut, after) = (old - size, chunk + old);
            // An empty `top` is a fence: what joins it has to be a chunk.
            let joins = self.is_free(after);
            let listed = joins && after != self.top && !self.is_rest(after);
            if listed && !self.may_be_chunk(after) {
                return self.broken_above(after);
            }
            if cut < S::MIN && !joins {
                return;
            }
            self.memory.put(chunk, size | (tag & S::FLAGS));
            self.memory.close(chunk + size, after);
            self.count_bytes(old, size);
            if listed {
                // The chunk above may be merged with a part that is smaller than a chunk.
                let above = self.memory.free_size(after);
                if !self.take_above(after, above) {
                    self.memory.put(chunk, tag);
                    self.memory.open(chunk + size, after);
                    self.count_bytes(size, old);
                    return;
                }
                self.file(chunk + size, cut + above);
            } else {
                self.insert(chunk + size, cut, false);
            }
        }
    }

    /// Resizes a block whose layout is known: where it is, or elsewhere. The bytes up to the
    /// smaller size stay.
    ///
    /// # Errors
    /// There is no memory; the block is as it was.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, unless the shape checks pointers.
    /// 2. `layout` is what it was allocated or last resized as.
    /// 3. If a block is returned, only that is used any more.
    pub unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        let sound = match S::CHECKS {
            Checks::Pointers => self.verify_sized(block, layout).is_ok(),
            _ => self.believes(block),
        };
        if !sound {
            return Err(NoMemory);
        }
        // SAFETY: by 1 to 3; a block has at least the bytes of its layout.
        unsafe { self.resize_from(block, layout.size(), layout.align(), size) }
    }

    /// Resizes a block of which nothing but its address is known, as C's `realloc`. Where it moves,
    /// it is aligned to `align`.
    ///
    /// # Errors
    /// There is no memory; the block is as it was.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap, unless the shape checks pointers.
    /// 2. `align` is a power of two.
    /// 3. If a block is returned, only that is used any more.
    pub unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        align: usize,
        size: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        if !self.believes(block) {
            return Err(NoMemory);
        }
        // SAFETY: by 1 to 3.
        unsafe { self.resize_from(block, self.usable_size(block), align, size) }
    }

    /// # Safety
    /// 1. As `resize`; and `used` is not more than the block has.
    unsafe fn resize_from(
        &mut self,
        block: NonNull<u8>,
        used: usize,
        align: usize,
        size: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        // SAFETY: as the caller says. The new block is another one, and neither is shorter than
        // what is copied.
        unsafe {
            if size <= used {
                if let Some(hole) = self.hole_for(block, align, size) {
                    hole.as_ptr().copy_from_nonoverlapping(self.own(block).as_ptr(), size);
                    self.release(self.chunk_of(block.as_ptr()));
                    return Ok(hole);
                }
                self.shrink_in_place(block, size);
                return Ok(self.own(block));
            }
            if self.grow_in_place(block, size) {
                return Ok(self.own(block));
            }
            let layout = Layout::from_size_align(size, align).map_err(|_| NoMemory)?;
            let Ok(new) = self.allocate_apart(layout) else {
                if !S::THOROUGH {
                    return Err(NoMemory);
                }
                // The block itself may be what there is no room beside. Both sides count together.
                return self.grow_down(block, used, align, size);
            };
            new.as_ptr().copy_from_nonoverlapping(self.own(block).as_ptr(), used);
            self.release(self.chunk_of(block.as_ptr()));
            Ok(new)
        }
    }

    /// A new block, where a block that shrinks to less than half finds a free chunk that is hardly
    /// larger than it needs. Only in a shape that is careful with its memory, or while memory is
    /// short. Moving there leaves one large free chunk behind; shrinking in place leaves a small
    /// block in the middle of one. Where half of all resizings shrink, a hundredth more of the
    /// memory is used so. The caller copies, and frees the old one.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap.
    pub(crate) unsafe fn hole_for(
        &mut self,
        block: NonNull<u8>,
        align: usize,
        size: usize,
    ) -> Option<NonNull<u8>> {
        if !(S::CAREFUL || S::THOROUGH && self.is_short()) || align > S::ALIGN {
            return None;
        }
        let exact = S::chunk_size(size)?;
        // SAFETY: by 1; the hole is live after it has been taken.
        unsafe {
            if exact > self.live_size(self.chunk_of(block.as_ptr())) / 2 {
                return None;
            }
            let hole = self.take_hole(exact);
            if hole == 0 {
                return None;
            }
            self.count_new(self.live_size(hole));
            self.memory.open(hole + S::WORD, hole + self.live_size(hole));
            NonNull::new(self.memory.block(hole))
        }
    }

    /// Makes a block larger by letting it begin earlier, in the free memory below it, and moves its
    /// bytes there; where that is not enough it also takes what is free above. For where an
    /// allocation elsewhere has failed, or memory is worth more than time.
    ///
    /// # Errors
    /// What is free below and above is not enough, or has no place of this alignment. The block is
    /// as it was.
    ///
    /// # Safety
    /// 1. As `resize`, 1 to 3.
    /// 2. `used` bytes of the block are to be kept; it has as many.
    pub unsafe fn grow_down(
        &mut self,
        block: NonNull<u8>,
        used: usize,
        align: usize,
        size: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        if !self.believes(block) {
            return Err(NoMemory);
        }
        let new_size = S::chunk_size(size).ok_or(NoMemory)?;
        let chunk = self.chunk_of(block.as_ptr());
        // SAFETY: by 1 the chunk is live, and its tag has the bit for a free one below. Then the
        // word before the tag is that one's size, unless it is `rest`. The bytes are moved inside
        // of the chunk that both make, before the words behind them are written.
        unsafe {
            let tag = self.memory.get(chunk);
            let old = tag & !S::FLAGS;
            if new_size <= old || tag & BELOW_FREE == 0 {
                return Err(NoMemory);
            }
            let in_rest = chunk == self.rest + self.rest_size;
            let below = if in_rest { self.rest_size } else { self.memory.get(chunk - S::WORD) };
            if !in_rest && !self.is_whole(chunk.wrapping_sub(below), below) {
                self.broken(list::Broken(chunk));
                return Err(NoMemory);
            }
            let start = chunk - below;
            // The gap that alignment leaves stays a chunk below.
            let gap_in = |whole| {
                let gap = self.gap(start, whole, new_size, align.max(S::ALIGN));
                gap.filter(|&gap| gap < below)
            };
            let (gap, old) = match gap_in(below + old) {
                Some(gap) => (gap, old),
                None => {
                    let larger = old + self.free_above(chunk + old);
                    let gap = gap_in(below + larger).ok_or(NoMemory)?;
                    if larger == old || !self.grow_chunk(chunk, larger) {
                        return Err(NoMemory);
                    }
                    (gap, larger)
                }
            };
            if in_rest {
                (self.rest, self.rest_size) = (0, 0);
            } else if !self.take_above(start, below) {
                return Err(NoMemory);
            }
            let new = start + gap;
            let target = self.memory.block(new);
            // Where the old tag is not written over it would pass for a live block's.
            self.memory.put(chunk, 0);
            self.memory.open(new + S::WORD, start + below + old);
            target.copy_from(self.memory.block(chunk), used);
            let whole = below + old - gap;
            let left = whole - new_size;
            self.memory.put(new, whole | LIVE | if gap == 0 { 0 } else { BELOW_FREE });
            if gap != 0 {
                self.file(start, gap);
            }
            self.count_bytes(old, whole);
            let target = NonNull::new(target).ok_or(NoMemory)?;
            if left != 0 {
                self.shrink_in_place(target, size);
            }
            Ok(target)
        }
    }
}
