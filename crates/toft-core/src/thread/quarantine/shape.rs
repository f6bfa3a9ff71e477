//! The number and the position of the places of each class in a quarantine. They are computed from
//! the sizes when the library is compiled.

use crate::policy::{QUARANTINE_SMALL, WIPE};
use crate::slab::{CLASSES, SMALL_MAX, SizeClass};

/// The bytes of blocks of a class in the line.
pub(super) const PART: usize = if WIPE { 16 << 10 } else { 4 << 10 };
/// The most bytes of a block whose delay at a random place has 8 bits of entropy.
pub(super) const SMALLEST: usize = 256;
/// The number of random places of these blocks. The delay has a geometric distribution with this
/// mean, and therefore 8 bits of entropy.
const RANDOM_OF_SMALLEST: usize = 96;
/// The bytes of larger blocks at random places.
const RANDOM_PART: usize = 8 << 10;
/// The fewest random places, if the line has at least this number of places.
const RANDOM_LEAST: usize = 4;
/// The fewest random places of any class. With one, each block waits as long as the one before it.
const RANDOM_FEWEST: usize = 2;
/// The most places in the line before entries leave.
pub(super) const LINE_MOST: usize = 1024;
/// The bytes of blocks that leave the line together.
const TOGETHER: usize = 4 << 10;
/// The most blocks that leave the line together.
pub(super) const TOGETHER_MOST: usize = 32;

/// The places of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) first: u16,
    pub(super) random: u16,
    pub(super) line: u16,
    pub(super) together: u16,
    /// The bytes of blocks at all its places.
    pub(super) bytes: u32,
}

/// The shape of every class, the number of all places, and the bytes of blocks in all of them.
pub(super) const LAYOUT: ([Shape; CLASSES], usize, usize) = {
    let mut shapes = [Shape { first: 0, random: 0, line: 0, together: 0, bytes: 0 }; CLASSES];
    let (mut places, mut bytes, mut class) = (0, 0, 0);
    while class < CLASSES {
        let size = SizeClass::size_of(class);
        if !QUARANTINE_SMALL && size <= SMALL_MAX {
            class += 1;
            continue;
        }
        let fit = if PART / size == 0 { 1 } else { PART / size };
        let random = match size {
            // In the light build the line only delays reuse.
            _ if !WIPE => 0,
            ..=SMALLEST => RANDOM_OF_SMALLEST,
            _ if RANDOM_PART / size > RANDOM_LEAST => RANDOM_PART / size,
            _ if fit < RANDOM_FEWEST => RANDOM_FEWEST,
            _ if fit < RANDOM_LEAST => fit,
            _ => RANDOM_LEAST,
        };
        let line = if fit < LINE_MOST { fit } else { LINE_MOST };
        let together = together(TOGETHER / size);
        shapes[class] = Shape {
            first: places as u16,
            random: random as u16,
            line: line as u16,
            together: together as u16,
            bytes: ((random + line + together - 1) * size) as u32,
        };
        places += random + line + together - 1;
        bytes += shapes[class].bytes as usize;
        class += 1;
    }
    assert!(places <= u16::MAX as usize);
    (shapes, places, bytes)
};

const fn together(fit: usize) -> usize {
    match fit {
        0 => 1,
        1..=TOGETHER_MOST => fit,
        _ => TOGETHER_MOST,
    }
}

pub(super) static SHAPES: [Shape; CLASSES] = LAYOUT.0;
