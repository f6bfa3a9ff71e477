//! A Rust program that has Toft as its global allocator gets no all-clear of a preloaded one: these tests are it.

mod common;

use common::*;

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

#[test]
fn a_rust_program_with_toft_inside_gets_no_all_clear() {
    let program = std::env::current_exe().unwrap();
    for options in [&["--leaks"][..], &["--leaks", "--strict"], &["--strict"]] {
        let output = run(options, &[text(&program), "--list"]);
        let page = stderr(&output);
        assert_eq!(output.status.code(), Some(124), "{page}");
        assert!(page.contains("brings its own malloc (Toft)"), "{page}");
        assert!(page.contains("what it allocated there was not looked at"), "{page}");
        assert!(!page.contains("no leaks"), "{page}");
    }
}

/// The command has the library's crate, and allocates from libc.
#[test]
fn a_program_that_uses_the_crate_for_something_else_is_not_taken_for_one() {
    let output = run(&["--strict"], &[env!("CARGO_BIN_EXE_toft"), "--version"]);
    assert_clean(&output);
}
