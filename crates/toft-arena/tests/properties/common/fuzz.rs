//! The entry of the fuzz target: any bytes are an input, and whatever is wrong panics.
//!
//! ```text
//! byte 0    which shape
//! byte 1    the first span, in steps of 256 bytes
//! then eight bytes for each operation: what, how, and three numbers of two bytes
//! ```

use super::shadow::{Op, Shadow};
use super::shapes::{Brief, Lines, Parks, Tiny, anywhere, within};
use toft_arena::shape::{Bare, Micro, Narrow, Packed, Relative, Shape, Standard};
use toft_arena::{Checked, Fast, Heap, Small};

/// Less under Miri, where an access to a byte is slow.
const MEMORY: usize = if cfg!(miri) { 40 << 10 } else { 128 << 10 };
/// An input is as long as a property test.
const MOST: usize = 300;

/// Runs the operations on a shadow, which compares after each.
pub fn arena(bytes: &[u8]) {
    let [shape, first, ops @ ..] = bytes else { return };
    let first = usize::from(*first) << 8;
    match shape % 13 {
        0 => run::<Packed>(ops, first, anywhere),
        1 => run::<Standard>(ops, first, anywhere),
        2 => run::<Fast>(ops, first, anywhere),
        3 => run::<Bare>(ops, first, anywhere),
        4 => run::<Checked>(ops, first, anywhere),
        5 => run::<Narrow>(ops, first, within),
        6 => run::<Relative>(ops, first, within),
        7 => run::<Tiny>(ops, first, within),
        8 => run::<Parks>(ops, first, anywhere),
        9 => run::<Lines>(ops, first, anywhere),
        10 => run::<Small>(ops, first, anywhere),
        11 => run::<Micro>(ops, first, anywhere),
        _ => run::<Brief>(ops, first, anywhere),
    }
}

fn run<S: Shape>(bytes: &[u8], first: usize, heap: impl FnOnce(*mut u8, usize) -> Heap<S>) {
    let mut shadow = Shadow::new(MEMORY, heap);
    shadow.claim(16 << 10, first.min(MEMORY - (16 << 10)), true);
    for bytes in bytes.chunks_exact(8).take(MOST) {
        shadow.step(&op(bytes.try_into().unwrap()));
    }
    shadow.finish();
}

/// Zeros are an allocation of nothing.
fn op([what, how, a, b, c, d, e, f]: [u8; 8]) -> Op {
    let number = |low, high| usize::from(u16::from_le_bytes([low, high]));
    let (first, second, third) = (number(a, b), number(c, d), number(e, f));
    // Small sizes are as many as large ones; a few cannot be.
    let size = match how >> 5 {
        0..4 => second % 256,
        4..6 => second % 4096,
        6 => second,
        _ if second % 16 == 0 => usize::MAX - third,
        _ => second % 40_000,
    };
    match what % 64 {
        0..26 => Op::Allocate {
            size,
            align: u32::from(if how & 16 == 0 { how & 3 } else { how & 15 }) % 13,
            zeroed: what & 64 != 0,
        },
        26..46 => Op::Free { which: first, way: how },
        46..56 => Op::Resize { which: first, size, way: third as u8 },
        56..58 => Op::Extend { which: first, low: second % 5000, high: third % 5000 },
        58..60 => Op::Truncate { which: first, low: second % 5000, high: third % 5000 },
        60 => Op::Claim { from: first << 1, size: second % 20_000, zeroed: how & 1 != 0 },
        61 => Op::Release { which: first },
        62 => Op::Move,
        _ if how == 255 => Op::Reset,
        _ => Op::Move,
    }
}
