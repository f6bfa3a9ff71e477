//! The meaning of a fault in the pool: the block that contains the address or is near it. Also the
//! handler that gets all other faults.

use super::{Guarded, Slot, SlotCondition};
use crate::os::process;
use crate::sync::Ordering::Relaxed;

/// The meaning of an address in the pool.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// In the slot of a freed block.
    AfterFree(&'a Slot),
    /// Beyond a block, by this number of bytes.
    Beyond(&'a Slot, usize),
    /// Before a block, by this number of bytes.
    Before(&'a Slot, usize),
    /// In a live block: nothing is wrong.
    Within(&'a Slot),
    /// Near no block.
    Wild,
}

impl Guarded {
    /// Returns the meaning of an address, or `None` if it is not in the pool.
    pub fn access(&self, address: usize) -> Option<Access<'_>> {
        let number = self.number(address)?;
        let known = |number: usize| self.slot(number).filter(|slot| slot.begin() != 0);
        let own = known(number);
        let before = number.checked_sub(1).and_then(known);
        if address >= self.first(number) {
            return Some(match own {
                Some(slot) => classify(slot, address),
                None => Access::Wild,
            });
        }
        // On a guard page the nearer block counts, of the one before the page and the one after it.
        let behind_it = before.map(|slot| (address - (slot.begin() + slot.bytes()), slot));
        let before_it = own.map(|slot| (slot.begin() - address, slot));
        Some(match (behind_it, before_it) {
            (Some((far, slot)), Some((near, _))) if far < near => Access::Beyond(slot, far + 1),
            (_, Some((near, slot))) => Access::Before(slot, near),
            (Some((far, slot)), None) => Access::Beyond(slot, far + 1),
            (None, None) => Access::Wild,
        })
    }

    /// Returns the slot whose block, live or freed, contains an address or is near it.
    pub fn slot_around(&self, address: usize) -> Option<&Slot> {
        match self.access(address)? {
            Access::AfterFree(slot)
            | Access::Beyond(slot, _)
            | Access::Before(slot, _)
            | Access::Within(slot) => Some(slot),
            Access::Wild => None,
        }
    }

    /// Makes a page of the pool accessible for good, for a program that goes on.
    pub fn give_in(&self, address: usize) {
        if self.contains(address) {
            process::allow(self.down(address), self.page);
        }
    }

    /// Returns the handler and its flags for a fault outside the pool. They are the program's, or
    /// the first of all if the program's handler has called Toft's in turn.
    pub fn chained(&self, first: bool) -> (usize, i32) {
        let head = self.head();
        let [handler, flags] = if first { &head.original } else { &head.chained };
        (handler.load(Relaxed), flags.load(Relaxed) as i32)
    }

    /// Stores the handler that Toft's has replaced.
    pub fn chain(&self, handler: usize, flags: i32, first: bool) {
        let head = self.head();
        let of_first = first.then_some(&head.original);
        for place in of_first.into_iter().chain([&head.chained]) {
            let [to_handler, to_flags] = place;
            to_handler.store(handler, Relaxed);
            to_flags.store(flags as usize, Relaxed);
        }
    }
}

/// Returns the meaning of an address between the guard pages of a slot.
fn classify(slot: &Slot, address: usize) -> Access<'_> {
    let (begin, end) = (slot.begin(), slot.begin() + slot.bytes());
    if slot.condition() != SlotCondition::Live {
        return Access::AfterFree(slot);
    }
    if address < begin {
        Access::Before(slot, begin - address)
    } else if address >= end {
        Access::Beyond(slot, address - end + 1)
    } else {
        Access::Within(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::tests::pool;
    use super::*;
    use crate::region::Site;

    #[test]
    fn what_an_address_is() {
        let pool = pool(2);
        let (first, _) = (
            pool.allocate((64, 16), Site::at(7), true, None).unwrap(),
            pool.allocate((64, 16), Site::at(7), true, None).unwrap(),
        );
        assert!(matches!(pool.access(first), Some(Access::Within(_))));
        assert!(matches!(pool.access(first + 63), Some(Access::Within(_))));
        assert!(matches!(pool.access(first + 64), Some(Access::Beyond(_, 1))));
        assert!(matches!(pool.access(first - 1), Some(Access::Before(_, 1))));
        assert!(pool.access(first + 64 + (1 << 30)).is_none() && pool.access(1).is_none());
        assert!(pool.free(first, true, false));
        assert!(matches!(pool.access(first + 3), Some(Access::AfterFree(_))));
        let never = Guarded::none();
        assert!(never.access(0).is_none() && !never.contains(first) && !never.chooses(1));
    }
}
