//! Plots on a fake machine: slabs that were unmapped again, and the view of a late thread.

use super::*;
use crate::os::Memory;
use crate::os::fake::{Fake, Machine};
use crate::region::SMALL;
use crate::sync::Ordering::Relaxed;
use std::vec::Vec;
extern crate std;

/// A descriptor of 64 bytes, always open.
#[repr(C, align(64))]
#[derive(Debug)]
struct Any([u8; 64]);

// SAFETY: (1) bytes; (2) they are never written.
unsafe impl Descriptor for Any {
    fn is_open(&self) -> bool {
        true
    }
}

/// Bytes of address space for everything of one test.
const ALL: usize = 1 << 40;

/// Returns the plots of a tier of `span` bytes, and the address of its first descriptor.
fn plots(fake: &Fake, span: usize, partitions: usize) -> (Plots<SMALL, Any>, usize) {
    let base = fake.address_space().start.next_multiple_of(ALL);
    let (tables, slabs) = (base + 8 * ALL, base + 4 * ALL);
    let bytes = Plots::<SMALL, Any>::table_bytes(span, partitions);
    fake.map(tables, bytes.next_multiple_of(4096)).unwrap();
    // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
    let plots = unsafe { Plots::new(fake, base, span, partitions, slabs, tables) };
    (plots.unwrap(), slabs)
}

/// Slabs that were unmapped are mapped again, and a partition whose plots are full goes on in
/// others' plots. Every slab is handed out once before memory is refused, even after earlier
/// refusals.
#[test]
fn every_slab_is_had_before_memory_is_refused() {
    for partitions in [1, 8, 64] {
        let fake = Fake::new(Machine::LARGE);
        let os = &fake;
        let span = 1 << 26;
        let (plots, _) = plots(os, span, partitions);
        let mut all = std::collections::BTreeSet::new();
        // One of many partitions gets all slabs.
        while let Ok((_, address)) = plots.take(os, Partition::new(partitions / 2), |_, _| {}) {
            assert!(all.insert(address), "{address:#x} was handed out twice");
            if all.len() % 3 == 0 {
                plots.retract(os);
                assert_eq!(plots.mapped_bytes().0, all.len() << Plots::<SMALL, Any>::SHIFT);
                assert_eq!(plots.mapped_at_most(), plots.mapped_bytes().0);
            }
        }
        // Each slab is found by its addresses, and by no other address: also not by one that
        // differs in a bit above those that choose the entry.
        for &address in all.iter().step_by(97) {
            assert!(plots.slab_at(address + 4095).is_some());
            assert_eq!((48..64).find(|bit| plots.slab_at(address | 1 << bit).is_some()), None);
            assert!((48..64).all(|bit| plots.slab_at(1 << bit).is_none()));
        }
        // The first plots of other partitions are not used while there are plots that were never
        // used.
        assert_eq!(all.len(), span >> Plots::<SMALL, Any>::SHIFT, "{partitions}");
    }
}

/// A thread stopped for ever while it grew a plot, or something foreign is there. Other threads go
/// on in another plot, and the plot is no longer chosen. In the child of a fork it grows again.
#[test]
fn a_plot_that_cannot_grow_is_passed_by() {
    let fake = Fake::new(Machine::LARGE);
    let os = &fake;
    let (plots, _) = plots(os, 1 << 41, 1);
    let take = || plots.take(os, Partition::new(0), |_, _| {}).unwrap().1;
    let first = take();
    plots.retract(os);
    plots.growth(0).begin();
    let second = take();
    assert!(second >> GRANULE_SHIFT != first >> GRANULE_SHIFT);
    assert!(!plots.has_room(0) && plots.has_room(1));
    plots.repair(os, 1);
    assert!(plots.has_room(0));
    // A foreign mapping hits the second plot once. The plot is not tried again while the third has
    // room.
    plots.retract(os);
    let next = second + (1 << Plots::<SMALL, Any>::SHIFT);
    assert!(os.occupy(next..next + 4096));
    let collisions = os.collisions();
    let third = take();
    assert!(![first, second].iter().any(|slab| slab >> GRANULE_SHIFT == third >> GRANULE_SHIFT));
    take();
    assert_eq!(os.collisions(), collisions + 1);
}

/// The child of a fork repairs the plots of the partitions in use, and the extra plots. If all
/// plots are given out, it also repairs those of unused partitions, because other partitions may
/// use them.
#[test]
fn a_child_repairs_the_plots_that_may_be_in_use() {
    let fake = Fake::new(Machine::LARGE);
    let os = &fake;
    let (plots, _) = plots(os, 1 << 26, 8);
    let (used, unused, extra) = (4, 7, 8);
    // Partition 4 goes on in the first extra plot.
    plots.growth(used).begin();
    plots.take(os, Partition::new(used), |_, _| {}).unwrap();
    plots.retract(os);
    plots.growth(unused).begin();
    plots.growth(extra).begin();
    plots.repair(os, used + 1);
    assert!(plots.has_room(used) && plots.has_room(extra) && !plots.has_room(unused));
    while plots.begun() < plots.plots {
        plots.take(os, Partition::new(used), |_, _| {}).unwrap();
    }
    plots.repair(os, used + 1);
    assert!(plots.has_room(unused));
}

fn address_of(descriptor: &Any) -> usize {
    (&raw const *descriptor).addr()
}

/// The descriptors of the first plots are adjacent, in the order in which these were begun. A
/// partition goes on in a plot of full size, in steps as large as what it has. Each slab is found.
#[test]
fn first_plots_are_short_and_have_adjacent_descriptors() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, slabs) = plots(&fake, 1 << 41, 8);
    let take = |partition| plots.take(&fake, Partition::new(partition), |_, _| {}).unwrap();
    let order = [5, 0, 7, 1, 2];
    for (number, partition) in order.into_iter().enumerate() {
        let (descriptor, _) = take(partition);
        assert_eq!(address_of(descriptor), slabs + number * SHORT * size_of::<Any>());
    }
    assert_eq!(plots.mapped_bytes().1, SHORT_STEP);
    let all: Vec<_> = (1..SHORT + 9).map(|_| take(7)).collect();
    let in_short_plot = |address: usize| address >> GRANULE_SHIFT == all[0].1 >> GRANULE_SHIFT;
    assert_eq!(all.iter().filter(|&&(_, address)| in_short_plot(address)).count(), SHORT - 1);
    let short_end = slabs + short_bytes(1 << 41, size_of::<Any>());
    for &(descriptor, address) in &all {
        let found = plots.slab_at(address + 4095).expect("it was handed out");
        assert!(core::ptr::eq(found, descriptor));
        assert_eq!(address_of(descriptor) < short_end, in_short_plot(address));
    }
    // The next step after 64 slabs is as long.
    let mapped = plots.growth(plots.begun() - 1).counts().mapped;
    assert_eq!((plots.begun(), mapped as usize), (9, SHORT));
    let mut count = 0;
    plots.for_each(|_| count += 1);
    assert_eq!(count, order.len() + SHORT + 8);
    let mut from = 0;
    assert!(!plots.for_each_from(&mut from, |_| false));
    assert!(plots.for_each_from(&mut from, |_| true));
    assert_eq!(from, count);
}

/// A tier with too few plots for all partitions to have two has none that are short.
#[test]
fn partitions_that_need_all_plots_have_no_short_ones() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, _) = plots(&fake, 1 << 41, 1024);
    assert!(plots.short == 0 && (0..plots.plots).all(|n| !plots.is_short(n)));
}

/// A thread stopped for ever while it mapped descriptors of short plots. Another partition goes on
/// in a plot of full size. In the child of a fork short plots are begun again.
#[test]
fn short_plots_are_begun_again_in_a_child() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, slabs) = plots(&fake, 1 << 42, 256);
    let take = |partition| plots.take(&fake, Partition::new(partition), |_, _| {}).unwrap();
    let in_a_step = SHORT_STEP / (SHORT * size_of::<Any>());
    for partition in 0..in_a_step {
        take(partition);
    }
    plots.growth(0).descriptors.begin(SHORT_STEP);
    let is_short = |descriptor| address_of(descriptor) < slabs + 256 * SHORT * size_of::<Any>();
    assert!(!is_short(take(in_a_step).0));
    plots.repair(&fake, in_a_step + 1);
    let (descriptor, address) = take(in_a_step + 1);
    assert!(is_short(descriptor));
    assert!(core::ptr::eq(plots.slab_at(address).unwrap(), descriptor));
}

/// Threads that forks have ended took places for nothing, until there are none left.
#[test]
fn a_plot_without_a_place_for_its_descriptors_is_passed_by() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, slabs) = plots(&fake, 1 << 41, 8);
    let places = short_bytes(1 << 41, size_of::<Any>()) / (SHORT * size_of::<Any>());
    plots.extra()[3].store(places as u32 - 1, Relaxed);
    let take = |partition| plots.take(&fake, Partition::new(partition), |_, _| {}).unwrap();
    let end = slabs + places * SHORT * size_of::<Any>();
    let last = take(3).0;
    assert_eq!(address_of(last), end - SHORT * size_of::<Any>());
    assert!(address_of(take(4).0) >= end);
}
