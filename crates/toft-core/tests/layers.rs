//! The folders of `src` are layers: one uses only those with a lower number, and `options`, `sync`,
//! `stats`, `keyed.rs` and the constants of `policy.rs`, which all may use.
//! `stats` reads everything. Within `process`, `path`, `keeper` and `watch` the rooms are in order,
//! too, and no type has methods in more files than a reader can look through.

use std::collections::{BTreeMap, BTreeSet};
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
    ("slab", 3),
    ("large", 3),
    ("guarded", 3),
    ("sample", 3),
    ("zero_size", 3),
    // The file `hook.rs`.
    ("hook", 3),
    ("region", 2),
    ("report", 2),
    ("harden", 2),
    ("os", 1),
    ("options", 0),
    ("sync", 0),
];
/// The rooms of a folder: one uses only those of the folder with a lower number. With the accessor
/// of the room's type, if it has one, and the room's files and subfolders.
const ROOMS: &[(&str, u32, &str, &[&str])] = &[
    ("watch", 1, ".reports()", &["reports"]),
    ("watch", 2, ".slot_checks()", &["slot_checks"]),
    ("watch", 3, ".verifier()", &["verifier"]),
    ("watch", 3, ".profiler()", &["sampling"]),
    ("watch", 3, ".uninitialized_reads()", &["guarded"]),
    ("keeper", 1, ".mapper()", &["mappings"]),
    ("keeper", 2, ".maintenance()", &["maintenance"]),
    ("keeper", 3, ".held_heaps()", &["held_heaps"]),
    ("keeper", 4, ".quarantines()", &["quarantines"]),
    ("keeper", 5, ".sweeper()", &["sweeper"]),
    ("keeper", 6, ".memory_limit()", &["limit"]),
    ("keeper", 6, ".compactor()", &["compact"]),
    ("keeper", 6, ".cold_pages()", &["cold_pages"]),
    ("keeper", 7, ".reclaimer_thread()", &["reclaimer_thread"]),
    ("path", 1, ".call_sites()", &["wrappers"]),
    ("path", 2, ".supply()", &["refill", "shared_heaps", "large"]),
    ("path", 3, ".secure_slots()", &["secure"]),
    (
        "path",
        4,
        ".requests()",
        &["malloc", "free", "realloc", "permanent_free", "zero_size", "guarded", "caller"],
    ),
    ("path", 5, ".in_place()", &["in_place"]),
    ("process", 1, "", &["environment", "hints"]),
    ("process", 1, "", &["compacting"]),
    ("process", 1, "", &["key_fault"]),
    ("process", 1, "", &["thread_exit"]),
    ("process", 2, "", &["start"]),
    ("process", 3, "", &["program_delete"]),
    ("process", 3, "", &["whole_heap"]),
    ("process", 4, "", &["scope"]),
    ("process", 5, "", &["calls"]),
    ("process", 6, "", &["gate", "shim"]),
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
    let code = without_comments(source);
    let mut found = Vec::new();
    for (place, _) in code.match_indices("crate::") {
        let line = code[..place].lines().count().max(1);
        let rest = code[place + "crate::".len()..].trim_start();
        match rest.strip_prefix('{') {
            Some(group) => found.extend(first_words(group).into_iter().map(|word| (line, word))),
            None => found.push((line, word(rest))),
        }
    }
    for (folder, _, accessor, _) in ROOMS.iter().filter(|room| !room.2.is_empty()) {
        for (place, _) in code.match_indices(accessor) {
            found.push((code[..place].lines().count().max(1), (*folder).to_owned()));
        }
    }
    found
}

/// The code of a source, without its comments and tests.
fn without_comments(source: &str) -> String {
    let lines = without_tests(source).lines();
    lines.map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect()
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
        } else if layer(&name).is_some() {
            folders += 1;
            let source = std::fs::read_to_string(&path).expect("a source");
            assert_eq!(violations(&name, &source), [], "{name}");
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
        ("bin", "use crate::{\n    slab::{SizeClass, Slab},\n    site::SiteHash,\n};"),
        ("slab", "use crate::large::Block;"),
        ("remote", "use crate::bin::Bins;"),
        ("sync", "use crate::os::Os;"),
        ("report", "use crate::hook::Hook;"),
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
        ("slab", "use super::SizeClass;\nuse crate::sync::AtomicU64;\nuse crate::region::Carve;"),
        ("slab", "/// As `crate::thread::Heap` says.\n// use crate::thread::Heap;"),
        ("stats", "use crate::allocator::Allocator;"),
        ("os", "use crate::VERSION;"),
        ("keeper", "self.verifier().verify_share(heap);"),
        ("bin", "#[cfg(test)]\nmod tests {\n    use crate::thread::Heap;\n}"),
    ] {
        assert_eq!(violations(folder, source), [], "{folder}: {source}");
    }
}

/// The place in `ROOMS` of a file of a folder, by its path in it.
fn room_of(folder: &str, part: &str) -> Option<usize> {
    ROOMS.iter().position(|room| room.0 == folder && room.3.contains(&part))
}

/// The other rooms of its folder that a file uses and that are not below its own: by an accessor,
/// by `crate::folder::room`, or by as many `super::` as lead to the folder.
fn room_violations(folder: &str, path: &Path, source: &str) -> Vec<String> {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let part = parts[0].trim_end_matches(".rs");
    if part == "mod" {
        return Vec::new();
    }
    let Some(own) = room_of(folder, part) else { return vec![format!("{part} is of no room")] };
    let depth = parts.len() - usize::from(parts.len() > 1 && parts.ends_with(&["mod.rs".into()]));
    let code = without_comments(source);
    let mut used: Vec<usize> = (0..ROOMS.len())
        .filter(|&room| ROOMS[room].0 == folder && !ROOMS[room].2.is_empty())
        .filter(|&room| without_spaces(&code).contains(ROOMS[room].2))
        .collect();
    for to_folder in [format!("crate::{folder}::"), "super::".repeat(depth)] {
        for (place, _) in code.match_indices(&to_folder) {
            let rest = &code[place + to_folder.len()..];
            let group = rest.strip_prefix('{').map(first_words);
            let words = group.unwrap_or_else(|| vec![word(rest)]);
            used.extend(words.iter().filter_map(|word| room_of(folder, word)));
        }
    }
    used.retain(|&room| room != own && ROOMS[room].1 >= ROOMS[own].1);
    used.iter().map(|&room| format!("{} uses {}", ROOMS[own].3[0], ROOMS[room].3[0])).collect()
}

fn without_spaces(code: &str) -> String {
    code.chars().filter(|c| !c.is_whitespace()).collect()
}

#[test]
fn rooms_of_a_folder_use_only_those_below_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for folder in ["process", "path", "keeper", "watch"] {
        let root = src.join(folder);
        visit(&root, &mut |path, source| {
            let path = path.strip_prefix(&root).expect("a file of the folder");
            let bad = room_violations(folder, path, source);
            found.extend(bad.iter().map(|bad| format!("{folder}/{}: {bad}", path.display())));
        });
        for name in ROOMS.iter().filter(|room| room.0 == folder).flat_map(|room| room.3) {
            let there = root.join(name).is_dir() || root.join(name).with_extension("rs").is_file();
            assert!(there, "{folder}/{name} is not there any more");
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn planted_violations_between_rooms_are_found() {
    for (folder, path, source) in [
        ("keeper", "sweeper/trim.rs", "self.reclaimer_thread().answer();"),
        ("keeper", "limit/mod.rs", "self\n    .compactor()\n    .compact(which);"),
        ("keeper", "mappings/prefault.rs", "use crate::keeper::sweeper::Which;"),
        ("keeper", "limit/relief.rs", "use super::super::compact::Compacted;"),
        ("watch", "reports/misuse.rs", "use crate::watch::{\n    verifier::STALE,\n};"),
        ("path", "large.rs", "use super::malloc::malloc;"),
        ("process", "scope.rs", "pub use super::calls::free;"),
        ("path", "new.rs", ""),
    ] {
        assert_eq!(room_violations(folder, Path::new(path), source).len(), 1, "{path}: {source}");
    }
    for (folder, path, source) in [
        ("keeper", "limit/relief.rs", "use super::MemoryLimit;\nself.sweeper().sweep(which);"),
        ("keeper", "limit/mod.rs", "// self.reclaimer_thread()"),
        ("path", "realloc.rs", "use super::malloc::malloc;\nuse crate::path::Requests;"),
    ] {
        assert_eq!(room_violations(folder, Path::new(path), source), [""; 0], "{path}: {source}");
    }
}

/// Files in which one type has methods, at most.
const FILES_MOST: usize = 6;
/// The types that a source gives methods to, apart from those of traits.
fn types_with_methods(source: &str) -> Vec<String> {
    let code = without_comments(source);
    let starts = code.match_indices("impl").filter(|&(place, _)| {
        let line = code[..place].rsplit('\n').next().unwrap_or("");
        matches!(line.trim_start(), "" | "unsafe ") && code[place + 4..].starts_with([' ', '<'])
    });
    let headers = starts.filter_map(|(place, _)| code[place + 4..].split('{').next());
    let inherent = headers.filter(|header| !header.split_whitespace().any(|part| part == "for"));
    let names = inherent.map(|header| after_parameters(header).split([' ', '<', '\n']).next());
    names.flatten().map(|path| path.rsplit("::").next().unwrap_or(path).to_owned()).collect()
}

/// What follows the parameters in `<` and `>` with which a header begins.
fn after_parameters(header: &str) -> &str {
    let mut depth = 0;
    for (place, c) in header.char_indices() {
        depth += i32::from(c == '<') - i32::from(c == '>');
        if depth == 0 {
            return header[place..].trim_start_matches(['>', ' ']);
        }
    }
    header
}

/// How many files have methods of a type, by its name, and by its folder if several define one of
/// that name.
fn files_of_types(files: &[(String, String)]) -> BTreeMap<String, usize> {
    let mut defining: BTreeMap<String, usize> = BTreeMap::new();
    for (_, source) in files {
        let kinds = ["struct ", "enum ", "union "].iter();
        let names =
            kinds.flat_map(|kind| source.match_indices(kind).map(move |(at, _)| (at, kind)));
        let names = names.map(|(at, kind)| word(&source[at + kind.len()..]));
        for name in BTreeSet::from_iter(names) {
            *defining.entry(name).or_default() += 1;
        }
    }
    let mut counts = BTreeMap::new();
    for (folder, source) in files {
        for name in BTreeSet::from_iter(types_with_methods(source)) {
            let once = defining.get(&name).is_none_or(|&files| files < 2);
            let name = if once { name } else { format!("{folder}::{name}") };
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

#[test]
fn no_type_has_methods_in_many_files() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    visit(&src, &mut |path, source| {
        let folder = path.strip_prefix(&src).expect("a source").iter().next().expect("a name");
        files.push((folder.to_string_lossy().into_owned(), without_tests(source).to_owned()));
    });
    let many = files_of_types(&files);
    let many: Vec<_> = many.iter().filter(|&(_, &files)| files > FILES_MOST).collect();
    assert!(many.is_empty(), "types with methods in more than {FILES_MOST} files: {many:?}");
}

#[test]
fn a_type_with_methods_in_many_files_is_found() {
    let files = |count: usize, text: &str| vec![("slab".to_owned(), text.to_owned()); count];
    for text in [
        "impl Room {",
        "impl crate::slab::Room {",
        "struct Other;\nimpl<'a, O: Into<u8>> Room<'a, O> {",
        "    impl<const N: usize> Room<N>\n    where\n        O: Os,\n    {",
    ] {
        assert_eq!(files_of_types(&files(7, text)), BTreeMap::from([("Room".to_owned(), 7)]));
    }
    for text in ["impl Drop for Room {", "// impl Room {", "fn f(x: impl Room) {", "implied Room {"]
    {
        assert!(files_of_types(&files(7, text)).is_empty(), "{text}");
    }
    let two = [files(1, "struct Room;\nimpl Room {"), vec![("os".into(), "enum Room {}".into())]];
    assert_eq!(files_of_types(&two.concat()), BTreeMap::from([("slab::Room".to_owned(), 1)]));
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
