//! `docs/options.md`, from the table that the library itself reads.

use std::fmt::Write;
use toft_core::options::{Entry, TABLE};

/// Where the page is.
pub const PAGE: &str = "docs/options.md";

/// The page's text.
pub fn page() -> String {
    let mut text = String::from(
        "<!-- Written by `cargo xtask docs` from crates/toft-core/src/options; a test compares. -->\n\
         # Options\n\n\
         For operators and developers: every option of the library. [Choose options](tune/options.md) says which to\n\
         set for what.\n\n\
         Options are environment variables, read once at the first allocation of a process. An unknown name or value\n\
         is reported once on standard error, and the default is used. So is an option that changes nothing beside the\n\
         others. A process that runs with another user's rights (set-user-ID and the like) ignores all of them.\n\n\
         `toft options` prints them with the values in force and their origin.\n\n\
         | variable | values | default | what it does |\n|---|---|---|---|\n",
    );
    for Entry { name, default, values, doc } in TABLE {
        let _ = writeln!(text, "| `{name}` | {values} | `{default}` | {doc} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_table_says() {
        assert_eq!(crate::files::kept(PAGE), page(), "run: cargo xtask docs");
    }
}
