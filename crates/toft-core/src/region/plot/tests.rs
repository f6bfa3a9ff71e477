//! Plots on a fake machine: slabs that were unmapped again, and the view of a late thread.

use super::*;
use crate::os::Memory;
use crate::os::fake::{Fake, Machine};
use crate::region::SMALL;
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

/// Slabs that were unmapped are mapped again, and a partition whose plots are full goes on in
/// others' plots. Every slab is handed out once before memory is refused, even after earlier
/// refusals.
#[test]
fn every_slab_is_had_before_memory_is_refused() {
    for partitions in [1, 8, 64] {
        let fake = Fake::new(Machine::LARGE);
        let os = &fake;
        let base = fake.address_space().start.next_multiple_of(1 << 40);
        let (span, tables, slabs) = (1 << 26, base + (8 << 40), base + (4 << 40));
        let bytes = Plots::<SMALL, Any>::table_bytes(span, partitions);
        os.map(tables, bytes.next_multiple_of(4096)).unwrap();
        // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
        let plots = unsafe { Plots::<SMALL, Any>::new(os, base, span, partitions, slabs, tables) };
        let plots = plots.unwrap();
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
    let base = fake.address_space().start.next_multiple_of(1 << 40);
    let (tables, slabs) = (base + (8 << 40), base + (4 << 40));
    let bytes = Plots::<SMALL, Any>::table_bytes(1 << 41, 1);
    os.map(tables, bytes.next_multiple_of(4096)).unwrap();
    // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
    let plots = unsafe { Plots::<SMALL, Any>::new(os, base, 1 << 41, 1, slabs, tables) }.unwrap();
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
    let base = fake.address_space().start.next_multiple_of(1 << 40);
    let (span, tables, slabs) = (1 << 26, base + (8 << 40), base + (4 << 40));
    let bytes = Plots::<SMALL, Any>::table_bytes(span, 8);
    os.map(tables, bytes.next_multiple_of(4096)).unwrap();
    // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
    let plots = unsafe { Plots::<SMALL, Any>::new(os, base, span, 8, slabs, tables) }.unwrap();
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
