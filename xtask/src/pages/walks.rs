//! The walks name functions, as `Slab::pop` or `fork::repair_slab`; each must exist.

use super::{files, read};
use crate::place;

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
    let folders = ["crates/toft/src", "crates/toft-arena/src", "crates/toft-preload/src"];
    folders
        .iter()
        .map(|folder| place::root().join(folder))
        .flat_map(|folder| {
            let modules = |path: &std::path::Path| {
                let inside = path.strip_prefix(&folder).unwrap_or(path).with_extension("");
                inside.iter().map(|part| part.to_string_lossy().into_owned()).collect()
            };
            let all = files(&folder, "rs");
            all.iter()
                .map(|path| Source { modules: modules(path), text: read(path) })
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

#[test]
fn every_function_that_a_walk_names_exists() {
    let sources = sources();
    let walks = files(&place::root().join("docs/walks"), "md");
    assert!(walks.len() >= 6);
    for path in walks {
        let functions = named(&read(&path));
        assert!(functions.len() >= 5, "{} names few functions", path.display());
        for (of, name) in functions {
            assert!(exists(&sources, &of, &name), "{}: `{of}::{name}`", path.display());
        }
    }
}

#[test]
fn other_pages_name_functions_that_exist() {
    let sources = sources();
    let mut pages = files(&place::root().join("docs"), "md");
    pages.push(place::root().join("ARCHITECTURE.md"));
    for path in pages {
        for (of, name) in named(&read(&path)) {
            // The standard library is not ours to check.
            if !["std", "core", "alloc", "toft"].contains(&of.as_str()) {
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
