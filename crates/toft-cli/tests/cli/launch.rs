//! How `toft run` starts a program, stays out of its way, and proves that the library is there.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Somewhere a library lies that is not Toft's.
fn another_library(directory: &std::path::Path) -> String {
    let library = compile(directory, "other.so", "int other;", &["-shared", "-fPIC"]);
    text(&library).to_owned()
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// The state letter of a process: S, R, T, Z.
fn state(pid: i32) -> char {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('-')
}

#[test]
fn exit_status_and_streams_are_the_programs() {
    let mut child = toft()
        .args(["run", "--", "sh", "-c", "cat; echo to-stderr >&2; exit 37"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through").unwrap();
    let output = ends_with(37, child.wait_with_output().unwrap());
    assert_eq!((stdout(&output), stderr(&output)), ("through".into(), "to-stderr\n".into()));
}

#[test]
fn a_death_by_signal_is_the_same_death() {
    for signal in [libc::SIGTERM, libc::SIGABRT, libc::SIGKILL, libc::SIGSEGV, libc::SIGPIPE] {
        let output = run(&[], &["sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(output.status.signal(), Some(signal));
        assert!(!output.status.core_dumped(), "only the program itself dumps core");
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn signals_are_passed_on() {
    for name in ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH"] {
        let script = format!(
            "trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
        );
        let mut command = toft();
        command.args(["run", "--", "sh", "-c", &script]).stdout(Stdio::piped());
        let signal: Signal = format!("SIG{name}").parse().unwrap();
        // A shell cannot trap what is ignored when it starts, as interrupts are in a background
        // job.
        let mut child = with_signal(&mut command, signal, false).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        send(&child, signal);
        assert_eq!(lines.next().unwrap().unwrap(), format!("got {name}"));
        assert_eq!(child.wait().unwrap().code(), Some(9));
    }
}

/// Starts a command with a signal's default action, or with the signal ignored.
fn with_signal(command: &mut Command, signal: Signal, ignored: bool) -> &mut Command {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: signal is async-signal-safe and installs no handler.
    unsafe {
        command.pre_exec(move || {
            libc::signal(signal as i32, action);
            Ok(())
        })
    }
}

#[test]
fn when_the_program_stops_the_launcher_stops_and_goes_on_with_it() {
    let script = "echo $$; kill -STOP $$; echo on; read line; exit 5";
    let mut child = toft()
        .args(["run", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let program: i32 = lines.next().unwrap().unwrap().parse().unwrap();
    let launcher = child.id().cast_signed();
    until("both stop", || (state(program) == 'T' && state(launcher) == 'T').then_some(()));
    send(&child, Signal::SIGCONT);
    assert_eq!(lines.next().unwrap().unwrap(), "on");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// Ends with the number of interrupts that it got, two seconds after the last.
const COUNTER: &str = include_str!("programs/launch-counter.c");

/// How often Ctrl-C is pressed.
const PRESSED: i32 = 20;

/// Ctrl-C reaches the whole group of the terminal. Were it passed on as well, the program would get
/// it twice.
#[test]
fn interrupts_from_the_terminal_arrive_once() {
    let program = compiled("counter", COUNTER, &[]);
    let line = format!("exec {} run -- {}", env!("CARGO_BIN_EXE_toft"), text(&program));
    // `script` makes a terminal, and ends as the command does.
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut screen = BufReader::new(child.stdout.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("ready") {
        assert!(screen.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    // Twice the same signal at almost the same time may count as one, so a single one would show
    // nothing.
    for _ in 0..PRESSED {
        keys.write_all(b"\x03").unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    let arrived = child.wait().unwrap().code().unwrap();
    assert!((1..=PRESSED).contains(&arrived), "{arrived} of {PRESSED}");
}

#[test]
fn signal_settings_of_the_caller_reach_the_program() {
    for (ignored, expected) in [(false, "0"), (true, "1")] {
        let mut command = toft();
        command.args(["run", "--", "grep", "Sig", "/proc/self/status"]);
        let output = with_signal(&mut command, Signal::SIGPIPE, ignored).output().unwrap();
        let text = stdout(&output);
        let mask = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
        };
        assert_eq!((mask("SigIgn:") >> (libc::SIGPIPE - 1) & 1).to_string(), expected);
        assert_eq!(mask("SigBlk:"), 0, "the launcher's own blocked signals leaked");
    }
}

#[test]
fn a_caller_that_ignores_its_children_still_gets_the_status() {
    let mut command = toft();
    command.args(["run", "--", "sh", "-c", "exit 6"]);
    let status = with_signal(&mut command, Signal::SIGCHLD, true).status().unwrap();
    assert_eq!(status.code(), Some(6));
}

#[test]
fn the_library_is_there() {
    let output = run(&["--strict"], &["cat", "/proc/self/maps"]);
    assert_clean(&output);
    assert!(stdout(&output).contains("libtoft-"), "{}", stdout(&output));
}

#[test]
fn another_library_is_not_taken_for_ours() {
    let directory = directory();
    let library = another_library(directory.path());
    let output = run(&["--library", &library], &["sh", "-c", "exit 4"]);
    assert_eq!(output.status.code(), Some(4), "without --strict the status is the program's");
    let line = message(&output);
    assert!(line.starts_with("toft: the library did not load into "), "{line}");
    assert!(line.ends_with(&format!("({library} is not Toft's library)")), "{line}");
    ends_with(124, run(&["--library", &library, "--strict"], &["true"]));
    ends_with(125, run(&["--library", "/no/such/library.so"], &["true"]));
}

/// Writes one byte behind its block, or none, and frees it.
const WRITES_BEHIND: &str = "#include <stdlib.h>\n\
    int main(int count, char **words) { char *volatile p = malloc(100); p[99 + (count > 1)] = 7; free(p); return 3; }";

#[test]
fn the_secure_builds_are_carried_too() {
    let program = compiled("behind", WRITES_BEHIND, &["-fno-builtin"]);
    let program = text(&program);
    for (option, light) in [("--secure", false), ("--secure=full", false), ("--secure=light", true)]
    {
        let caught = run(&[option], &[program, "one"]);
        assert_eq!(caught.status.signal(), Some(libc::SIGABRT));
        let line = stderr(&caught);
        assert!(
            line.starts_with("toft: heap overflow: free(")
                && line.contains("byte 0 behind this 100-byte block was overwritten"),
            "{line}"
        );
        let correct = run(&[option, "--strict"], &[program]);
        assert_eq!((correct.status.code(), stderr(&correct)), (Some(3), String::new()));
        let mapped = run(&[option, "--strict"], &["cat", "/proc/self/maps"]);
        assert_clean(&mapped);
        let maps = stdout(&mapped);
        assert!(maps.contains("libtoft-secure-"), "{maps}");
        assert_eq!(maps.contains("libtoft-secure-light-"), light, "{maps}");
    }
    // The default build says nothing.
    let output = run(&[], &[program, "one"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(3), String::new()));
    let unknown = ends_with(125, run(&["--secure=much"], &["true"]));
    assert!(stderr(&unknown).contains("[possible values: full, light]"), "{}", stderr(&unknown));
    for other in ["--library=/lib.so", "--sample=512k", "--hints=/hints"] {
        let output = run(&["--secure", other], &["true"]);
        assert_eq!(output.status.code(), Some(125), "{other}");
        assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    }
}

#[test]
fn the_secure_build_verifies_at_exit_by_default() {
    const WRITES_AFTER: &str = "#include <stdlib.h>\n\
        int main(void) { char *volatile p = malloc(100); free(p); p[3] = 7; return 3; }";
    let program = compiled("after", WRITES_AFTER, &["-fno-builtin"]);
    let program = text(&program);
    let caught = run(&["--secure"], &[program]);
    assert_eq!(caught.status.signal(), Some(libc::SIGABRT));
    assert!(stderr(&caught).starts_with("toft: write after free: verify("), "{}", stderr(&caught));
    // The light build does not look for writes after free.
    for options in [&["--secure", "--env", "TOFT_VERIFY=0"][..], &["--secure=light"], &[]] {
        let output = run(options, &[program]);
        assert_eq!((output.status.code(), stderr(&output)), (Some(3), String::new()));
    }
}

#[test]
fn a_program_that_runs_on_without_the_library_is_named_in_time() {
    let directory = directory();
    let library = another_library(directory.path());
    let started = Instant::now();
    let mut child = toft()
        .args(["run", "--library", &library, "--", "sleep", "600"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("toft: the library did not load into"), "{line}");
    // Not earlier, because the library may still load; and not only when the program has ended.
    assert!(started.elapsed() >= Duration::from_millis(1900));
    assert!(child.try_wait().unwrap().is_none());
    send(&child, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn children_do_not_inherit_the_library_unless_asked() {
    let words = [
        "sh",
        "-c",
        "grep -c libtoft /proc/$$/maps; cat /proc/self/maps | grep -c libtoft; env | grep -c -e ^TOFT -e ^LD_PRELOAD=.*libtoft; :",
    ];
    let counts = |output: &std::process::Output| -> Vec<bool> {
        stdout(output).lines().map(|line| line != "0").collect()
    };
    let alone = run(&[], &words);
    assert_eq!(
        counts(&alone),
        [true, false, false],
        "the shell itself, its child, the environment"
    );
    let all = run(&["--children"], &words);
    assert_eq!(counts(&all), [true, true, true]);
    let stated = run(&["--env", "TOFT_SCOPE=children"], &words);
    assert_eq!(counts(&stated), [true, true, true]);
}

#[test]
fn the_environment_is_as_asked() {
    let output = run(
        &["--env", "A=b=c", "--env", "EMPTY="],
        &["sh", "-c", "echo \"$A|$EMPTY|${EMPTY-unset}\""],
    );
    assert_eq!(stdout(&output), "b=c||\n");
    ends_with(125, run(&["--env", "novalue"], &["true"]));
    ends_with(125, run(&["--no-such-option"], &["true"]));
}

#[test]
fn an_existing_preload_stays_behind_ours() {
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void here(void) { write(2, \"here\\n\", 5); }";
    let library = compiled("mine.so", source, &["-shared", "-fPIC", "-Wno-unused-result"]);
    let output = toft()
        .env("LD_PRELOAD", &library)
        .args(["run", "--children", "--", "sh", "-c", "echo $LD_PRELOAD"])
        .output()
        .unwrap();
    let value = stdout(&output);
    let (first, second) = value.trim().split_once(':').unwrap();
    assert!(first.contains("libtoft-") && second == text(&library), "{value}");
    assert!(stderr(&output).contains("here"));
    // In the program alone, the other one is all that is left, for it and for its children.
    let alone = toft()
        .env("LD_PRELOAD", &library)
        .args(["run", "--env=TOFT_SCOPE=program", "--", "sh", "-c", "echo $LD_PRELOAD; env"])
        .output()
        .unwrap();
    let (value, children) = (stdout(&alone), format!("LD_PRELOAD={}", text(&library)));
    assert_eq!(value.lines().next(), Some(text(&library)));
    assert!(value.lines().any(|line| line == children), "{value}");
    let loaded = stderr(&alone).matches("here").count();
    assert_eq!(loaded, 3, "the command, the shell and env: {}", stderr(&alone));
}

/// A Go program that calls C, as small as can be.
const CGO: &str = "package main\n\n// #include <stdlib.h>\nimport \"C\"\nimport (\"fmt\"; \"os\")\n\n\
    func main() {\n\tp := C.malloc(100)\n\tC.free(p)\n\tfmt.Println(p != nil, os.Getpagesize(), os.Getenv(\"OTHER\"))\n}\n";

/// Go's runtime looks for the auxiliary vector after the environment that the kernel made.
#[test]
fn go_programs_that_call_c_run_in_every_scope() {
    if Command::new("go").arg("version").output().is_err() {
        let required = std::env::var_os("TOFT_TEST_REQUIRE").is_some_and(|value| value == "1");
        assert!(!required, "not installed: Debian package golang-go");
        return;
    }
    let directory = directory();
    let program = directory.path().join("m");
    fs::write(directory.path().join("m.go"), CGO).unwrap();
    let built = Command::new("go")
        .args(["build", "-o", "m", "m.go"])
        .current_dir(directory.path())
        .envs([("CGO_ENABLED", "1"), ("GOTOOLCHAIN", "local"), ("GO111MODULE", "off")])
        .env("GOCACHE", directory.path().join("cache"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    // SAFETY: no argument but a number.
    let expected = format!("true {} kept\n", unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
    for options in [&["--env=OTHER=kept"][..], &["--env=OTHER=kept", "--children"]] {
        let output = run(options, &[text(&program)]);
        assert_eq!(stdout(&output), expected, "{}", stderr(&output));
        assert!(message(&output).contains("is a Go program"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn the_name_the_program_sees_is_the_one_typed() {
    let directory = directory();
    let program = compile(
        directory.path(),
        "name",
        "#include <stdio.h>\nint main(int n, char **v) { return puts(v[0]) < 0; }",
        &[],
    );
    let path = format!("PATH={}", text(directory.path()));
    assert_eq!(stdout(&run(&["--env", &path], &["name"])), "name\n");
    assert_eq!(stdout(&run(&[], &[text(&program)])), format!("{}\n", program.display()));
}

#[test]
fn the_report_descriptor_is_out_of_the_way() {
    let words = ["sh", "-c", "for fd in /proc/$$/fd/*; do echo ${fd##*/}; done"];
    let listed = |output: &std::process::Output| -> BTreeSet<i32> {
        stdout(output).lines().filter_map(|fd| fd.parse().ok()).collect()
    };
    let without = listed(&Command::new(words[0]).args(&words[1..]).output().unwrap());
    let with = listed(&run(&[], &words));
    let new: Vec<&i32> = with.difference(&without).collect();
    assert!(new.len() <= 1 && new.iter().all(|fd| **fd >= 198), "{new:?}");
    // With few descriptors allowed, it is lower and works all the same.
    let script = format!("ulimit -n 32; exec {} run --strict true", env!("CARGO_BIN_EXE_toft"));
    tool(Command::new("sh").args(["-c", &script]));
}

#[test]
fn a_process_left_behind_does_not_keep_the_launcher() {
    let output = toft()
        .args(["run", "--children", "--", "sh", "-c", "sleep 600 & echo $!"])
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = output;
    assert!(child.wait().unwrap().success());
    let mut pid = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    // On a busy machine it may still be loading its program: D.
    let state = state(pid.trim().parse().unwrap());
    assert!(matches!(state, 'R' | 'S' | 'D'), "the launcher has waited for it: {state}");
    kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
}

/// With `--children`, programs go on being started with the library after the launcher has ended.
#[test]
fn a_program_started_after_the_end_is_not_harmed() {
    let directory = directory();
    let status = directory.path().join("status");
    let script = format!("(sleep 5; /bin/true; echo $? >{}) >/dev/null 2>&1 & :", status.display());
    succeeds(&["run", "--children", "--", "sh", "-c", &script]);
    assert!(!status.exists());
    let written = || fs::read_to_string(&status).ok().filter(|text| text.ends_with('\n'));
    assert_eq!(until("the late program", written), "0\n");
}

#[test]
fn objects_of_cpython_are_blocks_where_that_is_asked_for() {
    let place = directory();
    let blocks = |options: &[&str]| {
        let file = place.path().join("stats.json");
        let code = "print(len([str(i) for i in range(100_000)]))";
        let all = [&["--stats", "--json", "--output", text(&file)][..], options].concat();
        let output = run(&all, &["/usr/bin/python3", "-c", code]);
        assert_eq!(stdout(&output), "100000\n", "{}", stderr(&output));
        let stats: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let advised = stderr(&output).contains("--python shows each object");
        (stats["heap"]["allocations"].as_u64().unwrap_or_else(|| panic!("{stats}")), advised)
    };
    let (pooled, advised) = blocks(&[]);
    assert!(pooled < 50_000 && advised, "{pooled}");
    let (each, advised) = blocks(&["--python"]);
    assert!(each > 100_000 && !advised, "{each}");
    let (each, advised) = blocks(&["--env", "PYTHONMALLOC=malloc"]);
    assert!(each > 100_000 && !advised, "{each}");
}

/// A version manager of Python has scripts for programs.
#[test]
fn a_script_with_the_name_of_python_is_advised_as_python() {
    let place = directory();
    for (name, advised) in [("python3.11", true), ("serve", false)] {
        let script = b"#!/usr/bin/env bash\nexec /usr/bin/python3 \"$@\"\n";
        let script = file(place.path(), name, script, 0o755);
        let output = run(&["--stats"], &[text(&script), "-c", "print(1)"]);
        let said = stderr(&output).contains("own pools, which Toft does not see: --python shows");
        assert_eq!((stdout(&output).as_str(), said), ("1\n", advised), "{}", stderr(&output));
    }
}

#[test]
fn node_is_told_of_functions_that_it_has_not_compiled_if_stacks_are_sampled() {
    let program = compiled("node", "int main(void) { return 0; }", &[]);
    let more = "--interpreted-frames-native-stack";
    for (options, words, advised) in [
        (&["--sample", "4k"][..], &["--perf-basic-prof"][..], true),
        (&["--sample", "4k"], &["--perf-basic-prof", more], false),
        (&["--stats"], &["--perf-basic-prof"], false),
    ] {
        let page = stderr(&run(options, &[&[text(&program)], words].concat()));
        let advice = format!(
            "toft: stacks lack the JavaScript functions that V8 has not compiled: node {more}"
        );
        assert_eq!(page.contains(&advice), advised, "{page}");
    }
}

/// A program is known by its name, and here it is only that.
#[test]
fn functions_of_generated_code_are_advised_for_their_runtimes() {
    let node = (
        "V8 keeps JavaScript objects in its own heap",
        "node --perf-basic-prof --interpreted-frames-native-stack",
    );
    is_advised("node", node, "the JavaScript functions");
    let java = ("the JVM keeps Java objects in its own heap", "java -XX:+PreserveFramePointer");
    is_advised("java", java, "the Java methods");
}

#[track_caller]
fn is_advised(name: &str, (keeps, remedy): (&str, &str), shown: &str) {
    let source = "#include <stdio.h>\n#include <stdlib.h>\n\
        int main(void) { free(malloc(100)); puts(\"ready\"); fflush(stdout); getchar(); return 0; }";
    let program = compiled(name, source, &[]);
    let advice = format!("toft run --sample 512k -- {remedy}");
    let option = remedy.split_once(' ').unwrap().1;
    for (arguments, advised) in [(&[][..], true), (&[option], false)] {
        let target = Target::of(Command::new(&program).args(arguments));
        let page = stdout(&succeeds(&["heap", &target.pid]));
        assert_eq!(page.contains(&advice) && page.contains(shown), advised, "{page}");
        let words = [&[text(&program)], arguments].concat();
        let page = stderr(&run(&["--stats"], &words));
        let line = format!("toft: {keeps}, which Toft does not see: --sample");
        assert_eq!(page.contains(&line), advised, "{page}");
    }
}
