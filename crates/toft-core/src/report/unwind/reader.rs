//! Reads the bytes of a description, as the numbers of DWARF. Nothing is trusted: a number that is
//! not there is `None`.

use crate::os::process::peek;

/// How the tables are read.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// What stays mapped, or nothing.
    start: usize,
    end: usize,
}

impl Source {
    /// The kernel reads them, because the file may be unmapped at any time.
    pub const KERNEL: Source = Source { start: 0, end: 0 };

    /// They are read where they are mapped, without a system call.
    ///
    /// # Safety
    /// 1. The memory from `start` to `end` stays mapped, can be read, and does not change.
    pub unsafe fn mapped((start, end): (usize, usize)) -> Source {
        Source { start, end }
    }

    /// Copies what is at `address`. Returns the number of bytes copied.
    pub(super) fn read(self, address: usize, into: &mut [u8]) -> usize {
        if self.end == 0 {
            return peek(address, into);
        }
        if address < self.start {
            return 0;
        }
        let bytes = into.len().min(self.end.saturating_sub(address));
        let from = core::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: `mapped` duty 1: within what stays mapped, and `into` has room for it.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), bytes) };
        bytes
    }
}

/// The rest of a description.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    pub(super) rest: &'a [u8],
    /// True if the description is longer than the bytes that were read.
    pub(super) cut_off: bool,
}

impl<'a> Bytes<'a> {
    /// Returns the description at `address`, without its length.
    pub(super) fn at(source: Source, address: usize, into: &'a mut [u8]) -> Option<Bytes<'a>> {
        let mut length = [0u8; 4];
        if source.read(address, &mut length) != length.len() {
            return None;
        }
        let length = u32::from_le_bytes(length) as usize;
        // An empty description, or one in the 64-bit format.
        if length == 0 || length >= 0xffff_fff0 {
            return None;
        }
        let room = into.len();
        let wanted = into.get_mut(..length.min(room))?;
        let got = source.read(address.wrapping_add(4), wanted);
        Some(Bytes { rest: wanted.get(..got)?, cut_off: got < length })
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    pub(super) fn number(&mut self, bytes: usize) -> Option<u64> {
        let mut word = [0u8; 8];
        let from = self.rest.get(..bytes)?;
        word.get_mut(..bytes)?.copy_from_slice(from);
        self.skip(bytes)?;
        Some(u64::from_le_bytes(word))
    }

    pub(super) fn word(&mut self) -> Option<u64> {
        self.number(4)
    }

    /// Reads an unsigned number: seven bits in each byte, the lowest first.
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let before = self.rest;
        let value = self.unsigned()?;
        let bits = 7 * (before.len() - self.rest.len()) as u32;
        if bits >= 64 {
            return Some(value as i64);
        }
        Some((value << (64 - bits)) as i64 >> (64 - bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_standard_writes_them() {
        let bytes = [0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0xff, 0x00, 9];
        let mut bytes = Bytes { rest: &bytes, cut_off: false };
        assert_eq!(bytes.unsigned(), Some(624_485));
        assert_eq!(
            (bytes.signed(), bytes.signed(), bytes.signed()),
            (Some(-1), Some(-128), Some(127))
        );
        assert_eq!((bytes.number(1), bytes.byte()), (Some(9), None));
    }
}
