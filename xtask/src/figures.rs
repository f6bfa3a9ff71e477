//! Which revision of the allocator the README's figures are of, and how old that is.
//!
//! `cargo xtask readme` writes the revision into `docs/speed.md` together with the figures of both
//! pages.

use crate::{files, place};
use std::path::Path;
use std::process::Command;

/// The page that names the revision.
const PAGE: &str = "docs/speed.md";
/// The sources that the figures are about. The fake system and files of tests are in no library.
const ALLOCATOR: [&str; 7] = [
    "crates/toft-core/src",
    "crates/toft-watch/src",
    "crates/toft-zone/src",
    "crates/toft-preload/src",
    ":(exclude)crates/toft-core/src/os/fake",
    ":(exclude)*/tests.rs",
    ":(exclude)*/tests/*",
];

/// The option of `git diff` that leaves out changes of whole-line comments and empty lines.
/// Git matches a line together with its newline, so a pattern that can be empty matches every line.
const COMMENTS: &str = r"--ignore-matching-lines=^[[:space:]]*(//|[[:space:]]$)";

/// What the figures are of, against the tree as it is.
#[derive(Debug, PartialEq, Eq)]
enum Age {
    /// The page names no revision, or one with changes that are in no commit.
    Unnamed,
    /// The revision is not in this repository: the clone is shallow, or the revision was never
    /// pushed.
    Absent {
        revision: String,
    },
    Known {
        revision: String,
        commits: u32,
        allocator_commits: u32,
        differs: bool,
    },
}

/// One line about it, for CI.
pub fn line() -> String {
    match page().map(|page| age(place::root(), &page)) {
        Err(error) => format!("the README's figures: {error}"),
        Ok(Age::Unnamed) => format!("the README's figures: {PAGE} names no revision"),
        Ok(Age::Absent { revision }) => {
            format!("the README's figures are of {revision}, which this clone does not have")
        }
        Ok(Age::Known { revision, commits, allocator_commits, .. }) => format!(
            "the README's figures are of {revision}: {commits} commits old, {allocator_commits} of them of the allocator"
        ),
    }
}

/// Fails unless the figures are of the allocator in the tree.
pub fn check() -> Result<(), String> {
    stale(age(place::root(), &page()?)).map_or(Ok(()), Err)
}

/// Why the figures are not of the allocator in the tree, and what to do; `None` if they are.
fn stale(age: Age) -> Option<String> {
    let why = match age {
        Age::Known { differs: false, .. } => return None,
        Age::Known { revision, .. } => {
            format!("the allocator has changed since {revision}, which the README's figures are of")
        }
        Age::Unnamed => format!("{PAGE} does not name the revision that the figures are of"),
        Age::Absent { revision } => format!(
            "this clone does not have {revision}, which the README's figures are of: git fetch --unshallow"
        ),
    };
    Some(format!("{why}\n`cargo xtask readme` measures again"))
}

fn page() -> Result<String, String> {
    files::read(&place::root().join(PAGE))
}

fn age(root: &Path, page: &str) -> Age {
    let Some(revision) = named(page) else { return Age::Unnamed };
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(words).output().ok();
        output.filter(|output| output.status.success())
    };
    let count = |paths: &[&str]| {
        let range = format!("{revision}..HEAD");
        let output = git(&[&["rev-list", "--count", &range, "--"], paths].concat())?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let is_before = git(&["merge-base", "--is-ancestor", revision, "HEAD"]).is_some();
    match (is_before, count(&[]), count(&ALLOCATOR)) {
        (true, Some(commits), Some(allocator_commits)) => Age::Known {
            revision: revision.into(),
            commits,
            allocator_commits,
            // Against the files as they are, not the last commit. Comments make no difference.
            differs: git(&[&["diff", COMMENTS, revision, "--"], &ALLOCATOR[..]].concat())
                .is_none_or(|output| !output.stdout.is_empty()),
        },
        _ => Age::Absent { revision: revision.into() },
    }
}

/// The revision that the page names, if its sources were in a commit.
fn named(page: &str) -> Option<&str> {
    let rest = page.split_once("; revision ")?.1;
    let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    let (revision, after) = rest.split_at(end);
    (revision.len() >= 7 && !after.starts_with(" with changes")).then_some(revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn git(root: &Path, words: &[&str]) -> String {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let output =
            Command::new("git").arg("-C").arg(root).args(identity).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().into()
    }

    fn commit(root: &Path, file: &str, text: &str) -> String {
        files::write(&root.join(file), text).unwrap();
        git(root, &["add", "."]);
        git(root, &["commit", "--quiet", "-m", text]);
        git(root, &["rev-parse", "--short=7", "HEAD"])
    }

    #[test]
    fn figures_of_another_allocator_are_told_from_those_of_this_one() {
        let place = std::env::temp_dir().join(format!("toft-figures-{}", std::process::id()));
        let root = place.join("whole");
        fs::create_dir_all(&root).unwrap();
        git(&root, &["init", "--quiet"]);
        let source = "crates/toft-core/src/lib.rs";
        let before = commit(&root, source, "one");
        let measured = commit(&root, source, "two\n");
        commit(&root, "README.md", "figures");
        let of = |revision: &str| format!("glibc 2.36; revision {revision}, 2026");
        let known = |revision: &str, commits, allocator_commits, differs| Age::Known {
            revision: revision.into(),
            commits,
            allocator_commits,
            differs,
        };
        assert_eq!(age(&root, &of(&measured)), known(&measured, 1, 0, false));
        assert_eq!(stale(age(&root, &of(&measured))), None);
        assert_eq!(age(&root, &of(&before)), known(&before, 2, 1, true));
        assert!(stale(age(&root, &of(&before))).unwrap().contains("has changed since"));

        fs::write(root.join(source), "two\n\n// more about it\n").unwrap();
        assert_eq!(age(&root, &of(&measured)), known(&measured, 1, 0, false));
        // The first of these commits has the comment as well.
        for left_out in
            ["crates/toft-core/src/os/fake/mod.rs", "crates/toft-core/src/slab/tests.rs"]
        {
            commit(&root, left_out, "a change");
        }
        assert_eq!(age(&root, &of(&measured)), known(&measured, 3, 1, false));
        fs::write(root.join(source), "not committed\n").unwrap();
        assert_eq!(age(&root, &of(&measured)), known(&measured, 3, 1, true));

        let shallow = place.join("shallow");
        let from = format!("file://{}", root.display());
        git(&place, &["clone", "--quiet", "--depth=1", &from, &shallow.display().to_string()]);
        let absent = Age::Absent { revision: measured.clone() };
        assert_eq!(age(&shallow, &of(&measured)), absent);
        assert!(stale(absent).unwrap().contains("--unshallow"));
        assert_eq!(age(&root, "no figures"), Age::Unnamed);
        assert_eq!(age(&root, &of(&format!("{measured} with changes"))), Age::Unnamed);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn the_page_names_a_revision() {
        assert!(named(&page().unwrap()).is_some());
    }
}
