//! The walks name functions, as `Slab::pop` or `fork::repair_slab`. Each must exist and be called,
//! and nearly all from another function of their walk, directly or by a few others between.

use crate::files::{below, read};
use crate::place;
use std::collections::{HashMap, HashSet};

/// The functions that a page names: between backticks, a path that ends in a small letter.
fn named(page: &str) -> Vec<(String, String)> {
    let inside = page.split('`').skip(1).step_by(2);
    inside
        .filter_map(|text| text.rsplit_once("::"))
        .filter(|(_, name)| name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'))
        .filter(|(_, name)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .map(|(of, name)| (of.rsplit("::").next().unwrap_or(of).into(), name.into()))
        .collect()
}

/// A source file: where it lies, as the names of its modules, and its text.
struct Source {
    modules: Vec<String>,
    text: String,
}

fn sources() -> Vec<Source> {
    let folders = [
        "crates/toft-core/src",
        "crates/toft-watch/src",
        "crates/toft-zone/src",
        "crates/toft-arena/src",
        "crates/toft-preload/src",
    ];
    folders
        .iter()
        .map(|folder| place::root().join(folder))
        .flat_map(|folder| {
            let modules = |path: &std::path::Path| {
                let inside = path.strip_prefix(&folder).unwrap_or(path).with_extension("");
                inside.iter().map(|part| part.to_string_lossy().into_owned()).collect()
            };
            let all = below(&folder, "rs").unwrap();
            all.iter()
                .map(|path| Source { modules: modules(path), text: read(path).unwrap() })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a line defines the function: `fn name(` or `fn name<`.
fn defines(line: &str, name: &str) -> bool {
    line.split_once("fn ").is_some_and(|(_, rest)| {
        rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<']))
    })
}

/// Whether `of::name` exists: a method in an `impl` of the type, or a function of the module.
fn exists(sources: &[Source], of: &str, name: &str) -> bool {
    sources.iter().any(|source| {
        let in_module = source.modules.iter().any(|module| module == of);
        let mut in_impl = false;
        source.text.lines().any(|line| {
            if line.starts_with("impl")
                || line.starts_with("unsafe impl")
                || line.starts_with("pub unsafe trait")
                || line.starts_with("pub trait")
            {
                let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                in_impl = line.split(|c| !word(c)).any(|part| part == of);
            } else if line.starts_with('}') {
                in_impl = false;
            }
            let indented = line.starts_with(' ');
            defines(line, name) && (indented && in_impl || !indented && in_module)
        })
    })
}

/// Calls between two functions of a walk, at most.
const CALLS: usize = 4;
/// Functions of a walk that no other of it leads to, at most: what other calls begin with.
const BEGINNINGS: usize = 3;

/// Which names each function names, by its own name: functions of one name count as one. A function
/// goes on to where the next one begins.
fn calls(sources: &[Source]) -> HashMap<String, HashSet<String>> {
    let mut calls: HashMap<String, HashSet<String>> = HashMap::new();
    for source in sources {
        let text = source.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let code = code.collect::<Vec<_>>().join("\n");
        for function in code.split("fn ").skip(1) {
            let mut names = identifiers(function).map(str::to_owned);
            if let Some(name) = names.next() {
                calls.entry(name).or_default().extend(names);
            }
        }
    }
    calls
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|part| part.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'))
}

/// The functions of a walk that no other of it leads to.
fn not_called<'a>(
    walk: &'a [(String, String)],
    calls: &HashMap<String, HashSet<String>>,
) -> Vec<&'a str> {
    let names = walk.iter().map(|(_, name)| name.as_str());
    let is_lost = |name: &&str| {
        let mut reached: HashSet<&str> = names.clone().filter(|other| other != name).collect();
        for _ in 0..CALLS {
            let next = reached.iter().filter_map(|name| calls.get(*name)).flatten();
            let next: HashSet<&str> = next.map(String::as_str).collect();
            if next.contains(name) {
                return false;
            }
            reached.extend(next.iter().filter(|name| calls.contains_key(**name)));
        }
        true
    };
    names.clone().filter(is_lost).collect()
}

#[test]
fn a_walk_follows_the_calls() {
    let calls = calls(&sources());
    for path in below(&place::root().join("docs/walks"), "md").unwrap() {
        let walk = named(&read(&path).unwrap());
        let begin = not_called(&walk, &calls);
        assert!(begin.len() <= BEGINNINGS, "{}: nothing leads to {begin:?}", path.display());
        for name in begin {
            let is_called = calls.iter().any(|(by, named)| by != name && named.contains(name));
            assert!(is_called, "{}: nothing calls {name}", path.display());
        }
    }
}

#[test]
fn a_function_that_nothing_calls_is_found_out() {
    let source = |text: &str| Source { modules: vec!["a".into()], text: text.into() };
    let text = "fn one() {\n    two();\n}\n\nfn two() {\n    if x {\n        three();\n    }\n}\n\nfn \
                three() {}\n\n// one calls lost()\nfn lost() {}\n";
    let calls = calls(&[source(text)]);
    let walk = |names: &[&str]| -> Vec<_> {
        names.iter().map(|name| ("a".to_owned(), (*name).to_owned())).collect()
    };
    assert_eq!(not_called(&walk(&["one", "three", "two"]), &calls), ["one"]);
    assert_eq!(not_called(&walk(&["one", "lost", "two"]), &calls), ["one", "lost"]);
}

#[test]
fn every_function_that_a_walk_names_exists() {
    let sources = sources();
    let walks = below(&place::root().join("docs/walks"), "md").unwrap();
    assert!(walks.len() >= 6);
    for path in walks {
        let functions = named(&read(&path).unwrap());
        assert!(functions.len() >= 5, "{} names few functions", path.display());
        for (of, name) in functions {
            assert!(exists(&sources, &of, &name), "{}: `{of}::{name}`", path.display());
        }
    }
}

#[test]
fn other_pages_name_functions_that_exist() {
    let sources = sources();
    let mut pages = below(&place::root().join("docs"), "md").unwrap();
    pages.push(place::root().join("ARCHITECTURE.md"));
    for path in pages {
        for (of, name) in named(&read(&path).unwrap()) {
            // The standard library is not ours to check.
            if !["std", "core", "alloc", "toft", "toft_core"].contains(&of.as_str()) {
                assert!(exists(&sources, &of, &name), "{}: `{of}::{name}`", path.display());
            }
        }
    }
}

#[test]
fn a_function_that_does_not_exist_is_found_out() {
    let page =
        "1. `Slab::pop` takes a slot, `std::bad_alloc` and `Marked::Twice` do not count, `a b::C`.";
    let found = named(page);
    assert_eq!(found, [("Slab".into(), "pop".into()), ("std".into(), "bad_alloc".into())]);
    let sources = sources();
    assert!(exists(&sources, "Slab", "put"));
    for (of, name) in [("Slab", "popp"), ("Slab", "po"), ("Heap", "put"), ("fork", "pop")] {
        assert!(!exists(&sources, of, name), "{of}::{name}");
    }
    assert!(
        exists(&sources, "fork", "repair_after_fork") && exists(&sources, "process", "malloc_at")
    );
}
