//! The name of the file that a profile is written to.

use core::ffi::CStr;
use toft_core::os::{Text, process};

/// The most bytes of a file's name, with its suffixes and the final zero.
const NAME: usize = 320;

/// The name of a profile's file.
pub(super) type Path = Text<NAME>;

/// Sets a file's name: `name` with the process ID for `%p`. Without `%p`, a forked child
/// (`inherited`) appends `.PID`. A profile that is not the last also has `.1`, `.2` and so on:
/// `number`.
pub(super) fn set(path: &mut Path, name: &CStr, inherited: bool, number: Option<usize>) {
    let pid = process::pid() as u64;
    let (mut rest, mut has_number) = (name.to_bytes(), false);
    while let Some((&byte, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(b"%p") {
            path.digits(pid, 10);
            (rest, has_number) = (behind, true);
        } else {
            path.add(&[byte]);
            rest = behind;
        }
    }
    if !has_number && inherited {
        path.add(b".").digits(pid, 10);
    }
    if let Some(number) = number {
        path.add(b".").digits(number as u64, 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_processes_and_moments_apart() {
        let of = |name, inherited, number| {
            let mut path = Path::new();
            set(&mut path, name, inherited, number);
            std::string::String::from(path.as_c_str().to_str().unwrap())
        };
        let pid = process::pid();
        assert_eq!(of(c"/tmp/a", false, None), "/tmp/a");
        assert_eq!(of(c"/tmp/a", false, Some(7)), "/tmp/a.7");
        assert_eq!(of(c"/tmp/a", true, Some(12)), std::format!("/tmp/a.{pid}.12"));
        assert_eq!(of(c"/tmp/%p%q", true, None), std::format!("/tmp/{pid}%q"));
    }
}
