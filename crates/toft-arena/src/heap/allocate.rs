//! A block for a request.
//!
//! 1. The bin of exactly this size, if it has a chunk: nothing is split.
//! 2. `rest`, if it is large enough and no bin has a better fit: its front, and no list is touched.
//! 3. The lowest bin of which every chunk is large enough, by two bit searches: its first chunk is
//!    split, and what is left becomes `rest`.
//! 4. `top`: its front. Where that would reach into memory that no block has had, the smallest
//!    parked chunk that is larger comes first. If there is none, what is parked is freed, and all
//!    is tried again. So blocks reach hardly farther than without parking.
//! 5. The one bin that 3 had to pass over, because some of its chunks are too small: the first that
//!    is not. After this there is no memory, for no chunk is large enough.

use super::Heap;
use crate::bins::{index, list, list::Broken};
use crate::chunk::{BELOW_FREE, LIVE};
use crate::fault::NoMemory;
use crate::shape::{Checks, Shape, Sizes};
use crate::table::Tables;
use core::alloc::Layout;
use core::ptr::NonNull;

/// How many chunks of its bin a request checks.
const CLOSE: usize = 8;

impl<S: Shape> Heap<S> {
    /// A block of at least `layout.size()` bytes at a multiple of `layout.align()`. A layout of
    /// size zero gets a separate block too, and the caller frees it.
    ///
    /// # Errors
    /// No free chunk is large enough.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        let chunk = self.allocate_chunk(layout);
        // The block of chunk 0 would not be null, so this is asked here.
        if chunk == 0 {
            return Err(NoMemory);
        }
        NonNull::new(self.memory.block(chunk)).ok_or(NoMemory)
    }

    /// As `allocate`, out of line.
    #[cfg_attr(not(feature = "small"), inline(never))]
    pub(crate) fn allocate_apart(&mut self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        self.allocate(layout)
    }

    /// As `allocate`, filled with zeros. Memory that was zero when it was claimed, and has not been
    /// used since, is not filled again.
    ///
    /// # Errors
    /// No free chunk is large enough.
    pub fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        let top = self.top;
        let block = self.allocate_apart(layout)?;
        // SAFETY: the block is new, and has that many bytes.
        unsafe { self.clear(block, layout.size(), top) };
        Ok(block)
    }

    /// Fills a new block with zeros, if it is not.
    ///
    /// # Safety
    /// 1. `block` is the last that was allocated, has `size` bytes, and `top` was this before.
    pub(crate) unsafe fn clear(&mut self, block: NonNull<u8>, size: usize, top: usize) {
        let chunk = self.chunk_of(block.as_ptr());
        // SAFETY: by 1 the chunk is live.
        let end = chunk + unsafe { self.live_size(chunk) };
        let mut dirty = size;
        // No free chunk touches `top`, so the block came out of it, or was parked.
        if end == self.top && (S::Bins::PARKS == 0 || end != top) {
            dirty = dirty.min(self.clean.saturating_sub(chunk + S::WORD));
        }
        // SAFETY: by 1.
        unsafe { block.as_ptr().write_bytes(0, dirty) };
    }

    /// The chunk for a layout, live; 0 if there is none.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn allocate_chunk(&mut self, layout: Layout) -> usize {
        let Some(exact) = S::chunk_of(layout) else { return 0 };
        if S::Bins::PARKS == 0 {
            return self.take_free(exact, layout.align());
        }
        let size = S::rounded(exact);
        if Self::parks(size) && self.unsettled && layout.align() <= S::ALIGN {
            let chunk = self.take_parked(size);
            if chunk != 0 {
                return self.handed_out(chunk);
            }
        }
        self.take_not_parked(exact, layout.align())
    }

    /// As `take_free`, out of line: what takes a parked chunk needs no room on the stack.
    #[inline(never)]
    fn take_not_parked(&mut self, exact: usize, align: usize) -> usize {
        self.take_free(exact, align)
    }

    /// The chunk for a request for which none is parked, live; 0 if there is none.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn take_free(&mut self, exact: usize, align: usize) -> usize {
        let size = S::rounded(exact);
        let mut chunk = self.take_for(size, align);
        if (S::Bins::PARKS != 0 || S::ROUNDED != 0) && chunk == 0 {
            chunk = self.take_hard(size, exact, align);
        }
        self.handed_out(chunk)
    }

    /// Counts a chunk, if it is one.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn handed_out(&mut self, chunk: usize) -> usize {
        if (S::COUNT || S::Bins::PARKS != 0 || cfg!(feature = "sanitizer")) && chunk != 0 {
            // SAFETY: it is live now.
            let size = unsafe { self.live_size(chunk) };
            self.count_new(size);
            self.memory.open(chunk + S::WORD, chunk + size);
        }
        chunk
    }

    /// A chunk of this size, of which the block is aligned; 0 if there is none.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn take_for(&mut self, size: usize, align: usize) -> usize {
        if !S::THOROUGH {
            self.take_simply(size, align)
        } else if align <= S::ALIGN {
            self.take(size)
        } else {
            self.take_aligned(size, align)
        }
    }

    /// What was parked, or rounded up, may make it possible.
    #[cold]
    #[inline(never)]
    fn take_hard(&mut self, size: usize, exact: usize, align: usize) -> usize {
        if self.settle_for_want() {
            let chunk = self.take_for(size, align);
            if chunk != 0 {
                return chunk;
            }
        }
        match exact != size {
            false => 0,
            true if !S::THOROUGH || align > S::ALIGN => self.take_for(exact, align),
            // Of all other bins none has anything for `size`, which is the smallest of the next
            // one.
            true if exact <= self.rest_size => self.take_rest(exact),
            true if exact <= self.top_size => self.take_top(exact),
            true => self.take_swept(exact),
        }
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn take(&mut self, size: usize) -> usize {
        let from = index::of_request::<S>(size);
        // While `top` would do, looking at chunks costs more time than it saves memory.
        if size >= S::MIXED && (S::CAREFUL || self.top_size < size) {
            let chunk = self.take_close(size, from);
            if chunk != 0 {
                return chunk;
            }
        }
        if let Some(bin) = self.bins.find(from) {
            if size < S::EXACT && bin == from {
                return self.take_exact(bin, size);
            }
            // A rest that would be in a lower bin fits better, and one that is used for small
            // blocks keeps them together.
            let rest_first = (size < S::EXACT || S::CAREFUL)
                && size <= self.rest_size
                && (size < S::EXACT || index::of_free::<S>(self.rest_size) <= bin);
            if !rest_first {
                return self.take_from(bin, size);
            }
        }
        if size <= self.rest_size {
            return self.take_rest(size);
        }
        if size <= self.top_size {
            if self.is_parked_better(size) {
                return self.take_before_new(size);
            }
            return self.take_top(size);
        }
        // Of what is not mixed, the bin would have been found.
        if size >= S::MIXED { self.take_swept(size) } else { 0 }
    }

    /// Whether something is parked while this much of `top` would reach into new memory.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn is_parked_better(&self, size: usize) -> bool {
        S::Bins::PARKS != 0 && self.unsettled && self.top + size > self.reached
    }

    /// Takes the front of a parked chunk that is larger, before `top` reaches into new memory. If
    /// there is none, all that is parked is freed, and what that makes is tried.
    #[cold]
    #[inline(never)]
    fn take_before_new(&mut self, size: usize) -> usize {
        let mut bins = index::of_request::<S>(size)..S::Bins::PARKS;
        if let Some(bin) = bins.find(|&bin| self.bins.waiting(bin) != 0) {
            let chunk = self.take_parked(Self::parked_size(bin));
            if chunk != 0 {
                // SAFETY: the chunk is live, has no user, and is larger: so is all of its bin.
                unsafe { self.cut(chunk, size) };
                return chunk;
            }
        }
        self.settle();
        self.take(size)
    }

    /// Takes a chunk as `take` and `take_aligned` do, with less code: one of the first few of the
    /// own bin, the first of the lowest bin of which all have room for any gap, or `top`.
    #[inline(never)]
    fn take_simply(&mut self, size: usize, align: usize) -> usize {
        // SAFETY: lists have free chunks, in spans. Where checks are on, each link is compared
        // before it is followed, and both ends of a chunk before it is taken. A layout is at most
        // half of all addresses, so sums with gaps do not wrap.
        unsafe {
            let own = index::of_free::<S>(size);
            let mut found = list::first::<S>(&self.bins, &self.memory, own)
                .unwrap_or_else(|broken| self.give_up_bin(own, broken));
            let mut left = CLOSE;
            while found != 0 && self.memory.free_size(found) < size + self.gap_at(found, align) {
                left -= 1;
                found = match left {
                    0 => 0,
                    _ => list::next(&self.memory, found)
                        .unwrap_or_else(|broken| self.give_up_bin(own, broken)),
                };
            }
            if found == 0 {
                let most = if align <= S::ALIGN { size } else { size + align + S::MIN };
                let above = self.bins.find(index::of_free::<S>(most) + 1);
                found = above.map_or(0, |bin| self.bins.first(bin));
            }
            let (mut chunk, mut whole) = (self.top, self.top_size);
            if found != 0 {
                (chunk, whole) = (found, self.memory.free_size(found));
            }
            let gap = self.gap_at(chunk, align);
            if found == 0 {
                if size + gap > whole {
                    return 0;
                }
                (self.top, self.top_size) = (chunk + whole, 0);
            } else if let Err(broken) = self.take_listed(chunk, whole) {
                self.give_up_bin(index::of_free::<S>(whole), broken);
                return self.take_simply(size, align);
            }
            self.mark_below(chunk + whole, false);
            let mut flags = LIVE;
            if gap != 0 {
                self.file(chunk, gap);
                flags = LIVE | BELOW_FREE;
            }
            (chunk, whole) = (chunk + gap, whole - gap);
            self.memory.put(chunk, whole | flags);
            // What is cut off is as clean as it was.
            let clean = self.clean;
            self.cut(chunk, size);
            self.clean = clean;
            chunk
        }
    }

    /// Frees what a chunk has more than this. It is not counted: the caller counts the block.
    ///
    /// # Safety
    /// 1. `chunk` is live, has no user, and is as large.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn cut(&mut self, chunk: usize, size: usize) {
        let counters = self.counters;
        // SAFETY: by 1.
        unsafe {
            self.count_bytes(0, self.live_size(chunk));
            self.fit(chunk, size);
        }
        if S::COUNT {
            self.counters = counters;
        }
    }

    /// A chunk that is hardly larger than this; 0 if no bin has one.
    #[inline(never)]
    pub(super) fn take_hole(&mut self, size: usize) -> usize {
        let size = S::rounded(size);
        match self.bins.find(index::of_request::<S>(size)) {
            Some(bin) if bin <= index::of_free::<S>(size + size / 4) => self.take_from(bin, size),
            _ => 0,
        }
    }

    /// A chunk out of the request's own bin, of which some are too small: the best of the first
    /// few.
    #[inline(never)]
    fn take_close(&mut self, size: usize, from: usize) -> usize {
        let bin = index::of_free::<S>(size);
        if bin == from {
            return 0;
        }
        self.take_first(bin, size, CLOSE)
    }

    /// The first chunk of a bin that is large enough, among the first few. What is found broken is
    /// given up, with what is behind it. A list that was looked through to its end for nothing is
    /// not again for as much: each of its chunks is a cache line that nothing else reads, and where
    /// memory is short most requests come here.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn take_first(&mut self, bin: usize, size: usize, mut left: usize) -> usize {
        if self.bins.bound(bin) < size {
            return 0;
        }
        let mut largest = 0;
        // SAFETY: `first` and `next` check what they follow, where checks are on; both ends of what
        // is taken are compared before it is.
        unsafe {
            let mut found = list::first::<S>(&self.bins, &self.memory, bin);
            loop {
                let chunk = match found {
                    Ok(0) => {
                        self.bins.set_bound(bin, largest);
                        return 0;
                    }
                    Ok(chunk) => chunk,
                    Err(broken) => return self.give_up_bin(bin, broken),
                };
                let whole = self.memory.free_size(chunk);
                largest = largest.max(whole);
                if whole >= size {
                    return match self.take_listed(chunk, whole) {
                        Ok(()) => self.split(chunk, whole, size),
                        Err(broken) => self.give_up_bin(bin, broken),
                    };
                }
                self.probed();
                left -= 1;
                if left == 0 {
                    return 0;
                }
                found = list::next(&self.memory, chunk);
            }
        }
    }

    /// Takes a free chunk out of its list. Where checks are on, it first checks both ends of the
    /// chunk.
    ///
    /// # Safety
    /// 1. `chunk` came from `list::first` or `list::next`, and this is what is written as its size.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) unsafe fn take_listed(&mut self, chunk: usize, whole: usize) -> Result<(), Broken> {
        // SAFETY: by 1, and the ends are compared first.
        unsafe {
            if S::CHECKS >= Checks::Links && !self.is_whole(chunk, whole) {
                return Err(Broken(chunk));
            }
            list::unlink::<S>(&mut self.bins, &self.memory, chunk, whole)
        }
    }

    /// What is in this bin is not used again. Returns that nothing was found.
    #[cold]
    #[inline(never)]
    pub(super) fn give_up_bin(&mut self, bin: usize, broken: Broken) -> usize {
        self.bins.clear(bin);
        self.broken(broken);
        0
    }

    /// The first chunk of a bin of which all have this size.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn take_exact(&mut self, bin: usize, size: usize) -> usize {
        // SAFETY: `find` returns bins that have a chunk. Behind a free one is a live one or a
        // fence.
        unsafe {
            match list::pop_exact::<S>(&mut self.bins, &self.memory, bin, size) {
                Ok(chunk) => {
                    self.memory.put(chunk, size | LIVE);
                    self.mark_below(chunk + size, false);
                    chunk
                }
                Err(broken) => {
                    self.broken(broken);
                    self.take_after_fault(size)
                }
            }
        }
    }

    /// The first chunk of a bin of which all are large enough.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn take_from(&mut self, bin: usize, size: usize) -> usize {
        // SAFETY: `find` returns bins that have a chunk. The chunk is at least as large as the
        // request, as `of_request` says of its bin.
        unsafe {
            match list::pop::<S>(&mut self.bins, &self.memory, bin) {
                Ok((chunk, whole))
                    if S::CHECKS >= Checks::Links && !self.is_whole(chunk, whole) =>
                {
                    self.give_up_bin(bin, Broken(chunk));
                    self.take_after_fault(size)
                }
                Ok((chunk, whole)) => self.split(chunk, whole, size),
                Err(broken) => {
                    self.broken(broken);
                    self.take_after_fault(size)
                }
            }
        }
    }

    /// The bin has been given up, so this does not come back to it; there are finitely many.
    #[cold]
    #[inline(never)]
    fn take_after_fault(&mut self, size: usize) -> usize {
        self.take(size)
    }

    /// Makes the front of a free chunk a live one, and keeps what is left.
    ///
    /// # Safety
    /// 1. `[chunk, chunk + whole)` is a free chunk in no list and no register, and `whole >= size`.
    /// 2. The chunk below is live, or there is none.
    #[cfg_attr(not(feature = "small"), inline(always))]
    unsafe fn split(&mut self, chunk: usize, whole: usize, size: usize) -> usize {
        let left = whole - size;
        // SAFETY: none of it is in use. After a free chunk is a live one or a fence.
        unsafe {
            if left < S::MIN {
                self.memory.put(chunk, whole | LIVE);
                self.mark_below(chunk + whole, false);
            } else {
                self.memory.put(chunk, size | LIVE);
                if S::RESTS && (size < S::EXACT || S::CAREFUL) {
                    self.keep_rest(chunk + size, left);
                } else {
                    // The next large request would hardly use it, and a comparison with it is one
                    // that is not foreseen.
                    self.file(chunk + size, left);
                }
            }
        }
        chunk
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn take_rest(&mut self, size: usize) -> usize {
        let (chunk, left) = (self.rest, self.rest_size - size);
        // SAFETY: the rest is a free chunk in no list, and below and behind it are live ones.
        unsafe {
            if left < S::MIN {
                self.memory.put(chunk, self.rest_size | LIVE);
                self.mark_below(chunk + self.rest_size, false);
                (self.rest, self.rest_size) = (0, 0);
            } else {
                self.memory.put(chunk, size | LIVE);
                (self.rest, self.rest_size) = (chunk + size, left);
            }
        }
        chunk
    }

    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn take_top(&mut self, size: usize) -> usize {
        let (chunk, left) = (self.top, self.top_size - size);
        let size = if left < S::MIN { self.top_size } else { size };
        // SAFETY: `top` is in a span, and not in use. Its fence never says that the chunk below is
        // free.
        unsafe { self.memory.put(chunk, size | LIVE) };
        self.top += size;
        self.top_size -= size;
        if S::Bins::PARKS != 0 && self.top_size < self.ebb {
            self.ebbs();
        }
        chunk
    }

    /// Looks through the one bin that has both chunks that are large enough and others.
    #[cold]
    #[inline(never)]
    fn take_swept(&mut self, size: usize) -> usize {
        let bin = index::of_free::<S>(size);
        self.take_first(bin, size, usize::MAX)
    }
}
