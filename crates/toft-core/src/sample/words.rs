//! Words of this process's memory that may not be there. The kernel reads them, and refuses what is
//! not there.

use crate::os::process::peek;

/// The number of bytes of a word.
pub(super) const WORD: usize = size_of::<usize>();
/// The number of bytes that are read at a time. A piece begins with a multiple of this, so that all
/// of it is in one page.
const PIECE: usize = 1024;

/// A copy of a piece of memory. Each piece costs a system call, so words that are near each other
/// are read one after the other.
pub(crate) struct Words {
    at: usize,
    got: usize,
    bytes: [u8; PIECE],
}

impl Words {
    pub(crate) fn new() -> Words {
        Words { at: 0, got: 0, bytes: [0; PIECE] }
    }

    /// Returns the word at an address, if it can be read and the address is aligned.
    pub(crate) fn at(&mut self, address: usize) -> Option<usize> {
        self.bytes_at(address).map(usize::from_ne_bytes)
    }

    /// Returns a 32-bit number, if it can be read and is aligned.
    pub(super) fn half(&mut self, address: usize) -> Option<u32> {
        self.bytes_at(address).map(u32::from_ne_bytes)
    }

    /// Returns a 16-bit number, if it can be read and is aligned.
    pub(super) fn pair(&mut self, address: usize) -> Option<u16> {
        self.bytes_at(address).map(u16::from_ne_bytes)
    }

    /// Returns a byte, if it can be read.
    pub(super) fn byte(&mut self, address: usize) -> Option<u8> {
        self.bytes_at(address).map(u8::from_ne_bytes)
    }

    /// Returns the bytes at a multiple of their number, which is a power of two.
    fn bytes_at<const BYTES: usize>(&mut self, address: usize) -> Option<[u8; BYTES]> {
        let piece = address & !(PIECE - 1);
        if piece != self.at || self.got == 0 {
            self.at = piece;
            self.got = peek(piece, &mut self.bytes);
        }
        let inside = address - piece;
        self.bytes.get(..self.got)?.get(inside..inside + BYTES)?.try_into().ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_across_pieces_and_missing_ones_refused() {
        let memory: std::vec::Vec<usize> = (0..1000).map(|i| i * 0x0101_0001).collect();
        let base = memory.as_ptr().addr();
        let mut words = Words::new();
        for i in [0, 1, 500, 127, 999, 128, 0] {
            assert_eq!(words.at(base + i * WORD), Some(memory[i]));
            assert_eq!(words.half(base + i * WORD), Some(memory[i] as u32));
            assert_eq!(words.byte(base + i * WORD + 1), Some((memory[i] >> 8) as u8));
        }
        for nowhere in [8, 0, usize::MAX - 7, 1 << 47, 0xdead_beef_dead_bee8] {
            assert_eq!(words.at(nowhere), None, "{nowhere:#x}");
        }
        let end = base | (PIECE - 1);
        assert_eq!(words.at(end), None, "it would be in two pieces");
    }
}
