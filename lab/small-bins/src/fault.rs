//! How a corrupted heap is named, and the process stopped.

use std::fmt::{self, Write};

/// What is wrong. Addresses are those of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A link of a list leads to no place where a chunk can be.
    Link { block: usize, link: usize },
    /// The chunk that a link leads to does not link back.
    Back { block: usize, link: usize },
    /// The two sizes of a free chunk differ, or cannot be.
    Size { block: usize },
    /// A chunk in a list is in use, or one in a cache has another mark or size.
    State { block: usize },
    /// The size of a block that is freed or resized cannot be.
    Tag { block: usize },
    /// The pointer is of a block that is already free.
    Freed { block: usize },
    /// The pointer is no block of this heap.
    Foreign { block: usize },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { block, link } => {
                write!(f, "corrupted link: free block {block:#x} links to {link:#x}, not a chunk")
            }
            Self::Back { block, link } => {
                write!(f, "corrupted link: free block {block:#x}: {link:#x} does not link back")
            }
            Self::Size { block } => write!(f, "corrupted size of free block {block:#x}"),
            Self::State { block } => write!(f, "block {block:#x} is in a list but not free"),
            Self::Tag { block } => write!(f, "corrupted size before block {block:#x}"),
            Self::Freed { block } => write!(f, "double free of block {block:#x}"),
            Self::Foreign { block } => write!(f, "pointer {block:#x} is not a block of this heap"),
        }
    }
}

/// Text on the stack: a corrupted heap must not be asked for memory.
struct Line {
    text: [u8; 160],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// Names the fault on standard error, and stops the process.
#[cold]
#[inline(never)]
pub(crate) fn stop(variant: &str, fault: Fault) -> ! {
    let mut line = Line { text: [0; 160], length: 0 };
    // A line never fails: what does not fit is left out.
    let _ = writeln!(line, "toft-small-bins: {variant}: {fault}");
    // SAFETY: writes bytes of a live array, then ends the process.
    unsafe {
        libc::write(2, line.text.as_ptr().cast(), line.length);
        libc::abort()
    }
}
