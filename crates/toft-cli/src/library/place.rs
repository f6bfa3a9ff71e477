//! Folders that may hold the library: only those in which no other user could replace it.
//!
//! Programs of other users are started by root alone (`su`, daemons that give up their rights). So
//! root prefers a place that every user can reach, and everyone else their own cache.

use std::env;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;

const OTHERS_WRITE: u32 = 0o022;
const OTHERS_SEARCH: u32 = 0o001;
const STICKY: u32 = 0o1000;

/// A folder for the library, which need not be there yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    /// How the library came to be there, for `toft doctor`.
    pub(super) origin: &'static str,
}

/// The candidates, the best first.
pub(super) fn places() -> Vec<Place> {
    let place = |directory: Option<PathBuf>, origin| Some(Place { directory: directory?, origin });
    let all = [
        place(cache_directory(), "unpacked in the user's cache"),
        place(system_cache("/var/cache".into()), "unpacked in the system's cache"),
        place(temporary_directory(env::temp_dir()), "unpacked in the temporary directory"),
        place(temporary_directory("/tmp".into()), "unpacked in /tmp"),
        place(temporary_directory("/dev/shm".into()), "unpacked in /dev/shm"),
    ];
    let mut places: Vec<Place> = all.into_iter().flatten().collect();
    if geteuid().is_root() {
        // Stable: otherwise the order stays as it is.
        places.sort_by_key(|place| !every_user_reaches(&place.directory));
    }
    places
}

/// `$XDG_CACHE_HOME/toft` or `~/.cache/toft`. Under another user's home (`sudo` with HOME kept)
/// that user could exchange the file between our check and the target's start. So the home must be
/// the caller's own.
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

fn owned_and_unshared(path: &Path) -> bool {
    // Not following a link would refuse homes that are reached through one; the owner of what it
    // leads to decides.
    fs::metadata(path)
        .is_ok_and(|about| about.uid() == geteuid().as_raw() && about.mode() & OTHERS_WRITE == 0)
}

/// `/var/cache/toft`, which only root can make.
fn system_cache(parent: PathBuf) -> Option<PathBuf> {
    (geteuid().is_root() && owned_and_unshared(&parent)).then(|| parent.join("toft"))
}

/// `$TMPDIR/toft-UID`; in a directory that others may write only if it is sticky, so that they
/// cannot rename ours.
fn temporary_directory(parent: PathBuf) -> Option<PathBuf> {
    let about = fs::metadata(&parent).ok()?;
    (about.is_dir() && keeps_names(&about)).then(|| parent.join(format!("toft-{}", geteuid())))
}

/// Whether what the caller puts into a folder keeps its name, whatever others do.
fn keeps_names(about: &fs::Metadata) -> bool {
    let trusted = about.uid() == geteuid().as_raw() || about.uid() == 0;
    trusted && (about.mode() & OTHERS_WRITE == 0 || about.mode() & STICKY != 0)
}

/// Whether every user can reach a path that may not exist yet, and only root decides what it is.
pub(super) fn every_user_reaches(path: &Path) -> bool {
    let is_open = |about: &fs::Metadata| {
        about.is_dir() && about.mode() & OTHERS_SEARCH != 0 && keeps_names(about)
    };
    let there = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
    // By its real name: a link's own folder counts for nothing then.
    let Some(real) = there.and_then(|path| fs::canonicalize(path).ok()) else { return false };
    let own = there == Some(path);
    real.ancestors().all(|folder| {
        // The last one is the caller's own: its rights are set when it is used.
        own && folder == real || fs::metadata(folder).is_ok_and(|about| is_open(&about))
    })
}

/// Whether the loader may map code from a file system: one mounted `noexec` refuses.
pub(super) fn may_hold_code(directory: &Path) -> io::Result<bool> {
    Ok(!statvfs(directory)?.flags().contains(FsFlags::ST_NOEXEC))
}

/// The loader splits `LD_PRELOAD` at spaces and colons and knows no quoting.
pub(super) fn nameable(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :\t\n".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_what_the_loader_can_read_is_a_name() {
        assert!(nameable(Path::new("/tmp/toft-0/libtoft.so")));
        assert!(!nameable(Path::new("/a b/libtoft.so")) && !nameable(Path::new("/a:b/libtoft.so")));
    }

    #[test]
    fn a_shared_folder_counts_only_if_others_cannot_rename_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let parent = directory.path().to_owned();
        for (mode, usable) in [(0o700, true), (0o755, true), (0o777, false), (0o770, false)] {
            allow(&parent, mode);
            assert_eq!(temporary_directory(parent.clone()).is_some(), usable, "{mode:o}");
        }
        allow(&parent, 0o1777);
        let name = parent.join(format!("toft-{}", geteuid()));
        assert_eq!(temporary_directory(parent.clone()), Some(name));
        assert_eq!(temporary_directory(parent.join("none")), None);
    }

    #[test]
    fn every_folder_on_the_way_must_be_open_to_all_and_safe() {
        // Of the folders of this test, whatever lies above them on this machine.
        let directory = tempfile::tempdir().unwrap();
        let outer = directory.path().join("outer");
        let inner = outer.join("inner");
        fs::create_dir_all(&inner).unwrap();
        allow(directory.path(), 0o755);
        allow(&outer, 0o755);
        allow(&inner, 0o755);
        let toft = inner.join("toft");
        if !every_user_reaches(&toft) {
            // The folder for temporary files is closed to others here.
            return;
        }
        for (path, mode, open) in [
            (&outer, 0o700, false),
            (&outer, 0o777, false),
            (&outer, 0o1777, true),
            (&inner, 0o750, false),
            (&inner, 0o711, true),
        ] {
            allow(path, mode);
            assert_eq!(every_user_reaches(&toft), open, "{} {mode:o}", path.display());
            allow(path, 0o755);
        }
        // Its own rights are set later, and its name may be a link's.
        fs::create_dir(&toft).unwrap();
        allow(&toft, 0o700);
        assert!(every_user_reaches(&toft));
        let link = directory.path().join("link");
        symlink(&inner, &link).unwrap();
        assert!(every_user_reaches(&link.join("toft")));
        allow(&inner, 0o700);
        assert!(!every_user_reaches(&link.join("toft")));
    }
}
