//! Random inputs of the fuzz target's entry against the shadow, shape by shape, with the invariants
//! checked after each operation. What fails is made smaller, and printed as bytes.

use crate::common::fuzz;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Inputs of a shape, and the most bytes of one. Miri would take hours for more.
const CASES: u32 = if cfg!(miri) { 1 } else { 500 };
const MOST: usize = if cfg!(miri) { 8 * 20 } else { 8 * 200 };

fn random(shape: u8) {
    let cases = std::env::var("TOFT_ARENA_CASES").ok().and_then(|number| number.parse().ok());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases.unwrap_or(CASES))
    };
    let inputs = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..MOST));
    let run = |(first, ops): (u8, Vec<u8>)| {
        fuzz::arena(&[&[shape, first], &ops[..]].concat());
        Ok(())
    };
    TestRunner::new(config).run(&inputs, run).unwrap_or_else(|failure| panic!("{failure}"));
}

/// What the fuzz target begins with. Not under Miri, which takes hours for it.
#[cfg(not(miri))]
#[test]
fn corpus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/arena");
    let mut inputs = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        fuzz::arena(&std::fs::read(file.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 10, "there is nothing to begin with in {folder}");
}

macro_rules! shapes {
    ($($name:ident: $number:literal),*) => {$(
        #[test]
        fn $name() {
            random($number);
        }
    )*};
}

// `strict` is for Miri: behind one origin no address becomes a pointer.
shapes! {
    packed: 0, standard: 1, fast: 2, bare: 3, checked: 4, strict_narrow: 5, strict_relative: 6,
    strict_tiny: 7, parks: 8, lines: 9, small: 10, brief: 11
}
