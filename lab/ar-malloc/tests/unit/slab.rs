//! Unit tests of `src/slab.rs`, which use what is private to it.

use super::*;

/// A slab that is freed at its end, since no pointer to it is left then.
fn with_slab(size: usize, test: impl FnOnce(&Slab)) {
    let layout = std::alloc::Layout::from_size_align(SLAB_BYTES, SLAB_BYTES).unwrap();
    // SAFETY: the layout is not of size zero; the slab is not used after the memory is freed.
    unsafe {
        let place = std::alloc::alloc_zeroed(layout);
        test(Slab::open(place, Class::of(size).unwrap(), (7, 3)));
        std::alloc::dealloc(place, layout);
    }
}

#[test]
fn slots_are_inside_apart_and_found_again() {
    for class in Class::all() {
        with_slab(class.size(), |slab| {
            let base = std::ptr::from_ref(slab).addr();
            let mut end = base + size_of::<Slab>() + usize::from(slab.slots) * 2;
            while let Some(slot) = slab.take(From::Program) {
                let address = slab.address(slot);
                assert!(address >= end && address.is_multiple_of(16));
                end = address + class.size();
                assert_eq!(slab.slot_at(address), Some(slot));
                for off in [1, 8, class.size() - 1] {
                    assert_eq!(slab.slot_at(address + off), None);
                }
            }
            // At the end is less than one more slot, and what the alignment of slot 0 takes.
            let left = (base + SLAB_BYTES).checked_sub(end).unwrap();
            assert!(left < class.size() + 2 * 64, "{left}");
            assert_eq!(slab.slot_at(base), None);
            assert_eq!(slab.take(From::Program), None);
        });
    }
}

#[test]
fn the_last_freed_slot_is_handed_out_first_and_only_once() {
    with_slab(64, |slab| {
        let slots = [(); 3].map(|()| slab.take(From::Program).unwrap());
        assert_eq!(slab.give(slots[0], From::Program), Ok(()));
        assert_eq!(slab.give(slots[2], From::Program), Ok(()));
        assert_eq!(slab.give(slots[2], From::Program), Err(NotInUse));
        assert_eq!(slab.give_remote(slots[0], From::Program), Err(NotInUse));
        assert_eq!(slab.take(From::Program), Some(slots[2]));
        assert_eq!(slab.take(From::Program), Some(slots[0]));
    });
}

#[test]
fn a_cached_slot_is_not_live_and_cannot_be_freed() {
    with_slab(16, |slab| {
        let slot = slab.take(From::Program).unwrap();
        assert!(slab.is_live(slot));
        assert_eq!(slab.change(slot, From::Program, From::Cache), Ok(()));
        assert!(!slab.is_live(slot));
        assert_eq!(slab.change(slot, From::Program, From::Cache), Err(NotInUse));
        assert_eq!(slab.give(slot, From::Program), Err(NotInUse));
        assert_eq!(slab.change(slot, From::Cache, From::Program), Ok(()));
        assert_eq!(slab.change(slot, From::Cache, From::Program), Err(NotInUse));
    });
}

#[test]
fn remote_frees_are_counted_as_free_and_collected() {
    with_slab(512, |slab| {
        let slots = [(); 3].map(|()| slab.take(From::Program).unwrap());
        assert_eq!(slab.give_remote(slots[0], From::Program), Ok(true));
        assert_eq!(slab.give_remote(slots[1], From::Program), Ok(false));
        assert_eq!(slab.give(slots[1], From::Program), Err(NotInUse));
        let census = slab.census();
        assert_eq!((census.live, census.free), (1, census.slots - 1));
        slab.collect();
        assert_eq!(slab.census(), census);
        assert_eq!(slab.take(From::Program), Some(slots[0]));
        assert_eq!(slab.give_remote(slots[2], From::Program), Ok(true));
    });
}
