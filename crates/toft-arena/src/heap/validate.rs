//! What is looked at before a pointer is believed.
//!
//! A chunk has no secret, so what can be seen is whether everything around the pointer is as it
//! would be around a live block. What that finds always: a pointer from elsewhere, one that is not
//! aligned, a block that has been freed and not handed out since, whichever neighbours it was
//! merged with. What it finds unless the bytes happen to be those of a live chunk: the inside of a
//! block, and a tag that was written over.

use super::Heap;
use crate::chunk::{BELOW_FREE, LIVE, PARKED};
use crate::fault::Fault;
use crate::shape::{Checks, Shape, Sizes};
use crate::table::Tables;
use core::alloc::Layout;
use core::ptr::NonNull;

impl<S: Shape> Heap<S> {
    /// Whether this is a live block, as far as can be seen. A fault is also noted, as any is.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&mut self, block: NonNull<u8>) -> Result<(), Fault> {
        let found = self.seen(block.as_ptr());
        if let Err(fault) = found {
            self.fault(fault);
        }
        found
    }

    /// As `verify`, for a block of a layout.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify_sized(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), Fault> {
        self.verify(block)?;
        let address = block.as_ptr().addr();
        // SAFETY: it looks like a live block.
        let usable = unsafe { self.usable_size(block) };
        if layout.size() > usable || address % layout.align() != 0 {
            let fault = Fault::WrongLayout(address);
            self.fault(fault);
            return Err(fault);
        }
        Ok(())
    }

    /// Checks as much as the shape says, before a block that is freed or resized is believed.
    /// What is wrong is noted.
    #[cfg_attr(not(feature = "small"), inline(always))]
    pub(super) fn believes(&mut self, block: NonNull<u8>) -> bool {
        match S::CHECKS {
            Checks::Pointers => self.verify(block).is_ok(),
            Checks::Tags => {
                let sound = self.tag_holds(self.chunk_of(block.as_ptr()));
                if !sound {
                    self.fault(Fault::BrokenTag(block.as_ptr().addr()));
                }
                sound
            }
            Checks::None | Checks::Links => true,
        }
    }

    /// Whether this may be the tag of a live block, by itself and by what is after it.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn tag_holds(&self, chunk: usize) -> bool {
        if !self.memory.may_hold(chunk) {
            return false;
        }
        // SAFETY: between the lowest and the highest of the spans, as a link is followed.
        let tag = unsafe { self.memory.get(chunk) };
        let size = tag & !S::FLAGS;
        let flags = if S::FLAGS & PARKED == 0 { LIVE } else { LIVE | PARKED };
        let sound = tag & flags == LIVE
            && size >= S::MIN
            && size % S::ALIGN == 0
            && self.memory.may_reach(chunk, size);
        let after = chunk + size;
        if !sound || after == self.top || after == self.rest {
            return sound;
        }
        // SAFETY: as above. Behind a live block is none that takes it for free.
        unsafe { self.memory.get(after) & (LIVE | BELOW_FREE) != LIVE | BELOW_FREE }
    }

    fn seen(&self, block: *const u8) -> Result<(), Fault> {
        let address = block.addr();
        let chunk = self.chunk_of(block);
        let span = self.bounds_of(chunk).ok_or(Fault::Foreign(address))?;
        if chunk % S::ALIGN != S::LEAD {
            return Err(Fault::Misaligned(address));
        }
        if span.fence - span.base < S::MIN || chunk > span.fence - S::MIN {
            return Err(Fault::Foreign(address));
        }
        let in_register = |from: usize, size: usize| chunk.wrapping_sub(from) < size;
        if in_register(self.top, self.top_size) || in_register(self.rest, self.rest_size) {
            return Err(Fault::NotLive(address));
        }
        // SAFETY: the place is in a span, with at least three words up to its fence; every further
        // word is looked at only where it lies before the fence or is it.
        unsafe {
            let tag = self.memory.get(chunk);
            if tag & LIVE == 0 || S::Bins::PARKS != 0 && tag & PARKED != 0 {
                return Err(Fault::NotLive(address));
            }
            let size = tag & !S::FLAGS;
            if size < S::MIN || size % S::ALIGN != 0 || size > span.fence - chunk {
                return Err(Fault::BrokenTag(address));
            }
            if tag & BELOW_FREE != 0 && chunk != self.rest + self.rest_size {
                let below = self.memory.get(chunk - S::WORD);
                if below > chunk - span.base || !self.is_whole(chunk.wrapping_sub(below), below) {
                    return Err(Fault::BrokenTag(address));
                }
            }
            let after = chunk + size;
            if after != self.top && after != self.rest {
                let next = self.memory.get(after);
                if next & LIVE != 0 {
                    let next_size = next & !S::FLAGS;
                    let sound = if after == span.fence {
                        next_size == 0
                    } else {
                        next_size >= S::MIN
                            && next_size % S::ALIGN == 0
                            && next_size <= span.fence - after
                    };
                    if !sound || next & BELOW_FREE != 0 {
                        return Err(Fault::BrokenTag(address));
                    }
                } else if after > span.fence - S::MIN
                    || self.memory.free_size(after) > span.fence - after
                    || !self.is_whole(after, self.memory.free_size(after))
                {
                    return Err(Fault::BrokenTag(address));
                }
            }
        }
        Ok(())
    }
}
