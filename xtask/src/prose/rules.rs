//! Phrases, lengths of sentences, lines and table cells.

use super::Finding;
use super::text::{Kind, Line, Role, item, lines};
use std::path::Path;

const COLUMNS: usize = 100;
const CELL: usize = 80;
const WORDS: usize = 40;

/// Words that a reader has to translate, and what to write.
const PHRASES: &[(&[&str], &str)] = &[
    (&["nobody", "nobody's"], "unowned, not in use, no thread"),
    (&["whoever", "who has called"], "the caller, the thread that ..."),
    (&["somebody"], "the name of the actor"),
    (&["so many bytes"], "`n` bytes, the given number of bytes"),
    (&["lies at", "lies idle", "lies in", "lies there", "lies behind"], "is at, is idle, is in"),
    (&["says whether", "says if"], "returns true if"),
    (&["says how many"], "returns the number of"),
    (&["is told of", "are told of", "was told of", "be told of"], "is notified of"),
    (&["goes back", "go back", "went back"], "is returned to the OS"),
    (&["comes to", "come to"], "returns, reaches"),
    (&["where that is so"], "if so"),
    (&["of no bytes"], "zero-size"),
    (&["what was asked for", "what is asked for"], "the requested size"),
    (&["of its own", "of their own"], "separate, its own"),
    (&["there where"], "where"),
    (&["once more", "anew"], "again"),
    (&["it is told"], "the actor as the subject"),
    (&["looks at", "look at", "a look"], "checks, reads, a scan"),
];

/// What breaks a rule in a file, in the order of its lines.
pub fn check(path: &Path, text: &str) -> Vec<Finding> {
    let Some(kind) = Kind::of(path) else { return Vec::new() };
    let whole: Vec<_> = text.lines().collect();
    let lines = lines(kind, text);
    let mut found = Vec::new();
    let mut find = |line, what: String| found.push(Finding { line, what });
    for line in &lines {
        let plain = plain(line.text);
        if !is_directive(kind, line.text) {
            for (phrase, instead) in phrases(&plain) {
                find(line.number, format!("\"{phrase}\": write {instead}"));
            }
        }
        if line.role == Role::Row {
            for cell in cells(&plain).filter(|cell| cell.chars().count() > CELL) {
                find(line.number, format!("a cell of {} characters", cell.chars().count()));
            }
        }
    }
    for (line, beginning) in ["The same", "As above"].iter().flat_map(|&b| begins(&lines, b)) {
        find(line, format!("a comment that begins with \"{beginning}\" does not stand alone"));
    }
    for (line, words) in long_sentences(&lines) {
        find(line, format!("a sentence of {words} words"));
    }
    for line in &lines {
        let columns = whole[line.number - 1].chars().count();
        let is_one = matches!(line.role, Role::Row | Role::Heading)
            || is_directive(kind, line.text)
            || line.text.contains("://");
        if columns > COLUMNS && !is_one {
            find(line.number, format!("{columns} columns"));
        }
    }
    found.sort_by_key(|finding| finding.line);
    found
}

/// Returns true for a directive of a test program: one line, however long, that may quote messages.
fn is_directive(kind: Kind, text: &str) -> bool {
    let is_one = |mark: &str| mark.ends_with(':') && mark != "SAFETY:";
    kind != Kind::Page && item(text).is_some_and(is_one)
}

/// A text with code and the targets of links taken out.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        out.push_str(if index % 2 == 0 { part } else { "X" });
    }
    while let Some(at) = out.find("](")
        && let Some(end) = out[at..].find(')')
    {
        out.replace_range(at..=at + end, "]");
    }
    out
}

/// The phrases in a line that are not to be written, with what to write.
fn phrases(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric() && c != '\'').collect();
    let words = format!(" {} ", words.join(" ").to_lowercase());
    let each =
        PHRASES.iter().flat_map(|&(all, instead)| all.iter().map(move |&one| (one, instead)));
    each.filter(move |(phrase, _)| words.contains(&format!(" {phrase} ")))
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.trim_matches('|').split('|').map(str::trim)
}

/// The first lines of comments that begin so.
fn begins<'a>(lines: &[Line<'_>], beginning: &'a str) -> Vec<(usize, &'a str)> {
    let first = |line: &&Line<'_>| line.role == Role::Begins && line.text.starts_with(beginning);
    lines.iter().filter(first).map(|line| (line.number, beginning)).collect()
}

/// The sentences that are too long: the line of the first word, and the number of words.
fn long_sentences(lines: &[Line<'_>]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut paragraph: Vec<(usize, String)> = Vec::new();
    let mut end = |paragraph: &mut Vec<(usize, String)>| {
        let mut words = 0;
        let mut first = 0;
        for (line, text) in paragraph.drain(..) {
            for word in text.split_whitespace() {
                first = if words == 0 { line } else { first };
                words += 1;
                if ends_sentence(word) {
                    found.extend((words > WORDS).then_some((first, words)));
                    words = 0;
                }
            }
        }
        found.extend((words > WORDS).then_some((first, words)));
    };
    for line in lines {
        if line.role != Role::Continues {
            end(&mut paragraph);
        }
        if matches!(line.role, Role::Begins | Role::Continues) {
            paragraph.push((line.number, plain(line.text)));
        }
    }
    end(&mut paragraph);
    found
}

fn ends_sentence(word: &str) -> bool {
    word.trim_end_matches(['"', '\'', ')', ']', '*', '_']).ends_with(['.', '!', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        check(Path::new(name), text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_phrase_is_found_in_comments_and_pages_and_not_in_code() {
        assert_eq!(
            found("a.rs", "/// Nobody's block.\nlet nobody = \"nobody\";"),
            ["1: \"nobody's\": write unowned, not in use, no thread"]
        );
        assert_eq!(found("a.md", "It is once\n\n- `nobody` is a user"), Vec::<String>::new());
        assert_eq!(found("a.toml", "a = 1\n# once more").len(), 1);
        assert_eq!(found("a.c", "int a; // comes to rest").len(), 1);
        assert_eq!(found("a.c", "// becomes too long").len(), 0);
        assert_eq!(found("a.c", "// stderr: nobody").len(), 0);
    }

    #[test]
    fn a_comment_stands_alone() {
        assert_eq!(found("a.rs", "/// The same for b.").len(), 1);
        assert_eq!(found("a.rs", "/// Gives b\n/// The same value.").len(), 0);
    }

    #[test]
    fn a_sentence_ends_with_its_paragraph() {
        let words = |count: usize| vec!["word"; count].join("\n/// ");
        assert_eq!(found("a.rs", &format!("/// {}", words(40))).len(), 0);
        assert_eq!(found("a.rs", &format!("/// {}", words(41))), ["1: a sentence of 41 words"]);
        assert_eq!(found("a.rs", &format!("/// {}.\n/// {}", words(30), words(30))).len(), 0);
        assert_eq!(found("a.rs", &format!("/// {}\n///\n/// {}", words(30), words(30))).len(), 0);
        assert_eq!(found("a.rs", &format!("/// `{}` b", words(41))).len(), 1);
    }

    #[test]
    fn a_line_and_a_cell_have_room() {
        let long = "a".repeat(99);
        assert_eq!(found("a.md", &format!("{long} b")), ["1: 101 columns"]);
        assert_eq!(found("a.md", &format!("{long}b")), Vec::<String>::new());
        assert_eq!(
            found("a.md", &format!("| {} | b |", &long[..81])),
            ["1: a cell of 81 characters"]
        );
        assert_eq!(found("a.md", &format!("| [{}]({long}) | b |", &long[..78])).len(), 0);
        assert_eq!(found("a.md", &format!("<https://{long}>")).len(), 0);
    }
}
