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

use crate::step::text;
use crate::{files, place};

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
    files::write(&place::root().join(page), text)?;
    println!("{page}");
    Ok(())
}

/// The help of every verb of the command, which is built first.
fn command() -> Result<String, String> {
    let mut cargo = place::cargo();
    cargo.args(["run", "--quiet", "--package", "toft-cli", "--"]);
    text(cargo.args(["man", "--markdown"]))
}
