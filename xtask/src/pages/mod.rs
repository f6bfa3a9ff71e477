//! The documentation: pages that are generated, the book, and tests that the others speak of what is there.

pub mod book;
mod links;
mod options;
#[cfg(test)]
mod walks;

use crate::place;

/// Writes the generated pages.
pub fn write() -> Result<(), String> {
    let path = place::root().join(options::PAGE);
    std::fs::write(&path, options::page()).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("{}", options::PAGE);
    Ok(())
}

/// A page of the repository.
#[cfg(test)]
fn read(page: &std::path::Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()))
}

/// All files of a folder with this ending, those of its folders too.
fn files(folder: &std::path::Path, ending: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}
