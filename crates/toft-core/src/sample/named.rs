//! A named frame: a function of the program that an interpreter runs, with its file and line. The
//! names are copied when the frame is first seen, because the program may free its code later.

use super::stack::hash;
use crate::region::Keyed;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

const WORD: usize = size_of::<u64>();
const WORDS: usize = 62;
/// The most bytes of a function's name, and of a file's, with their final zeros.
const FUNCTION_MOST: usize = 168;
const FILE_MOST: usize = WORDS * WORD - FUNCTION_MOST;
/// The bit of `NamedFrame::about` that says that the names are there. The lower half is the line.
const FILLED: u64 = 1 << 32;

/// Lives in the metadata tables, zero at first. Entries are never removed.
#[repr(C)]
#[derive(Debug)]
pub struct NamedFrame {
    /// A hash of what tells the frame from others.
    key: AtomicU64,
    /// The line, or zero if it is unknown, and [`FILLED`]. The thread that adds the key writes the
    /// names and then this word (`Release`). A thread that finds zero writes the same values, so no
    /// thread waits for another.
    pub(super) about: AtomicU64,
    /// The function's name and the file's, each with a final zero, in UTF-8.
    pub(super) text: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<NamedFrame>() == 512);

// SAFETY: (1), (2) atomic numbers.
unsafe impl Keyed for NamedFrame {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
}

/// The names of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The line, or zero if it is unknown.
    pub line: u32,
    text: [u8; WORDS * WORD],
}

impl Names {
    /// Returns empty names, and the places for the function's and the file's.
    pub(super) fn empty() -> Names {
        Names { line: 0, text: [0; WORDS * WORD] }
    }

    /// Returns the places for the names of the function and of the file, without the final zeros.
    pub(super) fn places(&mut self) -> (&mut [u8], &mut [u8]) {
        let (function, file) = self.text.split_at_mut(FUNCTION_MOST);
        (
            function.get_mut(..FUNCTION_MOST - 1).unwrap_or_default(),
            file.get_mut(..FILE_MOST - 1).unwrap_or_default(),
        )
    }

    /// Returns the function's name.
    pub fn function(&self) -> &[u8] {
        until_zero(&self.text)
    }

    /// Returns the file's name.
    pub fn file(&self) -> &[u8] {
        until_zero(self.text.get(FUNCTION_MOST..).unwrap_or(&[]))
    }
}

fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or(&[])
}

impl NamedFrame {
    /// The offset of the file's name in `text`.
    pub(super) const FILE: usize = FUNCTION_MOST;

    /// Returns true if the names are there.
    pub(super) fn is_filled(&self) -> bool {
        self.about.load(Acquire) != 0
    }

    /// Writes the names.
    pub(super) fn fill(&self, names: &Names) {
        let (words, _) = names.text.as_chunks::<WORD>();
        for (place, &word) in self.text.iter().zip(words) {
            place.store(u64::from_ne_bytes(word), Relaxed);
        }
        self.about.store(FILLED | u64::from(names.line), Release);
    }

    /// Returns the names.
    pub(super) fn names(&self) -> Names {
        let mut names = Names { line: self.about.load(Acquire) as u32, ..Names::empty() };
        let (words, _) = names.text.as_chunks_mut::<WORD>();
        for (word, place) in words.iter_mut().zip(&self.text) {
            *word = place.load(Relaxed).to_ne_bytes();
        }
        names
    }
}

/// Returns the key of the frame that these numbers tell from all others.
pub(super) fn key(numbers: &[usize]) -> u64 {
    hash(numbers.len() as u64, numbers.iter().map(|&number| number as u64))
}
