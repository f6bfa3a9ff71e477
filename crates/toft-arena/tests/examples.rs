//! The examples run to their end: each asserts what it shows.

use std::path::Path;
use std::process::Command;

fn run(name: &str) -> String {
    // Where cargo builds examples when it builds all tests; else it is asked to.
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    let mut command = if built.is_file() {
        Command::new(built)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--features", "all", "--example", name, "--manifest-path"]);
        cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        cargo
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_static_arena() {
    assert!(run("static_arena").starts_with("1000 words in an arena of 1048576 bytes"));
}

#[cfg(feature = "allocator-api2")]
#[test]
fn an_arena_for_each_request() {
    assert_eq!(run("per_request"), "820 requests served in 65536 bytes, 180 were too large\n");
}

#[cfg(feature = "system")]
#[test]
fn memory_that_two_processes_share() {
    assert_eq!(run("shared_memory"), "written by the child, at another address\n");
}

/// The pages show the example of the README, which is compiled with the documentation.
#[test]
fn the_pages_show_an_example_that_compiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let first = |page: &str| {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let block = text.split("```rust\n").nth(1).unwrap_or_else(|| panic!("{page} has none"));
        block.split("```").next().unwrap().to_owned()
    };
    let readme = first("README.md");
    assert!(readme.contains("toft_arena::array!(Memory"));
    for page in ["../../docs/arena.md", "../../docs/arena-from-others.md"] {
        assert_eq!(first(page), readme, "{page}");
    }
}
