//! The folders of `src` are layers: one uses only those with a lower number, and `options`, `sync`,
//! `stats`, `keyed.rs` and the constants of `policy.rs`, which all may use.
//! `stats` reads everything.

use std::path::Path;

/// Folders and their layers, as in the table of `lib.rs`.
const LAYERS: &[(&str, u32)] = &[
    ("process", 11),
    ("path", 10),
    ("keeper", 9),
    ("watch", 8),
    ("allocator", 7),
    ("thread", 6),
    ("site", 5),
    ("bin", 4),
    ("remote", 4),
    ("reclaim", 4),
    ("zone", 4),
    ("slab", 3),
    ("large", 3),
    ("guarded", 3),
    ("sample", 3),
    ("zero_size", 3),
    ("region", 2),
    ("report", 2),
    ("harden", 2),
    ("os", 1),
    ("options", 0),
    ("sync", 0),
];
/// What gives the methods of a folder, and the folder.
const ACCESSORS: &[(&str, &str)] = &[
    (".mapper()", "keeper"),
    (".maintenance()", "keeper"),
    (".held_heaps()", "keeper"),
    (".quarantines()", "keeper"),
    (".sweeper()", "keeper"),
    (".memory_limit()", "keeper"),
    (".compactor()", "keeper"),
    (".page_activity()", "keeper"),
    (".reclaimer_thread()", "keeper"),
    (".reports()", "watch"),
    (".slot_checks()", "watch"),
    (".verifier()", "watch"),
    (".pointer_scan()", "watch"),
    (".profiler()", "watch"),
    (".uninitialized_reads()", "watch"),
    (".call_sites()", "path"),
    (".supply()", "path"),
    (".secure_slots()", "path"),
    (".requests()", "path"),
    (".private_zones()", "process"),
];
/// Everyone may use these.
const COMMON: &[&str] = &["stats", "options", "sync", "policy", "keyed"];

fn layer(folder: &str) -> Option<u32> {
    LAYERS.iter().find(|(name, _)| *name == folder).map(|&(_, layer)| layer)
}

/// The folders that a source names by `crate::folder`, also in `use crate::{a, b}`, or whose
/// methods it calls, each with its line. Comments do not count; neither does what stands behind
/// `#[cfg(test)]`.
fn used(source: &str) -> Vec<(usize, String)> {
    let code: String = without_tests(source)
        .lines()
        .map(|l| l.split("//").next().unwrap_or("").to_owned() + "\n")
        .collect();
    let mut found = Vec::new();
    for (place, _) in code.match_indices("crate::") {
        let line = code[..place].lines().count().max(1);
        let rest = code[place + "crate::".len()..].trim_start();
        match rest.strip_prefix('{') {
            Some(group) => found.extend(first_words(group).into_iter().map(|word| (line, word))),
            None => found.push((line, word(rest))),
        }
    }
    for (accessor, folder) in ACCESSORS {
        for (place, _) in code.match_indices(accessor) {
            found.push((code[..place].lines().count().max(1), (*folder).to_owned()));
        }
    }
    found
}

fn without_tests(source: &str) -> &str {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or(source);
    code.split("#[cfg(all(test, ").next().unwrap_or(code)
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// The first word of each item of a group, up to its closing brace.
fn first_words(group: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut depth, mut begins) = (0, true);
    for (place, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && !c.is_whitespace() => {
                words.push(word(&group[place..]));
                begins = false;
            }
            _ => {}
        }
    }
    words
}

/// What a file of a folder uses and must not.
fn violations(folder: &str, source: &str) -> Vec<(usize, String)> {
    let allowed = |name: &str| {
        name == folder || COMMON.contains(&name) || folder == "stats" && layer(name).is_some() || {
            // A name that is no folder is an item of the crate's root: `crate::VERSION`.
            let Some(other) = layer(name) else { return !name.starts_with(char::is_lowercase) };
            layer(folder).is_some_and(|own| other < own)
        }
    };
    used(source).into_iter().filter(|(_, name)| !allowed(name)).collect()
}

fn check(folder: &Path, name: &str, found: &mut Vec<String>) {
    visit(folder, &mut |path, source| {
        for (line, used) in violations(name, source) {
            found.push(format!("{}:{line}: {name} uses {used}", path.display()));
        }
    });
}

#[test]
fn folders_use_only_what_lies_below_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = 0;
    for entry in std::fs::read_dir(&src).expect("src") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            folders += 1;
            assert!(layer(&name).is_some() || name == "stats", "{name} has no layer");
            check(&path, &name, &mut found);
        }
    }
    assert_eq!(folders, LAYERS.len() + 1, "folders that are not there any more");
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn planted_violations_are_found() {
    for (folder, source) in [
        ("slab", "use crate::thread::Heap;"),
        ("os", "fn f() { crate::process::malloc_at(1, 2); }"),
        ("bin", "use crate::{\n    slab::{Class, Slab},\n    site::SiteHash,\n};"),
        ("slab", "use crate::large::Block;"),
        ("remote", "use crate::bin::Bins;"),
        ("sync", "use crate::os::Os;"),
        ("region", "// fine\nuse crate::slab::Slab;"),
        ("slab", "use crate::no_such_folder::Thing;"),
        ("watch", "self.sweeper().sweep(Which::Idle);"),
        ("thread", "allocator.verifier().verify();"),
    ] {
        assert_eq!(violations(folder, source).len(), 1, "{folder}: {source}");
    }
    assert_eq!(violations("region", "// fine\nuse crate::slab::Slab;"), [(2, "slab".to_owned())]);
}

#[test]
fn what_is_allowed_is_not_found() {
    for (folder, source) in [
        ("path", "use crate::thread::Heap;\nuse crate::{os::Os, region::{Layout, Plots}};"),
        ("slab", "use super::Tier;\nuse crate::sync::AtomicU64;\nuse crate::region::Carve;"),
        ("slab", "/// As `crate::thread::Heap` says.\n// use crate::thread::Heap;"),
        ("stats", "use crate::allocator::Allocator;"),
        ("os", "use crate::VERSION;"),
        ("keeper", "self.verifier().verify_share(heap);"),
        ("bin", "#[cfg(test)]\nmod tests {\n    use crate::thread::Heap;\n}"),
    ] {
        assert_eq!(violations(folder, source), [], "{folder}: {source}");
    }
}

/// What takes a slot from a bin, or gives one back: steps of the spine.
const STEPS: &[&str] = &[
    ".small_bin(",
    ".pop_after_refill(",
    ".take_after_refill(",
    ".allocate_slow(",
    ".allocate_large(",
    ".malloc_small(",
    ".malloc_slot(",
    ".free_small(",
    ".free_medium(",
    ".free_own_small(",
    ".free_own_medium(",
];

/// Lines of a source that take such a step, or that make another kind of caller.
fn steps(source: &str) -> Vec<&str> {
    let code = without_tests(source).lines().filter(|line| !line.trim_start().starts_with("//"));
    code.filter(|line| STEPS.iter().any(|step| line.contains(step)) || line.contains("Caller for "))
        .collect()
}

/// malloc and free exist once: whatever is above the bins enters `path` by its functions.
#[test]
fn malloc_and_free_exist_once() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for folder in ["allocator", "keeper", "process", "watch"] {
        visit(&src.join(folder), &mut |path, source| {
            found.extend(steps(source).iter().map(|line| format!("{}: {line}", path.display())));
        });
    }
    // The process's threads. Tests have `path::On`.
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert!(one.ends_with("process/calls.rs: impl Caller for Process {"), "{one}");
}

#[test]
fn a_second_malloc_is_found() {
    for line in [
        "match heap.pop_after_refill(index) {",
        "let index = heap.small_bin(size, site);",
        "if !allocator().requests().free_small(|| heap, address, call) {",
        "impl<O: Os> Caller for Mine<O> {",
    ] {
        assert_eq!(steps(line), [line]);
    }
    assert_eq!(steps("// heap.small_bin(size, site)\npath::malloc(Process, size, site)"), [""; 0]);
}

fn visit(folder: &Path, each: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(&path, each);
        } else {
            each(&path, &std::fs::read_to_string(&path).expect("a source"));
        }
    }
}
