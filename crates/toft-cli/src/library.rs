//! Where the library lies at run time: the bytes that this executable carries, put into a file that the target can map.
//!
//! Used by `run`, `record`, `bench` and `doctor`. A place qualifies only if nobody else could have put a different library there.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;

/// The shared library that the build script made.
pub static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtoft.so"));
/// A digest of [`BYTES`] that names the cached file, so that two versions of `toft` do not overwrite each other's.
pub const HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/libtoft.hash"));
/// The same of the hardened build.
pub const HARDENED_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/libtoft-secure.hash"));

/// A library that this executable carries.
struct Carried {
    name: &'static str,
    bytes: &'static [u8],
    hash: &'static str,
}

/// The allocator.
const TOFT: Carried = Carried { name: "libtoft", bytes: BYTES, hash: HASH };
/// Its hardened build.
const HARDENED: Carried = Carried {
    name: "libtoft-secure",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libtoft-secure.so")),
    hash: HARDENED_HASH,
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
    /// The memory file behind a `/proc/PID/fd/N` path: it lives as long as this process holds it.
    _memory: Option<File>,
}

impl Library {
    /// The library named by `--library`, or else the one this executable carries.
    pub fn find(given: Option<&Path>) -> Result<Library, String> {
        match given {
            Some(path) => Library::given(path),
            None => Library::unpacked(&TOFT),
        }
    }

    /// The hardened build.
    pub fn hardened() -> Result<Library, String> {
        Library::unpacked(&HARDENED)
    }

    /// The recorder.
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
                "cannot use the library {}: LD_PRELOAD has no way to write a path with a space or a colon",
                path.display()
            ));
        }
        Ok(Library { path, origin: "named by --library", _memory: None })
    }

    fn unpacked(what: &Carried) -> Result<Library, String> {
        let places = [
            (cache_directory(), "unpacked in the user's cache"),
            (temporary_directory(env::temp_dir()), "unpacked in the temporary directory"),
            (temporary_directory("/tmp".into()), "unpacked in /tmp"),
            (temporary_directory("/dev/shm".into()), "unpacked in /dev/shm"),
        ];
        for (directory, origin) in places {
            let Some(directory) = directory else { continue };
            if let Ok(path) = unpack_into(&directory, what) {
                return Ok(Library { path, origin, _memory: None });
            }
        }
        in_memory(what).map_err(|e| {
            format!("no place to unpack the library, not even memory: {e}; use --library PATH")
        })
    }
}

/// `$XDG_CACHE_HOME/toft` or `~/.cache/toft`. Under somebody else's home (`sudo` with HOME kept) that somebody could
/// exchange the file between our check and the target's start, so the home must be the caller's own.
fn cache_directory() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let (base, cache) = match absolute("XDG_CACHE_HOME") {
        Some(cache) => (cache.clone(), cache),
        None => absolute("HOME").map(|home| (home.clone(), home.join(".cache")))?,
    };
    if !owned_and_unshared(&base)
        || (cache != base && cache.exists() && !owned_and_unshared(&cache))
    {
        return None;
    }
    Some(cache.join("toft"))
}

/// `$TMPDIR/toft-UID`; in a directory that others may write only if it is sticky, so that they cannot rename ours.
fn temporary_directory(parent: PathBuf) -> Option<PathBuf> {
    let about = fs::metadata(&parent).ok()?;
    let others_write = about.mode() & 0o022 != 0;
    let sticky = about.mode() & 0o1000 != 0;
    let trusted = about.uid() == geteuid().as_raw() || about.uid() == 0;
    (about.is_dir() && trusted && (!others_write || sticky))
        .then(|| parent.join(format!("toft-{}", geteuid())))
}

fn owned_and_unshared(path: &Path) -> bool {
    // Not following a link would refuse homes that are reached through one; the owner of what it leads to decides.
    fs::metadata(path)
        .is_ok_and(|about| about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0)
}

/// The file in `directory`: the one that is there if it is ours byte by byte, or else a new one.
fn unpack_into(directory: &Path, what: &Carried) -> io::Result<PathBuf> {
    let Carried { name, bytes, hash } = *what;
    let path = directory.join(format!("{name}-{hash}.so"));
    if !nameable(&path) {
        return Err(io::Error::other("not nameable in LD_PRELOAD"));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let about = fs::symlink_metadata(directory)?;
    if !about.is_dir() || about.uid() != geteuid().as_raw() || about.mode() & 0o022 != 0 {
        return Err(io::Error::other("the directory is not the caller's own"));
    }
    // The loader maps the library executable, which such a file system refuses.
    if statvfs(directory)?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(io::Error::other("mounted noexec"));
    }
    if genuine(&path, bytes) {
        return Ok(path);
    }
    let fresh = directory.join(format!(".{name}-{hash}.{}", process::id()));
    let written = write_new(&fresh, bytes).and_then(|()| fs::rename(&fresh, &path));
    if written.is_err() {
        // Best effort: what counts is the error that is returned.
        let _ = fs::remove_file(&fresh);
    }
    written?;
    if genuine(&path, bytes) {
        Ok(path)
    } else {
        Err(io::Error::other("the file is not what was written"))
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A leftover of a killed process with our number, which create_new would stumble over.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// Whether the file is a plain file of the caller that nobody else may write, with exactly our bytes.
fn genuine(path: &Path, bytes: &[u8]) -> bool {
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
    else {
        return false;
    };
    let Ok(about) = file.metadata() else {
        return false;
    };
    if !about.is_file()
        || about.uid() != geteuid().as_raw()
        || about.mode() & 0o022 != 0
        || about.len() != bytes.len() as u64
    {
        return false;
    }
    let mut rest = bytes;
    let mut chunk = [0; 64 * 1024];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return rest.is_empty(),
            Ok(n) if rest.starts_with(&chunk[..n]) => rest = &rest[n..],
            _ => return false,
        }
    }
}

/// The last resort on a system without one writable place: it serves for as long as the launcher lives.
fn in_memory(what: &Carried) -> io::Result<Library> {
    let mut file = File::from(memfd_create(c"libtoft.so", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(what.bytes)?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd()));
    Ok(Library { path, origin: "held in memory, no writable directory", _memory: Some(file) })
}

/// The loader splits `LD_PRELOAD` at spaces and colons and knows no quoting.
fn nameable(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :\t\n".contains(byte))
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

    #[test]
    fn only_what_the_loader_can_read_is_a_name() {
        assert!(nameable(Path::new("/tmp/toft-0/libtoft.so")));
        assert!(!nameable(Path::new("/a b/libtoft.so")) && !nameable(Path::new("/a:b/libtoft.so")));
    }
}
