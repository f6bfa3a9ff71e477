//! For each check of what is handed in a pointer that is wrong, and sees it named; and beside it
//! one that is right, and says nothing. What was written over is in `corruption.rs`.

use crate::common::words::{filled, heap, layout, poke};
use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::{FaultHook, OnFault, Shape};
use toft_arena::{Anywhere, Checked, Fast, Fault};

#[test]
fn a_block_freed_twice_is_named_whatever_it_was_merged_with() {
    freed_twice::<Checked>();
    // Here it is parked, and merged with nothing.
    freed_twice::<crate::common::shapes::Parks>();
}

fn freed_twice<S: Shape<Space = Anywhere>>() {
    // With nothing, with the one below, the one above, both, and with the end of the heap.
    for freed_first in [vec![], vec![1], vec![3], vec![1, 3], vec![3, 4, 5]] {
        let (mut heap, all) = filled::<S>(6, 100);
        // SAFETY: the second free of a block is what is tested.
        unsafe {
            for which in freed_first {
                heap.try_deallocate(all[which]).unwrap();
            }
            heap.try_deallocate(all[2]).unwrap();
            let address = all[2].addr().get();
            assert_eq!(heap.try_deallocate(all[2]), Err(Fault::NotLive(address)));
            let live = heap.survey().live_blocks;
            assert_eq!(heap.deallocate(all[2]), 0);
            assert_eq!(heap.deallocate_sized(all[2], layout(100)), 0);
            assert!(!heap.grow_in_place(all[2], 200));
            heap.shrink_in_place(all[2], 1);
            assert!(heap.reallocate(all[2], layout(100), 300).is_err());
            assert!(heap.resize(all[2], 8, 300).is_err());
            assert!(heap.grow_down(all[2], 1, 8, 300).is_err());
            assert_eq!(heap.survey().live_blocks, live, "a fault had an effect");
            assert_eq!(heap.faults(), (8, Some(Fault::NotLive(address))));
        }
        heap.check().unwrap();
    }
}

#[test]
fn a_pointer_that_is_no_blocks_is_named() {
    let mut heap = heap::<Checked>();
    let block = heap.allocate(layout(100)).unwrap();
    let elsewhere = Box::new([0_u64; 8]);
    let odd = block.map_addr(|address| address.saturating_add(4));
    let inside = block.map_addr(|address| address.saturating_add(16));
    let beyond = heap.spans().next().unwrap().end();
    let fence = block.map_addr(|_| beyond.try_into().unwrap());
    // SAFETY: nothing is freed. The block is full of zeros.
    unsafe {
        block.as_ptr().write_bytes(0, 100);
        let foreign = NonNull::from(&*elsewhere).cast::<u8>();
        assert_eq!(heap.try_deallocate(foreign), Err(Fault::Foreign(foreign.addr().get())));
        assert_eq!(heap.try_deallocate(odd), Err(Fault::Misaligned(odd.addr().get())));
        assert_eq!(heap.try_deallocate(inside), Err(Fault::NotLive(inside.addr().get())));
        assert_eq!(heap.try_deallocate(fence), Err(Fault::Foreign(beyond)));
        let stricter = Layout::from_size_align(100, 4096).unwrap();
        let wrong = Err(Fault::WrongLayout(block.addr().get()));
        assert_eq!(heap.verify_sized(block, layout(5000)), wrong);
        assert_eq!(heap.verify_sized(block, stricter), wrong);
        assert_eq!(heap.deallocate_sized(block, layout(200)), 0);
        assert_eq!(heap.faults().0, 7);
        heap.verify_sized(block, layout(100)).unwrap();
        assert!(heap.deallocate_sized(block, layout(100)) > 0);
    }
    heap.check().unwrap();
}

/// Words that look like live chunks, in memory that is free.
#[test]
fn what_looks_live_inside_of_free_memory_is_not() {
    let fake = |block: NonNull<u8>| {
        // SAFETY: words of a block of 400 bytes.
        unsafe {
            for word in [9, 19, 29, 39] {
                poke(block, word, (10 * size_of::<usize>()) | 1);
            }
            block.add(10 * size_of::<usize>())
        }
    };
    let mut heap = heap::<Checked>();
    let block = heap.allocate(layout(400)).unwrap();
    let inside = fake(block);
    let refused = Err(Fault::NotLive(inside.addr().get()));
    // SAFETY: what is freed is a block, or is refused.
    unsafe {
        // In `top`.
        heap.deallocate(block);
        assert_eq!(heap.try_deallocate(inside), refused);
        // In `rest`: what is left of a chunk that was split.
        let block = heap.allocate(layout(400)).unwrap();
        let barrier = heap.allocate(layout(8)).unwrap();
        fake(block);
        heap.deallocate(block);
        let front = heap.allocate(layout(16)).unwrap();
        assert_eq!((front, heap.try_deallocate(inside)), (block, refused));
        heap.deallocate(front);
        heap.deallocate(barrier);
    }
    heap.check().unwrap();
}

/// The tag of a block that has moved down lies inside of it, and passes for no block's.
#[test]
fn the_old_place_of_a_block_that_moved_down_is_no_block() {
    let (mut heap, all) = filled::<Checked>(6, 200);
    // SAFETY: live blocks; that an old pointer is refused is what is tested.
    unsafe {
        heap.deallocate(all[2]);
        all[3].as_ptr().write_bytes(0, 200);
        let moved = heap.grow_down(all[3], 16, 8, 300).unwrap();
        assert_eq!(moved, all[2]);
        let refused = Err(Fault::NotLive(all[3].addr().get()));
        assert_eq!(heap.try_deallocate(all[3]), refused);
        heap.try_deallocate(moved).unwrap();
    }
    heap.check().unwrap();
}

/// Parked twice, a block would be handed out twice.
#[test]
fn what_is_parked_is_not_parked_again() {
    let (mut heap, all) = filled::<Fast>(3, 100);
    // SAFETY: the second free of a block is what is tested; its first word says that it is parked.
    unsafe {
        assert!(heap.deallocate(all[1]) > 0);
        assert_eq!(heap.deallocate(all[1]), 0);
    }
    assert_eq!(heap.faults(), (1, Some(Fault::NotLive(all[1].addr().get()))));
    heap.check().unwrap();
    assert_ne!(heap.allocate(layout(100)), heap.allocate(layout(100)));
}

/// A panic in the hook does not go through a heap that is between two states.
#[test]
fn a_hook_that_panics_ends_the_program() {
    struct Panics;
    impl FaultHook for Panics {
        fn on_fault(_: Fault) {
            panic!("from the hook");
        }
    }
    const CHILD: &str = "TOFT_ARENA_HOOK_PANICS";
    if std::env::var_os(CHILD).is_some() {
        let (mut heap, all) = filled::<OnFault<Checked, Panics>>(3, 50);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: the second free of a block is what is tested.
            unsafe {
                heap.deallocate(all[1]);
                heap.deallocate(all[1]);
            }
        }));
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "misfrees::a_hook_that_panics_ends_the_program"]).env(CHILD, "1");
    let output = child.output().unwrap();
    assert_eq!(output.status.code(), None, "it went on: {output:?}");
}
