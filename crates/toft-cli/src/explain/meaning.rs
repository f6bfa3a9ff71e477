//! What each kind of report means, in plain words, and what to do next: `reports.txt`.

use std::sync::LazyLock;

/// What a kind of report means.
#[derive(Clone, Debug, Default)]
pub struct Meaning {
    kind: &'static str,
    /// Part of the messages that it is for.
    part: &'static str,
    pub means: String,
    /// What helps to find the reason, the most useful first.
    pub next: Vec<String>,
}

static MEANINGS: LazyLock<Vec<Meaning>> = LazyLock::new(|| parse(include_str!("reports.txt")));

fn parse(text: &'static str) -> Vec<Meaning> {
    let mut meanings: Vec<Meaning> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((kind, part)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            meanings.push(Meaning { kind, part: part.trim(), ..Meaning::default() });
        } else if let Some(meaning) = meanings.last_mut() {
            match (line.strip_prefix("- "), meaning.next.last_mut()) {
                (Some(step), _) => meaning.next.push(step.to_owned()),
                (None, Some(step)) => append(step, line),
                (None, None) => append(&mut meaning.means, line),
            }
        }
    }
    meanings
}

/// Appends the next line of a paragraph.
fn append(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(line.trim());
}

/// Returns what a report means. A newer library may have other kinds.
pub fn meaning(kind: &str, message: &str) -> Meaning {
    let fits = |meaning: &&Meaning| meaning.kind == kind && message.contains(meaning.part);
    MEANINGS.iter().find(fits).cloned().unwrap_or_else(|| Meaning {
        means: "the library found an error, and describes it in this line.".into(),
        next: vec!["Check the calls above, beginning with the first.".into()],
        ..Meaning::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read_and_can_be_reached() {
        assert!(MEANINGS.len() > 15);
        for Meaning { kind, part, means, next } in MEANINGS.iter() {
            let found = meaning(kind, &format!("{kind}: free(0x1): {part}"));
            assert_eq!((found.kind, found.part), (*kind, *part));
            assert!(means.ends_with('.') && !next.is_empty(), "{kind} {part}");
        }
        assert!(meaning("something new", "").means.contains("describes it"));
    }
}
