//! Operations as the property tests draw them.

use super::shadow::Op;
use proptest::prelude::*;

/// Mostly small sizes, some large ones, and some that cannot be.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 0..200_usize,
        3 => 0..3000_usize,
        1 => 0..40_000_usize,
        1 => prop_oneof![Just(usize::MAX), Just(isize::MAX as usize - 4096), Just(1 << 31)],
    ]
}

/// Operations; spans change in one of ten.
pub fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let which = any::<usize>();
    let op = prop_oneof![
        30 => (size(), prop_oneof![4 => 0..4_u32, 1 => 4..13_u32], any::<bool>())
            .prop_map(|(size, align, zeroed)| Op::Allocate { size, align, zeroed }),
        25 => (which, any::<u8>()).prop_map(|(which, way)| Op::Free { which, way }),
        15 => (which, size(), any::<u8>())
            .prop_map(|(which, size, way)| Op::Resize { which, size, way }),
        3 => (which, 0..5000_usize, 0..5000_usize)
            .prop_map(|(which, low, high)| Op::Extend { which, low, high }),
        3 => (which, 0..5000_usize, 0..5000_usize)
            .prop_map(|(which, low, high)| Op::Truncate { which, low, high }),
        2 => (any::<usize>(), 0..20_000_usize, any::<bool>())
            .prop_map(|(from, size, zeroed)| Op::Claim { from, size, zeroed }),
        1 => which.prop_map(|which| Op::Release { which }),
        1 => Just(Op::Move),
    ];
    let rare = prop_oneof![400 => op, 1 => Just(Op::Reset)];
    prop::collection::vec(rare, 1..most)
}
