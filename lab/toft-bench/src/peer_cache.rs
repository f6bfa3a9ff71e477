//! Where built peers are kept: a folder for each peer, and in it one for the version that is there,
//! with the library, its version and the key of the recipe that it was built from.
//!
//! A version is made in a separate folder and then renamed, so that what is found is whole,
//! whenever a build is interrupted.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The folder of all built peers.
#[derive(Clone, Debug)]
pub struct Cache(pub(crate) PathBuf);

/// A peer's folder while something is built in it. Others who want to build the same wait.
pub struct Building {
    folder: PathBuf,
    name: String,
    // Holds the lock, until it is closed.
    _lock: File,
}

impl Cache {
    /// The one of the user: `TOFT_BENCH_CACHE`, or below the user's cache folder.
    pub fn of_the_user() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(folder) = variable("TOFT_BENCH_CACHE") {
            return Self(folder.into());
        }
        let user = variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")));
        Self(user.unwrap_or_else(std::env::temp_dir).join("toft-bench"))
    }

    /// Where compiled programs of the corpus of misuse are kept.
    pub fn misuse(&self) -> PathBuf {
        self.0.join("misuse")
    }

    /// The library of a peer that was built from the recipe of this key, and its version.
    pub fn find(&self, name: &str, key: &str) -> Option<(PathBuf, String)> {
        fs::read_dir(self.0.join(name)).ok()?.flatten().find_map(|entry| {
            let folder = entry.path();
            let built_from = fs::read_to_string(folder.join("recipe")).ok()?;
            let version = fs::read_to_string(folder.join("version")).ok()?;
            let library = folder.join(library_name(name));
            (built_from == key && library.exists()).then_some((library, version))
        })
    }

    /// Where the output of a build that failed is kept.
    pub fn log(&self, name: &str) -> PathBuf {
        self.0.join("logs").join(format!("{name}.log"))
    }

    /// Begins to build a peer, in an empty folder.
    pub fn begin(&self, name: &str) -> io::Result<Building> {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder)?;
        let lock = locked(&folder)?;
        let building = Building { folder, name: name.to_owned(), _lock: lock };
        building.clear()?;
        fs::create_dir_all(building.work())?;
        fs::create_dir_all(building.slot())?;
        Ok(building)
    }
}

/// Locks a folder against other processes, until the returned file is closed.
pub fn locked(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder)?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(lock)
}

impl Building {
    /// The folder to build in.
    pub fn work(&self) -> PathBuf {
        self.folder.join(".new/work")
    }

    /// Where the library has to be put.
    pub fn library(&self) -> PathBuf {
        self.slot().join(library_name(&self.name))
    }

    fn slot(&self) -> PathBuf {
        self.folder.join(".new/slot")
    }

    /// Puts the library into the cache, in the place of what was there.
    pub fn keep(self, version: &str, key: &str) -> io::Result<()> {
        let slot = self.slot();
        fs::write(slot.join("version"), version)?;
        fs::write(slot.join("recipe"), key)?;
        let place: String = version
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '-' })
            .collect();
        let place = self.folder.join(place);
        if place.exists() {
            fs::rename(&place, self.folder.join(".new/old"))?;
        }
        fs::rename(&slot, &place)?;
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            match entry.file_type()?.is_dir() {
                true if path != place => fs::remove_dir_all(path)?,
                false => fs::remove_file(path)?,
                true => {}
            }
        }
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.folder.join(".new")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        let _ = self.clear();
        // Goes only when nothing else is in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn library_name(name: &str) -> String {
    format!("lib{name}.so")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Stage;

    fn put(cache: &Cache, version: &str, key: &str, text: &str) {
        let building = cache.begin("peer").unwrap();
        fs::write(building.library(), text).unwrap();
        building.keep(version, key).unwrap();
    }

    #[test]
    fn what_is_kept_is_found_by_its_key_and_replaces_what_was_there() {
        let stage = Stage::new().unwrap();
        let cache = Cache(stage.path("kept"));
        assert!(cache.find("peer", "k").is_none());
        put(&cache, "peer 1.0", "k", "first");
        let (library, version) = cache.find("peer", "k").unwrap();
        assert!(library.ends_with("peer/peer-1.0/libpeer.so"), "{}", library.display());
        assert_eq!(version, "peer 1.0");
        assert!(cache.find("peer", "other").is_none(), "built from another recipe");
        put(&cache, "peer 1.0", "other", "second");
        assert!(cache.find("peer", "k").is_none());
        let (library, _) = cache.find("peer", "other").unwrap();
        assert_eq!(fs::read_to_string(library).unwrap(), "second");
        put(&cache, "peer 1.1", "other", "third");
        assert_eq!(fs::read_dir(cache.0.join("peer")).unwrap().count(), 1);
    }

    #[test]
    fn an_interrupted_build_is_not_found_and_is_cleared_by_the_next() {
        let stage = Stage::new().unwrap();
        let cache = Cache(stage.path("interrupted"));
        let building = cache.begin("peer").unwrap();
        fs::write(building.library(), "half").unwrap();
        fs::write(building.work().join("file"), "").unwrap();
        // As a killed process leaves it: nothing is cleared, and the lock is gone.
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::flock(building._lock.as_raw_fd(), libc::LOCK_UN) }, 0);
        std::mem::forget(building);
        assert!(cache.find("peer", "k").is_none());
        let next = cache.begin("peer").unwrap();
        assert!(!next.library().exists() && !next.work().join("file").exists());
        drop(next);
        assert!(!cache.0.join("peer").exists(), "a build that failed leaves nothing");
    }
}
