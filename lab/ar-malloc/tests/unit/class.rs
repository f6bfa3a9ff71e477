//! Unit tests of `src/class.rs`, which use what is private to it.

use super::*;

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
