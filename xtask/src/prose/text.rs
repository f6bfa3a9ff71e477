//! The prose in a file: comments of code, paragraphs and tables of pages.

use std::path::Path;

/// How prose is marked in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything but code between fences.
    Page,
    /// Comments that begin with two slashes.
    Slashes,
    /// Comments that begin with a hash.
    Hash,
}

impl Kind {
    /// How prose is marked in a file of this name, if it has any.
    pub fn of(path: &Path) -> Option<Kind> {
        if super::is_data(path) {
            return None;
        }
        match path.extension()?.to_str()? {
            "md" => Some(Kind::Page),
            "rs" | "c" | "cc" | "cpp" | "h" | "hpp" => Some(Kind::Slashes),
            "toml" | "sh" | "py" | "yml" | "yaml" => Some(Kind::Hash),
            _ => None,
        }
    }

    /// The text of a whole-line comment.
    fn comment(self, line: &str) -> Option<&str> {
        let line = line.trim_start();
        match self {
            Kind::Page => Some(line),
            Kind::Slashes => {
                line.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']))
            }
            Kind::Hash => line.strip_prefix('#').filter(|rest| !rest.starts_with('!')),
        }
    }
}

/// One line of prose.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Counted from 1.
    pub number: usize,
    /// Without indentation and marks.
    pub text: &'a str,
    pub role: Role,
}

/// What a line of prose is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A paragraph or item of a list begins.
    Begins,
    /// It goes on.
    Continues,
    Row,
    Heading,
    /// A comment at the end of a line of code.
    Trailing,
}

/// The lines of prose in a text, without code between fences and without what a command writes:
/// whole pages, or blocks from `<!-- figures -->` to `<!-- /figures -->`.
pub fn lines(kind: Kind, text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    if kind == Kind::Page && text.starts_with("<!-- Written by ") {
        return lines;
    }
    let mut is_code = false;
    let mut is_open = false;
    let mut is_written = false;
    for (number, whole) in (1..).zip(text.lines()) {
        if kind == Kind::Page && whole.starts_with("<!-- ") {
            is_written = !whole.starts_with("<!-- /");
        }
        if is_written || whole.starts_with("<!-- /") {
            is_open = false;
            continue;
        }
        let Some(comment) = kind.comment(whole) else {
            (is_code, is_open) = (false, false);
            if let Some(text) = trailing(kind, whole) {
                lines.push(Line { number, text, role: Role::Trailing });
            }
            continue;
        };
        let text = comment.trim();
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || text.is_empty() || text.starts_with("```") {
            is_open = false;
            continue;
        }
        let role = match item(text) {
            _ if text.starts_with('|') => Role::Row,
            _ if kind == Kind::Page && text.starts_with('#') => Role::Heading,
            None if is_open => Role::Continues,
            _ => Role::Begins,
        };
        is_open = matches!(role, Role::Begins | Role::Continues);
        lines.push(Line { number, text, role });
    }
    lines
}

/// The comment at the end of a line of code.
fn trailing(kind: Kind, line: &str) -> Option<&str> {
    let (code, comment) = line.split_once(" // ")?;
    // Two slashes between quotes are no comment.
    (kind == Kind::Slashes && code.matches('"').count() % 2 == 0).then_some(comment)
}

/// The mark that a paragraph of its kind begins with: of a list, a quotation, an argument for
/// unsafe code, or a directive of a test program.
pub fn item(text: &str) -> Option<&str> {
    let (first, _) = text.split_once(' ').unwrap_or((text, ""));
    let number = first.trim_start_matches('(').trim_end_matches(['.', ')']);
    let is_number = number.len() < first.len() && number.bytes().all(|b| b.is_ascii_digit());
    let is_directive = first.ends_with(':') && first.starts_with(|c: char| c.is_ascii_lowercase());
    let is_mark = matches!(first, "-" | "*" | ">" | "SAFETY:");
    (is_mark || is_number || is_directive).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(kind: Kind, text: &str) -> Vec<(usize, Role)> {
        lines(kind, text).iter().map(|line| (line.number, line.role)).collect()
    }

    #[test]
    fn comments_are_the_prose_of_code() {
        use Role::{Begins, Continues, Row, Trailing};
        let text = "//! One\n//! two.\n//!\n//! | a |\nlet a = 1; // why\nlet b = \"http: // c\";\n    /// - item\n";
        assert_eq!(
            roles(Kind::Slashes, text),
            [(1, Begins), (2, Continues), (4, Row), (5, Trailing), (7, Begins)]
        );
        assert_eq!(lines(Kind::Slashes, text)[4].text, "- item");
    }

    #[test]
    fn code_between_fences_is_none() {
        assert_eq!(
            roles(Kind::Page, "# A\n\nb\n```sh\nc\n```\n1. d\ne"),
            [(1, Role::Heading), (3, Role::Begins), (7, Role::Begins), (8, Role::Continues)]
        );
        assert_eq!(roles(Kind::Slashes, "/// ```\n/// a\n/// ```\nfn f() {}"), []);
    }

    #[test]
    fn what_a_command_writes_is_left_out() {
        let text = "a\n<!-- figures: b -->\nc\n<!-- /figures -->\nd";
        assert_eq!(roles(Kind::Page, text), [(1, Role::Begins), (5, Role::Begins)]);
        assert_eq!(roles(Kind::Page, "<!-- Written by `x`. -->\na"), []);
    }

    #[test]
    fn a_hash_with_an_exclamation_mark_is_no_comment() {
        assert_eq!(roles(Kind::Hash, "#!/bin/sh\n# a\nb = 1"), [(2, Role::Begins)]);
    }

    #[test]
    fn files_without_prose_are_left_out() {
        assert_eq!(Kind::of(Path::new("a.rs")), Some(Kind::Slashes));
        assert_eq!(Kind::of(Path::new("Cargo.lock")), None);
        assert_eq!(Kind::of(Path::new("tests/data/a.md")), None);
    }
}
