//! Another size for a block: in place, if what is after it allows; else downwards or elsewhere, if
//! the caller does.

use super::Heap;
use crate::bins::list;
use crate::chunk::{BELOW_FREE, LIVE};
use crate::fault::NoMemory;
use crate::shape::{Checks, Shape, Sizes};
use crate::table::Tables;
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
        unsafe { size <= self.live_size(chunk) || self.fit(chunk, S::rounded(size)) }
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
        // SAFETY: by 1 the chunk is live; by 2 what is cut off is not in use.
        unsafe {
            if size < self.live_size(chunk) {
                self.fit(chunk, size);
            }
        }
    }

    /// Gives a live chunk this size where it is: takes what it needs of the free memory after it,
    /// or frees what it does not need. What would be smaller than a chunk stays with it. `false`,
    /// and nothing has happened, if there is no room.
    ///
    /// # Safety
    /// 1. `chunk` is live, and what lies beyond `size` is not used any more.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) unsafe fn fit(&mut self, chunk: usize, size: usize) -> bool {
        // SAFETY: by 1, so after it is a chunk or a fence.
        unsafe {
            let tag = self.memory.get(chunk);
            let old = tag & !S::FLAGS;
            let after = chunk + old;
            let (is_top, is_rest) = (after == self.top, self.is_rest(after));
            let is_listed = !is_top && !is_rest && self.memory.get(after) & LIVE == 0;
            let free = if is_top {
                self.top_size
            } else if is_rest {
                self.rest_size
            } else if !is_listed {
                0
            } else if self.may_be_chunk(after) {
                self.memory.free_size(after)
            } else {
                self.broken_above(after);
                return false;
            };
            if size > old && size - old > free {
                return false;
            }
            // What is no size wraps, and is found before it is used.
            let left = free.wrapping_add(old).wrapping_sub(size);
            let (new, left) = if left < S::MIN { (size + left, 0) } else { (size, left) };
            if new == old {
                return true;
            }
            let end = chunk + new;
            if is_top || is_rest {
                // No tag is left in the middle, where it would pass for a block's.
                self.memory.put(if new > old { after } else { end }, 0);
            }
            if is_top {
                self.clean = self.clean.max(after);
                if S::Bins::PARKS != 0 {
                    self.reached = self.reached.max(after);
                }
                (self.top, self.top_size) = (end, left);
                if S::Bins::PARKS != 0 && left < self.ebb {
                    self.ebbs();
                }
            } else if is_rest {
                (self.rest, self.rest_size) = if left == 0 { (0, 0) } else { (end, left) };
            } else if !is_listed {
                self.mark_below(after, true);
            } else if self.take_listed(after, free).is_err() {
                self.broken_above(after);
                return false;
            }
            if left == 0 {
                if !is_top {
                    self.mark_below(end, false);
                }
            } else if !(is_top || is_rest) {
                self.file(end, left);
            }
            self.memory.put(chunk, new | (tag & S::FLAGS));
            if new > old {
                self.memory.open(after, end);
            } else {
                self.memory.close(end, after);
            }
            self.count_bytes(old, new);
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
        // SAFETY: by 1 to 3.
        unsafe { self.reallocate_or(block, layout, size, |_, _| Err(NoMemory)) }
    }

    /// As `reallocate`; where the heap has no room elsewhere either, `more` is asked for a block.
    ///
    /// # Errors
    /// As `reallocate`, and `more` has none.
    ///
    /// # Safety
    /// 1. As `reallocate`, 1 to 3.
    pub(crate) unsafe fn reallocate_or(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
        more: impl FnOnce(&mut Self, Layout) -> Result<NonNull<u8>, NoMemory>,
    ) -> Result<NonNull<u8>, NoMemory> {
        let sound = match S::CHECKS {
            Checks::Pointers => self.verify_sized(block, layout).is_ok(),
            _ => self.believes(block),
        };
        if !sound {
            return Err(NoMemory);
        }
        // SAFETY: by 1; a block has at least the bytes of its layout.
        unsafe { self.resize_or(block, layout.size(), layout.align(), size, more) }
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
        unsafe { self.resize_or(block, self.usable_size(block), align, size, |_, _| Err(NoMemory)) }
    }

    /// As `resize`; where the heap has no room elsewhere either, `more` is asked for a block.
    ///
    /// # Safety
    /// 1. As `resize`; and `used` is not more than the block has.
    unsafe fn resize_or(
        &mut self,
        block: NonNull<u8>,
        used: usize,
        align: usize,
        size: usize,
        more: impl FnOnce(&mut Self, Layout) -> Result<NonNull<u8>, NoMemory>,
    ) -> Result<NonNull<u8>, NoMemory> {
        if size > S::LIMIT - align {
            return Err(NoMemory);
        }
        // SAFETY: `align` is a power of two (`resize`, 2), and `size` is small enough beside it.
        let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
        let exact = S::chunk_of(layout).ok_or(NoMemory)?;
        let chunk = self.chunk_of(block.as_ptr());
        // SAFETY: as the caller says. The new block is another one, and neither is shorter than
        // what is copied.
        unsafe {
            let hole = if size <= used { self.hole_for(block, align, size) } else { None };
            let (new, kept) = if let Some(hole) = hole {
                (hole, size)
            } else {
                // What is rounded may not fit where the size itself does, and memory that is broken
                // is not given up.
                let may_fail = S::ROUNDED != 0 || S::CHECKS >= Checks::Links;
                if self.fit(chunk, S::rounded(exact)) || may_fail && exact <= self.live_size(chunk)
                {
                    return Ok(self.own(block));
                }
                let new = match self.allocate_apart(layout) {
                    Ok(new) => new,
                    Err(NoMemory) => {
                        // The block itself may be what there is no room beside. Both sides count
                        // together.
                        if S::THOROUGH {
                            if let Ok(new) = self.grow_down(block, used, align, size) {
                                return Ok(new);
                            }
                        }
                        more(self, layout)?
                    }
                };
                (new, used)
            };
            new.as_ptr().copy_from_nonoverlapping(self.own(block).as_ptr(), kept);
            self.release(chunk);
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
        if !(S::CAREFUL || S::THOROUGH && self.unparked != 0) || align > S::ALIGN {
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
                    if larger == old || !self.fit(chunk, larger) {
                        return Err(NoMemory);
                    }
                    (gap, larger)
                }
            };
            if in_rest {
                (self.rest, self.rest_size) = (0, 0);
            } else if self.take_listed(start, below).is_err() {
                self.broken_above(start);
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
            if left != 0 {
                self.fit(new, new_size);
            }
            NonNull::new(target).ok_or(NoMemory)
        }
    }
}
