//! Live blocks with far more pages than they need, until these are given back.
//!
//! What they are for is said in `settle.rs`. If a block stays small, the reclaimer gives the pages
//! behind it back after as long as those of a free block. The program may free the block or change
//! its size meanwhile:
//!
//! ```text
//! trimming thread   trimming = unit    is it live?   discard   trimming = none: was it left?
//! program's thread                     take it       is it trimmed? leave it
//! ```
//!
//! Both write before they read, so at least one sees the other. A thread that takes a block which
//! is being trimmed waits for nothing. If it frees the block, it leaves the rest to the trimming
//! thread. If it changes the size, it gives the block back to the program, and copies it.

use crate::sync::{AtomicU64, Ordering, fence_between_locations};
use Ordering::{Relaxed, SeqCst};

/// Blocks that can be noted at once. With none to be had, a block does not settle.
const SPARES: usize = if cfg!(loom) { 1 } else { 16 };
const TIME_SHIFT: u32 = 32;
/// Flags in `trimming`: the block was freed meanwhile, or so that its address is never used again.
const LEFT: u64 = 1 << 32;
const LEFT_FOR_EVER: u64 = 1 << 33;

/// What has become of a block while it was trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trimmed {
    /// The program still has it, or another thread does what is to be done.
    Kept,
    /// It was freed: the caller holds it.
    Left,
    /// It was freed for ever: the caller holds it.
    LeftForEver,
}

/// The table; zeroed memory is an empty one.
#[derive(Debug)]
pub struct Spares {
    /// Unit number plus one, and when it was noted. Any thread writes, from zero and to zero.
    noted: [AtomicU64; SPARES],
    /// The unit that is trimmed, plus one. Written by the thread that trims; one that frees the
    /// block adds a flag.
    trimming: AtomicU64,
}

#[cfg(loom)]
impl Default for Spares {
    fn default() -> Spares {
        Spares { noted: core::array::from_fn(|_| AtomicU64::new(0)), trimming: AtomicU64::new(0) }
    }
}

fn word(unit: usize) -> u64 {
    unit as u64 + 1
}

fn unit(word: u64) -> usize {
    (word as u32).wrapping_sub(1) as usize
}

impl Spares {
    /// Notes a block at a `time` in frees, of which only the low half counts. Returns false if
    /// there is no room.
    pub fn note(&self, unit: usize, time: u64) -> bool {
        let noted = time << TIME_SHIFT | word(unit);
        let put = |wanted: &dyn Fn(u64) -> bool| {
            self.noted.iter().any(|place| {
                let before = place.load(Relaxed);
                wanted(before) && place.compare_exchange(before, noted, Relaxed, Relaxed).is_ok()
            })
        };
        // What is noted of a block that was freed since stays until it is due.
        put(&|before| before as u32 == noted as u32) || put(&|before| before == 0)
    }

    /// Whether no block is noted. A hint.
    pub fn is_empty(&self) -> bool {
        self.noted.iter().all(|place| place.load(Relaxed) == 0)
    }

    /// Begins to trim a block that was noted before `time`. Returns its unit, or `None` if there is
    /// none, or another thread is trimming one.
    pub fn begin(&self, time: u64) -> Option<usize> {
        self.noted.iter().find_map(|place| {
            let noted = place.load(Relaxed);
            let is_due = (time as u32).wrapping_sub((noted >> TIME_SHIFT) as u32) as i32 > 0;
            if noted == 0 || !is_due {
                return None;
            }
            // trim: pairs with `is_trimmed` (the flag before the state; the state before the flag).
            self.trimming.compare_exchange(0, word(unit(noted)), SeqCst, Relaxed).ok()?;
            fence_between_locations();
            // In vain if another thread has trimmed it. To trim it again does no harm.
            let _ = place.compare_exchange(noted, 0, Relaxed, Relaxed);
            Some(unit(noted))
        })
    }

    /// Ends what `begin` began.
    pub fn end(&self) -> Trimmed {
        // end trim: what was done to the block is before what the next holder does.
        let word = self.trimming.swap(0, SeqCst);
        match word & (LEFT | LEFT_FOR_EVER) {
            0 => Trimmed::Kept,
            LEFT => Trimmed::Left,
            _ => Trimmed::LeftForEver,
        }
    }

    /// Whether a block is being trimmed that the caller has just taken from the program.
    pub fn is_trimmed(&self, unit: usize) -> bool {
        fence_between_locations();
        self.trimming.load(SeqCst) == word(unit)
    }

    /// Leaves a block that the caller has taken to the thread that trims it. Returns false if no
    /// thread does: then the caller goes on.
    pub fn leave(&self, unit: usize, for_ever: bool) -> bool {
        let flag = if for_ever { LEFT_FOR_EVER } else { LEFT };
        self.is_trimmed(unit)
            && self.trimming.compare_exchange(word(unit), word(unit) | flag, SeqCst, SeqCst).is_ok()
    }

    /// In the child of a fork: the unit that a thread was trimming which is not here, and what has
    /// become of it.
    pub fn after_fork(&self) -> Option<(usize, Trimmed)> {
        let word = self.trimming.load(Relaxed);
        (word != 0).then(|| (unit(word), self.end()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn spares() -> Spares {
        Spares { noted: [const { AtomicU64::new(0) }; SPARES], trimming: AtomicU64::new(0) }
    }

    #[test]
    fn a_block_is_noted_once_and_due_after_its_time() {
        let spares = spares();
        // Times count round.
        let last = u64::from(u32::MAX);
        assert!(spares.note(7, 3) && spares.note(7, last));
        assert_eq!(spares.begin(last), None);
        assert_eq!(spares.begin(last + 1), Some(7));
        assert_eq!(spares.end(), Trimmed::Kept);
        assert!(spares.is_empty() && spares.begin(last + 1).is_none());
        assert!((0..SPARES).all(|unit| spares.note(unit, 0)));
        assert!(!spares.note(SPARES, 0) && spares.note(0, 1));
    }

    #[test]
    fn the_child_of_a_fork_ends_what_was_begun() {
        for (freed, trimmed) in [
            (None, Trimmed::Kept),
            (Some(false), Trimmed::Left),
            (Some(true), Trimmed::LeftForEver),
        ] {
            let spares = spares();
            assert_eq!(spares.after_fork(), None);
            assert!(spares.note(7, 0) && spares.note(8, 0));
            assert_eq!((spares.begin(1), spares.begin(1)), (Some(7), None));
            assert!(spares.is_trimmed(7) && !spares.is_trimmed(8) && !spares.leave(8, false));
            assert!(freed.is_none_or(|for_ever| spares.leave(7, for_ever)));
            assert_eq!(spares.after_fork(), Some((7, trimmed)));
            assert_eq!(spares.begin(1), Some(8));
        }
    }
}
