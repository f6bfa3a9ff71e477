//! The first line of a report, in a fixed buffer.

use super::Call;
use crate::os::digits;

/// A line that is being written. What does not fit is cut off, and nothing is ever allocated.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; 320],
    len: usize,
    hide_addresses: bool,
    /// The subject, for the rest of the report. Empty if the line is no report.
    pub(crate) subject: Subject,
}

/// The subject of a report, with which its first line begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) what: &'static str,
    pub(crate) call: &'static str,
    pub(crate) address: usize,
    /// Where the block in question begins, if `address` may be outside of it.
    pub(crate) block: Option<usize>,
    /// True if a library that belongs to this one has made the call (`libtoft_checked.so`).
    pub(crate) companion: bool,
}

impl Line {
    /// Returns an empty line.
    pub fn new(hide_addresses: bool) -> Line {
        Line { bytes: [0; 320], len: 0, hide_addresses, subject: Subject::default() }
    }

    /// Appends text.
    #[inline(never)]
    pub fn text(&mut self, text: &str) -> &mut Line {
        self.raw(text.as_bytes())
    }

    /// Appends bytes as they are.
    #[inline(never)]
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Line {
        // The last byte is kept for the newline.
        for &byte in bytes {
            if self.len + 1 < self.bytes.len()
                && let Some(place) = self.bytes.get_mut(self.len)
            {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    /// Appends a number in decimal digits.
    #[inline(never)]
    pub fn number(&mut self, number: u64) -> &mut Line {
        self.raw(digits(number, 10, &mut [0; 20]))
    }

    /// Appends an address, unless addresses are hidden.
    #[inline(never)]
    pub fn address(&mut self, address: usize) -> &mut Line {
        self.text("0x");
        if self.hide_addresses {
            return self.text("?");
        }
        let bits = usize::BITS - (address | 1).leading_zeros();
        for digit in (0..bits.div_ceil(4)).rev() {
            let value = (address >> (4 * digit) & 15) as u8;
            self.raw(&[if value < 10 { b'0' + value } else { b'a' + value - 10 }]);
        }
        self
    }

    /// Returns the line so far.
    pub(crate) fn so_far(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Ends the line with a newline, and returns it.
    pub fn end(&mut self) -> &[u8] {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = b'\n';
        }
        self.bytes.get(..=self.len).unwrap_or(&[])
    }
}

/// Begins a report: what is wrong, which call found it, and with which address.
pub(crate) fn head(line: &mut Line, what: &'static str, call: Call, address: usize) {
    line.subject = Subject { what, call: call.name(), address, block: None, companion: false };
    line.text("toft: ").text(what).text(": ").text(call.name());
    line.text("(").address(address).text("): ");
}
