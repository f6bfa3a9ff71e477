//! Unit tests of `src/bins.rs`, which use what is private to it.

use super::*;

#[test]
fn bins_are_in_the_order_of_their_sizes_and_none_is_left_out() {
    assert_eq!((of(32), of(1008), of(1024)), (2, 63, 64));
    let mut last = of(32);
    for size in (32..1 << 20).step_by(16) {
        let list = of(size);
        assert!(list == last || list == last + 1, "{size}");
        last = list;
    }
    assert_eq!(of(usize::MAX), LISTS - 1);
    assert_eq!(of((1 << 36) - 16), LISTS - 1);
}

#[test]
fn the_next_mark_is_found_across_words() {
    let mut marks = Marks::none();
    assert_eq!(marks.next(0), None);
    for list in [2, 63, 64, LISTS - 1] {
        marks.set(list);
    }
    let next = [0, 3, 64, 65].map(|list| marks.next(list).unwrap());
    assert_eq!(next, [2, 63, 64, LISTS - 1]);
    marks.clear(LISTS - 1);
    assert_eq!((marks.next(65), marks.next(LISTS)), (None, None));
}
