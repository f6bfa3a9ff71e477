//! Random operations against the shadow, with the invariants checked after each.

use crate::common::shapes::{Lines, Parks, Tiny, anywhere, within};
use crate::common::{Op, Shadow, ops};
use proptest::prelude::*;
use toft_arena::shape::{Narrow, Packed, Relative, Shape, Standard};
use toft_arena::{Checked, Fast, Heap, Small};

const MEMORY: usize = 128 << 10;

fn run<S: Shape>(ops: &[Op], first: usize, heap: impl FnOnce(*mut u8, usize) -> Heap<S>) {
    let mut shadow = Shadow::new(MEMORY, heap);
    shadow.claim(16 << 10, first, true);
    for op in ops {
        shadow.step(op);
    }
    shadow.finish();
}

/// Operations on one span of this many bytes to begin with.
fn programs() -> impl Strategy<Value = (Vec<Op>, usize)> {
    (ops(200), prop_oneof![Just(0_usize), 0..2000_usize, 8000..60_000_usize])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(std::env::var("TOFT_ARENA_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150)) })]

    #[test]
    fn packed((ops, first) in programs()) {
        run::<Packed>(&ops, first, anywhere);
    }

    #[test]
    fn standard((ops, first) in programs()) {
        run::<Standard>(&ops, first, anywhere);
    }

    #[test]
    fn narrow((ops, first) in programs()) {
        run::<Narrow>(&ops, first, within);
    }

    #[test]
    fn relative((ops, first) in programs()) {
        run::<Relative>(&ops, first, within);
    }

    #[test]
    fn checked((ops, first) in programs()) {
        run::<Checked>(&ops, first, anywhere);
    }

    #[test]
    fn tiny((ops, first) in programs()) {
        run::<Tiny>(&ops, first, within);
    }

    #[test]
    fn fast((ops, first) in programs()) {
        run::<Fast>(&ops, first, anywhere);
    }

    #[test]
    fn small((ops, first) in programs()) {
        run::<Small>(&ops, first, anywhere);
    }

    #[test]
    fn parks((ops, first) in programs()) {
        run::<Parks>(&ops, first, anywhere);
    }

    #[test]
    fn lines((ops, first) in programs()) {
        run::<Lines>(&ops, first, anywhere);
    }
}
