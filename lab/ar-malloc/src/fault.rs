//! Stops the process with a message, without allocating.

use std::fmt::Write;

/// A misuse of the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A free of a block that is free already.
    DoubleFree,
    /// A call with a pointer to which no block begins.
    NoBlock,
    /// A call, other than free, with a block that is free.
    NotInUse,
}

impl Fault {
    fn text(self) -> &'static str {
        match self {
            Fault::DoubleFree => "free of a block that is free",
            Fault::NoBlock => "call with a pointer to no block",
            Fault::NotInUse => "call with a block that is free",
        }
    }
}

/// Names the misuse and the pointer on standard error, and aborts.
#[cold]
#[inline(never)]
pub fn stop(fault: Fault, address: usize) -> ! {
    let mut line = Line::new();
    let _ = writeln!(line, "ar-malloc: {}: {address:#x}", fault.text());
    line.print();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// A line of text on the stack. What does not fit is left out.
pub struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Line {
    /// An empty line.
    pub fn new() -> Line {
        Line { bytes: [0; 512], len: 0 }
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Writes it to standard error.
    pub fn print(&self) {
        let text = self.text();
        // SAFETY: the bytes are live, and of this length.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for (to, from) in self.bytes.iter_mut().skip(self.len).zip(text.bytes()) {
            *to = from;
            self.len += 1;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/fault.rs"]
mod tests;
