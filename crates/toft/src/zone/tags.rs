//! Pointers with tags: the top byte of a pointer into a tagged zone says to which life of its block
//! it belongs.
//!
//! Each grain of 16 bytes of such a zone has a byte, apart from the zone: the tag of the block that
//! it is in, which is another one from the free on. The program keeps tagged words, and resolves
//! one to a pointer where it is about to use it: what was freed since does not resolve. A tag comes
//! back when its block was freed 255 times.

use super::blocks::Zone;
use super::lot::{GRAIN, Whereabouts};
use super::record::{HARDWARE, TAGGED};
use super::window::State;
use super::zones::{Refusal, Zones};
use crate::os::Os;
use crate::sync::AtomicU8;
use crate::sync::Ordering::Relaxed;

/// Where the tag is in a word.
pub const TAG_SHIFT: u32 = 56;
const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;

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
        let flags = state.record(zone).map_or(0, |record| record.flags.load(Relaxed));
        let has_tags = flags & TAGGED != 0;
        let inside = address - begin < bytes;
        if !has_tags || !inside || tagged.tag() == 0 || self.tag_of(address) != tagged.tag() {
            return refused;
        }
        // The processor wants to see the tag.
        Ok(if flags & HARDWARE != 0 { tagged.0 as usize } else { address })
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
        let admitted = !self.has_hardware() || hardware::admit(self.state.address_of(place), bytes);
        admitted && self.os.map(at, len).is_ok()
    }

    /// Whether the processor knows the tags of this zone.
    fn has_hardware(&self) -> bool {
        self.record.flags.load(Relaxed) & HARDWARE != 0
    }

    /// The pointer that the program is given to a block: with its tag, if the processor checks it.
    pub(super) fn pointer_to(&self, address: usize) -> usize {
        if !self.has_hardware() {
            return address;
        }
        Tagged::new(address, self.state.tag(address).load(Relaxed)).0 as usize
    }

    /// The library itself is about to read a block, or to clear it, and has pointers without tags.
    pub(super) fn lay_open(&self, address: usize, bytes: usize) {
        if self.has_hardware() {
            hardware::put(address, bytes, 0);
        }
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
        match self.state.tag(address).load(Relaxed) {
            0 => {
                let tag = (self.state.draw() % u64::from(self.tags())) as u8 + 1;
                self.set_tags(address, bytes, tag);
            }
            // The library has laid it open.
            tag if self.has_hardware() => hardware::put(address, bytes, tag),
            _ => {}
        }
    }

    /// A block is freed: the tags that are about are not its any more.
    pub(super) fn change_tags(&self, address: usize, bytes: usize) {
        if self.record.is_tagged() {
            let tag = self.state.tag(address).load(Relaxed);
            self.set_tags(address, bytes, tag % self.tags() + 1);
        }
    }

    /// How many tags there are.
    fn tags(&self) -> u8 {
        if self.has_hardware() { 15 } else { 255 }
    }

    fn set_tags(&self, address: usize, bytes: usize, tag: u8) {
        if self.has_hardware() {
            hardware::put(address, bytes, tag);
        }
        for grain in (address..address + bytes).step_by(GRAIN) {
            self.state.tag(grain).store(tag, Relaxed);
        }
    }
}

/// The processor's tags, where it may have some. (Untested: see `os/mte.rs`.)
pub(super) mod hardware {
    #[cfg(target_arch = "aarch64")]
    use crate::os::mte;

    /// Whether this processor has tags, and the calling thread may use them.
    pub(in crate::zone) fn begin() -> bool {
        #[cfg(target_arch = "aarch64")]
        return mte::begin();
        #[cfg(not(target_arch = "aarch64"))]
        false
    }

    /// Lets pages have tags.
    pub(super) fn admit(_address: usize, _bytes: usize) -> bool {
        #[cfg(target_arch = "aarch64")]
        return mte::admit(_address, _bytes);
        #[cfg(not(target_arch = "aarch64"))]
        false
    }

    /// Gives a block of a zone whose pages have tags another one.
    pub(super) fn put(_address: usize, _bytes: usize, _tag: u8) {
        #[cfg(target_arch = "aarch64")]
        // SAFETY: (1) a block or slot of a zone that is locked; its pages were admitted as they
        // were mapped, and who uses it with another tag is to fault.
        unsafe {
            mte::put(_address, _bytes, _tag);
        }
    }
}
