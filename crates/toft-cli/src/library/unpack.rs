//! The library as a file in a folder: written once, verified whole at every start, removed when no
//! version of `toft` has used it for long.
//!
//! Folder and file belong to the caller, can be read by every user and written by no other. A file
//! is written under a temporary name and then renamed, so that a `toft` that starts at the same
//! time finds all of it or none.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use super::Carried;
use super::place::{may_hold_code, nameable};

/// Folders of the library: other users can read it.
const FOLDER: u32 = 0o755;
/// The library: others can map it.
const FILE: u32 = 0o644;
const OTHERS_WRITE: u32 = 0o022;
/// A version that was not used for so long is removed, if no `toft` holds it. What a `toft` that
/// has ended has left behind may still start programs on it, as a daemon does.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often the time of last use is written.
const MARKED: Duration = Duration::from_secs(24 * 3600);
/// What the names of its files begin with.
const OURS: [&str; 2] = ["libtoft-", "libtoft_record-"];
/// Names that are tried for a new file.
const NAMES: u32 = 100;

pub(super) struct Unpacked {
    /// Its path, without links.
    pub(super) path: PathBuf,
    /// Keeps the file from being removed; `None` if another user holds a lock on it.
    pub(super) lock: Option<Flock<File>>,
}

/// The file in `directory`: the one that is there if it is ours byte by byte, or else a new one.
pub(super) fn unpack_into(directory: &Path, what: &Carried) -> io::Result<Unpacked> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(directory)?;
    let about = fs::symlink_metadata(directory)?;
    if !about.is_dir() || !is_own(&about) {
        return Err(io::Error::other("the directory is not the caller's own"));
    }
    // Links on the way are followed now: later their owners could change them.
    let directory = directory.canonicalize()?;
    let path = directory.join(format!("{}-{}.so", what.name, what.hash));
    if !nameable(&path) {
        return Err(io::Error::other("not nameable in LD_PRELOAD"));
    }
    if !may_hold_code(&directory)? {
        return Err(io::Error::other("mounted noexec"));
    }
    if about.mode() & FOLDER != FOLDER {
        // An earlier version closed it, or the umask; on a file system that is read-only it stays
        // as it is.
        let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(FOLDER));
    }
    if let Some(lock) = genuine(&path, what.bytes) {
        return Ok(Unpacked { path, lock });
    }
    remove_unused(&directory);
    write_new(&directory, &path, what)?;
    let lock = genuine(&path, what.bytes);
    let lock = lock.ok_or_else(|| io::Error::other("the file is not what was written"))?;
    Ok(Unpacked { path, lock })
}

/// Whether it belongs to the caller and no other user may write it.
fn is_own(about: &fs::Metadata) -> bool {
    about.uid() == geteuid().as_raw() && about.mode() & OTHERS_WRITE == 0
}

/// Writes the file under another name, and gives it its own when it is whole.
fn write_new(directory: &Path, path: &Path, what: &Carried) -> io::Result<()> {
    // Two with the same number may share the folder: each in a separate container.
    let name = |number| format!(".{}-{}.{}.{number}", what.name, what.hash, process::id());
    let create =
        |fresh: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh);
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for fresh in (0..NAMES).map(|number| directory.join(name(number))) {
        let mut file = match create(&fresh) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                last = e;
                continue;
            }
            Err(e) => return Err(e),
        };
        let written = file
            .write_all(what.bytes)
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(FILE)))
            .and_then(|()| fs::rename(&fresh, path));
        if written.is_err() {
            // Best effort: what counts is the error that is returned.
            let _ = fs::remove_file(&fresh);
        }
        return written;
    }
    Err(last)
}

/// A lock on the file, marked as used, if it is a plain file of the caller that every user can read
/// and no other user can write, with exactly these bytes.
fn genuine(path: &Path, bytes: &[u8]) -> Option<Option<Flock<File>>> {
    let (mut locked, mut alone) = (None, None);
    match Flock::lock(open(path)?, FlockArg::LockSharedNonblock) {
        Ok(lock) => locked = Some(lock),
        Err((file, _)) => alone = Some(file),
    }
    let file = locked.as_deref_mut().or(alone.as_mut())?;
    let about = file.metadata().ok()?;
    let readable = about.mode() & FILE == FILE;
    // Without a name it was removed before it was held.
    if !about.is_file() || !is_own(&about) || !readable || about.nlink() == 0 {
        return None;
    }
    if about.len() != bytes.len() as u64 || !holds(file, bytes).unwrap_or(false) {
        return None;
    }
    if older(&about, MARKED) {
        // Fails on a file system that is read-only: there it is not removed either.
        let _ = file.set_modified(SystemTime::now());
    }
    Some(locked)
}

/// Opens a file to read; no link, and without waiting for the writer of a pipe.
fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

fn holds(file: &mut File, bytes: &[u8]) -> io::Result<bool> {
    let mut rest = bytes;
    let mut chunk = [0; 64 * 1024];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(rest.is_empty()),
            n if rest.starts_with(&chunk[..n]) => rest = &rest[n..],
            _ => return Ok(false),
        }
    }
}

/// Whether it was last written, or marked as used, so long ago.
fn older(about: &fs::Metadata, than: Duration) -> bool {
    let age = about.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok());
    age.is_some_and(|age| age > than)
}

/// Removes other versions that have not been used for long, and what was left half written.
fn remove_unused(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| {
            let name = name.strip_prefix('.').unwrap_or(name);
            OURS.iter().any(|ours| name.starts_with(ours))
        });
        let is_old = |about: &fs::Metadata| about.is_file() && older(about, KEPT);
        if !ours || !entry.metadata().is_ok_and(|about| is_old(&about)) {
            continue;
        }
        // A process that uses it holds it shared, and has marked it as used since: so its age is
        // checked again.
        if let Some(file) = open(&entry.path())
            && let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            && lock.metadata().is_ok_and(|about| is_old(&about))
        {
            // A folder that cannot be tidied up serves as well.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const WHAT: Carried = Carried { name: "libtoft", bytes: &[7; 300_000], hash: "0123" };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn age(path: &Path, days: u64) {
        let then = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
        File::options().read(true).open(path).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn everybody_can_read_it_and_only_the_owner_write_it() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("a/toft");
        let unpacked = unpack_into(&folder, &WHAT).unwrap();
        assert_eq!((mode(&unpacked.path), mode(&folder)), (FILE, FOLDER));
        assert_eq!(fs::read(&unpacked.path).unwrap(), WHAT.bytes);
        // As an earlier version left them.
        allow(&unpacked.path, 0o600);
        allow(&folder, 0o700);
        let again = unpack_into(&folder, &WHAT).unwrap();
        assert_eq!(
            (again.path.as_path(), mode(&again.path), mode(&folder)),
            (&*unpacked.path, FILE, FOLDER)
        );
        let before = fs::metadata(&again.path).unwrap().ino();
        unpack_into(&folder, &WHAT).unwrap();
        assert_eq!(fs::metadata(&again.path).unwrap().ino(), before, "what is right is left alone");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn folders_that_others_have_made_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("toft-0");
        // Writable by others; a link, to where others may not write; a file; a link that leads
        // nowhere.
        for prepare in [
            (|folder, _| {
                fs::create_dir(folder).unwrap();
                allow(folder, 0o777);
            }) as fn(&Path, &Path),
            |folder, elsewhere| symlink(elsewhere, folder).unwrap(),
            |folder, _| fs::write(folder, "").unwrap(),
            |folder, elsewhere| symlink(elsewhere.join("none"), folder).unwrap(),
        ] {
            let elsewhere = tempfile::tempdir().unwrap();
            prepare(&folder, elsewhere.path());
            assert!(unpack_into(&folder, &WHAT).is_err());
            assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
            let _ = fs::remove_dir(&folder).or_else(|_| fs::remove_file(&folder));
        }
        assert!(unpack_into(&folder, &WHAT).is_ok());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
            assert!(unpack_into(&folder, &WHAT).is_err(), "another user's");
        }
    }

    #[test]
    fn files_that_are_not_it_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libtoft-0123.so");
        let elsewhere = directory.path().join("elsewhere");
        fs::write(&elsewhere, WHAT.bytes).unwrap();
        for prepare in [
            (|path, _| fs::write(path, [8; 300_000]).unwrap()) as fn(&Path, &Path),
            |path, _| fs::write(path, &WHAT.bytes[..1000]).unwrap(),
            |path, elsewhere| symlink(elsewhere, path).unwrap(),
            |path, _| {
                nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap()
            },
            |path, _| {
                fs::write(path, WHAT.bytes).unwrap();
                allow(path, 0o666);
            },
        ] {
            let _ = fs::remove_file(&path);
            prepare(&path, &elsewhere);
            let unpacked = unpack_into(directory.path(), &WHAT).unwrap();
            assert!(fs::symlink_metadata(&unpacked.path).unwrap().is_file());
            assert_eq!((fs::read(&path).unwrap() == WHAT.bytes, mode(&path)), (true, FILE));
        }
    }

    #[test]
    fn many_at_once_find_the_whole_file() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let folder = directory.path().join(round.to_string());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let unpacked = unpack_into(&folder, &WHAT).unwrap();
                        assert_eq!(fs::read(unpacked.path).unwrap(), WHAT.bytes);
                    });
                }
            });
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left behind");
        }
    }

    #[test]
    fn unused_versions_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let kept = ["libtoft-new.so", "libtoft-held.so", "other.so", "libtoft-used.so"];
        let gone = ["libtoft-old.so", ".libtoft-old.77.0", "libtoft_record-old.so"];
        for name in kept.iter().chain(&gone) {
            fs::write(path(name), WHAT.bytes).unwrap();
            age(&path(name), if *name == kept[0] { 20 } else { 40 });
        }
        let held = File::open(path(kept[1])).unwrap();
        let _held = Flock::lock(held, FlockArg::LockSharedNonblock).unwrap();
        allow(&path(kept[3]), FILE);
        let used = Carried { hash: "used", ..WHAT };
        let _used = unpack_into(directory.path(), &used).unwrap();
        unpack_into(directory.path(), &WHAT).unwrap();
        for name in kept {
            assert!(path(name).exists(), "{name}");
        }
        for name in gone {
            assert!(!path(name).exists(), "{name}");
        }
    }
}
