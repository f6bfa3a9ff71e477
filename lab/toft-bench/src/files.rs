//! Files, whose errors say which file it is.

use std::fmt::Display;
use std::path::Path;

/// Makes the text of an error that a path had.
pub fn at<E: Display>(path: &Path) -> impl Fn(E) -> String {
    move |error| format!("{}: {error}", path.display())
}

pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(at(path))
}

pub fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(at(path))
}

/// Makes a folder and those that it is in, if they are not there.
pub fn make_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(at(path))
}
