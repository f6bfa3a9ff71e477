//! What `toft run` finds out about its target before it starts it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;

use crate::common::*;
use serde_json::Value;

const NOTHING: &str = "int main(void) { return 0; }";

/// The kinds of what a dry run finds.
fn kinds(program: &str) -> (Vec<String>, Value) {
    let output = run(&["--dry-run", "--json"], &[program]);
    let answer: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
    let kinds = answer["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["kind"].as_str().unwrap().to_owned())
        .collect();
    (kinds, answer)
}

/// Asserts that the target is refused with exactly this line, and that it did not run.
#[track_caller]
fn assert_refused(program: &str, line: &str) {
    let output = run(&[], &[program]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(
        said(&output),
        format!("toft: {program} {line}; not started (--force starts it anyway)")
    );
    assert_eq!(stdout(&output), "", "it ran");
}

#[test]
fn an_ordinary_program_is_started_without_a_word() {
    let (found, answer) = kinds("true");
    assert!(
        found.is_empty() && answer["starts"] == true && answer["scope"] == "program",
        "{answer}"
    );
    assert_clean(&run(&[], &["true"]));
}

#[test]
fn what_is_not_there_is_127() {
    let directory = directory();
    let absent = directory.path().join("absent");
    for program in ["toft-no-such-program", text(&absent), ""] {
        let output = run(&[], &[program]);
        assert_eq!(output.status.code(), Some(127), "{program}");
        assert_eq!(said(&output), format!("toft: {program}: not found"));
    }
}

#[test]
fn what_cannot_be_executed_is_126() {
    let directory = directory();
    let plain = file(directory.path(), "plain", b"#!/bin/sh\necho ran\n", 0o644);
    let noise = file(directory.path(), "noise", b"\x01\x02\x00\x03", 0o755);
    for (program, why) in
        [(plain.as_path(), "not executable"), (directory.path(), "is a directory")]
    {
        let output = run(&[], &[text(program)]);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(126), ""));
        assert_eq!(said(&output), format!("toft: {}: {why}", program.display()));
    }
    let output = run(&[], &[text(&noise)]);
    assert_eq!(output.status.code(), Some(126));
    assert_eq!(
        said(&output),
        format!("toft: {} is neither an ELF program nor a script", noise.display())
    );
}

#[test]
fn the_search_passes_over_what_cannot_be_executed() {
    let (first, second) = (directory(), directory());
    file(first.path(), "thing", b"#!/bin/sh\necho first\n", 0o644);
    file(second.path(), "thing", b"#!/bin/sh\necho second\n", 0o755);
    let path = format!("PATH={}:{}:/usr/bin:/bin", text(first.path()), text(second.path()));
    let output = run(&["--env", &path], &["thing"]);
    assert_eq!(stdout(&output), "second\n", "{}", stderr(&output));
    let only = format!("PATH={}", text(first.path()));
    assert_eq!(run(&["--env", &only], &["thing"]).status.code(), Some(126));
}

#[test]
fn a_script_is_vetted_by_its_interpreter() {
    let directory = directory();
    let fixed = compile(directory.path(), "fixed", NOTHING, &["-static"]);
    let script =
        file(directory.path(), "script", format!("#!{}\n", text(&fixed)).as_bytes(), 0o755);
    let output = run(&[], &[text(&script)]);
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).starts_with(&format!("toft: {} is statically linked", fixed.display())));

    let lost = file(directory.path(), "lost", b"#!/no/such/interpreter -x\n", 0o755);
    let output = run(&[], &[text(&lost)]);
    assert_eq!(output.status.code(), Some(127));
    assert!(
        said(&output).contains("its interpreter /no/such/interpreter is not there"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_script_runs_with_its_arguments_under_the_interpreter_that_env_names() {
    let directory = directory();
    let script = file(
        directory.path(),
        "script",
        b"#!/usr/bin/env perl\nprint \"$0 @ARGV\\n\";\n\
        open(M, '<', '/proc/self/maps'); print 'on toft', \"\\n\" if grep(/libtoft/, <M>);\n",
        0o755,
    );
    let output = run(&[], &[text(&script), "a b", "c"]);
    assert_clean(&output);
    assert_eq!(stdout(&output), format!("{} a b c\non toft\n", script.display()));
}

#[test]
fn a_shell_script_passes_the_library_on_and_says_so() {
    let directory = directory();
    let script = file(directory.path(), "shim", b"#!/bin/sh\nexec cat /proc/self/maps\n", 0o755);
    let output = run(&[], &[text(&script)]);
    assert!(stdout(&output).contains("libtoft"), "{}", stdout(&output));
    assert!(
        said(&output).contains("is a shell script: what it starts runs on Toft too"),
        "{}",
        said(&output)
    );

    // As the version managers of Python and Node write theirs; what counts is the program at the
    // end of the chain.
    let shim = format!("#!/usr/bin/env bash\nexec {} \"$@\"\n", text(&script));
    let shim = file(directory.path(), "outer", shim.as_bytes(), 0o755);
    let output = run(&["--stats"], &[text(&shim)]);
    assert!(stdout(&output).contains("libtoft"), "{}", stdout(&output));
    assert!(said(&output).contains("outer is a shell script"), "{}", said(&output));
    assert!(
        stderr(&output).contains("call site"),
        "no statistics of the last program: {}",
        stderr(&output)
    );

    let output = run(&["--env", "TOFT_SCOPE=program"], &[text(&script)]);
    assert!(!stdout(&output).contains("libtoft"));
    assert_clean(&output);
    let output = run(&[], &["env", "cat", "/proc/self/maps"]);
    assert!(stdout(&output).contains("libtoft"));
    assert!(said(&output).contains("starts another program"));
}

#[test]
fn a_static_program_is_refused() {
    let directory = directory();
    let source = "#include <unistd.h>\nint main(void) { return write(1, \"ran\", 3) != 3; }";
    let program = compile(directory.path(), "fixed", source, &["-static"]);
    assert_refused(text(&program), "is statically linked: LD_PRELOAD cannot reach it");

    let output = run(&["--force"], &[text(&program)]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "ran"));
    let text = stderr(&output);
    assert!(text.contains("started anyway, as --force asks"), "{text}");
    assert!(text.contains("the library did not load into"), "{text}");
}

#[test]
fn a_static_pie_is_refused_too() {
    let directory = directory();
    let program = compile(directory.path(), "fixed", NOTHING, &["-static-pie"]);
    assert_refused(text(&program), "is statically linked: LD_PRELOAD cannot reach it");
}

#[test]
fn a_go_program_is_told_as_one() {
    let directory = directory();
    let source = "__asm__(\".section .go.buildinfo,\\\"a\\\"\\n.quad 0\\n.previous\");\nint main(void) { return 0; }";
    let fixed = compile(directory.path(), "fixed", source, &["-static"]);
    assert_refused(text(&fixed), "is statically linked, a Go program: LD_PRELOAD cannot reach it");
    let mixed = compile(directory.path(), "mixed", source, &[]);
    let output = run(&[], &[text(&mixed)]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        said(&output).contains("is a Go program: only what its C code allocates comes from Toft")
    );
}

#[test]
fn a_32_bit_program_is_refused() {
    let directory = directory();
    // The header of an i386 program, and no more of it.
    let mut header =
        vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 1, 0, 0, 0];
    header.resize(52, 0);
    let program = file(directory.path(), "old", &header, 0o755);
    assert_refused(text(&program), "is a 32-bit program: Toft is for 64-bit programs");
}

#[test]
fn a_program_for_another_machine_is_refused() {
    let directory = directory();
    let mut header =
        vec![0x7f, b'E', b'L', b'F', 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 22, 0, 0, 0, 1];
    header.resize(64, 0);
    let program = file(directory.path(), "s390x", &header, 0o755);
    let line = "is built for another machine (ELF machine 22): this library cannot load into it";
    assert_refused(text(&program), line);
}

#[test]
fn a_musl_program_and_one_without_loader_are_refused() {
    let directory = directory();
    let musl = compile(
        directory.path(),
        "musl",
        NOTHING,
        &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"],
    );
    let line = "is linked against musl (/lib/ld-musl-x86_64.so.1): this library is built for glibc";
    assert_refused(text(&musl), line);
    let lost = compile(directory.path(), "lost", NOTHING, &["-Wl,--dynamic-linker=/no/loader.so"]);
    assert_refused(
        text(&lost),
        "needs the loader /no/loader.so, which is not there: the kernel cannot start it",
    );
}

/// Another user's setuid program: made, if the tests run as root, or one that every system has.
fn setuid_program(directory: &std::path::Path) -> PathBuf {
    let myself = fs::metadata("/proc/self").unwrap().uid();
    if myself != 0 {
        return ["/usr/bin/su", "/bin/su", "/usr/bin/passwd"]
            .iter()
            .map(PathBuf::from)
            .find(|p| p.exists())
            .unwrap();
    }
    let program = directory.join("other");
    copy("/bin/true", &program);
    chown(&program, Some(65534), None).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    program
}

#[test]
fn a_setuid_program_is_refused_and_ones_own_is_not() {
    let directory = directory();
    let program = setuid_program(directory.path());
    let line = "runs with more rights than its caller (setuid): the loader then ignores LD_PRELOAD";
    assert_refused(text(&program), line);

    let own = directory.path().join("own");
    copy("/bin/true", &own);
    fs::set_permissions(&own, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_clean(&run(&[], &[text(&own)]));
}

#[test]
fn a_sanitizer_is_found_and_refused() {
    let directory = directory();
    let shared = compile(directory.path(), "shared", NOTHING, &["-fsanitize=address"]);
    let (found, answer) = kinds(text(&shared));
    assert_eq!(found, ["sanitizer"], "{answer}");
    assert!(answer["findings"][0]["text"].as_str().unwrap().contains("libasan.so"), "{answer}");
    assert_eq!(run(&[], &[text(&shared)]).status.code(), Some(125));
    let inside = compile(
        directory.path(),
        "inside",
        "void __tsan_init(void) {}\nint main(void) { return 0; }",
        &[],
    );
    assert_refused(
        text(&inside),
        "contains a sanitizer (__tsan_init): a sanitizer needs its own malloc",
    );
}

/// A whole allocator, so that the program also runs.
const OWN_MALLOC: &str = r#"
#include <stddef.h>
#include <string.h>
#include <stdio.h>
static char heap[1 << 22] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t n) { void *p = heap + used + 16; *(size_t *)(heap + used) = n; used += 16 + (n + 15) / 16 * 16; return p; }
void free(void *p) { (void)p; }
void *calloc(size_t a, size_t b) { return memset(malloc(a * b), 0, a * b); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) { size_t o = ((size_t *)p)[-2]; memcpy(q, p, o < n ? o : n); } return q; }
int main(void) { char *p = malloc(10); puts(p >= heap && p < heap + sizeof heap ? "own" : "other"); free(p); return 0; }
"#;

#[test]
fn a_program_that_exports_its_own_malloc_is_warned_about_and_runs() {
    let directory = directory();
    let program = compile(directory.path(), "own", OWN_MALLOC, &[]);
    let output = run(&[], &[text(&program)]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), "own\n"),
        "{}",
        stderr(&output)
    );
    let line = "brings its own malloc and exports it: its own takes precedence over a preloaded one; going on";
    assert_eq!(said(&output), format!("toft: {} {line}", program.display()));
}

#[test]
fn allocators_inside_and_beside_are_told() {
    let directory = directory();
    for (symbol, free) in [
        ("je_malloc", "je_free"),
        ("mi_malloc", "mi_free"),
        ("tc_malloc", "tc_free"),
        ("_rjem_mallocx", "_rjem_sdallocx"),
    ] {
        let source = format!(
            "void *{symbol}(unsigned long n) {{ return (void *)n; }}\n\
             void {free}(void *p) {{ (void)p; }}\n{NOTHING}"
        );
        let program = compile(directory.path(), symbol, &source, &[]);
        let (found, answer) = kinds(text(&program));
        assert_eq!(found, ["own-malloc"]);
        assert!(answer["findings"][0]["text"].as_str().unwrap().contains(symbol), "{answer}");
        assert_eq!(answer["starts"], true);
    }
    let source = format!(
        "void _ZN15partition_alloc13PartitionRoot4FreeEPv(void *p) {{ (void)p; }}\n{NOTHING}"
    );
    let program = compile(directory.path(), "browser", &source, &[]);
    assert!(
        kinds(text(&program)).1["findings"][0]["text"].as_str().unwrap().contains("PartitionAlloc")
    );

    compile(
        directory.path(),
        "libjemalloc.so.2",
        "int je;",
        &["-shared", "-fPIC", "-Wl,-soname,libjemalloc.so.2"],
    );
    let library = directory.path().join("libjemalloc.so.2");
    let linked = compile(
        directory.path(),
        "linked",
        "extern int je; int main(void) { return je; }",
        &[text(&library), "-Wl,-rpath,$ORIGIN"],
    );
    assert_eq!(kinds(text(&linked)).0, ["linked-malloc"]);
    let output = run(&[], &[text(&linked)]);
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).contains(
        "is linked against another malloc (libjemalloc.so.2): Toft's malloc comes first"
    ));
}

#[test]
fn a_dry_run_starts_nothing() {
    let output = run(&["--dry-run"], &["echo", "ran"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), ""));
    assert!(said(&output).ends_with("echo would be started on Toft"));
    let output = run(&["--report-only", "--json"], &["toft-no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&answer["starts"], &answer["findings"][0]["kind"]),
        (&false.into(), &"not-found".into())
    );
}
