//! The documentation: pages that are generated, the book, and tests that the others speak of what
//! is there.

pub mod book;
mod header;
mod links;
mod options;
pub mod pictures;
#[cfg(test)]
mod threats;
#[cfg(test)]
mod walks;

use crate::place;

/// The page that `toft man --markdown` prints.
const COMMAND: &str = "docs/command.md";

/// Writes the generated pages.
pub fn write() -> Result<(), String> {
    save(options::PAGE, &options::page())?;
    save(header::PAGE, &header::page()?)?;
    // Last, because the command is built for it.
    save(COMMAND, &command()?)
}

fn save(page: &str, text: &str) -> Result<(), String> {
    let path = place::root().join(page);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("{page}");
    Ok(())
}

/// The help of every verb of the command, which is built first.
fn command() -> Result<String, String> {
    let mut cargo = place::cargo();
    cargo.args(["run", "--quiet", "--release", "--package", "toft-cli", "--"]);
    let output = cargo.args(["man", "--markdown"]).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("toft man: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
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
