//! Wrong command lines, each with one line and the usual status; and places that cannot be written
//! to.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::*;

#[test]
fn a_wrong_command_line_is_one_line() {
    for (words, status, wanted) in [
        (&["haep", "1"][..], 2, "unrecognized subcommand 'haep'; did you mean heap? (toft --help)"),
        (
            &["run", "--sampel", "3", "--", "ls"],
            125,
            "unexpected argument '--sampel' found; did you mean --sample? (toft run --help)",
        ),
        (
            &["heap"],
            2,
            "the following required arguments were not provided: <PID|CORE> (toft heap --help)",
        ),
        (
            &["heap", "--format", "foo", "1"],
            2,
            "invalid value 'foo' for '--format <FORMAT>' [possible values: text, json, toft, pprof, \
             folded, flame, html] (toft heap --help)",
        ),
        (&["--bogus"], 2, "unexpected argument '--bogus' found (toft --help)"),
        (
            &["run", "--env", "TOFT_LIMTI=1g", "--", "ls"],
            125,
            "invalid value 'TOFT_LIMTI=1g' for '--env <KEY=VALUE>': unknown option TOFT_LIMTI; did \
             you mean TOFT_LIMIT? (toft run --help)",
        ),
        (
            &["run", "--env", "TOFT_LIMIT=512", "--", "ls"],
            125,
            "invalid value 'TOFT_LIMIT=512' for '--env <KEY=VALUE>': TOFT_LIMIT=512 is not a size of \
             at least 1m, such as 512m or 2g, or a share such as 80% (toft run --help)",
        ),
    ] {
        let output = toft_ends_with(status, words);
        assert_eq!(stderr(&output), format!("toft: {wanted}\n"), "{words:?}");
        assert_eq!(stdout(&output), "", "{words:?}");
    }
    // Without a verb the help is the answer.
    assert_contains(&stderr(&toft_ends_with(2, &[])), &["Usage: toft", "Examples:"]);
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let closed = |words: &[&str]| {
        let mut command = toft();
        command.args(words);
        let close = || {
            // SAFETY: a new process closes one of its descriptors, and allocates nothing.
            unsafe { libc::close(libc::STDOUT_FILENO) };
            Ok(())
        };
        // SAFETY: the closure makes one system call.
        unsafe { command.pre_exec(close) };
        command.output().unwrap()
    };
    for words in [&["options"][..], &["doctor", "--json"]] {
        let output = ends_with(125, closed(words));
        assert_eq!(stderr(&output), "toft: cannot write: standard output is closed\n");
    }
    // What a service manager gives is open, and what goes there is not wanted.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
    assert!(toft().arg("options").stdout(null).status().unwrap().success());
}

#[test]
fn a_file_of_reports_that_cannot_be_written_is_named() {
    let line = refused(&["run", "--env", "TOFT_REPORT=/none/reports", "--", "true"]);
    assert_eq!(line, "toft: TOFT_REPORT: cannot write to /none/reports: no such folder");
    let mut inherited = toft();
    inherited.env("TOFT_REPORT", "full,/none/reports").args(["run", "--", "true"]);
    assert_contains(&message(&ends_with(125, inherited.output().unwrap())), &["/none/reports"]);

    // Without the command the library says so, and the report is on stderr.
    let directory = directory();
    let twice = compile(
        directory.path(),
        "twice",
        "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); free(p); free(p); }",
        &[],
    );
    let report = |file: &str| {
        let mut command = Command::new(&twice);
        command.env("LD_PRELOAD", library()).env("TOFT_ON_MISUSE", "warn");
        stderr(&command.env("TOFT_REPORT", file).output().unwrap())
    };
    let page = report("/none/reports");
    assert_contains(
        &page,
        &["toft: double free", "toft: TOFT_REPORT: cannot write to /none/reports; the report"],
    );
    let file = directory.path().join("reports");
    assert!(!report(text(&file)).contains("TOFT_REPORT"));
    assert!(std::fs::read_to_string(&file).unwrap().contains("double free"));
}

#[test]
fn the_library_names_what_a_misspelt_option_meant() {
    let mut command = Command::new("sh");
    command.args(["-c", "exit 0"]).env("LD_PRELOAD", library());
    let page = stderr(&command.env("TOFT_LIMTI", "1g").output().unwrap());
    assert_eq!(page, "toft: unknown option TOFT_LIMTI; did you mean TOFT_LIMIT?\n");
    let page = stderr(&command.env_remove("TOFT_LIMTI").env("TOFT_XYZ", "1").output().unwrap());
    assert_eq!(page, "toft: unknown option TOFT_XYZ\n");
    let page = stderr(&command.env_remove("TOFT_XYZ").env("TOFT_LIMIT", "512").output().unwrap());
    assert_contains(&page, &["TOFT_LIMIT=512 is not a size of at least 1m", "; using none"]);
}

/// The signs of the rows, and the counts of the last line.
#[test]
fn the_doctor_counts_what_it_shows() {
    let output = toft().arg("doctor").output().unwrap();
    let page = stdout(&output);
    let signed = |sign: &str| page.lines().filter(|line| line.starts_with(sign)).count();
    let (ok, missing, harmless) = (signed("ok "), signed("missing "), signed("- "));
    let last = page.lines().last().unwrap();
    let wanted = format!(": {ok} ok, {missing} missing with a fallback, {harmless} harmless.");
    assert!(last.ends_with(&wanted), "{last}\n{page}");
    // What works has one sign.
    for line in page.lines().filter(|line| line.ends_with("  works")) {
        assert!(line.starts_with("ok "), "{line}");
    }
}
