//! Every link of a page to a file of this repository leads somewhere.

use super::{files, read};
use crate::place;
use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let root = place::root();
    let mut pages = files(&root.join("docs"), "md");
    pages.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
            .map(|p| root.join(p)),
    );
    pages
}

/// The targets of `[text](target)`, without what leads out of the repository.
fn targets(page: &str) -> Vec<&str> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        .map(|target| target.split('#').next().unwrap_or(target))
        .collect()
}

/// The links of a page that lead nowhere.
fn dead(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let dead = targets(text).into_iter().filter(|target| !folder.join(target).exists());
    dead.map(Into::into).collect()
}

/// Rows of a table of requirements or promises, and whether each says what holds it.
fn rows_without_a_test(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| {
            line.starts_with("| ") && !line.starts_with("| id") && !line.starts_with("|---")
        })
        .filter(|line| {
            let last = line.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
            !last.contains("](") && !last.contains("open")
        })
        .map(Into::into)
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        count += targets(&text).len();
        let dead = dead(&page, &text);
        assert!(dead.is_empty(), "{}: {dead:?}", page.display());
    }
    assert!(count > 100, "{count} links");
}

#[test]
fn every_requirement_and_promise_names_its_test_or_is_open() {
    for page in ["docs/requirements.md", "docs/security.md"] {
        let text = read(&place::root().join(page));
        assert!(text.lines().filter(|line| line.starts_with("| ")).count() > 20);
        let without = rows_without_a_test(&text);
        assert!(without.is_empty(), "{page}: {without:#?}");
    }
}

#[test]
fn planted_faults_are_found() {
    let page = place::root().join("docs/x.md");
    let text = "[a](options.md) [b](no-such.md) [c](https://example.org) [d](options.md#x) [e](#f)";
    assert_eq!(targets(text), ["options.md", "no-such.md", "options.md"]);
    assert_eq!(dead(&page, text), ["no-such.md"]);
    let table = "| id | what | test |\n|---|---|---|\n| A1 | x | [t](t.c) |\n| A2 | y | open |\n| A3 | z | |\n";
    assert_eq!(rows_without_a_test(table), ["| A3 | z | |"]);
}
