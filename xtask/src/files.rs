//! Files and folders, with errors that name them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An error that names a path.
fn at<T>(path: &Path, done: io::Result<T>) -> Result<T, String> {
    done.map_err(|error| format!("{}: {error}", path.display()))
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String, String> {
    at(path, fs::read_to_string(path))
}

/// Writes a file, and makes the folder that it is in.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    at(path, made.and_then(|()| fs::write(path, bytes)))
}

/// Copies a file, and makes the folder that it goes to.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    at(from, made.and_then(|()| fs::copy(from, to).map(drop)))
}

/// Makes a folder, if it is not there.
pub fn make_folder(folder: &Path) -> Result<(), String> {
    at(folder, fs::create_dir_all(folder))
}

/// An empty folder of this name.
pub fn emptied(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        at(folder, fs::remove_dir_all(folder))?;
    }
    make_folder(folder)
}

/// What is in a folder, in order.
pub fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<_> = at(folder, entries)?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// All files of a folder with this ending, those of its folders too, in order.
pub fn below(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in in_folder(folder)? {
        if path.is_dir() {
            found.extend(below(&path, ending)?);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The last part of a path.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The text of a file of the repository, for tests.
#[cfg(test)]
pub fn kept(path: &str) -> String {
    read(&crate::place::root().join(path)).unwrap()
}
