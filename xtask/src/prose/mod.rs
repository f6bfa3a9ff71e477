//! The wording of comments and pages, as far as a program can check it: `cargo xtask prose`.
//!
//! | file | what |
//! |---|---|
//! | `text.rs` | the prose in a file: comments of code, paragraphs and tables of pages |
//! | `rules.rs` | phrases, lengths of sentences, lines and table cells |

mod rules;
mod text;

use crate::place;
use crate::step::text as output;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One line that breaks a rule.
struct Finding {
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// Prints what breaks a rule in these files, or in all files of the repository. Returns a failure
/// if anything does.
pub fn main(paths: &[PathBuf]) -> Result<ExitCode, String> {
    let count = check(paths)?;
    println!("{count} findings; the rules are in CONTRIBUTING.md");
    Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the findings, and returns their number.
pub fn check(paths: &[PathBuf]) -> Result<usize, String> {
    let mut count = 0;
    for path in files(paths)? {
        let whole = place::root().join(&path);
        // A file that git lists and that is deleted, or one that is no text.
        let Ok(text) = std::fs::read_to_string(&whole) else { continue };
        for finding in rules::check(&path, &text) {
            println!("{}:{finding}", path.display());
            count += 1;
        }
    }
    Ok(count)
}

/// The files with prose that git knows, also new ones, below the root.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    let names = output(git.args(paths).current_dir(place::root()))?;
    let names = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    let names: Vec<_> = names.filter(|name| text::Kind::of(name).is_some()).collect();
    match paths.first() {
        Some(path) if names.is_empty() => Err(format!("no file with prose in {}", path.display())),
        _ => Ok(names),
    }
}

/// Whether a file is data that a command writes, or text that others wrote.
fn is_data(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_prose_is_an_error() {
        assert!(files(&["Cargo.lock".into()]).unwrap_err().contains("Cargo.lock"));
        assert!(!files(&["xtask/src/prose".into()]).unwrap().is_empty());
    }
}
