//! The library as a file in a folder: written once, verified whole at every start, removed when no
//! `toft` has used it for two days and no process maps it.
//!
//! Folder and file belong to the caller, can be read by every user and written by no other. A file
//! is written under a temporary name and then renamed, so that a `toft` that starts at the same
//! time finds all of it or none.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
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
/// A version that was not used for so long is removed, if no `toft` holds it and no process maps
/// it. A daemon whose `toft` has ended maps it, and may still start programs on it.
const KEPT: Duration = Duration::from_secs(48 * 3600);
/// How often the time of last use is written, and unused versions are removed.
const MARKED: Duration = Duration::from_secs(24 * 3600);
/// What the names of its files begin with.
const OURS: [&str; 2] = ["libtoft-", "libtoft_record-"];
/// Names that are tried for a new file.
const NAMES: u32 = 100;
/// Attempts to lock a file, a millisecond apart. A `toft` that removes it holds it for less.
const LOCKS: u32 = 20;

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
    if fs::metadata(&path).map_or(true, |about| older(&about, MARKED)) {
        remove_unused(&directory, &path);
    }
    if let Some(lock) = genuine(&path, what.bytes) {
        return Ok(Unpacked { path, lock });
    }
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
    let (mut locked, mut alone) = (None, Some(open(path)?));
    for attempt in 0..LOCKS {
        match Flock::lock(alone.take()?, FlockArg::LockSharedNonblock) {
            Ok(lock) => {
                locked = Some(lock);
                break;
            }
            Err((file, _)) => alone = Some(file),
        }
        if attempt + 1 < LOCKS {
            thread::sleep(Duration::from_millis(1));
        }
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

/// Removes versions other than `current` that have not been used for long, and what was left half
/// written.
fn remove_unused(directory: &Path, current: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let is_old = |about: &fs::Metadata| about.is_file() && older(about, KEPT);
    let mut old: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path() != current && entry.metadata().is_ok_and(|a| is_old(&a)))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let name = name.strip_prefix('.').unwrap_or(name);
            OURS.iter().any(|ours| name.starts_with(ours))
        })
        .collect();
    if !old.is_empty() {
        retain_unmapped(&mut old);
    }
    for path in old.iter().map(|name| directory.join(name)) {
        // A process that uses it holds it shared, and has marked it as used since: so its age is
        // checked again.
        if let Some(file) = open(&path)
            && let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            && lock.metadata().is_ok_and(|about| is_old(&about))
        {
            // A folder that cannot be tidied up serves as well.
            let _ = fs::remove_file(path);
        }
    }
}

/// Keeps the names of files that no process maps, of those that the caller may read. The name has
/// the hash of the file, so it is the same file in whatever folder a container sees it.
fn retain_unmapped(names: &mut Vec<String>) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let maps = fs::read(entry.path().join("maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        names.retain(|name| !maps.contains(&format!("/{name}")));
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
        let unpack = |what: &Carried| unpack_into(directory.path(), what).unwrap();
        let current = unpack(&WHAT).path;
        for name in kept.iter().chain(&gone) {
            fs::write(path(name), WHAT.bytes).unwrap();
            age(&path(name), if *name == kept[0] { 1 } else { 3 });
        }
        let held = File::open(path(kept[1])).unwrap();
        let _held = Flock::lock(held, FlockArg::LockSharedNonblock).unwrap();
        allow(&path(kept[3]), FILE);
        let _used = unpack(&Carried { hash: "used", ..WHAT });
        let there =
            |names: &[&str]| names.iter().map(|name| path(name).exists()).collect::<Vec<_>>();
        fs::write(path(gone[0]), WHAT.bytes).unwrap();
        age(&path(gone[0]), 3);
        unpack(&WHAT);
        assert!(path(gone[0]).exists(), "no more than once a day");
        age(&current, 2);
        unpack(&WHAT);
        assert_eq!((there(&kept), there(&gone)), (vec![true; 4], vec![false; 3]));
        assert!(current.exists());
    }

    #[test]
    fn a_version_that_a_process_maps_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("libtoft-mapped-by-this-test.so");
        // Another process writes it, so that no child of this one has it open for writing.
        let copied = process::Command::new("cp").args(["/bin/cat", old.to_str().unwrap()]).status();
        assert!(copied.unwrap().success());
        age(&old, 100);
        let mut cat = process::Command::new(&old);
        let mut child =
            cat.stdin(process::Stdio::piped()).stdout(process::Stdio::piped()).spawn().unwrap();
        // `spawn` returns before the program is mapped; once it has answered, it is.
        child.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        unpack_into(directory.path(), &WHAT).unwrap();
        let kept = old.exists();
        child.kill().unwrap();
        child.wait().unwrap();
        unpack_into(directory.path(), &Carried { hash: "next", ..WHAT }).unwrap();
        assert!(kept && !old.exists());
    }
}
