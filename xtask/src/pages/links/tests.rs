//! Links and tables of every page.

use super::{LINK, link_end};
use crate::files::{below, kept, read};
use crate::pages::book::ROOT_PAGES;
use crate::place;
use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let root = place::root();
    let mut pages = below(&root.join("docs"), "md").unwrap();
    pages.extend(ROOT_PAGES.map(|page| root.join(page)));
    pages
}

/// The targets of `[text](target)`, without what leads out of the repository.
fn targets(page: &str) -> Vec<&str> {
    page.split(LINK)
        .skip(1)
        .map(|rest| &rest[..link_end(rest)])
        .filter(|target| !target.contains("://"))
        .collect()
}

/// The anchor of a heading, as GitHub and mdBook make it: of `` ## Why `x`, and how `` it is
/// `why-x-and-how`.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim();
    // Of a link in a heading its text counts.
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(LINK) {
        plain.push_str(before);
        rest = after.get(link_end(after) + 1..).unwrap_or_default();
    }
    plain.push_str(rest);
    let kept = plain.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The anchors of a page.
fn anchors(page: &str) -> Vec<String> {
    let mut inside = false;
    let headings = page.lines().filter(|line| {
        inside ^= line.starts_with("```");
        !inside && line.starts_with('#')
    });
    headings.map(anchor).collect()
}

/// The links of a page that lead nowhere.
fn dead(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let is_dead = |target: &&str| {
        let (path, anchor) = target.split_once('#').map_or((*target, None), |(p, a)| (p, Some(a)));
        let to = if path.is_empty() { page.to_owned() } else { folder.join(path) };
        let is_page = path.is_empty() || path.ends_with(".md");
        match anchor.filter(|_| is_page) {
            None => !to.exists(),
            Some(anchor) => {
                let text =
                    if path.is_empty() { text.to_owned() } else { read(&to).unwrap_or_default() };
                !anchors(&text).iter().any(|known| known == anchor)
            }
        }
    };
    targets(text).into_iter().filter(is_dead).map(Into::into).collect()
}

/// Rows of a table of requirements or promises, and whether each says what holds it.
fn rows_without_a_test(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| {
            let is_head = ["| id", "| what | tests"].iter().any(|head| line.starts_with(head));
            line.starts_with("| ") && !is_head && !line.starts_with("|---")
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
        let text = read(&page).unwrap();
        count += targets(&text).len();
        let dead = dead(&page, &text);
        assert!(dead.is_empty(), "{}: {dead:?}", page.display());
    }
    assert!(count > 100, "{count} links");
}

#[test]
fn every_requirement_and_promise_names_its_test_or_is_open() {
    for page in ["docs/requirements.md", "docs/tests.md"] {
        let text = kept(page);
        assert!(text.lines().filter(|line| line.starts_with("| ")).count() > 20);
        let without = rows_without_a_test(&text);
        assert!(without.is_empty(), "{page}: {without:#?}");
    }
}

#[test]
fn planted_faults_are_found() {
    let page = place::root().join("docs/x.md");
    let text = "# f\n[a](options.md) [b](no-such.md) [c](https://example.org) [d](options.md#no-such) [e](#f) [g](#h)";
    assert_eq!(targets(text), ["options.md", "no-such.md", "options.md#no-such", "#f", "#h"]);
    assert_eq!(dead(&page, text), ["no-such.md", "options.md#no-such", "#h"]);
    assert_eq!(anchor("## Why `x`, and [how](y.md)"), "why-x-and-how");
    assert_eq!(anchors("# A\n```sh\n# no heading\n```\n## B c\n"), ["a", "b-c"]);
    let table = "| id | what | test |\n|---|---|---|\n| A1 | x | [t](t.c) |\n| A2 | y | open |\n| A3 | z | |\n";
    assert_eq!(rows_without_a_test(table), ["| A3 | z | |"]);
}
