//! Tests of the delay of blocks in a quarantine, by counting and by statistics, and of forks and of
//! emptying by other threads.

use super::shape::{LINE_MOST, PART, SMALLEST};
use super::*;
use crate::slab::SizeClass;
use crate::sync::Busy;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::vec::Vec;
extern crate std;

fn quarantine() -> Box<Quarantine> {
    // SAFETY: memory of the type's layout, if there is any; zero bytes are a `Quarantine`.
    unsafe {
        Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Quarantine>()).cast())
    }
}

/// Puts in an entry like a free, and returns the entries that leave, or `None` if the quarantine is
/// shut.
fn exchange(
    quarantine: &Quarantine,
    class: SizeClass,
    entry: usize,
    (share, dice): (usize, &Dice),
) -> Option<Vec<usize>> {
    let (busy, mut leaving) = (Busy::new(), Leaving::nothing());
    let guard = busy.enter().unwrap();
    // `leaves` leaves one entry in three to the caller.
    let left = core::cell::RefCell::new(Vec::new());
    let leaves = |entry: usize| {
        let done = !entry.is_multiple_of(3);
        if done {
            left.borrow_mut().push(entry);
        }
        done
    };
    let (class, drawn) = (class.index(), (share, dice));
    let taken = quarantine.enqueue(class, entry)
        || quarantine.exchange(&guard, class, entry, drawn, &mut leaving, leaves);
    let mut left = left.into_inner();
    leaving.each(|entry| left.push(entry));
    taken.then_some(left)
}

/// A fork may interrupt the opening of a line, or the making of room in it. The child then has no
/// place until the line begins again. No entry is lost, and none leaves twice.
#[test]
fn a_line_that_was_cut_off_while_room_was_made_begins_anew() {
    let dice = Dice::new();
    dice.seed(5);
    for class in SizeClass::all() {
        let quarantine = quarantine();
        let mut inside = BTreeSet::new();
        for entry in 1..=5_000usize {
            if entry % 700 == 0 {
                quarantine.rows[class.index()].stop.store(0, Relaxed);
            }
            inside.insert(entry);
            for left in exchange(&quarantine, class, entry, (WHOLE, &dice)).unwrap() {
                assert!(inside.remove(&left), "{class:?}: {left} leaves and is not there");
            }
        }
        quarantine.empty(|entry| assert!(inside.remove(&entry), "{class:?}: {entry}"));
        assert!(inside.is_empty(), "{class:?}: {inside:?} are lost");
    }
}

/// Law 4 and promise 13: at least `least` other blocks are freed before a block leaves. The
/// quarantine holds as many blocks as it has room for. Where a class has random places, blocks wait
/// for different times, and not only because they leave together.
#[test]
fn a_block_stays_for_as_many_frees_as_are_promised() {
    let dice = Dice::new();
    dice.seed(77);
    for class in SizeClass::all() {
        let quarantine = quarantine();
        let least = (PART / class.size()).clamp(1, LINE_MOST);
        let (mut inside, mut sum, mut most) = (BTreeSet::new(), 0, 0);
        let mut delays = BTreeSet::new();
        for entry in 1..=20_000usize {
            for left in exchange(&quarantine, class, entry, (WHOLE, &dice)).unwrap() {
                assert!(entry - left >= least, "{class:?}: {left} leaves at {entry}");
                assert!(inside.remove(&left), "{class:?}: {left} leaves and is not there");
                sum += entry - left;
                delays.insert(entry - left);
            }
            inside.insert(entry);
            most = most.max(inside.len());
        }
        let shape = SHAPES[class.index()];
        let (all, together) =
            ((shape.random + shape.line + shape.together - 1) as usize, shape.together as usize);
        assert!(most == all && inside.len() > all - together, "{class:?}: {most} of {all}");
        assert!(shape.random == 0 || delays.len() > together, "{class:?}: {delays:?}");
        let mean = sum / (20_000 - inside.len());
        assert!(mean.abs_diff(all - together / 2) <= all / 4 + 2, "{class:?}: {mean} of {all}");
        let mut there = BTreeSet::new();
        let busy = Busy::new();
        quarantine.each(&busy.enter().unwrap(), |entry| assert!(there.insert(entry)));
        assert_eq!(there, inside);
        quarantine.empty(|entry| assert!(there.remove(&entry)));
        assert!(there.is_empty());
        quarantine.empty(|_| panic!("it is empty"));
    }
}

/// The quarantine is emptied in the middle of a line. No entry leaves twice, and the line
/// continues.
#[test]
fn what_was_emptied_fills_again() {
    let dice = Dice::new();
    dice.seed(78);
    for class in SizeClass::all() {
        let (quarantine, mut inside) = (quarantine(), BTreeSet::new());
        for entry in 1..=5000usize {
            for left in exchange(&quarantine, class, entry, (WHOLE, &dice)).unwrap() {
                assert!(inside.remove(&left));
            }
            inside.insert(entry);
            if entry % 777 == 0 {
                quarantine.empty(|entry| assert!(inside.remove(&entry)));
                assert!(inside.is_empty());
            }
        }
    }
}

/// Promise 13: each of n places is thrown with the same chance. A block therefore stays for k frees
/// with the chance (1 - 1/n)^(k-1) / n.
#[test]
fn how_long_a_small_block_stays_has_eight_bits_of_entropy() {
    for class in SizeClass::all().filter(|class| class.size() <= SMALLEST) {
        let chance = 1.0 / f64::from(SHAPES[class.index()].random);
        let other = 1.0 - chance;
        let entropy = -(other * other.log2() + chance * chance.log2()) / chance;
        assert!(entropy >= 8.0, "{class:?}: {entropy}");
    }
}

/// Returns the number of throws for which each of many blocks stays at a random place.
fn stays(class: SizeClass, seed: u64, blocks: usize) -> Vec<usize> {
    let (busy, dice, quarantine) = (Busy::new(), Dice::new(), quarantine());
    dice.seed(seed);
    // One throw for each place finds it empty, and no entry leaves then. Entries reach the random
    // places in the order of their numbers.
    let empty = SHAPES[class.index()].random as usize;
    let (mut stays, mut passed) = (Vec::new(), 0);
    for entry in 1.. {
        let (guard, mut leaving) = (busy.enter().unwrap(), Leaving::nothing());
        let class = class.index();
        if !quarantine.enqueue(class, entry) {
            let drawn = (WHOLE, &dice);
            assert!(quarantine.exchange(&guard, class, entry, drawn, &mut leaving, |_| false));
        }
        for left in leaving.all() {
            passed += 1;
            // The blocks that found empty places do not count.
            if left > 20_000 {
                stays.push(passed + empty - left);
            }
        }
        if stays.len() >= blocks {
            stays.truncate(blocks);
            return stays;
        }
    }
    stays
}

/// Promise 13: the delays have the expected distribution, by a chi-square test over 32 equally
/// likely intervals. With 31 degrees of freedom one result in ten thousand is above 70.
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
        // The intervals consist of whole numbers, so they are not quite equally likely.
        (1..100 * places).for_each(|stay| {
            chances[cell(stay)] += after(stay) - after(stay - 1);
        });
        let term = |(&count, chance): (&usize, f64)| {
            let expected = chance * stays.len() as f64;
            (count as f64 - expected) * (count as f64 - expected) / expected
        };
        counts.iter().zip(chances).map(term).sum::<f64>()
    };
    for class in SizeClass::all().filter(|class| class.size() <= SMALLEST) {
        let places = SHAPES[class.index()].random as usize;
        for seed in [3, 1 << 40, u64::MAX / 7] {
            let stays = stays(class, seed, BLOCKS);
            let sum = chi_square(&stays, places);
            assert!(sum < 70.0, "{class:?}, seed {seed}: {sum}");
            // The test is sharp: four places more would fail it.
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
    let (dice, quarantine) = (Dice::new(), quarantine());
    let share = Quarantine::share(1 << 20);
    let mut bytes = 0;
    for class in SizeClass::all() {
        let mut inside = 0;
        for entry in 1..5000 {
            let left = exchange(&quarantine, class, entry, (share, &dice)).unwrap();
            inside += 1 - left.len() as isize;
        }
        bytes += class.size() * inside as usize;
    }
    // The share of the one place of the largest classes is no place.
    assert!(bytes <= 1 << 20 && bytes > 300 << 10, "{bytes}");
}

#[test]
fn nobody_comes_in_while_it_is_shut() {
    let (dice, quarantine) = (Dice::new(), quarantine());
    let class = SizeClass::new(0);
    assert!(quarantine.shut() && !quarantine.shut());
    assert_eq!(exchange(&quarantine, class, 9, (WHOLE, &dice)), None);
    quarantine.open();
    assert_eq!(exchange(&quarantine, class, 9, (WHOLE, &dice)), Some(Vec::new()));
    assert!(quarantine.shut());
    // Entries still enter while there are places left.
    let mut more = 0;
    while exchange(&quarantine, class, 8, (WHOLE, &dice)) == Some(Vec::new()) {
        more += 1;
    }
    assert_eq!(more + 1, SHAPES[0].together);
    for _ in 0..9 {
        assert_eq!(exchange(&quarantine, class, 8, (WHOLE, &dice)), None);
    }
    let busy = Busy::new();
    quarantine.each(&busy.enter().unwrap(), |_| panic!("what is in it is another's"));
    quarantine.open();
    let mut seen = 0;
    quarantine.each(&busy.enter().unwrap(), |entry| seen += entry);
    assert_eq!(seen, 9 + 8 * usize::from(more));
    // Places that were requested in vain are forgotten.
    for _ in 0..SHAPES[0].together {
        assert_eq!(exchange(&quarantine, class, 7, (WHOLE, &dice)), Some(Vec::new()));
    }
}
