//! `docs/options.md`, from the table that the library itself reads.

use std::fmt::Write;
use toft::options::{Entry, Kind, PARTITIONS_MAX, TABLE};

/// Where the page is.
pub const PAGE: &str = "docs/options.md";

/// The page's text.
pub fn page() -> String {
    let mut text = String::from(
        "<!-- Written by `cargo xtask docs` from crates/toft/src/options; a test compares. -->\n\
         # Options\n\n\
         For operators and developers: every option of the library. [Choose options](tune/options.md) says which to\n\
         set for what.\n\n\
         Options are environment variables, read once at the first allocation of a process. An unknown name or value\n\
         is reported once on standard error, and the default is used. A process that runs with another user's rights\n\
         (set-user-ID and the like) ignores all of them.\n\n\
         `toft options` prints them with the values in force and their origin.\n\n\
         | variable | values | default | what it does |\n|---|---|---|---|\n",
    );
    for Entry { name, default, kind, doc } in TABLE {
        let _ = writeln!(text, "| `{name}` | {} | `{default}` | {doc} |", values(*kind));
    }
    text
}

fn values(kind: Kind) -> String {
    match kind {
        Kind::Number(low, high) => format!("{low} to {high}"),
        Kind::NumberOr(low, high, word) => format!("{low} to {high} or `{word}`"),
        Kind::Partitions => format!("1 to {PARTITIONS_MAX}, `exact` or `exact:NUMBER`"),
        Kind::Size => "bytes, or `64k`, `8m`, `1g`".into(),
        Kind::Word(words) => any_of(words),
        Kind::List(words) => format!("{}, or several with commas", any_of(words)),
        Kind::Share => "bytes, or `512m`, `2g`, or `80%`".into(),
        Kind::Moments => "`signal:NUMBER` or `growth:SIZE`, or both with a comma".into(),
        Kind::Flag => "`0` or `1`".into(),
        Kind::Descriptor => "an open file descriptor".into(),
        Kind::Names => "names of functions, with commas between them".into(),
        Kind::File => "the name of a file".into(),
    }
}

fn any_of(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_table_says() {
        let kept = crate::pages::read(&crate::place::root().join(PAGE));
        assert_eq!(kept, page(), "run: cargo xtask docs");
    }

    #[test]
    fn every_option_is_on_the_page() {
        let page = page();
        assert!(TABLE.len() > 3);
        assert!(TABLE.iter().all(|entry| page.contains(entry.name) && page.contains(entry.doc)));
    }
}
