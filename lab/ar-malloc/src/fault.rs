//! Stops the process with a message, without allocating.

use std::fmt::Write;

/// A free of a block that is free already.
pub const DOUBLE_FREE: &str = "free of a block that is free";
/// A call with a pointer to which no block begins.
pub const NO_BLOCK: &str = "call with a pointer to no block";
/// A call, other than free, with a block that is free.
pub const NOT_IN_USE: &str = "call with a block that is free";

/// Names the misuse and the pointer on standard error, and aborts.
#[cold]
#[inline(never)]
pub fn stop(misuse: &str, address: usize) -> ! {
    let mut line = Line::new();
    let _ = writeln!(line, "ar-malloc: {misuse}: {address:#x}");
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
