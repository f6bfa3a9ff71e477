//! Unit tests of `src/variant.rs`, which use what is private to it.

use super::*;

#[test]
fn each_variant_is_found_by_its_name() {
    for (at, name) in NAMES.iter().enumerate() {
        assert_eq!(number(name), at);
    }
    assert_eq!(<Number<{ number("mod") }> as Pick>::Variant::NAME, "mod");
    assert!(std::panic::catch_unwind(|| number("mo")).is_err());
}

#[test]
fn only_variants_without_an_unsorted_list_never_sort() {
    let mut sorting = Vec::new();
    macro_rules! note {
        ($type:ident) => {
            if $type::CHOICES.sorts() {
                sorting.push($type::NAME);
            }
        };
    }
    each_variant!(note);
    let direct = ["first-out", "stacks", "runs", "parking", "hysteresis"];
    assert!(NAMES.iter().all(|name| direct.contains(name) != sorting.contains(name)));
}
