//! Short texts in a fixed buffer, for code that must not allocate or panic.

use super::digits;
use core::ffi::CStr;

/// A text of fewer than `N` bytes. What does not fit is cut off. All zero is the empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// Returns the empty text.
    pub const fn new() -> Text<N> {
        Text { bytes: [0; N], len: 0 }
    }

    /// Appends bytes. The last byte of the buffer stays zero.
    #[inline(never)]
    pub fn add(&mut self, bytes: &[u8]) -> &mut Text<N> {
        for &byte in bytes {
            if self.len + 1 < N
                && let Some(place) = self.bytes.get_mut(self.len)
            {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    /// Appends a number in digits of a base of at least 10 and at most 16.
    pub fn digits(&mut self, number: u64, base: u64) -> &mut Text<N> {
        self.add(digits(number, base, &mut [0; 20]))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Returns the bytes, and one more in the place of the zero after them.
    pub fn ended_by(&mut self, byte: u8) -> &[u8] {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
        }
        self.bytes.get(..=self.len).unwrap_or(&[])
    }

    /// Returns the text for C, up to its first zero.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Text<N> {
        Text::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_off_and_a_zero_stays() {
        let mut text: Text<8> = Text::new();
        text.add(b"ab").digits(0xc0, 16).add(b"defgh");
        assert_eq!((text.as_bytes(), text.as_c_str()), (&b"abc0def"[..], c"abc0def"));
        assert_eq!(text.ended_by(b'\n'), b"abc0def\n");
    }
}
