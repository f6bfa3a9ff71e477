//! What a heap says when something is wrong.

use core::fmt;

/// There is no memory for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory")
    }
}

impl core::error::Error for NoMemory {}

/// A caller's mistake, or memory that has been overwritten. The call that found it has had no
/// effect but what is said here; addresses are those of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The pointer is in no span.
    Foreign(usize),
    /// The pointer is not where a block can begin.
    Misaligned(usize),
    /// No live block begins here: it has been freed, or never was one.
    NotLive(usize),
    /// The size before a live block, or what follows it, cannot be: something was written past the
    /// end of a block.
    BrokenTag(usize),
    /// The block is smaller than the layout that it is freed with, or less aligned.
    WrongLayout(usize),
    /// A free chunk's links do not belong to its list, or its two sizes differ: something was
    /// written into a freed block. The chunk is never used again.
    BrokenLink(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, address) = match self {
            Self::Foreign(address) => ("a pointer that is in no span", address),
            Self::Misaligned(address) => ("a pointer at which no block begins", address),
            Self::NotLive(address) => ("a block that is not live", address),
            Self::BrokenTag(address) => ("a block whose tag was overwritten", address),
            Self::WrongLayout(address) => ("a block of another layout", address),
            Self::BrokenLink(address) => ("a freed block that was overwritten", address),
        };
        write!(f, "{what}: {address:#x}")
    }
}

impl core::error::Error for Fault {}

/// Why a span is not changed. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanError {
    /// Too small for one block.
    TooSmall,
    /// It wraps around the end of the addresses, holds address 0, or cannot be expressed in this
    /// heap's space.
    OutOfReach,
    /// The space's origin is not aligned as blocks are, so that none in it would be.
    Misaligned,
    /// A part of it is in a span already.
    Overlaps,
    /// This heap has no such span.
    Unknown,
    /// There are live blocks in what would be given up.
    Live,
    /// A free chunk at an end was written over; it is noted as a fault too.
    Broken,
    /// The caller has the arena's lock already.
    Locked,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooSmall => "the span is too small for a block",
            Self::OutOfReach => "the span is out of this heap's reach",
            Self::Misaligned => "the origin of this heap's space is not aligned",
            Self::Overlaps => "the span overlaps another",
            Self::Unknown => "the heap has no such span",
            Self::Broken => "a free chunk at the span's end was overwritten",
            Self::Locked => "the caller has the arena's lock already",
            Self::Live => "the span has live blocks there",
        })
    }
}

impl core::error::Error for SpanError {}
