//! The kernel's list of this process's mappings, `/proc/self/maps`, line by line.

/// A mapping, as a line of the list describes it.
#[derive(Clone, Copy, Debug)]
pub struct Mapping<'a> {
    /// The first address.
    pub start: usize,
    /// The address after the last one.
    pub end: usize,
    rights: &'a [u8],
    /// The place of the first address in the file.
    pub offset: usize,
    inode: &'a [u8],
    /// The path of the file, a name such as `[stack]`, or nothing.
    pub name: &'a [u8],
}

fn hex(text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0usize, |number, &byte| {
        let digit = (byte as char).to_digit(16)?;
        number.checked_mul(16)?.checked_add(digit as usize)
    })
}

impl<'a> Mapping<'a> {
    /// Parses a line: `start-end rights offset device inode   name`. Returns `None` for any other
    /// line, such as the further lines of smaps.
    pub fn parse(line: &'a [u8]) -> Option<Mapping<'a>> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let range = fields.next()?;
        let dash = range.iter().position(|&byte| byte == b'-')?;
        Some(Mapping {
            start: hex(range.get(..dash)?)?,
            end: hex(range.get(dash + 1..)?)?,
            rights: fields.next()?,
            offset: hex(fields.next()?)?,
            inode: fields.nth(1)?,
            name: fields.next().unwrap_or(&[]).trim_ascii_start(),
        })
    }

    /// Returns true if the program can read and write it.
    pub fn is_writable(&self) -> bool {
        self.rights.starts_with(b"rw")
    }

    /// Returns true if the program can execute it.
    pub fn is_executable(&self) -> bool {
        self.rights.contains(&b'x')
    }

    /// Returns true if it is of a file's code.
    pub fn is_code_of_file(&self) -> bool {
        self.is_executable() && self.name.starts_with(b"/")
    }

    /// Returns true if it is private and without a file: what was never touched is zero.
    pub fn is_anonymous(&self) -> bool {
        self.rights.ends_with(b"p") && self.inode == b"0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line =
            b"7f00-7f80 r-xp 00001000 fe:00 12345                      /usr/lib/with space.so";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00, 0x7f80, 0x1000));
        assert!(mapping.is_code_of_file() && mapping.name == b"/usr/lib/with space.so");
        assert!(Mapping::parse(b"7f00-7f80 rw-p 00000000 00:00 0").unwrap().name.is_empty());
        for other in [&b"nonsense"[..], b"", b"-", b"10-2f rw-p", b"Rss:    4 kB", b"VmFlags: rd"] {
            assert!(Mapping::parse(other).is_none(), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn rights_and_files_are_told_apart() {
        for (line, writable, anonymous) in [
            (&b"10-2f rw-p 00000000 00:00 0"[..], true, true),
            (b"10-2f rw-p 00000000 00:00 0    [heap]", true, true),
            (b"10-2f rw-s 00000000 00:00 0", true, false),
            (b"10-2f rw-p 00001000 fe:00 1234 /lib/x.so", true, false),
            (b"10-2f r--p 00000000 00:00 0", false, true),
            (b"10-2f ---p 00000000 00:00 0 ", false, true),
        ] {
            let mapping = Mapping::parse(line).unwrap();
            let found = (mapping.is_writable(), mapping.is_anonymous());
            assert_eq!(found, (writable, anonymous), "{}", line.escape_ascii());
            assert!(!mapping.is_executable());
        }
    }
}
