//! What a fault in the pool means: the block that contains the address or is near it; and which
//! handler is asked if the fault is none of ours.

use super::{Guarded, Slot, SlotCondition};
use crate::os::process;
use crate::sync::Ordering::Relaxed;

/// What an address in the pool means.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// In a block that was freed.
    AfterFree(&'a Slot),
    /// The number of bytes beyond the last of a block.
    Beyond(&'a Slot, usize),
    /// The number of bytes before the first.
    Before(&'a Slot, usize),
    /// In a block of the program's: nothing is wrong.
    Within(&'a Slot),
    /// Where no block is near.
    Wild,
}

impl Guarded {
    /// What an access to an address of the pool is; `None` where it is not in it.
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
        // A guard page: of the block before it and the one behind, the nearer.
        let behind_it = before.map(|slot| (address - (slot.begin() + slot.bytes()), slot));
        let before_it = own.map(|slot| (slot.begin() - address, slot));
        Some(match (behind_it, before_it) {
            (Some((far, slot)), Some((near, _))) if far < near => Access::Beyond(slot, far + 1),
            (_, Some((near, slot))) => Access::Before(slot, near),
            (Some((far, slot)), None) => Access::Beyond(slot, far + 1),
            (None, None) => Access::Wild,
        })
    }

    /// The slot whose block, live or freed, contains an address or is near it.
    pub fn slot_around(&self, address: usize) -> Option<&Slot> {
        match self.access(address)? {
            Access::AfterFree(slot)
            | Access::Beyond(slot, _)
            | Access::Before(slot, _)
            | Access::Within(slot) => Some(slot),
            Access::Wild => None,
        }
    }

    /// Lets a program that goes on reach a page of the pool for good.
    pub fn give_in(&self, address: usize) {
        if self.contains(address) {
            process::allow(self.down(address), self.page);
        }
    }

    /// The action on SIGSEGV if the fault is none of ours: handler and flags of the program or, if
    /// that handler has called us in turn, of the first one.
    pub fn chained(&self, first: bool) -> (usize, i32) {
        let head = self.head();
        let [handler, flags] = if first { &head.original } else { &head.chained };
        (handler.load(Relaxed), flags.load(Relaxed) as i32)
    }

    /// Remembers whose handler ours has taken the place of.
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

/// What an address between the guards of a slot is.
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

    #[test]
    fn what_an_address_is() {
        let pool = pool(2);
        let (first, _) = (
            pool.allocate((64, 16), 7, true, None).unwrap(),
            pool.allocate((64, 16), 7, true, None).unwrap(),
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
