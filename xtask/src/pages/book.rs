//! `cargo xtask book`: the pages as a book, by mdBook.
//!
//! `docs/SUMMARY.md` is its table of contents. A book holds pages only, so a link to a source file
//! becomes a link to the repository. Everything else stays as it is written.

mod check;

use super::links::{LINK, link_end};
use crate::files::{below, copy, emptied, name, read, write};
use crate::place;
use crate::step::succeed;
use crate::tools::Tool;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// Pages at the root of the repository that are in the book.
pub const ROOT_PAGES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// Endings of pictures.
const PICTURES: [&str; 2] = ["svg", "png"];

/// Where mdBook reads and writes, as `book.toml` says.
const SOURCE: &str = "target/book-source";
const BOOK: &str = "target/book/index.html";

/// The newest mdBook that builds with this repository's Rust.
const MDBOOK: Tool = Tool { program: "mdbook", package: "mdbook", version: "^0.4" };

/// The table of contents.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Folders of which the contents name one page only, and that the book has whole.
const FOLDERS: [&str; 2] = ["decisions", "experiments"];

/// Writes the book's source, builds it, and checks the links of what was built; installs mdBook
/// below `target` if there is none.
pub fn main() -> Result<ExitCode, String> {
    let root = place::root();
    let (docs, source) = (root.join("docs"), root.join(SOURCE));
    emptied(&source)?;
    for path in below(&docs, "md")?.into_iter().chain(ROOT_PAGES.map(|page| root.join(page))) {
        let page = path.strip_prefix(root).map_err(|error| error.to_string())?;
        let to = source.join(in_book(page).ok_or("a page that is not in the book")?);
        let text = read(&path)?;
        let text = if page == Path::new(CONTENTS) { with_folders(&text, root)? } else { text };
        write(&to, rewritten(page, &text))?;
    }
    for ending in PICTURES {
        for path in below(&docs, ending)? {
            let inside = path.strip_prefix(&docs).map_err(|error| error.to_string())?;
            copy(&path, &source.join(inside))?;
        }
    }
    succeed(MDBOOK.command()?.arg("build").current_dir(root))?;
    let dead = check::dead(&root.join(BOOK).with_file_name(""))?;
    if !dead.is_empty() {
        return Err(format!("links of the book lead nowhere:\n{}", dead.join("\n")));
    }
    println!("{BOOK}");
    Ok(ExitCode::SUCCESS)
}

/// The contents, with every page of a folder below the one that stands for it.
fn with_folders(contents: &str, root: &Path) -> Result<String, String> {
    let mut whole = String::new();
    for line in contents.lines() {
        whole += &format!("{line}\n");
        let stands_for = |folder: &&&str| line.ends_with(&format!("]({folder}/README.md)"));
        for folder in FOLDERS.iter().filter(stands_for) {
            for path in below(&root.join("docs").join(folder), "md")? {
                let (name, text) = (name(&path), read(&path)?);
                let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&name);
                if name != "README.md" {
                    whole += &format!("  - [{title}]({folder}/{name})\n");
                }
            }
        }
    }
    Ok(whole)
}

/// Where a page of the repository is in the book; nothing for what is not in it.
fn in_book(path: &Path) -> Option<PathBuf> {
    if let Ok(page) = path.strip_prefix("docs") {
        return Some(page.to_owned());
    }
    ROOT_PAGES.iter().any(|page| path == Path::new(page)).then(|| path.to_owned())
}

/// A page with links that lead somewhere in the book.
fn rewritten(page: &Path, text: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(LINK) {
        let (before, after) = rest.split_at(at + LINK.len());
        new.push_str(before);
        let end = link_end(after);
        new.push_str(&target(page, &after[..end]));
        rest = &after[end..];
    }
    new + rest
}

/// The target of a link of a page, in the book.
fn target(page: &Path, written: &str) -> String {
    if written.contains("://") || written.starts_with('#') {
        return written.to_owned();
    }
    let (path, anchor) = match written.split_once('#') {
        Some((path, anchor)) => (path, format!("#{anchor}")),
        None => (written, String::new()),
    };
    let path = normal(&page.parent().unwrap_or(Path::new("")).join(path));
    let is_shown = |path: &Path| {
        path.extension().is_some_and(|ending| {
            ending == "md" || PICTURES.iter().any(|picture| ending == *picture)
        })
    };
    match in_book(&path).filter(|path| is_shown(path)) {
        Some(there) => {
            let own = in_book(page).unwrap_or_default();
            let up = own.components().count().saturating_sub(1);
            // mdBook makes an index of each README; the contents name the file.
            let is_index = page != Path::new(CONTENTS) && there.ends_with("README.md");
            let there = if is_index { there.with_file_name("index.md") } else { there };
            format!("{}{}{anchor}", "../".repeat(up), there.display())
        }
        None => {
            let kind = if place::root().join(&path).is_dir() { "tree" } else { "blob" };
            format!("{}/{kind}/main/{}{anchor}", env!("CARGO_PKG_REPOSITORY"), path.display())
        }
    }
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = normal.pop(),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_book_or_to_the_repository() {
        let page = Path::new("docs/walks/fork.md");
        for (written, wanted) in [
            ("sweep.md", "../walks/sweep.md"),
            ("../memory.md#forks", "../memory.md#forks"),
            ("../../README.md", "../index.md"),
            ("../decisions/README.md#x", "../decisions/index.md#x"),
            ("#here", "#here"),
            ("https://example.org/x", "https://example.org/x"),
        ] {
            assert_eq!(target(page, written), wanted);
        }
        let source = target(page, "../../crates/toft-core/src/lib.rs");
        assert!(
            source.starts_with("https://")
                && source.ends_with("/blob/main/crates/toft-core/src/lib.rs")
        );
        assert!(target(page, "../../crates/toft-core").contains("/tree/main/"));
        let text = "see [a](sweep.md) and ![b](../figures/x.svg), [c](../../xtask)";
        let new = rewritten(page, text);
        assert!(
            new.starts_with("see [a](../walks/sweep.md) and ![b](../figures/x.svg), [c](https"),
            "{new}"
        );
    }

    /// Pages of a folder that the contents name once come after it.
    #[test]
    fn the_contents_have_every_decision() {
        let contents = "- [A](a.md)\n- [Decisions](decisions/README.md)\n- [B](b.md)\n";
        let whole = with_folders(contents, place::root()).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        assert!(lines[2].starts_with("  - [0001: ") && lines[2].ends_with(".md)"), "{whole}");
        assert!(lines.len() > 40 && lines.last() == Some(&"- [B](b.md)"));
        assert_eq!(whole.matches("README.md").count(), 1);
    }

    /// Every page is in the table of contents; decisions and experiments have a page that lists
    /// them.
    #[test]
    fn every_page_is_in_the_contents() {
        let root = place::root();
        let contents = crate::files::kept("docs/SUMMARY.md");
        for path in below(&root.join("docs"), "md").unwrap() {
            let page = path.strip_prefix(root.join("docs")).unwrap();
            let listed = FOLDERS.iter().any(|folder| page.starts_with(folder));
            let is_contents = page == Path::new("SUMMARY.md");
            let named = contents.contains(&format!("]({})", page.display()));
            assert!(listed || is_contents || named, "{} is not in SUMMARY.md", page.display());
        }
    }
}
