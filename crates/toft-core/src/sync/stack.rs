//! Lock-free stacks of numbered items that contain their own links, with a tag against ABA.
//!
//! ```text
//! head   | tag : 32 | number + 1 : 32 |     zero: empty
//! ```
//!
//! An item must stay mapped for ever. A thread may read the link of an item that another thread has
//! just popped. The link is then old, and the tag makes the exchange fail.

use super::{AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

/// Pushes an item on the stack. `link` stores the link to the item below: its number plus one, or
/// zero. The thread that pops the item sees what the caller wrote before. SeqCst, for callers that
/// read elsewhere afterwards.
#[inline]
pub fn push(head: &AtomicU64, number: u32, link: impl Fn(u32)) {
    let mut seen = head.load(Relaxed);
    loop {
        link(seen as u32);
        match head.compare_exchange_weak(seen, tagged(seen, number + 1), SeqCst, Relaxed) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// Pops the top item and returns its number. `below` returns the link of an item.
#[inline]
pub fn pop(head: &AtomicU64, below: impl Fn(u32) -> u32) -> Option<u32> {
    let mut seen = head.load(Acquire);
    loop {
        let top = (seen as u32).checked_sub(1)?;
        match head.compare_exchange_weak(seen, tagged(seen, below(top)), AcqRel, Acquire) {
            Ok(_) => return Some(top),
            Err(now) => seen = now,
        }
    }
}

/// Moves all items of stack `from` to stack `to`. `to` is empty, and no other thread pushes to it
/// meanwhile.
pub fn take_over(from: &AtomicU64, to: &AtomicU64) {
    let mut seen = from.load(Relaxed);
    while let Err(now) = from.compare_exchange_weak(seen, tagged(seen, 0), AcqRel, Relaxed) {
        seen = now;
    }
    to.store(tagged(to.load(Relaxed), seen as u32), Ordering::Release);
}

/// Returns the number of the top item plus one, or zero if the stack is empty.
#[inline]
pub fn top(head: &AtomicU64) -> u32 {
    head.load(SeqCst) as u32
}

fn tagged(seen: u64, top: u32) -> u64 {
    (seen & !0xFFFF_FFFF).wrapping_add(1 << 32) | u64::from(top)
}
