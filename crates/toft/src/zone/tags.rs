//! Pointers with tags: the top byte of a pointer into a tagged zone says to which life of its block
//! it belongs.
//!
//! Each grain of 16 bytes of such a zone has a byte, apart from the zone: the tag of the block that
//! it is in, which is another one from the free on. The program keeps tagged words, and resolves
//! one to a pointer where it is about to use it: what was freed since does not resolve. A tag comes
//! back when its block was freed 255 times.

use super::blocks::Zone;
use super::lot::{GRAIN, Whereabouts};
use super::window::State;
use super::zones::{Refusal, Zones};
use crate::os::Os;
use crate::sync::AtomicU8;
use crate::sync::Ordering::Relaxed;

/// Where the tag is in a word.
pub const TAG_SHIFT: u32 = 56;
const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;

/// How many tags there are: 1 to 255.
const TAGS: u8 = u8::MAX;

/// A pointer and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Tagged(pub u64);

impl Tagged {
    /// The pointer, without its tag.
    pub fn address(self) -> usize {
        (self.0 & ADDRESS) as usize
    }

    /// The tag.
    pub fn tag(self) -> u8 {
        (self.0 >> TAG_SHIFT) as u8
    }

    /// The word made of both.
    pub fn new(address: usize, tag: u8) -> Tagged {
        Tagged(address as u64 & ADDRESS | u64::from(tag) << TAG_SHIFT)
    }
}

impl State {
    /// The tag of an address's grain; callers know that it is a tagged zone's.
    fn tag(&self, address: usize) -> &AtomicU8 {
        // SAFETY: mapped with the addresses that it is of (`map_tags`). A thread with the zone's
        // lock keeps it so. One without (`resolve`, `tagged`) has seen the block live a moment ago.
        // If the program ends the zone or frees a large block just then, the page may be gone, and
        // the load faults. It never reads other memory, because only tags are ever mapped there.
        // The program may not do that (docs/zones.md, "Tags").
        unsafe { &*core::ptr::with_exposed_provenance(self.tag_at(address)) }
    }
}

impl Zones {
    /// The pointer that a tagged word stands for, and may be used: the block that contains it is
    /// live, and the same as when the word was made.
    pub fn resolve(&self, tagged: Tagged) -> Result<usize, Refusal> {
        let address = tagged.address();
        let found = self.at(address);
        let refused = Err(Refusal::NotABlock(found));
        let Whereabouts::Block { zone, begin, bytes, live: true, .. } = found else {
            return refused;
        };
        let Some(state) = self.state() else { return refused };
        let has_tags = state.record(zone).is_some_and(|record| record.is_tagged());
        let inside = address - begin < bytes;
        if !has_tags || !inside || tagged.tag() == 0 || self.tag_of(address) != tagged.tag() {
            return refused;
        }
        Ok(address)
    }

    /// The tag of an address in a live block of a tagged zone.
    pub(super) fn tag_of(&self, address: usize) -> u8 {
        self.state().map_or(0, |state| state.tag(address).load(Relaxed))
    }

    /// The word for a block of a tagged zone, or for an address within it.
    pub fn tagged(&self, address: usize) -> Result<Tagged, Refusal> {
        let found = self.at(address);
        match (found, self.state()) {
            (Whereabouts::Block { zone, live: true, .. }, Some(state))
                if state.record(zone).is_some_and(|record| record.is_tagged()) =>
            {
                Ok(Tagged::new(address, self.tag_of(address)))
            }
            _ => Err(Refusal::NotABlock(found)),
        }
    }
}

impl<O: Os> Zone<'_, O> {
    /// Maps what a new stretch's tags need; returns true if that was possible.
    pub(super) fn map_tags(&self, place: usize, bytes: usize) -> bool {
        if !self.record.is_tagged() {
            return true;
        }
        let (at, len) = self.tag_range(place, bytes);
        self.os.map(at, len).is_ok()
    }

    pub(super) fn unmap_tags(&self, place: usize, bytes: usize) {
        if !self.record.is_tagged() {
            return;
        }
        let (at, len) = self.tag_range(place, bytes);
        // SAFETY: (1) mapped by `map_tags` with what is given up now. A stretch that got no tags is
        // none either.
        let _ = unsafe { self.os.unmap(at, len) };
    }

    fn tag_range(&self, place: usize, bytes: usize) -> (usize, usize) {
        let at = self.state.tag_at(self.state.address_of(place));
        (at, (bytes / GRAIN).next_multiple_of(self.os.page_size().max(1)))
    }

    /// Before a block is handed out: a place that never had a tag gets one, by chance.
    pub(super) fn put_tags(&self, address: usize, bytes: usize) {
        if !self.record.is_tagged() {
            return;
        }
        if self.state.tag(address).load(Relaxed) == 0 {
            let tag = (self.state.draw() % u64::from(TAGS)) as u8 + 1;
            self.set_tags(address, bytes, tag);
        }
    }

    /// A block is freed: the tags that are about are not its any more.
    pub(super) fn change_tags(&self, address: usize, bytes: usize) {
        if self.record.is_tagged() {
            let tag = self.state.tag(address).load(Relaxed);
            self.set_tags(address, bytes, tag % TAGS + 1);
        }
    }

    fn set_tags(&self, address: usize, bytes: usize, tag: u8) {
        for grain in (address..address + bytes).step_by(GRAIN) {
            self.state.tag(grain).store(tag, Relaxed);
        }
    }
}
