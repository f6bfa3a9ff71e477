//! The modules of `src` are layers: one uses only those below it, as the table of `lib.rs` says.
//! And: nothing is a mandatory dependency, pointers are made in one file, and no panic is written
//! down.

use std::path::{Path, PathBuf};

/// Modules and their layers.
const LAYERS: &[(&str, u32)] = &[
    ("shared", 7),
    ("arena", 6),
    ("source", 5),
    ("heap", 4),
    ("bins", 3),
    ("chunk", 2),
    ("shape", 1),
    ("space", 0),
    ("table", 0),
    ("word", 0),
    ("fault", 0),
    ("sanitizer", 0),
];
/// What those of layer 0 may use of each other.
const WITHIN: &[(&str, &str)] = &[("space", "word"), ("table", "word")];

fn layer(module: &str) -> Option<u32> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|&(_, layer)| layer)
}

fn may_use(module: &str, other: &str) -> bool {
    module == other || WITHIN.contains(&(module, other)) || layer(other) < layer(module)
}

/// The code of a source: no comments, no tests.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or(source);
    source.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect()
}

fn violations(module: &str, source: &str) -> Vec<String> {
    let code = code(source);
    let used = code.split("crate::").skip(1).map(|rest| {
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    });
    used.filter(|other| !may_use(module, other)).collect()
}

fn sources() -> Vec<(String, PathBuf)> {
    fn all(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { all(&path, found) } else { found.push(path) }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    all(&root, &mut found);
    let module = |path: &PathBuf| {
        let first = path.strip_prefix(&root).unwrap().components().next().unwrap();
        first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
    };
    found.into_iter().map(|path| (module(&path), path)).collect()
}

#[test]
fn a_module_uses_only_those_below_it() {
    let mut files = 0;
    for (module, path) in sources().into_iter().filter(|(module, _)| module != "lib") {
        assert!(layer(&module).is_some(), "{module} is in no layer");
        let source = std::fs::read_to_string(&path).unwrap();
        assert_eq!(violations(&module, &source), [""; 0], "{}", path.display());
        files += 1;
    }
    assert!(files > 20);
}

#[test]
fn a_planted_violation_is_found() {
    assert_eq!(violations("heap", "use crate::bins;\nuse crate::arena::Arena;"), ["arena"]);
    assert_eq!(violations("table", "crate::word::Word; crate::space::Space"), ["space"]);
    assert!(violations("heap", "// crate::arena").is_empty());
}

#[test]
fn pointers_are_made_in_one_file() {
    const MAKE: &[&str] =
        &["with_exposed_provenance", "with_addr", "map_addr", " as *", "as usize as"];
    for (module, path) in sources() {
        let code = code(&std::fs::read_to_string(&path).unwrap());
        let made: Vec<_> = MAKE.iter().filter(|how| code.contains(*how)).collect();
        // An address that is no memory's is all right (`without_provenance`).
        assert_eq!(made.is_empty(), module != "space", "{}: {made:?}", path.display());
    }
}

/// What panics, also where that is not in its name: a multiple that overflows.
const PANICS: &[&str] = &[
    "panic!",
    ".unwrap()",
    ".expect(",
    "unreachable!",
    "todo!",
    "unimplemented!",
    " assert!(",
    "assert_eq!",
    "assert_ne!",
    ".next_multiple_of(",
];

/// Assertions of constants are of the compiler's time, and debug assertions of tests'.
fn panics(source: &str) -> Vec<&'static str> {
    let code = code(source).replace("assert!(Self::", "").replace("const SOUND: () = assert!(", "");
    PANICS.iter().filter(|word| code.contains(*word)).copied().collect()
}

#[test]
fn nothing_panics_on_purpose() {
    for (_, path) in sources() {
        let source = std::fs::read_to_string(&path).unwrap();
        assert!(panics(&source).is_empty(), "{:?} in {}", panics(&source), path.display());
    }
    assert_eq!(panics("    assert!(all.is_sound());"), [" assert!("]);
    assert_eq!(panics("let end = used.next_multiple_of(8);"), [".next_multiple_of("]);
    assert!(panics("debug_assert!(bin < BINS); a.checked_next_multiple_of(8)").is_empty());
}

#[test]
fn no_dependency_is_mandatory() {
    let manifest = include_str!("../Cargo.toml");
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let lines: Vec<_> = section.lines().filter(|line| line.contains('=')).collect();
    assert!(lines.len() >= 3);
    for line in lines {
        assert!(line.contains("optional = true"), "{line}");
    }
}
