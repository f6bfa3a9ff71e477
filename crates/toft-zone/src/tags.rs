//! Pointers with tags. The top byte of a pointer into a tagged zone identifies one life of its
//! block.
//!
//! Each grain of 16 bytes of such a zone has a tag byte, which is stored outside the zone. All
//! grains of a block have the block's tag, and a free changes it. The program keeps tagged words,
//! and resolves a word to a pointer just before it uses the pointer. A word whose block was freed
//! since does not resolve. A tag recurs after its block was freed 255 times.

use crate::blocks::Zone;
use crate::lot::{GRAIN, ZoneLocation};
use crate::window::State;
use crate::zones::{Refusal, Zones};
use toft_core::os::Os;
use toft_core::sync::AtomicU8;
use toft_core::sync::Ordering::Relaxed;

/// The position of the tag in a word.
pub const TAG_SHIFT: u32 = 56;
const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;

/// The number of tags, which are 1 to 255.
const TAGS: u8 = u8::MAX;

/// A pointer and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Tagged(pub u64);

impl Tagged {
    /// Returns the pointer without its tag.
    pub fn address(self) -> usize {
        (self.0 & ADDRESS) as usize
    }

    /// Returns the tag.
    pub fn tag(self) -> u8 {
        (self.0 >> TAG_SHIFT) as u8
    }

    /// Returns the word that is made of a pointer and a tag.
    pub fn new(address: usize, tag: u8) -> Tagged {
        Tagged(address as u64 & ADDRESS | u64::from(tag) << TAG_SHIFT)
    }
}

impl State {
    /// Returns the tag of the grain at an address. The caller knows that the address is in a tagged
    /// zone.
    fn tag(&self, address: usize) -> &AtomicU8 {
        // SAFETY: mapped together with the grain's addresses (`map_tags`). A thread that holds the
        // zone's lock keeps it mapped. A thread without the lock (`resolve`, `tagged`) has just
        // seen the block live. If the program destroys the zone or frees a large block at that
        // moment, the page may be gone. The load then faults. It never reads other memory, because
        // only tags are ever mapped there. The program must not do that (docs/zones.md, "Tags").
        unsafe { &*core::ptr::with_exposed_provenance(self.tag_at(address)) }
    }
}

impl Zones {
    /// Returns the pointer of a tagged word, if the program may use it. It may if the block that
    /// contains the address is live, and has not been freed since the word was made.
    pub fn resolve(&self, tagged: Tagged) -> Result<usize, Refusal> {
        let address = tagged.address();
        let found = self.at(address);
        let refused = Err(Refusal::NotABlock(found));
        let ZoneLocation::Block { zone, begin, bytes, live: true, .. } = found else {
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

    /// Returns the tag of an address in a live block of a tagged zone.
    pub(crate) fn tag_of(&self, address: usize) -> u8 {
        self.state().map_or(0, |state| state.tag(address).load(Relaxed))
    }

    /// Returns the tagged word for a block of a tagged zone, or for an address within the block.
    pub fn tagged(&self, address: usize) -> Result<Tagged, Refusal> {
        let found = self.at(address);
        match (found, self.state()) {
            (ZoneLocation::Block { zone, live: true, .. }, Some(state))
                if state.record(zone).is_some_and(|record| record.is_tagged()) =>
            {
                Ok(Tagged::new(address, self.tag_of(address)))
            }
            _ => Err(Refusal::NotABlock(found)),
        }
    }
}

impl<O: Os> Zone<'_, O> {
    /// Maps the memory for the tags of a new stretch. Returns true if it could, or if the zone has
    /// no tags.
    pub(crate) fn map_tags(&self, place: usize, bytes: usize) -> bool {
        if !self.record.is_tagged() {
            return true;
        }
        let (at, len) = self.tag_range(place, bytes);
        self.os.map(at, len).is_ok()
    }

    pub(crate) fn unmap_tags(&self, place: usize, bytes: usize) {
        if !self.record.is_tagged() {
            return;
        }
        let (at, len) = self.tag_range(place, bytes);
        // SAFETY: (1) mapped by `map_tags` together with the stretch, which is given up now. A
        // stretch whose tags could not be mapped does not get here.
        let _ = unsafe { self.os.unmap(at, len) };
    }

    fn tag_range(&self, place: usize, bytes: usize) -> (usize, usize) {
        let at = self.state.tag_at(self.state.address_of(place));
        (at, (bytes / GRAIN).next_multiple_of(self.os.page_size().max(1)))
    }

    /// Gives a block that is about to be handed out a random tag, unless its place already has one.
    pub(crate) fn put_tags(&self, address: usize, bytes: usize) {
        if !self.record.is_tagged() {
            return;
        }
        if self.state.tag(address).load(Relaxed) == 0 {
            let tag = (self.state.draw() % u64::from(TAGS)) as u8 + 1;
            self.set_tags(address, bytes, tag);
        }
    }

    /// Changes the tag of a block that is freed, so that existing tagged words no longer match.
    pub(crate) fn change_tags(&self, address: usize, bytes: usize) {
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
