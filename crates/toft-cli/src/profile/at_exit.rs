//! `toft run --profile FILE`: the library writes the profile when the program ends; this gives
//! names, while the files that ran are surely still there, and the form that was asked for.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use toft_profile::format::Format;

use super::names::Names;
use super::output::what_next;
use super::report::read;
use crate::verb::{check_writable, message};
use crate::vet::resolve::Resolved;

/// The longest name of a file that the library takes.
pub const NAME_MOST: usize = 255;

/// What stands in a name for the number of the process.
const NUMBER: &[u8] = b"%p";

/// A name with the number in its place, as the library writes it.
fn numbered(path: &Path, pid: i32) -> PathBuf {
    let (mut rest, mut name) = (path.as_os_str().as_bytes(), Vec::new());
    while let Some(place) = rest.windows(2).position(|two| two == NUMBER) {
        name.extend_from_slice(&rest[..place]);
        name.extend_from_slice(pid.to_string().as_bytes());
        rest = &rest[place + 2..];
    }
    name.extend_from_slice(rest);
    OsString::from_vec(name).into()
}

pub struct AtExit {
    /// As it was given.
    shown: PathBuf,
    whole: PathBuf,
    format: Format,
    /// Whether several processes write: then each has its number behind the name.
    many: bool,
}

impl AtExit {
    /// Checks that the file can be written, and removes an earlier one.
    pub fn new(path: &Path, many: bool) -> Result<AtExit, String> {
        let failed = |why: &str| format!("cannot write a profile to {}: {why}", path.display());
        let format = Format::of_name(&path.to_string_lossy()).ok_or_else(|| {
            failed("its extension is not one of .toft, .html, .svg, .pb.gz, .folded, .json or .txt")
        })?;
        let whole = std::path::absolute(path).map_err(|error| failed(&error.to_string()))?;
        if whole.as_os_str().len() + 12 > NAME_MOST {
            return Err(failed("its name is too long"));
        }
        match fs::remove_file(&whole) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&error.to_string()));
            }
            _ => {}
        }
        check_writable(&whole).map_err(|why| failed(&why))?;
        Ok(AtExit { shown: path.to_owned(), whole, format, many })
    }

    /// The variables for the library.
    pub fn variable(&self) -> OsString {
        let mut name = self.whole.clone().into_os_string();
        if self.many && !self.has_number() {
            name.push(".%p");
        }
        name
    }

    /// Whether the name has a place for the number of a process, which the library fills.
    fn has_number(&self) -> bool {
        self.whole.as_os_str().as_bytes().windows(2).any(|two| two == NUMBER)
    }

    /// The program has ended: says what there is to see, and whether there is anything.
    pub fn finish(mut self, pid: i32, target: &Resolved) -> bool {
        if self.has_number() {
            for path in [&mut self.whole, &mut self.shown] {
                *path = numbered(path, pid);
            }
        } else if self.many {
            let own = PathBuf::from(format!("{}.{pid}", self.whole.display()));
            // If there is none, that is reported below.
            let _ = fs::rename(own, &self.whole);
        }
        if !self.whole.exists() {
            message("no profile: the program was killed, or called _exit or exec");
            return false;
        }
        let done = read(&self.whole).and_then(|mut profile| {
            let names = Names::new(Vec::new()).of_target(target);
            if self.format.wants_names() {
                names.with_generated(profile.pid).give(&mut profile);
            } else {
                names.give_program(&mut profile);
            }
            fs::write(&self.whole, self.format.write(&profile)).map_err(|error| error.to_string())
        });
        match done {
            Ok(()) => {
                let next = what_next(self.format, &self.shown);
                message(&format!("wrote {}; next: {next}", self.shown.display()));
                true
            }
            Err(why) => {
                message(&why);
                false
            }
        }
    }
}
