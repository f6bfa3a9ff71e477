//! Stacks of numbered things that link themselves: lock-free, with a tag against ABA.
//!
//! ```text
//! head   | tag : 32 | number + 1 : 32 |     zero: empty
//! ```
//!
//! The things must never go away: reading the link of one that another thread has just popped gives
//! an old number, and the tag makes the exchange fail.

use super::{AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

/// Puts the thing of a number on the stack; `link` is told which number is below it. What the
/// caller wrote before, the thread that pops it sees. SeqCst, for callers that read elsewhere
/// afterwards.
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

/// Takes the top off the stack; `below` says what was linked below a number.
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

/// Takes everything off the stack `from` and puts it on `to`, which is empty and stays so until
/// this is done: no other thread puts anything there.
pub fn take_over(from: &AtomicU64, to: &AtomicU64) {
    let mut seen = from.load(Relaxed);
    while let Err(now) = from.compare_exchange_weak(seen, tagged(seen, 0), AcqRel, Relaxed) {
        seen = now;
    }
    to.store(tagged(to.load(Relaxed), seen as u32), Ordering::Release);
}

/// The number plus one of the top of the stack; zero of an empty one.
#[inline]
pub fn top(head: &AtomicU64) -> u32 {
    head.load(SeqCst) as u32
}

fn tagged(seen: u64, top: u32) -> u64 {
    (seen & !0xFFFF_FFFF).wrapping_add(1 << 32) | u64::from(top)
}
