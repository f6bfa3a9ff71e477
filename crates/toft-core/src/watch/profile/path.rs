//! The name of the file that a profile is written to.

use crate::os::{digits, process};
use core::ffi::CStr;

/// The most bytes of a file's name, with its suffixes and the final zero.
const NAME: usize = 320;

/// A file's name: `NAME` with the process ID for `%p`. Without `%p`, a forked child appends `.PID`.
/// A profile that is not the last also has `.1`, `.2` and so on.
pub(crate) struct Path {
    bytes: [u8; NAME],
    len: usize,
}

impl Path {
    /// Sets the name. `inherited` is true in a forked child. `number` is the number of the profile,
    /// or `None` for the last one.
    pub(crate) fn set(&mut self, name: &CStr, inherited: bool, number: Option<usize>) {
        let path = self;
        let (mut rest, mut has_number) = (name.to_bytes(), false);
        while let Some((&byte, behind)) = rest.split_first() {
            if let Some(behind) = rest.strip_prefix(b"%p") {
                path.digits(process::pid());
                (rest, has_number) = (behind, true);
            } else {
                path.add(&[byte]);
                rest = behind;
            }
        }
        if !has_number && inherited {
            path.number(process::pid());
        }
        if let Some(number) = number {
            path.number(number);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // The last byte stays zero.
            if self.len + 1 < NAME
                && let Some(place) = self.bytes.get_mut(self.len)
            {
                *place = byte;
                self.len += 1;
            }
        }
    }

    fn number(&mut self, number: usize) {
        self.add(b".");
        self.digits(number);
    }

    fn digits(&mut self, number: usize) {
        self.add(digits(number as u64, 10, &mut [0; 20]));
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_processes_and_moments_apart() {
        let of = |name, inherited, number| {
            let mut path = Path { bytes: [0; NAME], len: 0 };
            path.set(name, inherited, number);
            std::string::String::from(path.as_c_str().to_str().unwrap())
        };
        let pid = process::pid();
        assert_eq!(of(c"/tmp/a", false, None), "/tmp/a");
        assert_eq!(of(c"/tmp/a", false, Some(7)), "/tmp/a.7");
        assert_eq!(of(c"/tmp/a", true, Some(12)), std::format!("/tmp/a.{pid}.12"));
        assert_eq!(of(c"/tmp/%p%q", true, None), std::format!("/tmp/{pid}%q"));
    }
}
