//! What is asked of the process that is looked at: its mappings, its bytes, and which of its pages
//! are resident. A running process answers ([`crate::Process`]); a core file could.

use crate::Error;

/// A mapping, as a line of `/proc/PID/maps` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be executed.
    pub executable: bool,
    /// The file, or the kernel's name such as `[stack]`; empty for anonymous memory.
    pub path: String,
}

impl Mapping {
    /// From a line of `/proc/PID/maps`, or the first of an entry of `smaps`.
    pub fn of_line(line: &str) -> Option<Mapping> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let rights = fields.next().filter(|rights| rights.len() == 4)?;
        Some(Mapping {
            start: hex(start)?,
            end: hex(end).filter(|&end| Some(end) > hex(start))?,
            offset: hex(fields.next()?)?,
            readable: rights.contains('r'),
            executable: rights.contains('x'),
            // Only the beginning is padded. The name itself may end in a space.
            path: fields.nth(2).unwrap_or("").trim_start().to_owned(),
        })
    }

    /// The part of it that lies between two addresses.
    pub fn within(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (from, to) = (self.start.max(start), self.end.min(end));
        (from < to).then_some((from, to))
    }
}

/// Neighbouring pages that are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
}

/// Another process's memory.
pub trait Memory {
    /// Its number, for messages.
    fn pid(&self) -> i32;

    /// Its mappings now, in order.
    fn mappings(&self) -> Result<Vec<Mapping>, Error>;

    /// Reads from an address on. Returns the number of bytes that could be read, without a gap,
    /// from the first.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;

    /// The pages in memory between two page-aligned addresses, in order and each once, without
    /// those that the kernel does not count (its shared page of zeros) if that is known.
    fn pages(&self, start: u64, end: u64) -> Result<Vec<Run>, Error>;

    /// Returns an error if the process has exited. Reads of an exited process return nothing, so a
    /// result is valid only if this is called after the last read and succeeds.
    fn still_there(&self) -> Result<(), Error> {
        self.mappings().map(drop)
    }

    /// Returns the error for what could not be read: the process has exited, or its tables make no
    /// sense.
    fn unread(&self, what: &'static str) -> Error {
        self.still_there().err().unwrap_or(Error::Nonsense(self.pid(), what))
    }
}

pub fn read_u64(memory: &impl Memory, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (memory.read(address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
}

pub fn read_u32(memory: &impl Memory, address: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    (memory.read(address, &mut bytes) == 4).then(|| u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whatever_the_name() {
        let line = "7f00000-7f80000 r-xp 00001000 fe:00 12345              /usr/lib/with space.so (deleted)";
        let mapping = Mapping::of_line(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00000, 0x7f80000, 0x1000));
        assert!(mapping.readable && mapping.executable);
        assert_eq!(mapping.path, "/usr/lib/with space.so (deleted)");
        let line = "7f00-7f80 r-xp 0 fe:00 1    /a\\012b \r";
        assert_eq!(Mapping::of_line(line).unwrap().path, "/a\\012b \r");
        let line = "7f00-7f80 ---p 00000000 00:00 0 ";
        assert!(!Mapping::of_line(line).unwrap().readable);
        assert_eq!(Mapping::of_line(line).unwrap().path, "");
        for bad in
            ["", "nonsense", "7f80-7f00 r--p 0 0:0 0", "7f00-7f80 r 0 0:0 0", "x-y r--p 0 0:0 0"]
        {
            assert_eq!(Mapping::of_line(bad), None, "{bad}");
        }
        assert_eq!(mapping.within(0, 0x7f00001), Some((0x7f00000, 0x7f00001)));
        assert_eq!(mapping.within(0, 0x7f00000), None);
    }
}
