//! Plots on a fake machine: what was taken back, and what a late thread finds.

use super::*;
use crate::os::fake::{Fake, Machine};
use crate::region::SMALL;
extern crate std;

/// A descriptor of 64 bytes, always open.
#[repr(C, align(64))]
#[derive(Debug)]
struct Any([u8; 64]);

// SAFETY: (1) bytes; (2) nobody writes them.
unsafe impl Descriptor for Any {
    fn is_open(&self) -> bool {
        true
    }
}

/// What was taken back is mapped again, and a partition whose plots are full goes on in others': until
/// memory is refused every slab was handed out once, whatever was refused in between.
#[test]
fn every_slab_is_had_before_memory_is_refused() {
    for partitions in [1, 8, 64] {
        let fake = Fake::new(Machine::LARGE);
        let os = &fake;
        let base = fake.address_space().start.next_multiple_of(1 << 40);
        let (span, tables, slabs) = (1 << 26, base + (8 << 40), base + (4 << 40));
        let bytes = Plots::<SMALL, Any>::table_bytes(span, partitions);
        os.map(tables, bytes.next_multiple_of(4096)).unwrap();
        // SAFETY: (1) mapped above; (2) nobody else uses the fake's address space.
        let plots = unsafe { Plots::<SMALL, Any>::new(os, base, span, partitions, slabs, tables) };
        let plots = plots.unwrap();
        let mut all = std::collections::BTreeSet::new();
        // One of many partitions has them all.
        while let Ok((_, address)) = plots.take(os, partitions / 2, |_, _| {}) {
            assert!(all.insert(address), "{address:#x} was handed out twice");
            if all.len() % 3 == 0 {
                plots.retract(os);
                assert_eq!(plots.mapped_bytes().0, all.len() << Plots::<SMALL, Any>::SHIFT);
            }
        }
        // The others' first plots are theirs as long as there are plots that nobody has.
        assert_eq!(all.len(), span >> Plots::<SMALL, Any>::SHIFT, "{partitions}");
    }
}

/// A thread that looked at a plot before it grew, and was held up until slabs of it were unmapped,
/// maps what is not new: everything must be as if it had not.
#[test]
fn a_late_growth_takes_nothing_back() {
    let fake = Fake::new(Machine::LARGE);
    let os = &fake;
    let base = fake.address_space().start.next_multiple_of(1 << 40);
    let (tables, slabs) = (base + (8 << 40), base + (4 << 40));
    let bytes = Plots::<SMALL, Any>::table_bytes(1 << 41, 1);
    os.map(tables, bytes.next_multiple_of(4096)).unwrap();
    // SAFETY: (1) mapped above; (2) nobody else uses the fake's address space.
    let plots = unsafe { Plots::<SMALL, Any>::new(os, base, 1 << 41, 1, slabs, tables) }.unwrap();
    let taken: Vec<usize> = (0..8).map(|_| plots.take(os, 0, |_, _| {}).unwrap().1).collect();
    let before = plots.mapped_bytes();
    assert!(before.0 >= 8 << Plots::<SMALL, Any>::SHIFT);
    // The owner of the first ones gives their address space back.
    for &slab in &taken[..4] {
        // SAFETY: (1) mapped by `take`.
        unsafe { os.unmap(slab, 1 << Plots::<SMALL, Any>::SHIFT) }.unwrap();
    }
    let mapped = os.mapped_bytes();
    plots.grow(os, 0, 0).unwrap();
    assert_eq!(plots.mapped_bytes(), before);
    assert_eq!(os.mapped_bytes(), mapped);
    assert!(taken.iter().all(|&slab| plots.slab_at(slab).is_some()));
    assert!(!taken.contains(&plots.take(os, 0, |_, _| {}).unwrap().1));
}
