//! Links of the built book: each leads to a file of the book, and to an element of that page with
//! the name after `#`.

use super::normal;
use crate::files::{below, read};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Pages that mdBook makes of others, or that have links of the whole book in them.
const LEFT_OUT: [&str; 2] = ["print.html", "toc.html"];

/// The links that lead nowhere, as `page: target`.
pub fn dead(book: &Path) -> Result<Vec<String>, String> {
    let mut pages = HashMap::new();
    for path in below(book, "html")? {
        if path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|page| name == *page)) {
            continue;
        }
        let text = read(&path)?;
        pages.insert(path, text);
    }
    let ids: HashMap<&PathBuf, HashSet<&str>> =
        pages.iter().map(|(path, text)| (path, values(text, "id").collect())).collect();
    let mut dead = Vec::new();
    for (page, text) in &pages {
        for target in values(text, "href").chain(values(text, "src")) {
            if target.contains(':') || target.starts_with("//") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = match path {
                "" => page.clone(),
                path => normal(&page.parent().unwrap_or(book).join(path)),
            };
            let known = || ids.get(&to).is_none_or(|ids| ids.contains(anchor));
            if !to.exists() || !anchor.is_empty() && !known() {
                let page = page.strip_prefix(book).unwrap_or(page);
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    dead.sort();
    dead.dedup();
    Ok(dead)
}

/// The values of an attribute, in quotes.
fn values<'a>(text: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {attribute}=\"");
    let places: Vec<usize> = text.match_indices(&start).map(|(at, _)| at + start.len()).collect();
    places.into_iter().filter_map(|at| text[at..].split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::write;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let book = crate::place::target_dir().join("tmp-book-check");
        crate::files::emptied(&book).unwrap();
        let page = "<h1 id=\"here\">x</h1> <a href=\"b.html#there\">1</a> <a href=\"b.html#no\">2</a> <a href=\"c.html\">3</a> \
                    <a href=\"#here\">4</a> <a href=\"#gone\">5</a> <a href=\"../index.html\">6</a> \
                    <a href=\"https://example.org/x\">7</a> <img src=\"x.svg\">";
        write(&book.join("a/a.html"), page).unwrap();
        write(&book.join("a/b.html"), "<p id=\"there\">").unwrap();
        write(&book.join("index.html"), "").unwrap();
        let found = dead(&book).unwrap();
        std::fs::remove_dir_all(&book).unwrap();
        assert_eq!(
            found,
            ["#gone", "b.html#no", "c.html", "x.svg"].map(|to| format!("a/a.html: {to}"))
        );
    }
}
