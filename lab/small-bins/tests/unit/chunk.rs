//! Unit tests of `src/chunk.rs`, which use what is private to it.

use super::*;

#[test]
fn a_block_costs_one_word_and_rounding() {
    let sizes = [0, 1, 24, 25, 40, 1000].map(|request| size_for(request).unwrap());
    assert_eq!(sizes, [32, 32, 32, 48, 48, 1008]);
    assert_eq!(size_for(usize::MAX), None);
    assert_eq!(size_for(isize::MAX as usize), None);
}
