//! Entries that leave a quarantine: the oldest of the line move to random places, and the entries
//! that they replace leave.

use super::shape::TOGETHER_MOST;
use crate::sync::Ordering::{Relaxed, Release, SeqCst};
use crate::sync::{AtomicUsize, compiler_fence};
use core::mem::MaybeUninit;

/// The multiplier of a 32-bit generator, whose highest bits are used. Each group that leaves seeds
/// it again.
const GENERATOR: u32 = 747796405;

/// The entries that leave together.
#[derive(Debug)]
pub(crate) struct Leaving {
    entries: MaybeUninit<[usize; TOGETHER_MOST]>,
    /// The number of entries. The memory after them was never written.
    count: usize,
}

impl Leaving {
    #[inline(always)]
    pub(crate) fn nothing() -> Leaving {
        let mut leaving = MaybeUninit::<Leaving>::uninit();
        // SAFETY: everything is written except the entries, which may stay unwritten. Not written
        // as one value, because the compiler would then write zeros to the entries of each batch.
        unsafe {
            (&raw mut (*leaving.as_mut_ptr()).count).write(0);
            leaving.assume_init()
        }
    }

    #[inline(always)]
    fn write(&mut self, place: usize, entry: usize) {
        debug_assert!(place < TOGETHER_MOST);
        // SAFETY: `set` writes the first entry. `let_go` writes at most as many as leave together,
        // which fit.
        unsafe { self.entries.as_mut_ptr().cast::<usize>().add(place).write(entry) };
    }

    /// Replaces the entries by a single one.
    pub(crate) fn set(&mut self, entry: usize) {
        self.write(0, entry);
        self.count = 1;
    }

    /// Moves the entries of a part of the line to random places. Each entry that they replace is
    /// passed to `leaves`. If that returns false, the entry is added to this value.
    #[inline(never)]
    pub(super) fn let_go(
        &mut self,
        line: &[AtomicUsize],
        random: &[AtomicUsize],
        mut drawn: u32,
        leaves: impl Fn(usize) -> bool,
    ) {
        let mut left = 0;
        for place in line {
            let mut entry = place.load(Relaxed);
            if entry == 0 {
                continue;
            }
            // In this order: a fork in between loses some blocks, and frees none twice.
            place.store(0, Relaxed);
            compiler_fence(SeqCst);
            if !random.is_empty() {
                // One throw of the dice is the source of all these numbers. The highest bits of
                // each are used.
                drawn = drawn.wrapping_mul(GENERATOR).wrapping_add(1);
                let number = ((u64::from(drawn) * random.len() as u64) >> 32) as usize;
                // SAFETY: the upper half of a product of a 32-bit number and the length is less
                // than the length.
                let place = unsafe { random.get_unchecked(number) };
                let before = place.load(Relaxed);
                // put in: a thread that reads the place from outside finds the block cleared.
                place.store(entry, Release);
                if before == 0 {
                    continue;
                }
                entry = before;
            }
            if !leaves(entry) {
                self.write(left, entry);
                left += 1;
            }
        }
        self.count = left;
    }

    /// Returns the entries in the order in which they left.
    #[inline(always)]
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        // SAFETY: `set` and `let_go` count the entries that they have written, which fit.
        (0..self.count)
            .map(|place| unsafe { self.entries.as_ptr().cast::<usize>().add(place).read() })
    }

    /// Passes the entries to `each` in the order in which they left.
    #[inline(always)]
    pub(crate) fn each(&self, each: impl FnMut(usize)) {
        self.all().for_each(each);
    }
}
