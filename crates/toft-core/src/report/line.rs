//! The first line of a report, in a fixed buffer.

use super::Call;
use crate::os::Text;

/// A line that is being written. What does not fit is cut off, and nothing is ever allocated.
#[derive(Debug)]
pub struct Line {
    text: Text<320>,
    hide_addresses: bool,
    /// The subject, for the rest of the report. Empty if the line is no report.
    pub subject: Subject,
}

/// The subject of a report, with which its first line begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject {
    /// What happened.
    pub what: &'static str,
    /// The call that found it.
    pub call: &'static str,
    /// The address that the report is about.
    pub address: usize,
    /// Where the block in question begins, if `address` may be outside of it.
    pub block: Option<usize>,
    /// True if a library that belongs to this one has made the call (`libtoft_checked.so`).
    pub companion: bool,
}

impl Line {
    /// Returns an empty line.
    pub fn new(hide_addresses: bool) -> Line {
        Line { text: Text::new(), hide_addresses, subject: Subject::default() }
    }

    /// Appends text.
    #[inline(never)]
    pub fn text(&mut self, text: &str) -> &mut Line {
        self.raw(text.as_bytes())
    }

    /// Appends bytes as they are.
    #[inline(never)]
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Line {
        self.text.add(bytes);
        self
    }

    /// Appends a number in decimal digits.
    #[inline(never)]
    pub fn number(&mut self, number: u64) -> &mut Line {
        self.text.digits(number, 10);
        self
    }

    /// Appends an address, unless addresses are hidden.
    #[inline(never)]
    pub fn address(&mut self, address: usize) -> &mut Line {
        self.text("0x");
        if self.hide_addresses {
            return self.text("?");
        }
        self.text.digits(address as u64, 16);
        self
    }

    /// Returns the line so far.
    pub fn so_far(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Ends the line with a newline, and returns it.
    pub fn end(&mut self) -> &[u8] {
        self.text.ended_by(b'\n')
    }
}

/// Begins a report: what is wrong, which call found it, and with which address.
pub fn head(line: &mut Line, what: &'static str, call: Call, address: usize) {
    line.subject = Subject { what, call: call.name(), address, block: None, companion: false };
    line.text("toft: ").text(what).text(": ").text(call.name());
    line.text("(").address(address).text("): ");
}
