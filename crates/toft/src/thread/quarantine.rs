//! The quarantine of one heap: what its thread has freed and what is not free yet.
//!
//! ```text
//! for each class   random[r]  a block that comes takes the place of one of these, by a throw of dice
//!                  line[l]    and that one the place of the oldest of these, which leaves
//! ```
//!
//! Of up to 256 bytes `r` is 96: how long a block stays there then has 8 bits of entropy. Of more it is what 8 KiB hold,
//! four at least where 16 KiB hold them. `l` is what 16 KiB hold, but 1024 at most: so many more blocks of its class does a
//! block see freed before it leaves, at least. Both are one at least, so no block is free at once. All
//! places together hold [`Quarantine::BYTES_MOST`] bytes of blocks, and `TOFT_QUARANTINE` makes them fewer in
//! proportion.
//!
//! An entry is a word of the caller's that is not zero. The holder of the heap uses the places with its
//! seat. Another thread may empty them where it has *shut* the quarantine first, has made every thread pass
//! a barrier, and has seen the seat empty then: whoever sits down later finds it shut, and goes another
//! way. So the usual way takes no atomic.

use crate::harden::Dice;
use crate::policy::QUARANTINE;
use crate::slab::{CLASSES, Class};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicUsize, Seat};

/// Bytes of blocks of a class in each of the two parts.
const PART: usize = 16 << 10;
/// Blocks of up to so many bytes stay for a time of 8 bits of entropy.
const SMALLEST: usize = 256;
/// So many that how long a block stays has 8 bits of entropy: a geometric distribution with this mean.
const RANDOM_OF_SMALLEST: usize = 96;
/// Bytes of larger blocks at random places, and the fewest places, if 16 KiB hold as many.
const RANDOM_PART: usize = 8 << 10;
const RANDOM_LEAST: usize = 4;
const LINE_MOST: usize = 1024;

/// Where the places of a class are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    first: u16,
    random: u16,
    line: u16,
}

/// The shape of every class, how many places there are, and bytes of blocks in all of them.
const LAYOUT: ([Shape; CLASSES], usize, usize) = {
    let mut shapes = [Shape { first: 0, random: 0, line: 0 }; CLASSES];
    let (mut places, mut bytes, mut class) = (0, 0, 0);
    while class < CLASSES {
        let size = Class::size_of(class);
        let fit = if PART / size == 0 { 1 } else { PART / size };
        let random = match size {
            ..=SMALLEST => RANDOM_OF_SMALLEST,
            _ if RANDOM_PART / size > RANDOM_LEAST => RANDOM_PART / size,
            _ if fit < RANDOM_LEAST => fit,
            _ => RANDOM_LEAST,
        };
        let line = if fit < LINE_MOST { fit } else { LINE_MOST };
        shapes[class] = Shape { first: places as u16, random: random as u16, line: line as u16 };
        places += random + line;
        bytes += (random + line) * size;
        class += 1;
    }
    assert!(places <= u16::MAX as usize);
    (shapes, places, bytes)
};

static SHAPES: [Shape; CLASSES] = LAYOUT.0;

/// All shares are of this many.
pub(crate) const WHOLE: usize = 1 << 16;

/// What is needed of a class at each free. Holder of the heap.
#[derive(Debug)]
#[repr(C, align(16))]
struct Row {
    /// Its first place, how many at random there are from there on, and where those in line end that are behind
    /// them. All zero until the class is first asked for; and for ever, where it has not both kinds.
    first: AtomicU32,
    random: AtomicU32,
    end: AtomicU32,
    /// The place of the oldest of the line.
    oldest: AtomicU32,
}

/// Lies behind a heap's bins, zero at first.
#[derive(Debug)]
pub(crate) struct Quarantine {
    /// Not zero while another thread empties it. Any thread, by exchange.
    shut: AtomicU32,
    rows: [Row; CLASSES],
    /// Entries, or zero. Holder of the heap; or who has shut it.
    places: [AtomicUsize; LAYOUT.1],
}

impl Quarantine {
    /// Bytes that it takes.
    pub(crate) const BYTES: usize = if QUARANTINE { size_of::<Quarantine>() } else { 0 };
    /// Bytes of blocks that it may hold.
    pub(crate) const BYTES_MOST: usize = LAYOUT.2;

    /// The share of the places that hold so many bytes of blocks at most.
    pub(crate) fn share(bytes: usize) -> usize {
        let bytes = bytes.min(Self::BYTES_MOST);
        (bytes as u128 * WHOLE as u128 / Self::BYTES_MOST as u128) as usize
    }

    /// The quarantine at an address.
    ///
    /// # Safety
    /// 1. There are `BYTES` bytes for it alone that live for ever, and were zero at first.
    #[inline(always)]
    pub(crate) unsafe fn at(address: usize) -> &'static Quarantine {
        // SAFETY: duty 1; zero bytes are one.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Puts something in, and says what leaves it for that, or zero; nothing, where another thread is at
    /// it.
    pub(crate) fn exchange(
        &self,
        seat: &Seat,
        class: usize,
        entry: usize,
        share: usize,
        dice: &Dice,
    ) -> Option<usize> {
        if let Some(leaves) = self.exchange_again(seat, class, entry, dice) {
            return Some(leaves);
        }
        // pairs: open.
        (self.shut.load(Acquire) == 0).then(|| self.exchange_first(class, entry, share, dice))
    }

    /// The same where the class has places of both kinds, and has had a block before; nothing, where it has not.
    #[inline(always)]
    pub(crate) fn exchange_again(
        &self,
        _seat: &Seat,
        class: usize,
        entry: usize,
        dice: &Dice,
    ) -> Option<usize> {
        // pairs: open.
        if self.shut.load(Acquire) != 0 {
            return None;
        }
        let row = self.rows.get(class % CLASSES)?;
        let (first, random) = (row.first.load(Relaxed), row.random.load(Relaxed));
        let end = row.end.load(Relaxed);
        if end == 0 {
            return None;
        }
        let leaves = self.replace(first as usize + dice.below(random as usize), entry);
        if leaves == 0 {
            return Some(0);
        }
        let at = row.oldest.load(Relaxed);
        row.oldest.store(if at + 1 < end { at + 1 } else { first + random }, Relaxed);
        Some(self.replace(at as usize, leaves))
    }

    /// The class's first block, or one of a class of which the share leaves places of one kind, or none.
    #[cold]
    fn exchange_first(&self, class: usize, entry: usize, share: usize, dice: &Dice) -> usize {
        let (Some(shape), Some(row)) = (SHAPES.get(class), self.rows.get(class)) else {
            return entry;
        };
        let of = |places: u16| (places as usize * share / WHOLE) as u32;
        let (first, random, line) = (u32::from(shape.first), of(shape.random), of(shape.line));
        let mut leaves = entry;
        if random != 0 {
            leaves = self.replace(first as usize + dice.below(random as usize), leaves);
        }
        let begin = first + random;
        let at = row.oldest.load(Relaxed).max(begin);
        row.oldest.store(at, Relaxed);
        if line != 0 && leaves != 0 {
            row.oldest.store(if at + 1 < begin + line { at + 1 } else { begin }, Relaxed);
            leaves = self.replace(at as usize, leaves);
        }
        if random != 0 && line != 0 {
            row.first.store(first, Relaxed);
            row.random.store(random, Relaxed);
            row.end.store(begin + line, Relaxed);
        }
        leaves
    }

    #[inline(always)]
    fn replace(&self, place: usize, entry: usize) -> usize {
        debug_assert!(place < LAYOUT.1);
        // SAFETY: `exchange_first` writes rows, from the shapes, whose places end with the last there is.
        let place = unsafe { self.places.get_unchecked(place) };
        let before = place.load(Relaxed);
        // put in: who looks from outside finds the block cleared.
        place.store(entry, Release);
        before
    }

    /// Names everything that is in it, where it stays. Holder of the heap, with its seat.
    pub(crate) fn each(&self, mut each: impl FnMut(usize)) {
        for place in &self.places {
            let entry = place.load(Relaxed);
            if entry != 0 {
                each(entry);
            }
        }
    }

    /// What is in it at this moment, each by the number of its place. Any thread.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let entry = |place: usize| (place, self.entry_at(place));
        (0..self.places.len()).map(entry).filter(|(_, entry)| *entry != 0)
    }

    /// What is at a place at this moment, or zero. Any thread: what its holder has done to the block before, it sees.
    pub(crate) fn entry_at(&self, place: usize) -> usize {
        // pairs: put in.
        self.places.get(place).map_or(0, |place| place.load(Acquire))
    }

    /// Takes everything out, an entry at a time. Holder of the heap with its seat, or who has shut it.
    pub(crate) fn empty(&self, mut each: impl FnMut(usize)) {
        for place in &self.places {
            // Away before it is used: a fork in between loses one block, and frees none twice.
            let entry = place.load(Relaxed);
            if entry != 0 {
                place.store(0, Relaxed);
                each(entry);
            }
        }
    }

    /// Keeps its holder out, from the next time that every thread has passed a barrier. Whether nobody
    /// else does.
    pub(crate) fn shut(&self) -> bool {
        self.shut.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
    }

    /// Ends that; or what a thread has begun that is no more.
    pub(crate) fn open(&self) {
        // open: who finds it open again sees what was taken out.
        self.shut.store(0, Release);
    }
}

#[cfg(all(test, feature = "hardened"))]
mod tests {
    use super::*;
    use crate::sync::Busy;
    use std::boxed::Box;
    use std::collections::VecDeque;
    use std::vec::Vec;
    extern crate std;

    fn quarantine() -> Box<Quarantine> {
        Box::new(Quarantine {
            shut: AtomicU32::new(0),
            rows: [const {
                Row {
                    first: AtomicU32::new(0),
                    random: AtomicU32::new(0),
                    end: AtomicU32::new(0),
                    oldest: AtomicU32::new(0),
                }
            }; CLASSES],
            places: [const { AtomicUsize::new(0) }; LAYOUT.1],
        })
    }

    /// Law 4, and promise 13: so many others are freed before a block leaves, and as many as there is
    /// room for are in it.
    #[test]
    fn a_block_stays_for_as_many_frees_as_are_promised() {
        let (busy, dice) = (Busy::new(), Dice::new());
        dice.seed(77);
        for class in Class::all() {
            let quarantine = quarantine();
            let least = (PART / class.size()).clamp(1, LINE_MOST);
            let (mut came, mut inside) = (VecDeque::new(), 0usize);
            let mut sum = 0;
            for entry in 1..=20_000usize {
                came.push_back(entry);
                let seat = busy.sit().unwrap();
                let left = quarantine.exchange(&seat, class.index(), entry, WHOLE, &dice).unwrap();
                inside += 1;
                if left != 0 {
                    inside -= 1;
                    assert!(entry - left >= least, "{class:?}: {left} leaves at {entry}");
                    sum += entry - left;
                }
            }
            let shape = SHAPES[class.index()];
            assert_eq!(inside, (shape.random + shape.line) as usize, "{class:?}");
            let mean = sum / (20_000 - inside);
            assert!(mean.abs_diff(inside) <= inside / 4 + 2, "{class:?}: {mean} of {inside}");
            let mut emptied = 0;
            quarantine.empty(|_| emptied += 1);
            assert_eq!(emptied, inside);
            quarantine.empty(|_| panic!("it is empty"));
        }
    }

    /// Promise 13: of n places each is thrown with the same chance, so that a block stays for k frees with the
    /// chance (1 - 1/n)^(k-1) / n.
    #[test]
    fn how_long_a_small_block_stays_has_eight_bits_of_entropy() {
        for class in Class::all().filter(|class| class.size() <= SMALLEST) {
            let chance = 1.0 / f64::from(SHAPES[class.index()].random);
            let other = 1.0 - chance;
            let entropy = -(other * other.log2() + chance * chance.log2()) / chance;
            assert!(entropy >= 8.0, "{class:?}: {entropy}");
        }
    }

    /// For how many frees each of many blocks stays at a random place: all that pass, but for those in line.
    fn stays(class: Class, seed: u64, blocks: usize) -> Vec<usize> {
        let (busy, dice, quarantine) = (Busy::new(), Dice::new(), quarantine());
        dice.seed(seed);
        let line = SHAPES[class.index()].line as usize;
        let mut stays = Vec::new();
        for entry in 1.. {
            let seat = busy.sit().unwrap();
            let left = quarantine.exchange(&seat, class.index(), entry, WHOLE, &dice).unwrap();
            // Of those that came before the line was full, some passed it faster.
            if left > 20_000 {
                stays.push(entry - left - line);
            }
            if stays.len() == blocks {
                return stays;
            }
        }
        stays
    }

    /// Promise 13: the stays are as they must be, by a chi-square test over 32 intervals that are equally likely. Of 31
    /// degrees of freedom one in ten thousand is above 70.
    #[test]
    fn how_long_blocks_stay_is_distributed_as_it_must_be() {
        const CELLS: usize = 32;
        const BLOCKS: usize = 64_000;
        let chi_square = |stays: &[usize], places: usize| {
            let other = 1.0 - 1.0 / places as f64;
            let after = |stay: usize| 1.0 - other.powi(stay as i32);
            let (mut counts, mut chances) = ([0usize; CELLS], [0.0; CELLS]);
            let cell = |stay: usize| ((after(stay) * CELLS as f64) as usize).min(CELLS - 1);
            stays.iter().for_each(|&stay| counts[cell(stay)] += 1);
            // The intervals are of whole numbers, so not quite equally likely.
            (1..100 * places).for_each(|stay| {
                chances[cell(stay)] += after(stay) - after(stay - 1);
            });
            let term = |(&count, chance): (&usize, f64)| {
                let expected = chance * stays.len() as f64;
                (count as f64 - expected) * (count as f64 - expected) / expected
            };
            counts.iter().zip(chances).map(term).sum::<f64>()
        };
        for class in Class::all().filter(|class| class.size() <= SMALLEST) {
            let places = SHAPES[class.index()].random as usize;
            for seed in [3, 1 << 40, u64::MAX / 7] {
                let stays = stays(class, seed, BLOCKS);
                let sum = chi_square(&stays, places);
                assert!(sum < 70.0, "{class:?}, seed {seed}: {sum}");
                // One place more or less would be seen: the test is as sharp as that.
                assert!(chi_square(&stays, places + 4) > 70.0, "{class:?}, seed {seed}");
                let mean = stays.iter().sum::<usize>() as f64 / BLOCKS as f64;
                assert!((mean - places as f64).abs() < 2.0, "{class:?}, seed {seed}: {mean}");
            }
        }
    }

    #[test]
    fn the_bytes_are_bounded_and_can_be_fewer() {
        const { assert!(Quarantine::BYTES_MOST <= 3 << 20) };
        assert_eq!(Quarantine::share(usize::MAX), WHOLE);
        assert_eq!(Quarantine::share(0), 0);
        let (busy, dice, quarantine) = (Busy::new(), Dice::new(), quarantine());
        let share = Quarantine::share(1 << 20);
        let mut bytes = 0;
        for class in Class::all() {
            for entry in 1..5000 {
                let seat = busy.sit().unwrap();
                let left = quarantine.exchange(&seat, class.index(), entry, share, &dice).unwrap();
                bytes += class.size() * usize::from(left == 0);
            }
        }
        // Of the largest, a part of one place is none.
        assert!(bytes <= 1 << 20 && bytes > 400 << 10, "{bytes}");
    }

    #[test]
    fn nobody_comes_in_while_it_is_shut() {
        let (busy, dice, quarantine) = (Busy::new(), Dice::new(), quarantine());
        let seat = busy.sit().unwrap();
        assert!(quarantine.shut() && !quarantine.shut());
        assert_eq!(quarantine.exchange(&seat, 0, 9, WHOLE, &dice), None);
        quarantine.open();
        assert_eq!(quarantine.exchange(&seat, 0, 9, WHOLE, &dice), Some(0));
    }
}
