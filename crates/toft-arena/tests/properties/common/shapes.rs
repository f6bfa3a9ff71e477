//! The shapes that tests run over: those that the crate provides, and extreme ones.

use toft_arena::shape::{Checks, Shape, Space, Table, Within};
use toft_arena::{Anywhere, Heap};

/// Four-byte words and alignment, twelve-byte chunks, few bins: what a small 32-bit machine could
/// have.
#[derive(Clone, Copy, Debug)]
pub struct Tiny;

impl Shape for Tiny {
    type Space = Within<u32>;
    type Bins = Table<u32, 40, 2>;
    const ALIGN: usize = 4;
    const EXACT: usize = 64;
    const STEPS: u32 = 2;
    const COUNT: bool = true;
    const CHECKS: Checks = Checks::Pointers;
}

/// Nothing is checked, blocks are aligned to a cache line.
#[derive(Clone, Copy, Debug)]
pub struct Lines;

impl Shape for Lines {
    type Space = Anywhere;
    type Bins = Table<usize, 96, 3>;
    const ALIGN: usize = 64;
    const EXACT: usize = 1024;
    const STEPS: u32 = 3;
    const CHECKS: Checks = Checks::None;
}

/// Small and crowded, with parking, and counted.
#[derive(Clone, Copy, Debug)]
pub struct Parks;

impl Shape for Parks {
    type Space = Anywhere;
    type Bins = Table<usize, 192, 6, 64, 128>;
    const ALIGN: usize = 8;
    const EXACT: usize = 512;
    const STEPS: u32 = 3;
    const COUNT: bool = true;
    const CHECKS: Checks = Checks::Pointers;
}

/// Not thorough, with every check, and counted.
#[derive(Clone, Copy, Debug)]
pub struct Brief;

impl Shape for Brief {
    type Space = Anywhere;
    type Bins = Table<usize, 64, 1, 0, 0, u64>;
    const ALIGN: usize = 8;
    const EXACT: usize = 128;
    const STEPS: u32 = 2;
    const COUNT: bool = true;
    const CHECKS: Checks = Checks::Pointers;
    const THOROUGH: bool = false;
}

/// A space for a heap that is thrown away unused.
pub fn nowhere<S: Shape>() -> S::Space {
    // SAFETY: never used: a heap without spans reads no memory. All spaces here are plain numbers
    // and pointers, for which zeros are values.
    unsafe { std::mem::zeroed() }
}

/// A heap over memory that is anywhere.
pub fn anywhere<S: Shape<Space = Anywhere>>(_: *mut u8, _: usize) -> Heap<S> {
    Heap::new(Anywhere)
}

/// A heap behind the memory's first byte.
pub fn within<W, S: Shape<Space = Within<W>>>(memory: *mut u8, size: usize) -> Heap<S>
where
    Within<W>: Space,
    W: toft_arena::shape::Word,
{
    // SAFETY: the memory is one allocation.
    Heap::new(unsafe { Within::new(memory, size) })
}
