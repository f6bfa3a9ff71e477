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
use super::blocks::{Blocks, view};
use super::units::UNIT;
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
pub(super) struct WaitingTable {
    in_order: [AtomicU32; IN_ORDER],
    at_random: [AtomicU32; AT_RANDOM],
    /// Blocks that have ever come.
    next: AtomicUsize,
    /// Bytes of address space of those that wait.
    bytes: AtomicUsize,
}

impl WaitingTable {
    fn places(&self) -> impl Iterator<Item = &AtomicU32> {
        self.in_order.iter().chain(&self.at_random)
    }
}

view!(pub WaitingBlocks, waiting, "The freed blocks whose addresses wait.");

impl<'a> WaitingBlocks<'a> {
    fn table(self) -> &'a WaitingTable {
        &self.0.state().waiting
    }

    /// Lets a held, free block wait, and those go on that have waited long enough.
    pub(super) fn put(self, block: &Block) {
        let waiting = self.table();
        // It has pages only where they could not be given back.
        self.0.figures().put(block.resident.load(Relaxed));
        let units = self.0.units();
        let most = units.count() * UNIT / LARGE_WAIT_SHARE;
        let bytes = waiting.bytes.fetch_add(block.extent(), Relaxed) + block.extent();
        let number = waiting.next.fetch_add(1, Relaxed);
        let oldest = match waiting.in_order.get(number % waiting.in_order.len()) {
            Some(place) => place.swap(units.of(block) as u32 + 1, AcqRel),
            None => units.of(block) as u32 + 1,
        };
        let goes = match waiting.at_random.get(below(self.0.placement().draw(), AT_RANDOM)) {
            Some(place) if oldest != 0 => place.swap(oldest, AcqRel),
            _ => oldest,
        };
        self.go_on(goes);
        if bytes > most {
            self.let_go(number, most);
        }
    }

    /// Lets those go on that have waited longest, until the rest have no more than `most` bytes.
    #[cold]
    fn let_go(self, last: usize, most: usize) {
        let waiting = self.table();
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
    pub(super) fn stop(self, bytes: usize) -> bool {
        let waiting = self.table();
        if waiting.bytes.load(Relaxed) < bytes {
            return false;
        }
        let mut any = false;
        for place in waiting.places() {
            any |= self.go_on(place.swap(0, AcqRel));
        }
        any
    }

    fn go_on(self, number: u32) -> bool {
        let Some(unit) = number.checked_sub(1) else { return false };
        let block = self.0.units().block(unit as usize);
        self.table().bytes.fetch_sub(block.extent(), Relaxed);
        // The stack counts it again.
        self.0.figures().take(block.resident.load(Relaxed));
        self.0.extents().push(block);
        true
    }

    /// How many wait, and with how many bytes of address space.
    pub fn figures(self) -> (usize, usize) {
        let waiting = self.table();
        let count = waiting.places().filter(|place| place.load(Relaxed) != 0).count();
        (count, waiting.bytes.load(Relaxed))
    }

    /// The blocks that wait. No other thread may be using the allocator.
    pub(super) fn all(self) -> impl Iterator<Item = &'a Block> {
        let units = self.0.units();
        let numbers = self.table().places().map(|place| place.load(Relaxed));
        numbers.filter_map(|number| Some(units.block(number.checked_sub(1)? as usize)))
    }
}
