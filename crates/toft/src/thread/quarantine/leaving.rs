//! What leaves a quarantine: some stand in line no longer and go to random places, and who had
//! those leave.

use super::shape::TOGETHER_MOST;
use crate::sync::Ordering::{Relaxed, Release, SeqCst};
use crate::sync::{AtomicUsize, compiler_fence};
use core::mem::MaybeUninit;

/// Multiplier of a generator of 32 bits, of which the highest are used; each group that leaves
/// seeds it again.
const GENERATOR: u32 = 747796405;

/// What leaves together.
#[derive(Debug)]
pub(crate) struct Leaving {
    entries: MaybeUninit<[usize; TOGETHER_MOST]>,
    /// The number of entries. What follows them was never written.
    count: usize,
}

impl Leaving {
    #[inline(always)]
    pub(crate) fn nothing() -> Leaving {
        let mut leaving = MaybeUninit::<Leaving>::uninit();
        // SAFETY: all but the entries is written, which need not be. Not as one value: the compiler
        // would make zeros of what need not be written, for each batch.
        unsafe {
            (&raw mut (*leaving.as_mut_ptr()).count).write(0);
            leaving.assume_init()
        }
    }

    #[inline(always)]
    fn write(&mut self, place: usize, entry: usize) {
        debug_assert!(place < TOGETHER_MOST);
        // SAFETY: `set` writes the first; `let_go` as many as leave together, which are no more
        // than there is room for.
        unsafe { self.entries.as_mut_ptr().cast::<usize>().add(place).write(entry) };
    }

    /// Makes it one entry.
    pub(crate) fn set(&mut self, entry: usize) {
        self.write(0, entry);
        self.count = 1;
    }

    /// What stands in a part of the line goes to random places, and who had those leave: here, or,
    /// where `leaves` is done with them, at once.
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
                // One throw makes all these numbers, and of each its highest bits are used.
                drawn = drawn.wrapping_mul(GENERATOR).wrapping_add(1);
                let number = ((u64::from(drawn) * random.len() as u64) >> 32) as usize;
                // SAFETY: 32 bits of a product by the length are less than that.
                let place = unsafe { random.get_unchecked(number) };
                let before = place.load(Relaxed);
                // put in: who looks from outside finds the block cleared.
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

    /// What has left, the one first that left first.
    #[inline(always)]
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        // SAFETY: `set` and `let_go` count what they have written, which is no more than there is
        // room for.
        (0..self.count)
            .map(|place| unsafe { self.entries.as_ptr().cast::<usize>().add(place).read() })
    }

    /// The entries, the one first that left first.
    #[inline(always)]
    pub(crate) fn each(&self, each: impl FnMut(usize)) {
        self.all().for_each(each);
    }
}
