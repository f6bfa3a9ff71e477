//! Where the addresses of freed large blocks wait before they are used again, in the secure
//! build.
//!
//! ```text
//! free --> in_order[n % 256] --who was there--> at_random[r % 256] --who was there--> its stack
//! ```
//!
//! Nothing is mapped there meanwhile, so that each use of a stale pointer faults; what waits costs
//! address space of the tier and nothing else. It is bounded by the number of places and by bytes,
//! and let go of when address space runs out, or when memory is short and more of it would need
//! descriptors.
//!
//! - L5 a block that waits is free, and on no stack and in no place of `kept.rs`. It has no
//!   mapping, or shares one and is all guards, or could not be rid of it.

use super::Block;
use super::blocks::{Blocks, UNIT_SHIFT};
use crate::keyed::below;
use crate::policy::{LARGE_WAIT_AT_RANDOM, LARGE_WAIT_IN_ORDER, LARGE_WAIT_SHARE, SECURE};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{AcqRel, Relaxed};

// The default build lets nothing wait.
const IN_ORDER: usize = if SECURE { LARGE_WAIT_IN_ORDER } else { 1 };
const AT_RANDOM: usize = if SECURE { LARGE_WAIT_AT_RANDOM } else { 1 };

/// The table: unit numbers plus one, or zero. Any thread, by exchange: who has taken a number out
/// of a place holds the block. Zeroed memory is an empty one.
#[derive(Debug)]
pub(super) struct Waiting {
    in_order: [AtomicU32; IN_ORDER],
    at_random: [AtomicU32; AT_RANDOM],
    /// Blocks that have ever come.
    next: AtomicUsize,
    /// Bytes of address space of those that wait.
    bytes: AtomicUsize,
}

impl Waiting {
    fn places(&self) -> impl Iterator<Item = &AtomicU32> {
        self.in_order.iter().chain(&self.at_random)
    }
}

impl Blocks {
    /// Lets a held, free block wait, and those go on that have waited long enough.
    pub(super) fn wait(&self, block: &Block) {
        let waiting = &self.state().waiting;
        // It has pages only where they could not be given back.
        self.state().kept.fetch_add(block.resident.load(Relaxed), Relaxed);
        let most = (self.units << UNIT_SHIFT) / LARGE_WAIT_SHARE;
        let bytes = waiting.bytes.fetch_add(block.extent(), Relaxed) + block.extent();
        let number = waiting.next.fetch_add(1, Relaxed);
        let oldest = match waiting.in_order.get(number % waiting.in_order.len()) {
            Some(place) => place.swap(self.unit_of(block) as u32 + 1, AcqRel),
            None => self.unit_of(block) as u32 + 1,
        };
        let goes = match waiting.at_random.get(below(self.draw(), AT_RANDOM)) {
            Some(place) if oldest != 0 => place.swap(oldest, AcqRel),
            _ => oldest,
        };
        self.go_on(goes);
        if bytes > most {
            self.wait_less(number, most);
        }
    }

    /// Lets those go on that have waited longest, until the rest have no more than `most` bytes.
    #[cold]
    fn wait_less(&self, last: usize, most: usize) {
        let waiting = &self.state().waiting;
        let count = waiting.in_order.len();
        let later = (1..=count).map(|step| last.wrapping_add(step) % count);
        let in_order = later.filter_map(|number| waiting.in_order.get(number));
        for place in waiting.at_random.iter().chain(in_order) {
            if waiting.bytes.load(Relaxed) <= most {
                break;
            }
            self.go_on(place.swap(0, AcqRel));
        }
    }

    /// Lets everything that waits go on, if one extent of that could have `bytes`; returns true if
    /// there was anything.
    #[cold]
    pub(super) fn stop_waiting(&self, bytes: usize) -> bool {
        let waiting = &self.state().waiting;
        if waiting.bytes.load(Relaxed) < bytes {
            return false;
        }
        let mut any = false;
        for place in waiting.places() {
            any |= self.go_on(place.swap(0, AcqRel));
        }
        any
    }

    fn go_on(&self, number: u32) -> bool {
        let Some(unit) = number.checked_sub(1) else { return false };
        let block = self.block(unit as usize);
        self.state().waiting.bytes.fetch_sub(block.extent(), Relaxed);
        // The stack counts it again.
        self.state().kept.fetch_sub(block.resident.load(Relaxed), Relaxed);
        self.push_free(block);
        true
    }

    /// How many wait, and with how many bytes of address space.
    pub fn waiting(&self) -> (usize, usize) {
        let waiting = &self.state().waiting;
        let count = waiting.places().filter(|place| place.load(Relaxed) != 0).count();
        (count, waiting.bytes.load(Relaxed))
    }

    /// The blocks that wait. No other thread may be using the allocator.
    pub(super) fn all_waiting(&self) -> impl Iterator<Item = &Block> {
        let numbers = self.state().waiting.places().map(|place| place.load(Relaxed));
        numbers.filter_map(|number| Some(self.block(number.checked_sub(1)? as usize)))
    }
}
