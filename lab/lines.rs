//! The length of an allocator of the laboratory: a module of the tests that hold it small.

use std::path::{Path, PathBuf};

/// Lines of source.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// All, with comments and empty lines.
    pub all: usize,
    /// Those that are neither empty nor comments.
    pub code: usize,
}

/// Counts the lines of all files that a preloaded library is compiled from: the folder `src` of a
/// crate, and `c_names.rs`.
pub fn lines(of_crate: &str) -> Lines {
    let root = Path::new(of_crate);
    let mut left = vec![root.join("src"), root.join("../c_names.rs")];
    let mut lines = Lines { all: 0, code: 0 };
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()).collect::<Vec<PathBuf>>());
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        lines.all += text.lines().count();
        lines.code += text.lines().map(str::trim).filter(is_code).count();
    }
    println!("{lines:?}");
    lines
}
