//! Size classes and shelves, alone; the length of the source, and what it depends on.
#![cfg(not(loom))]

#[path = "../../lines.rs"]
mod lines;

use toft_ar_malloc::cache::{BATCH, BLOCKS, Shelf};
use toft_ar_malloc::class::{CLASSES, Class, LARGEST, STEP};

#[test]
fn each_size_has_the_smallest_class_that_holds_it() {
    for size in 0..=LARGEST {
        let class = Class::of(size).unwrap();
        assert!(class.size() >= size && class.index() < CLASSES, "{size}");
        assert!(class.index() == 0 || class.size() - STEP < size, "{size}");
    }
    assert_eq!(Class::of(LARGEST + 1), None);
    assert_eq!(Class::of(usize::MAX), None);
    assert_eq!(Class::all().count(), CLASSES);
}

#[test]
fn the_newest_comes_out_first_and_the_oldest_leave_first() {
    let shelf = Shelf::new();
    assert_eq!(shelf.pop(), None);
    assert!((1..=BLOCKS).all(|block| shelf.push(block)));
    assert!(!shelf.push(99));
    let mut gone = Vec::new();
    shelf.take_oldest(BATCH, |block| gone.push(block));
    assert_eq!(gone, (1..=BATCH).collect::<Vec<_>>());
    assert!(shelf.push(99));
    let rest: Vec<usize> = std::iter::from_fn(|| shelf.pop()).collect();
    let newest_first = std::iter::once(99).chain((BATCH + 1..=BLOCKS).rev());
    assert_eq!(rest, newest_first.collect::<Vec<_>>());
    shelf.take_oldest(BATCH, |block| panic!("{block} was popped"));
}

/// With comments and empty lines: the allocator is made to be read.
#[test]
fn the_source_has_less_than_two_thousand_lines() {
    let lines = lines::lines(env!("CARGO_MANIFEST_DIR"));
    assert!((1000..2000).contains(&lines.all) && lines.code < lines.all, "{lines:?}");
}

/// It shares no code with the allocator that it is compared with. The lock file names every package
/// that a crate depends on, those of tests and of features too.
#[test]
fn it_depends_on_no_other_crate_of_the_tree() {
    let lock = include_str!("../../../Cargo.lock");
    let (_, entry) = lock.split_once("name = \"toft-ar-malloc\"\n").unwrap();
    let (_, packages) = entry.split_once("dependencies = [").unwrap();
    let (packages, _) = packages.split_once(']').unwrap();
    let packages: Vec<&str> = packages.split_whitespace().collect();
    assert!(packages.contains(&"\"libc\","), "{packages:?}");
    assert!(packages.iter().all(|name| !name.starts_with("\"toft")), "{packages:?}");
}
