//! Writes text to a descriptor, through a fixed buffer.

use crate::os::{digits, process};

/// A descriptor, and the text that was not written to it yet. A line that fits the buffer is
/// written by one system call, so that the lines of several processes do not mix.
#[derive(Debug)]
pub struct Writer<const BYTES: usize = 1024> {
    descriptor: i32,
    buffer: [u8; BYTES],
    len: usize,
    accepted: bool,
}

impl<const BYTES: usize> Writer<BYTES> {
    /// Returns a writer with an empty buffer.
    pub fn new(descriptor: i32) -> Writer<BYTES> {
        Writer { descriptor, buffer: [0; BYTES], len: 0, accepted: true }
    }

    /// Starts again with another descriptor, in place.
    pub fn begin(&mut self, descriptor: i32) {
        (self.descriptor, self.len, self.accepted) = (descriptor, 0, true);
    }

    /// Appends text.
    pub fn text(&mut self, text: &str) -> &mut Writer<BYTES> {
        self.bytes(text.as_bytes())
    }

    /// Appends bytes as they are.
    #[inline(never)]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Writer<BYTES> {
        for &byte in bytes {
            if self.len == self.buffer.len() {
                self.flush();
            }
            if let Some(place) = self.buffer.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    /// Appends a number in digits of a base of at most 16.
    #[inline(never)]
    pub fn digits(&mut self, number: u64, base: u64) -> &mut Writer<BYTES> {
        self.bytes(digits(number, base, &mut [0; 20]))
    }

    /// Appends `,"name":value`.
    #[inline(never)]
    pub fn field(&mut self, name: &str, value: u64) -> &mut Writer<BYTES> {
        self.text(",\"").text(name).text("\":").digits(value, 10)
    }

    /// Appends `,"name":"value"`.
    #[inline(never)]
    pub fn word(&mut self, name: &str, value: &[u8]) -> &mut Writer<BYTES> {
        self.text(",\"").text(name).text("\":").string(value)
    }

    /// Appends `,"name":"0xvalue"`, because JSON's numbers are too short for addresses.
    #[inline(never)]
    pub fn address(&mut self, name: &str, value: usize) -> &mut Writer<BYTES> {
        self.text(",\"").text(name).text("\":\"0x").digits(value as u64, 16).text("\"")
    }

    /// Appends a JSON string.
    #[inline(never)]
    pub fn string(&mut self, value: &[u8]) -> &mut Writer<BYTES> {
        self.text("\"");
        for &byte in value {
            match byte {
                b'"' | b'\\' => self.bytes(&[b'\\', byte]),
                0..=0x1f => self
                    .text("\\u00")
                    .digits(u64::from(byte >> 4), 16)
                    .digits(u64::from(byte & 15), 16),
                _ => self.bytes(&[byte]),
            };
        }
        self.text("\"")
    }

    /// Writes what is in the buffer. Returns true if everything so far was written.
    #[inline(never)]
    pub fn flush(&mut self) -> bool {
        let bytes = self.buffer.get(..self.len).unwrap_or(&[]);
        self.accepted &= process::write_all(self.descriptor, bytes);
        self.len = 0;
        self.accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::{AsRawFd, FromRawFd};

    /// Returns what arrives at the other end of a pipe.
    fn written(write: impl FnOnce(&mut Writer<64>)) -> std::string::String {
        let mut ends = [0; 2];
        // SAFETY: libc writes two descriptors, which the files below own.
        let (mut reader, file) = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            (std::fs::File::from_raw_fd(ends[0]), std::fs::File::from_raw_fd(ends[1]))
        };
        let mut writer = Writer::new(file.as_raw_fd());
        write(&mut writer);
        assert!(writer.flush());
        drop(file);
        let mut text = std::string::String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn more_than_the_buffer_arrives() {
        let text = "0123456789".repeat(50);
        assert_eq!(
            written(|w| {
                w.text(&text);
            }),
            text
        );
    }

    #[test]
    fn strings_are_escaped_and_numbers_are_whole() {
        let text = written(|w| {
            w.word("a", b"x\"y\\z\n\x1b").field("b", u64::MAX).address("c", 0xfe0);
        });
        assert_eq!(text, r#","a":"x\"y\\z\u000a\u001b","b":18446744073709551615,"c":"0xfe0""#);
    }

    #[test]
    fn a_closed_descriptor_is_told() {
        let mut writer: Writer<8> = Writer::new(-1);
        assert!(!writer.text("lost").flush());
    }
}
