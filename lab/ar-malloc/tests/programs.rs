//! The preloaded library: threads, forks and misuse in C, and real programs, on each choice of
//! locks.
#![cfg(not(loom))]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder for what these tests build.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ar-malloc");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The library, built with the names of C.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = folder().join("target");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "toft-ar-malloc", "--features", "preload"]);
        cargo.current_dir(root()).env("CARGO_TARGET_DIR", &target);
        assert!(cargo.status().unwrap().success(), "{cargo:?}");
        target.join("debug/libtoft_ar_malloc.so")
    })
}

/// A program of `tests/`, compiled.
fn program(name: &str) -> PathBuf {
    let out = folder().join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-fno-builtin", "-pthread", "-o"]).arg(&out);
    gcc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{name}.c")));
    assert!(gcc.status().unwrap().success(), "{gcc:?}");
    out
}

/// Every choice of locks and caches, and a number of arenas.
const CHOICES: [(&str, &str, &str); 8] = [
    ("one", "off", "1"),
    ("one", "on", "3"),
    ("arena", "off", "2"),
    ("arena", "on", "4"),
    ("class", "off", "1"),
    ("class", "on", "16"),
    ("none", "off", "1"),
    ("none", "on", "1"),
];

/// A command on the library, with its counts.
fn on_library(
    program: impl AsRef<std::ffi::OsStr>,
    (lock, cache, arenas): (&str, &str, &str),
) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("TOFT_AR_STATS", "on");
    command.envs([("TOFT_AR_LOCK", lock), ("TOFT_AR_CACHE", cache), ("TOFT_AR_ARENAS", arenas)]);
    command
}

/// Runs a command that must succeed; returns what it wrote, without the counts, and the counts.
fn run(mut command: Command) -> (String, Vec<String>) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    let (counts, rest): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.starts_with("ar-malloc: arenas="));
    assert!(status.success() && rest.is_empty(), "{command:?}: {status}\n{said}");
    let counts: Vec<String> = counts.into_iter().map(str::to_owned).collect();
    assert!(!counts.is_empty(), "{command:?} did not load the library");
    (String::from_utf8_lossy(&stdout).into_owned(), counts)
}

fn count(line: &str, name: &str) -> usize {
    let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

#[test]
fn threads_and_forks_lose_no_block() {
    let threads = program("threads");
    for choice in CHOICES {
        let (output, counts) = run(on_library(&threads, choice));
        assert_eq!(output, "done\n");
        let (lock, cache, arenas) = choice;
        let settings = format!("arenas={arenas} lock={lock} cache={cache} ");
        // The forked children exit by _exit.
        let [line] = &counts[..] else { panic!("{counts:?}") };
        assert!(line.contains(&settings), "{line}");
        assert_eq!(count(line, "lost"), 0, "{line}");
        assert!(count(line, "allocated") > 100_000 && count(line, "passed") > 0, "{line}");
        let calls = count(line, "allocated") + count(line, "freed");
        match (lock, cache) {
            ("none", _) => assert_eq!(count(line, "locks"), 0, "{line}"),
            (_, "off") => assert_eq!(count(line, "locks"), calls, "{line}"),
            _ => assert!(count(line, "locks") < calls / 2, "{line}"),
        }
    }
}

#[test]
fn misuse_is_named_and_stops_the_process() {
    let misuse = program("misuse");
    let cases = [
        ("twice", "free of a block that is free"),
        ("twice-far", "free of a block that is free"),
        ("elsewhere", "free of a block that is free"),
        ("inside", "call with a pointer to no block"),
        ("wild", "call with a pointer to no block"),
        ("resize", "call with a block that is free"),
        ("usable", "call with a block that is free"),
    ];
    for choice in CHOICES {
        for (case, text) in cases {
            let mut command = on_library(&misuse, choice);
            let Output { status, stderr, .. } = command.arg(case).output().unwrap();
            let said = String::from_utf8_lossy(&stderr);
            assert!(!status.success() && said.contains(text), "{case} {choice:?}: {said}");
        }
        // The program without misuse.
        let mut command = on_library(&misuse, choice);
        command.arg("none");
        run(command);
    }
}

#[test]
fn a_value_that_is_none_stops_the_process() {
    for (name, value) in [("LOCK", "x"), ("ARENAS", "0"), ("CACHE", "yes"), ("STATS", "1")] {
        let mut command = on_library("gcc", CHOICES[0]);
        let output =
            command.arg("--version").env(format!("TOFT_AR_{name}"), value).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("the value of TOFT_AR_{name} must be")), "{said}");
    }
}

#[test]
fn real_programs_do_the_same_on_it() {
    let source = folder().join("real.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"x\"); return 0; }\n")
        .unwrap();
    let object = folder().join("real.o");
    let python = "import json, threading\n\
        def work(n): json.loads(json.dumps([{str(i): i} for i in range(n)]))\n\
        all = [threading.Thread(target=work, args=(3000,)) for _ in range(4)]\n\
        [t.start() for t in all]; [t.join() for t in all]; print('parsed')\n";
    let work = folder().join("repository");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).unwrap();
    let git = "git init --quiet . && seq 20000 > numbers && git add . && \
        git -c user.name=a -c user.email=a@b commit --quiet -m x && git log --stat --format=%s; \
        rm -rf .git numbers";
    for choice in CHOICES {
        let mut command = on_library("python3", choice);
        // Otherwise python3 has its own allocator for small blocks.
        command.env("PYTHONMALLOC", "malloc").args(["-c", python]);
        let (output, counts) = run(command);
        assert_eq!(output, "parsed\n");
        assert!(counts.iter().any(|line| count(line, "allocated") > 10_000), "{counts:?}");

        let mut command = on_library("gcc", choice);
        command.args(["-O2", "-c", "-o"]).arg(&object).arg(&source);
        let _ = std::fs::remove_file(&object);
        let (_, counts) = run(command);
        assert!(counts.len() > 1 && object.is_file(), "{counts:?}");

        let mut command = on_library("sh", choice);
        command.current_dir(&work).env("GIT_CONFIG_GLOBAL", "/dev/null").args(["-c", git]);
        let (output, _) = run(command);
        assert!(output.contains("numbers | 20000 +"), "{output}");
    }
}

#[test]
fn with_little_address_space_requests_pass_through() {
    let mut command = on_library("sh", CHOICES[3]);
    let python = "exec python3 -c 'print(sum(len(str(i)) for i in range(9)))'";
    command.args(["-c", &format!("ulimit -v 600000; {python}")]);
    assert_eq!(run(command).0, "9\n");
}
