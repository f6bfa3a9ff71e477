//! `toft explain`: reports of real programs, in both forms, and input that is none.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::*;
use serde_json::Value;

/// Line numbers matter: the second free is in line 3, the allocation in line 6.
const TWICE: &str = "\
#include <stdlib.h>
__attribute__((noinline)) static void inner(void *p) {
    free(p);
}
__attribute__((noinline)) static void outer(void *p) { inner(p); inner(p); }
__attribute__((noinline)) static void *make(void) { return malloc(100); }
int main(void) { void *volatile p = make(); outer(p); return 0; }
";

fn explain(options: &[&str], input: &str) -> Output {
    let mut command = toft();
    command.arg("explain").args(options).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn report_of(source: &str, directory: &Path, flags: &[&str], env: &[&str]) -> String {
    let program = compile(directory, "twice", source, flags);
    let mut options = vec!["--env", "TOFT_REPORT=full"];
    env.iter().for_each(|setting| options.extend(["--env", setting]));
    let output = run(&options, &[text(&program)]);
    stderr(&output)
}

/// The lines under `what`, by their functions.
fn functions(page: &Value, what: &str) -> Vec<String> {
    let stacks = page["stacks"].as_array().unwrap();
    let stack = stacks.iter().find(|stack| stack["what"] == what);
    let frames = stack.and_then(|stack| stack["frames"].as_array());
    let name = |frame: &Value| frame["function"].as_str().unwrap_or("?").to_owned();
    frames.into_iter().flatten().map(name).collect()
}

#[test]
fn a_report_on_stderr_gets_functions_lines_and_advice() {
    let directory = directory();
    let report = report_of(TWICE, directory.path(), &[], &[]);
    assert!(report.starts_with("toft: double free: free(0x"), "{report}");
    let output = ends_with(0, explain(&["-"], &format!("before\n{report}after\n")));
    let page = stdout(&output);
    for wanted in [
        "double free: free(0x",
        "  called from    inner at twice.c:3\n",
        "                 outer at twice.c:5\n",
        "  call site      make at twice.c:6\n",
        "What it means: the program freed a block that it had already freed",
        "What to do next:\n  - Check the call",
    ] {
        assert!(page.contains(wanted), "{wanted:?} is not in\n{page}\nof\n{report}");
    }
    assert!(!page.contains("libtoft") && !page.contains("is not the file that ran"), "{page}");
}

#[test]
fn lines_of_the_program_are_passed_on() {
    let directory = directory();
    let report = report_of(TWICE, directory.path(), &[], &[]);
    let input = format!("before\n{report}after\nno newline");
    let page = stdout(&ends_with(0, explain(&["-"], &input)));
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{page}"));
    assert!(place("before\n") < place("What it means:"), "{page}");
    assert!(place("What to do next:") < place("after\n"), "{page}");
    assert!(page.ends_with("no newline") && !page.contains("toft: double free"), "{page}");
    // JSON is alone on stdout.
    let output = ends_with(0, explain(&["--json", "-"], &input));
    assert!(stdout(&output).lines().all(|line| line.starts_with('{')), "{output:?}");
    assert_eq!(stderr(&output), "before\nafter\nno newline");
    // Of a file the other lines stay where they are.
    let file = directory.path().join("log");
    std::fs::write(&file, &input).unwrap();
    let output = toft().arg("explain").arg(&file).output().unwrap();
    assert!(!stdout(&ends_with(0, output)).contains("after"));
    // Without a report all is passed on.
    let output = ends_with(1, explain(&["-"], "toft: unknown option TOFT_X\n"));
    assert_eq!(stdout(&output), "toft: unknown option TOFT_X\n");
}

#[test]
fn a_report_is_explained_before_the_input_ends() {
    let directory = directory();
    let report = report_of(TWICE, directory.path(), &[], &[]);
    let mut command = toft();
    command.args(["explain", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(report.as_bytes()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "What to do next:"));
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_advice_to_guard_blocks_is_not_given_about_a_guarded_block() {
    let directory = directory();
    for (setting, advised) in [("TOFT_GUARDED=0", true), ("TOFT_GUARDED=1", false)] {
        let report = report_of(TWICE, directory.path(), &[], &[setting]);
        let page = stdout(&ends_with(0, explain(&["-"], &report)));
        assert_eq!(page.contains("run with TOFT_GUARDED=1"), advised, "{page}");
        assert_eq!(page.contains("Compare the three stacks"), !advised, "{page}");
    }
}

#[test]
fn json_has_the_stack_in_order() {
    let directory = directory();
    let report = report_of(TWICE, directory.path(), &[], &[]);
    let page: Value = serde_json::from_str(&stdout(&explain(&["--json", "-"], &report))).unwrap();
    assert_eq!(page["report"], "double free");
    assert_eq!(functions(&page, "called from")[..3], ["inner", "outer", "main"]);
    assert_eq!(functions(&page, "call site"), ["make"]);
    assert!(page["pid"].as_u64().is_some() && page["next"].as_array().is_some());
}

#[test]
fn inlined_functions_and_their_callers_are_shown() {
    let directory = directory();
    let always = TWICE.replace("noinline", "always_inline");
    let report = report_of(&always, directory.path(), &["-fno-builtin"], &[]);
    let page = stdout(&explain(&["-"], &report));
    for wanted in [
        "  called from    inner at twice.c:3 (inlined)\n                 outer at twice.c:5 (inlined)\n\
         \x20                main at twice.c:7\n",
        "  call site      make at twice.c:6 (inlined)\n                 main at twice.c:7\n",
    ] {
        assert!(page.contains(wanted), "{wanted:?} is not in\n{page}\nof\n{report}");
    }
    let page: Value = serde_json::from_str(&stdout(&explain(&["--json", "-"], &report))).unwrap();
    assert_eq!(functions(&page, "called from")[..3], ["inner", "outer", "main"]);
    let inlined = |at: usize| &page["stacks"][0]["frames"][at]["inlined"];
    assert_eq!([inlined(0), inlined(1), inlined(2)], [true, true, false]);
}

#[test]
fn the_file_of_reports_is_read_and_warnings_are_all_there() {
    let directory = directory();
    let file = directory.path().join("reports");
    let setting = format!("TOFT_REPORT=auto,{}", text(&file));
    let warned = report_of(
        &TWICE.replace("inner(p); inner(p);", "inner(p); inner(p); inner(p);"),
        directory.path(),
        &[],
        &[&setting, "TOFT_ON_MISUSE=warn"],
    );
    // What is only a warning is one line each; the file has the rest.
    assert_eq!(warned.lines().count(), 2, "{warned}");
    let output = succeeds(&["explain", "--json", text(&file)]);
    // A container has its own filter: then there is no file, unless TOFT_REPORT=full asks for it.
    let pages: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(pages.len(), 2, "{pages:#?}");
    for page in pages {
        assert_eq!(functions(&page, "called from")[..2], ["inner", "outer"]);
        assert_eq!(page["block"]["size"], 112);
        assert_eq!(page["block"]["state"], "free");
        assert_eq!(page["block"]["inside"], 0);
        assert!(page["message"].as_str().unwrap().starts_with("double free: free(0x"));
    }
}

#[test]
fn without_frame_pointers_the_call_itself_is_right() {
    let directory = directory();
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-builtin", "-fno-optimize-sibling-calls"];
    let report = report_of(TWICE, directory.path(), &flags, &[]);
    let page: Value = serde_json::from_str(&stdout(&explain(&["--json", "-"], &report))).unwrap();
    assert_eq!(
        functions(&page, "called from").first().map(String::as_str),
        Some("inner"),
        "{page:#}"
    );
}

#[test]
fn a_rebuilt_program_is_reported() {
    let directory = directory();
    // A linker may leave build-ids out unless it is asked.
    let report = report_of(TWICE, directory.path(), &["-Wl,--build-id"], &[]);
    compile(directory.path(), "twice", "int main(void) { return 3; }", &["-Wl,--build-id"]);
    let page = stdout(&explain(&["-"], &report));
    assert!(page.contains("twice is not the file that ran: it names no function"), "{page}");
}

#[test]
fn an_interior_pointer_and_a_foreign_one_are_distinguished() {
    let directory = directory();
    for (wrong, words) in [
        ("free((char *)malloc(100) + 16)", "into the middle of a block"),
        ("int local; free(&local)", "does not belong to this allocator"),
    ] {
        let source = format!("#include <stdlib.h>\nint main(void) {{ {wrong}; return 0; }}\n");
        let flags = ["-Wno-free-nonheap-object", "-fno-builtin"];
        let report = report_of(&source, directory.path(), &flags, &[]);
        let page = stdout(&explain(&["-"], &report));
        assert!(page.contains(words), "{page}");
        assert!(page.contains("called from    main at twice.c:2"), "{page}");
    }
}

#[test]
fn one_line_is_explained_too() {
    let directory = directory();
    let report = report_of(TWICE, directory.path(), &[], &["TOFT_REPORT=line"]);
    assert_eq!(report.lines().count(), 1, "{report}");
    let page = stdout(&explain(&["-"], &report));
    assert!(page.contains("The report has no code addresses"), "{page}");
    assert!(page.contains("What it means: the program freed a block"), "{page}");
}

#[test]
fn what_is_no_report_has_its_own_status_and_so_has_what_cannot_be_read() {
    let words = "toft: unknown option TOFT_X\nnothing\n";
    let line = message(&ends_with(1, explain(&["-"], words)));
    assert!(line.starts_with("toft: no report of Toft in standard input: "), "{line}");
    assert!(line.contains("2>&1"), "{line}");
    let folder = directory();
    let log = file(folder.path(), "program.log", words.as_bytes(), 0o644);
    let line = message(&toft_ends_with(1, &["explain", text(&log)]));
    let wanted = format!("toft: no report of Toft in {}: a report begins with ", log.display());
    assert!(line.starts_with(&wanted), "{line}");
    let output = toft_ends_with(125, &["explain", "/no/such/file"]);
    assert!(stderr(&output).contains("cannot read /no/such/file: "), "{}", stderr(&output));
    ends_with(2, explain(&[], ""));
}
