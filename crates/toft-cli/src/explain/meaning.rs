//! What each kind of report means, in plain words, and what to do next: `reports.txt`.

use std::sync::LazyLock;

/// What a kind of report means.
#[derive(Debug, Default)]
pub struct Meaning {
    kind: &'static str,
    /// Part of the messages that it is for.
    part: &'static str,
    means: String,
    next: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    /// Part of the messages that it is for.
    part: &'static str,
    text: String,
}

/// What one report means.
#[derive(Debug)]
pub struct Explanation {
    pub means: String,
    /// What helps to find the reason, the most useful first.
    pub next: Vec<String>,
}

static MEANINGS: LazyLock<Vec<Meaning>> = LazyLock::new(|| parse(include_str!("reports.txt")));

fn parse(text: &'static str) -> Vec<Meaning> {
    let mut meanings: Vec<Meaning> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((kind, part)) = bracketed(line) {
            meanings.push(Meaning { kind, part, ..Meaning::default() });
        } else if let Some(meaning) = meanings.last_mut() {
            match (line.strip_prefix("- "), meaning.next.last_mut()) {
                (Some(step), _) => {
                    let (part, text) = bracketed(step).unwrap_or(("", step));
                    meaning.next.push(Step { part, text: text.to_owned() });
                }
                (None, Some(step)) => append(&mut step.text, line),
                (None, None) => append(&mut meaning.means, line),
            }
        }
    }
    meanings
}

/// Splits `[WORDS] REST`.
fn bracketed(line: &str) -> Option<(&str, &str)> {
    let (words, rest) = line.strip_prefix('[')?.split_once(']')?;
    Some((words, rest.trim()))
}

/// Appends the next line of a paragraph.
fn append(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(line.trim());
}

/// Returns the entry for a report.
fn entry(kind: &str, message: &str) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|meaning| meaning.kind == kind && message.contains(meaning.part))
}

/// Returns what a report means. A newer library may have other kinds.
pub fn explanation(kind: &str, message: &str) -> Explanation {
    let Some(Meaning { means, next, .. }) = entry(kind, message) else {
        return Explanation {
            means: "the library found an error, and describes it in this line.".into(),
            next: vec!["Check the calls above, beginning with the first.".into()],
        };
    };
    let fits = |step: &&Step| message.contains(step.part);
    let next = next.iter().filter(fits).map(|step| step.text.clone()).collect();
    Explanation { means: means.clone(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read_and_can_be_reached() {
        assert!(MEANINGS.len() > 15);
        for Meaning { kind, part, means, next } in MEANINGS.iter() {
            let found = entry(kind, &format!("{kind}: free(0x1): {part}")).unwrap();
            assert_eq!((found.kind, found.part), (*kind, *part));
            assert!(means.ends_with('.') && next.iter().any(|step| step.part.is_empty()), "{kind}");
        }
        assert!(explanation("something new", "").means.contains("describes it"));
    }

    #[test]
    fn guarding_is_advised_only_for_blocks_that_can_be_guarded_and_were_not() {
        for (kind, block, advised) in [
            ("double free", "small slab, slot 0", true),
            ("double free", "guarded block", false),
            ("double free", "large block", false),
            ("write after free", "medium slab, slot 7", true),
            ("write after free", "large block", false),
            ("heap overflow", "small slab, slot 0", true),
            ("heap overflow", "large block", false),
        ] {
            let message = format!("{kind}: free(0x1): this 8-byte block was overwritten ({block}");
            let steps = explanation(kind, &message).next.concat();
            assert_eq!(steps.contains("TOFT_GUARDED=1"), advised, "{message}: {steps}");
            assert_eq!(steps.contains("three stacks"), block == "guarded block", "{message}");
        }
    }
}
