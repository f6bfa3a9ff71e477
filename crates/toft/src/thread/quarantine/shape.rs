//! How many places each class has in a quarantine, and where: from sizes alone, when the library is
//! compiled.

use crate::slab::{CLASSES, Class};

/// Bytes of blocks of a class that stand in line.
pub(super) const PART: usize = 16 << 10;
/// Blocks of up to this number of bytes stay for a time of 8 bits of entropy.
pub(super) const SMALLEST: usize = 256;
/// So many that how long a block stays has 8 bits of entropy: a geometric distribution with this
/// mean.
const RANDOM_OF_SMALLEST: usize = 96;
/// Bytes of larger blocks at random places, and the fewest places, if 16 KiB hold as many.
const RANDOM_PART: usize = 8 << 10;
const RANDOM_LEAST: usize = 4;
pub(super) const LINE_MOST: usize = 1024;
/// Bytes of blocks that leave the line together, and the most blocks.
const TOGETHER: usize = 4 << 10;
pub(super) const TOGETHER_MOST: usize = 32;

/// Where the places of a class are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) first: u16,
    pub(super) random: u16,
    pub(super) line: u16,
    pub(super) together: u16,
    /// Bytes of blocks at all its places.
    pub(super) bytes: u32,
}

/// The shape of every class, how many places there are, and bytes of blocks in all of them.
pub(super) const LAYOUT: ([Shape; CLASSES], usize, usize) = {
    let mut shapes = [Shape { first: 0, random: 0, line: 0, together: 0, bytes: 0 }; CLASSES];
    let (mut places, mut bytes, mut class) = (0, 0, 0);
    while class < CLASSES {
        let size = Class::size_of(class);
        let fit = if PART / size == 0 { 1 } else { PART / size };
        let random = match size {
            ..=SMALLEST => RANDOM_OF_SMALLEST,
            _ if RANDOM_PART / size > RANDOM_LEAST => RANDOM_PART / size,
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
