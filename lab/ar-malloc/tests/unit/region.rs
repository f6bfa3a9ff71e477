//! Unit tests of `src/region.rs`, which use what is private to it.

use super::*;
use crate::class::Class;

#[test]
fn slabs_are_aligned_known_by_address_and_writable() {
    let region = Region::new();
    assert!(region.claim().is_none() && !region.contains(0));
    region.reserve();
    let place = region.claim().unwrap();
    assert!(place.addr().is_multiple_of(SLAB_BYTES));
    // SAFETY: (1) the memory was claimed a moment ago.
    let slab = unsafe { Slab::open(place, Class::of(16).unwrap(), (0, 0)) };
    assert!(region.slab_at(place.addr() + 99).is_some_and(|found| std::ptr::eq(found, slab)));
    assert!(region.slab_at(place.addr() - 1).is_none());
    assert!(region.slab_at(place.addr() + SLAB_BYTES).is_none());
    assert!(region.contains(place.addr() + SLAB_BYTES));
    assert_eq!(region.slabs().count(), 1);
}

#[test]
fn a_full_region_has_no_slab() {
    let region = Region::new();
    region.reserve();
    region.room.store(2, Relaxed);
    assert_eq!([(); 4].map(|()| region.claim().is_some()), [true, true, false, false]);
    assert!(region.slabs().count() <= 2);
}
