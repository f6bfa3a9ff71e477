//! Core's `Allocator`: `cargo +nightly test -p toft-arena --features all,nightly --test nightly`.
#![cfg(feature = "nightly")]
#![feature(allocator_api)]

use std::alloc::System;
use toft_arena::source::Blocks;
use toft_arena::{Anywhere, Checked, Shared, Spin};

#[test]
fn the_standard_librarys_collections_of_an_arena() {
    let source = Blocks::new(System, 64 << 10);
    let arena = Shared::<Checked, _, _>::new(Anywhere, source, Spin::new());
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
