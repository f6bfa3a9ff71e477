//! Where the library is at run time: the bytes that this executable carries, put into a file that
//! the target can map.
//!
//! Used by `run`, `record`, `bench` and `doctor`. `place` names the folders that qualify, `unpack`
//! puts it there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process;

use nix::fcntl::{FcntlArg, FdFlag, Flock, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use place::{Place, every_user_reaches, nameable};
use unpack::{Unpacked, unpack_into};

mod place;
mod unpack;

/// The shared library that the build script made.
pub static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtoft.so"));
/// A digest of [`BYTES`] that names the cached file, so that two versions of `toft` do not
/// overwrite each other's.
pub const HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/libtoft.hash"));
/// As [`HASH`], for the secure build.
pub const SECURE_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/libtoft-secure.hash"));
/// As [`HASH`], for the light secure build.
pub const LIGHT_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/libtoft-secure-light.hash"));

struct Carried {
    name: &'static str,
    bytes: &'static [u8],
    hash: &'static str,
}

const TOFT: Carried = Carried { name: "libtoft", bytes: BYTES, hash: HASH };
const SECURE: Carried = Carried {
    name: "libtoft-secure",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libtoft-secure.so")),
    hash: SECURE_HASH,
};
const LIGHT: Carried = Carried {
    name: "libtoft-secure-light",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libtoft-secure-light.so")),
    hash: LIGHT_HASH,
};
/// What `toft record` puts in front of any allocator.
const RECORDER: Carried = Carried {
    name: "libtoft_record",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libtoft_record.so")),
    hash: include_str!(concat!(env!("OUT_DIR"), "/libtoft_record.hash")),
};

/// A library ready to be named in `LD_PRELOAD`.
pub struct Library {
    /// What `LD_PRELOAD` shall say.
    pub path: PathBuf,
    /// How it came to be there, for `toft doctor`.
    pub origin: &'static str,
    /// Whether programs of every user can load it.
    pub reached: bool,
    /// The file: one in memory lives as long as this process holds it, and one in a folder is not
    /// removed meanwhile.
    held: Option<Held>,
}

/// What keeps a library where it is.
enum Held {
    /// A lock on the file in a folder.
    Lock(Flock<File>),
    /// The file in memory.
    Memory(File),
}

impl Library {
    /// Keeps the file for the program that this process executes next.
    pub fn keep_for_next_program(self) {
        let file = match &self.held {
            Some(Held::Lock(file)) => file.as_fd(),
            Some(Held::Memory(file)) => file.as_fd(),
            None => return,
        };
        // Without it the library is in danger on a system only where another version of the command
        // removes it meanwhile.
        let _ = fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()));
        mem::forget(self);
    }

    /// The library named by `--library`, or else the one this executable carries.
    pub fn find(given: Option<&Path>) -> Result<Library, String> {
        match given {
            Some(path) => Library::given(path),
            None => Library::unpacked(&TOFT),
        }
    }

    pub fn secure() -> Result<Library, String> {
        Library::unpacked(&SECURE)
    }

    pub fn secure_light() -> Result<Library, String> {
        Library::unpacked(&LIGHT)
    }

    pub fn recorder() -> Result<Library, String> {
        Library::unpacked(&RECORDER)
    }

    fn given(path: &Path) -> Result<Library, String> {
        let path = fs::canonicalize(path)
            .map_err(|e| format!("cannot use the library {}: {e}", path.display()))?;
        if !path.is_file() {
            return Err(format!("cannot use the library {}: not a file", path.display()));
        }
        if !nameable(&path) {
            return Err(format!(
                "cannot use the library {}: LD_PRELOAD cannot contain a path with a space or a colon",
                path.display()
            ));
        }
        // The caller is responsible for the permissions of a named library.
        Ok(Library { path, origin: "named by --library", reached: true, held: None })
    }

    fn unpacked(what: &Carried) -> Result<Library, String> {
        for Place { directory, origin } in place::places() {
            if let Ok(Unpacked { path, lock }) = unpack_into(&directory, what) {
                let reached = every_user_reaches(&path);
                return Ok(Library { path, origin, reached, held: lock.map(Held::Lock) });
            }
        }
        in_memory(what).map_err(|e| {
            format!("no place to unpack the library, not even memory: {e}; use --library PATH")
        })
    }
}

/// The last resort on a system without one writable place: it serves for as long as the launcher
/// lives.
fn in_memory(what: &Carried) -> io::Result<Library> {
    let mut file = File::from(memfd_create(c"libtoft.so", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(what.bytes)?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd()));
    let origin = "held in memory, no writable directory";
    Ok(Library { path, origin, reached: false, held: Some(Held::Memory(file)) })
}

/// `LD_PRELOAD` with `library` first and whatever was there before behind it.
pub fn preload_value(library: &Path, before: Option<&OsStr>) -> std::ffi::OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(before) = before.filter(|text| !text.is_empty()) {
        value.push(":");
        value.push(before);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_library_can_be_loaded_from_memory() {
        let library = in_memory(&TOFT).unwrap();
        let mapped = Command::new("cat")
            .arg("/proc/self/maps")
            .env("LD_PRELOAD", preload_value(&library.path, None))
            .output()
            .unwrap();
        assert!(mapped.stderr.is_empty());
        assert!(String::from_utf8(mapped.stdout).unwrap().contains("memfd:libtoft.so"));
    }

    #[test]
    fn an_earlier_preload_comes_second() {
        let value = |before| preload_value(Path::new("/l.so"), before);
        assert_eq!(value(None), "/l.so");
        assert_eq!(value(Some(OsStr::new(""))), "/l.so");
        assert_eq!(value(Some(OsStr::new("/a.so /b.so"))), "/l.so:/a.so /b.so");
    }
}
