//! Core's `Allocator`: `cargo +nightly test -p toft-arena --features all,nightly --test nightly`.
#![cfg(feature = "nightly")]
#![feature(allocator_api)]

use std::alloc::{Allocator, Layout, System};
use toft_arena::source::Blocks;
use toft_arena::{Anywhere, Checked, Shared, Spin};

type Arena = Shared<Checked, Blocks<System>, Spin>;

fn arena() -> Arena {
    Shared::new(Anywhere, Blocks::new(System, 64 << 10), Spin::new())
}

#[test]
fn the_standard_librarys_collections_of_an_arena() {
    let arena = arena();
    {
        let mut numbers = Vec::new_in(&arena);
        numbers.extend(0..10_000);
        numbers.truncate(100);
        numbers.shrink_to_fit();
        assert_eq!(numbers.iter().sum::<i32>(), 4950);
        let boxed = Box::new_in([7_u64; 100], &arena);
        assert_eq!(boxed.iter().sum::<u64>(), 700);
        assert_eq!(arena.survey().unwrap().live_blocks, 2);
    }
    assert_eq!(arena.survey().unwrap().live_blocks, 0);
    assert_eq!(arena.look(|arena| arena.heap().faults().0), Some(0));
}

#[test]
fn nothing_is_aligned_and_growing_to_a_stricter_alignment_moves() {
    let arena = arena();
    let none = Allocator::allocate(&&arena, Layout::from_size_align(0, 64).unwrap()).unwrap();
    assert_eq!((none.cast::<u8>().addr().get() % 64, none.len()), (0, 0));
    let (old, new) =
        (Layout::from_size_align(24, 8).unwrap(), Layout::from_size_align(300, 1024).unwrap());
    // SAFETY: a live block of its layout, resized and freed once.
    unsafe {
        let block = Allocator::allocate(&&arena, old).unwrap().cast::<u8>();
        block.write_bytes(9, 24);
        let grown = Allocator::grow_zeroed(&&arena, block, old, new).unwrap();
        assert_eq!(grown.cast::<u8>().addr().get() % 1024, 0);
        let bytes = grown.as_ref();
        assert!(bytes[..24].iter().all(|&byte| byte == 9) && bytes[24..].iter().all(|&b| b == 0));
        Allocator::deallocate(&&arena, grown.cast(), new);
    }
    assert_eq!(arena.survey().unwrap().live_blocks, 0);
}
