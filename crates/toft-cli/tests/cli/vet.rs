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
    let output = ends_with(125, run(&[], &[program]));
    assert_eq!(
        message(&output),
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
    for program in ["toft-no-such-program", text(&absent)] {
        let output = run(&[], &[program]);
        assert_eq!(output.status.code(), Some(127), "{program}");
        assert_eq!(message(&output), format!("toft: {program}: not found"));
    }
    file(directory.path(), "script.py", b"", 0o644);
    let mut command = toft();
    command.args(["run", "--", "script.py"]).current_dir(directory.path());
    let output = ends_with(127, command.output().unwrap());
    let hint = "toft: script.py: not found on the PATH; the file here is ./script.py";
    assert_eq!(message(&output), hint);
    let output = ends_with(127, run(&[], &[""]));
    assert_eq!(message(&output), "toft: the name of the program is empty");
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
        assert_eq!(message(&output), format!("toft: {}: {why}", program.display()));
    }
    let cut = file(directory.path(), "cut", b"\x7fELF", 0o755);
    for program in [noise, cut] {
        let output = ends_with(126, run(&[], &[text(&program)]));
        let why = "is neither an ELF program nor a script";
        assert_eq!(message(&output), format!("toft: {} {why}", program.display()));
    }
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
    ends_with(126, run(&["--env", &only], &["thing"]));
}

#[test]
fn a_script_is_vetted_by_its_interpreter() {
    let directory = directory();
    let fixed = compile(directory.path(), "fixed", NOTHING, &["-static"]);
    let script =
        file(directory.path(), "script", format!("#!{}\n", text(&fixed)).as_bytes(), 0o755);
    let output = ends_with(125, run(&[], &[text(&script)]));
    assert!(
        message(&output).starts_with(&format!("toft: {} is statically linked", fixed.display()))
    );

    let lost = file(directory.path(), "lost", b"#!/no/such/interpreter -x\n", 0o755);
    let output = ends_with(127, run(&[], &[text(&lost)]));
    assert_contains(&message(&output), &["its interpreter /no/such/interpreter is not there"]);
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
    assert_contains(&message(&output), &["is a shell script: what it starts runs on Toft too"]);

    // As the version managers of Python and Node write theirs; what counts is the program at the
    // end of the chain.
    let shim = format!("#!/usr/bin/env bash\nexec {} \"$@\"\n", text(&script));
    let shim = file(directory.path(), "outer", shim.as_bytes(), 0o755);
    let output = run(&["--stats"], &[text(&shim)]);
    assert!(stdout(&output).contains("libtoft"), "{}", stdout(&output));
    assert!(message(&output).contains("outer is a shell script"), "{}", message(&output));
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
    assert!(message(&output).contains("starts another program"));
}

#[test]
fn a_static_program_is_refused() {
    let source = "#include <unistd.h>\nint main(void) { return write(1, \"ran\", 3) != 3; }";
    let program = compiled("fixed", source, &["-static"]);
    assert_refused(text(&program), "is statically linked: LD_PRELOAD cannot reach it");

    let output = run(&["--force"], &[text(&program)]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "ran"));
    let text = stderr(&output);
    assert!(text.contains("started anyway, as --force asks"), "{text}");
    assert!(text.contains("the library did not load into"), "{text}");
}

/// A header of an ELF file, which begins with these bytes after the magic.
fn header(begin: &[u8], length: usize) -> Vec<u8> {
    let mut header = [b"\x7fELF", begin].concat();
    header.resize(length, 0);
    header
}

#[test]
fn a_program_that_cannot_load_the_library_is_refused() {
    const GO: &str = "__asm__(\".section .go.buildinfo,\\\"a\\\"\\n.quad 0\\n.previous\");\n\
                      int main(void) { return 0; }";
    const THREAD_SANITIZER: &str = "void __tsan_init(void) {}\nint main(void) { return 0; }";
    let directory = directory();
    let place = directory.path();
    let i386 = header(&[1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 1], 52);
    let s390x = header(&[2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 22, 0, 0, 0, 1], 64);
    let musl = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    let no_loader = "-Wl,--dynamic-linker=/no/loader.so";
    for (program, line) in [
        (
            compile(place, "pie", NOTHING, &["-static-pie"]),
            "is statically linked: LD_PRELOAD cannot reach it",
        ),
        (
            compile(place, "go", GO, &["-static"]),
            "is statically linked, a Go program: LD_PRELOAD cannot reach it",
        ),
        (file(place, "i386", &i386, 0o755), "is a 32-bit program: Toft is for 64-bit programs"),
        (
            file(place, "s390x", &s390x, 0o755),
            "is built for another machine (ELF machine 22): this library cannot load into it",
        ),
        (
            compile(place, "musl", NOTHING, &[musl]),
            "is linked against musl (/lib/ld-musl-x86_64.so.1): this library is built for glibc",
        ),
        (
            compile(place, "lost", NOTHING, &[no_loader]),
            "needs the loader /no/loader.so, which is not there: the kernel cannot start it",
        ),
        (
            compile(place, "tsan", THREAD_SANITIZER, &[]),
            "contains a sanitizer (__tsan_init): a sanitizer needs its own malloc",
        ),
    ] {
        assert_refused(text(&program), line);
    }
    let mixed = compile(place, "mixed", GO, &[]);
    let output = ends_with(0, run(&[], &[text(&mixed)]));
    let line = message(&output);
    let go = "is a Go program: only what its C code allocates comes from Toft";
    assert!(line.contains(go), "{line}");
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
    let shared = compiled("shared", NOTHING, &["-fsanitize=address"]);
    let (found, answer) = kinds(text(&shared));
    assert_eq!(found, ["sanitizer"], "{answer}");
    assert!(answer["findings"][0]["text"].as_str().unwrap().contains("libasan.so"), "{answer}");
    ends_with(125, run(&[], &[text(&shared)]));
}

/// A whole allocator, so that the program also runs.
const OWN_MALLOC: &str = include_str!("programs/vet-own-malloc.c");

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
    assert_eq!(message(&output), format!("toft: {} {line}", program.display()));
    // As `libtoft.a` has it.
    let source = format!("int toft_root;\n{OWN_MALLOC}");
    let program = compile(directory.path(), "toft-inside", &source, &[]);
    let line = message(&run(&[], &[text(&program)]));
    assert!(line.contains(" brings its own malloc (Toft): start it without toft run"), "{line}");
}

#[test]
fn linked_and_built_in_allocators_are_reported() {
    let directory = directory();
    let source = format!(
        "void *mi_malloc(unsigned long n) {{ return (void *)n; }}\n\
         void mi_free(void *p) {{ (void)p; }}\n{NOTHING}"
    );
    let (found, answer) = kinds(text(&compile(directory.path(), "inside", &source, &[])));
    assert_eq!(
        (found.as_slice(), &answer["starts"]),
        (&["own-malloc".to_owned()][..], &true.into())
    );
    assert!(answer["findings"][0]["text"].as_str().unwrap().contains("mi_malloc"), "{answer}");
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
    let output = ends_with(0, run(&[], &[text(&linked)]));
    assert_contains(
        &message(&output),
        &["is linked against another malloc (libjemalloc.so.2): Toft replaces its malloc, mallocx"],
    );
}

#[test]
fn a_dry_run_starts_nothing() {
    let output = run(&["--dry-run"], &["echo", "ran"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), ""));
    assert!(message(&output).ends_with("echo would be started on Toft"));
    let output = ends_with(127, run(&["--dry-run", "--json"], &["toft-no-such-program"]));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&answer["starts"], &answer["findings"][0]["kind"]),
        (&false.into(), &"not-found".into())
    );
}
