//! Numbers in as few bytes as they need: seven bits in each, the lowest first, and the eighth bit
//! says that another byte follows.

/// The most bytes that a number takes.
pub const LONGEST: usize = 10;

/// A place that bytes are appended to, of a size that the caller has chosen large enough.
pub struct Put<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Put<'a> {
    /// An empty place.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// How many bytes were put.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was put yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a byte.
    ///
    /// # Panics
    /// When the place is full.
    pub fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Appends a number.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }
}

/// Takes a byte off the front; nothing when there is none.
pub fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

/// Takes a number off the front; nothing when it is cut off, or longer than 64 bits.
pub fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..LONGEST {
        let next = byte(bytes)?;
        let bits = u64::from(next & 0x7f);
        if place == LONGEST - 1 && bits > 1 {
            return None;
        }
        number |= bits << (7 * place);
        if next & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_comes_back(value: u64, shift in 0..64u32) {
            let value = value >> shift;
            let mut place = [0; LONGEST];
            let mut put = Put::new(&mut place);
            put.number(value);
            let len = put.len();
            prop_assert_eq!(len, (64 - value.leading_zeros()).div_ceil(7).max(1) as usize);
            let mut rest = &place[..len];
            prop_assert_eq!(number(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
            prop_assert_eq!(number(&mut &place[..len - 1]), None);
        }
    }

    #[test]
    fn what_is_longer_than_64_bits_is_refused() {
        assert_eq!(number(&mut [0xff; 11].as_slice()), None);
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(number(&mut bytes.as_slice()), Some(u64::MAX));
        bytes[9] = 2;
        assert_eq!(number(&mut bytes.as_slice()), None);
    }
}
