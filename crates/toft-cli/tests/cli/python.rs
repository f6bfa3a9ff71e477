//! The functions of a Python program in sampled stacks: `toft run --sample`, for each version of
//! CPython that is installed and read.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;
use crate::heap::browse;
use serde_json::Value;

const APP: &str = include_str!("programs/python-app.py");
const FRAMES: &str = include_str!("programs/python-frames.py");
const LATE: &str = include_str!("programs/python-late.c");

const VERSIONS: [&str; 5] = ["3.11", "3.12", "3.13", "3.14", "3.15"];

/// Returns the interpreters of versions that are read, each version once.
fn interpreters() -> Vec<(String, PathBuf)> {
    let names = ["/usr/bin/python3", "python3"].map(String::from);
    builds(names.into_iter().chain(VERSIONS.map(|version| format!("python{version}"))))
}

/// Returns those builds of CPython by these names that run here, each version once. The version of
/// a debug build ends in `d`.
fn builds(names: impl Iterator<Item = String>) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    let ask = "import sys; print('%d.%d' % sys.version_info[:2] + sys.abiflags, sys.executable)";
    for name in names {
        let answer = Command::new(&name).args(["-c", ask]).env_remove("LD_PRELOAD").output();
        let Some(answer) = answer.ok().filter(|answer| answer.status.success()) else {
            eprintln!("skipped: {name} does not run here");
            continue;
        };
        let answer = stdout(&answer);
        let (version, path) = answer.trim().split_once(' ').unwrap();
        if !VERSIONS.contains(&version.trim_end_matches('d')) {
            eprintln!("skipped: {name} is CPython {version}, which is not read");
        } else if found.iter().all(|(known, _)| known != version) {
            found.push((version.to_owned(), path.into()));
        }
    }
    found
}

fn app(directory: &Path) -> PathBuf {
    file(directory, "app.py", APP.as_bytes(), 0o644)
}

/// The Python functions of each live stack, innermost first, and its bytes. A name is that of the
/// function and the line, or also the file if that is not the program's.
fn stacks(profile: &Value) -> Vec<(Vec<String>, u64)> {
    let stacks = profile["sampled"]["stacks"].as_array().unwrap().iter();
    let name = |call: &Value| {
        let frame = &call["frames"][0];
        let file = frame["file"].as_str().filter(|file| file.ends_with(".py"))?;
        let file = file.strip_suffix("/app.py").map_or_else(|| format!("{file}:"), |_| "".into());
        Some(format!("{}:{file}{}", frame["function"].as_str().unwrap(), frame["line"]))
    };
    stacks
        .map(|stack| {
            let calls = stack["calls"].as_array().unwrap();
            (calls.iter().filter_map(name).collect(), stack["bytes"].as_u64().unwrap())
        })
        .collect()
}

/// The bytes of the stacks that these functions are the whole of, or the innermost of.
#[track_caller]
fn bytes_of(stacks: &[(Vec<String>, u64)], wanted: &[&str], whole: bool) -> u64 {
    let is = |names: &[String]| match whole {
        true => names == wanted,
        false => names.len() > wanted.len() && names[..wanted.len()] == *wanted,
    };
    stacks.iter().filter(|(names, _)| is(names)).map(|(_, bytes)| bytes).sum()
}

/// Each block of the program is large enough to be always sampled. So its bytes are exact but for
/// the size classes.
#[track_caller]
fn check(profile: &Value, version: &str) {
    let stacks = stacks(profile);
    let near = |wanted: &[&str], whole, least: u64| {
        let bytes = bytes_of(&stacks, wanted, whole);
        let is_near = (least..least + least / 4).contains(&bytes);
        assert!(is_near, "{version} {wanted:?}: {bytes}, at least {least}\n{stacks:#?}");
    };
    near(&["Store.handle:12", "main:30", "<module>:40"], true, 300_000);
    near(&["words:18", "main:31", "<module>:40"], true, 500_000);
    near(&["in_thread.<locals>.<genexpr>:22", "in_thread:22"], false, 700_000);
    near(&["<module>:/gone/løst.py:3", "main:36", "<module>:40"], true, 90_000);
    // More calls than are kept.
    near(&["deep:26"; 20], false, 9000);
}

/// Starts the program on an interpreter, and saves its profile.
fn saved(directory: &Path, python: &Path) -> PathBuf {
    let mut command = Command::new(python);
    command.arg(app(directory)).env("PYTHONMALLOC", "malloc").env("TOFT_SAMPLE", "64");
    let (target, saved) = (Target::of(&mut command), directory.join("heap.toft"));
    succeeds(&["heap", &target.pid, "-o", text(&saved)]);
    saved
}

#[test]
fn python_functions_are_in_sampled_stacks() {
    for (version, python) in interpreters() {
        eprintln!("CPython {version}: {}", python.display());
        let directory = directory();
        // The saved form keeps names that no file has.
        let saved = saved(directory.path(), &python);
        check(&object(&["report", "--json", text(&saved)]), &version);
    }
}

/// A package as pip installs it, and a program with a file of the same name.
#[test]
fn a_line_of_the_program_comes_before_those_of_packages() {
    let package = "class Shop:\n    def dispatch(self, handler):\n        return handler()\n\n\
        def copy_of(size):\n    return bytearray(size)\n";
    let program = "import time\nimport shop.app\nkept = []\ndef work():\n    for _ in range(50):\n        \
        kept.append(shop.app.copy_of(200_000))\nshop.app.Shop().dispatch(work)\n\
        print('ready', flush=True)\ntime.sleep(600)\n";
    for (version, python) in interpreters() {
        let directory = directory();
        let packages = directory.path().join("site-packages");
        std::fs::create_dir_all(packages.join("shop")).unwrap();
        file(&packages.join("shop"), "app.py", package.as_bytes(), 0o644);
        let app = file(directory.path(), "app.py", program.as_bytes(), 0o644);
        let mut command = Command::new(&python);
        command.arg(app).env("PYTHONPATH", &packages);
        command.env("PYTHONMALLOC", "malloc").env("TOFT_SAMPLE", "64k");
        let target = Target::of(&mut command);
        let table = stdout(&succeeds(&["heap", &target.pid]));
        assert!(table.contains("work at app.py:6"), "{version}: {table}");
        let full = stdout(&succeeds(&["heap", "--full", &target.pid]));
        for named in
            ["copy_of at shop/app.py:6", "Shop.dispatch at shop/app.py:3", "work at app.py:6"]
        {
            assert!(full.contains(named), "{version}: no {named} in {full}");
        }
        for other in ["copy_of at app.py", "Shop.dispatch at app.py", "work at shop/"] {
            assert!(!table.contains(other) && !full.contains(other), "{version}: {other}: {full}");
        }
        // The whole is the program's.
        let folded = stdout(&succeeds(&["heap", "--stacks", "--format", "folded", &target.pid]));
        assert!(
            folded.lines().any(|line| line.contains("work at app.py:6")),
            "{version}: {folded}"
        );
    }
}

/// Compares the stacks that the interpreter knows itself, one a line of `truth`, with those of the
/// profile.
#[track_caller]
fn check_frames(profile: &Value, truth: &str, version: &str) {
    let name = |call: &Value| {
        let frame = &call["frames"][0];
        let file = frame["file"].as_str()?.rsplit('/').next().filter(|f| f.ends_with(".py"))?;
        Some(format!("{} {file}:{}", frame["function"].as_str()?, frame["line"]))
    };
    let stacks = profile["sampled"]["stacks"].as_array().unwrap().iter();
    let known: HashSet<String> = stacks
        .map(|stack| {
            let calls = stack["calls"].as_array().unwrap();
            calls.iter().filter_map(name).collect::<Vec<_>>().join(";")
        })
        .collect();
    assert_eq!(truth.lines().count(), 19, "{version}");
    for stack in truth.lines() {
        assert!(known.contains(stack), "{version}: no {stack} in\n{known:#?}");
    }
}

/// Runs the program that compares, whose name follows the words of `command`.
#[track_caller]
fn names_each_frame(version: &str, command: &mut Command) {
    let directory = directory();
    let app = file(directory.path(), "frames.py", FRAMES.as_bytes(), 0o644);
    let (stacks, saved) = (directory.path().join("stacks"), directory.path().join("heap.toft"));
    // So small that each of the program's blocks is sampled.
    command.arg(app).env("STACKS", &stacks).env("PYTHONMALLOC", "malloc").env("TOFT_SAMPLE", "512");
    let target = Target::of(command);
    succeeds(&["heap", &target.pid, "-o", text(&saved)]);
    let truth = std::fs::read_to_string(stacks).unwrap();
    check_frames(&object(&["report", "--json", text(&saved)]), &truth, version);
}

#[test]
fn each_frame_has_the_name_and_the_line_that_the_interpreter_says() {
    let debug = builds(VERSIONS.iter().map(|version| format!("python{version}d")));
    for (version, python) in interpreters().into_iter().chain(debug) {
        eprintln!("CPython {version}: {}", python.display());
        names_each_frame(&version, &mut Command::new(python));
    }
}

#[test]
fn an_interpreter_that_is_loaded_late_is_found() {
    let program = compiled("late", LATE, &["-ldl"]);
    let ask = "import sys, sysconfig\n\
               print(sys.base_prefix, *sysconfig.get_config_vars('LIBDIR', 'INSTSONAME'))";
    for (version, python) in interpreters() {
        let places = Command::new(&python).args(["-c", ask]).output().unwrap();
        let places = stdout(&places);
        let mut places = places.split_whitespace();
        let home = places.next().unwrap_or_default();
        let library: PathBuf = places.collect();
        if library.extension().is_none_or(|extension| extension == "a") || !library.exists() {
            eprintln!("skipped: CPython {version} has no {}", library.display());
            continue;
        }
        eprintln!("CPython {version}: {}", library.display());
        names_each_frame(&version, Command::new(&program).arg(library).env("PYTHONHOME", home));
    }
}

#[test]
fn what_is_in_pools_is_announced_by_the_profile_of_a_running_program() {
    let Some((_, python)) = interpreters().into_iter().next() else { return };
    let directory = directory();
    let app = app(directory.path());
    let table = |pools: bool| {
        let mut command = Command::new(&python);
        command.arg(&app).env_remove("PYTHONMALLOC");
        if !pools {
            command.env("PYTHONMALLOC", "malloc");
        }
        let target = Target::of(&mut command);
        let output = succeeds(&["heap", &target.pid]);
        stdout(&output) + &stderr(&output)
    };
    let pools =
        "CPython keeps small objects in its own pools, outside this table: toft run --python";
    let table_with_pools = table(true);
    assert_contains(&table_with_pools, &[pools, "PYTHONMALLOC=malloc TOFT_SAMPLE=512k show"]);
    assert!(!table(false).contains("own pools"));
}

/// In a terminal `toft run` prints one line about CPython's pools, and none into a pipe.
#[test]
fn what_is_in_pools_is_announced_in_a_terminal() {
    let Some((_, python)) = interpreters().into_iter().next() else { return };
    let directory = directory();
    let words = |rest: &[&'static str]| [&["run"], rest, &["-c", "print('ran')"]].concat();
    let shown = |rest: &[&str]| in_terminal_with(directory.path(), rest, 200, "");
    let python = &*python.to_str().unwrap().to_owned().leak();
    let line =
        "CPython keeps small objects in its own pools, which Toft does not see: --python shows";
    let plain = words(&["--", python]);
    assert_contains(&shown(&plain), &[line, "ran"]);
    let all = shown(&words(&["--python", "--", python]));
    assert!(all.contains("ran") && !all.contains("pools"), "{all}");
    let output = succeeds(&plain);
    assert_eq!((&*stdout(&output), &*stderr(&output)), ("ran\n", ""));
}

#[test]
fn python_functions_are_in_every_form() {
    let Some((_, python)) = interpreters().into_iter().next() else { return };
    let directory = directory();
    let saved = saved(directory.path(), &python);
    let page = stdout(&succeeds(&["report", "--top", "0", text(&saved)]));
    let handle = "Store.handle at app.py:12";
    assert_contains(&page, &[&format!("% from {handle}"), "< main at app.py:30"]);
    let (_, stacks) = page.split_once("sampled stacks: ").unwrap();
    let line = stacks.lines().find(|line| line.contains(handle)).unwrap();
    assert!(!line.contains('<') && !line.contains('>'), "it names its stack: {line}");

    let form =
        |form: &str| stdout(&succeeds(&["report", "--stacks", "--format", form, text(&saved)]));
    let path = "<module> at app.py:40;main at app.py:30;Store.handle at app.py:12";
    assert_contains(&form("folded"), &[path]);
    let file = directory.path().join("heap.html");
    succeeds(&["report", text(&saved), "-o", text(&file)]);
    let shown = browse(&file, "");
    let (_, rows) = shown.split_once("<tbody>").unwrap();
    assert_contains(rows, &["% from Store.handle at app.py:12</div>"]);
    let by_size = browse(&file, "save({ by: 'size' });");
    let rows = by_size.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0;
    assert!(!rows.contains("% from "), "callers are of whole call sites: {rows}");
    assert_contains(&form("flame"), &["Store.handle at app.py:12"]);
    let proto = directory.path().join("heap.pb.gz");
    succeeds(&["report", text(&saved), "-o", text(&proto)]);
    // And as growth, since a profile that has nothing.
    let nothing = r#"{"toft_profile":1,"toft":"0","source":"exit","time":0,"pid":1,"name":"x","partitions":1,"rows":[],"objects":0,"bytes":0}"#;
    let before = crate::common::file(directory.path(), "before.toft", nothing.as_bytes(), 0o644);
    let words = ["diff", "--top", "0", text(&before), text(&saved)];
    let growth = stdout(&succeeds(&words));
    assert_contains(&growth, &[&format!("% from {handle}"), "< main at app.py:30"]);
    let (_, stacks) = growth.split_once("sampled stacks: ").unwrap();
    let line = stacks.lines().find(|line| line.contains(handle)).unwrap();
    assert!(!line.contains('<') && !line.contains('>'), "it names its stack: {line}");
    let json = object(&["diff", "--json", text(&before), text(&saved)]);
    let stacks = json["sampled_stacks"].as_array().unwrap();
    assert!(stacks.iter().any(|stack| stack["label"] == handle), "{json}");
    let options = ["tool", "pprof", "-traces", "-sample_index=sampled_inuse_space"];
    let traces = tool(Command::new("go").args(options).arg(&proto));
    assert_contains(&traces, &["Store.handle\n", "main\n"]);
}

#[test]
fn a_profile_that_the_library_writes_has_python_functions() {
    let Some((version, python)) = interpreters().into_iter().next() else { return };
    let directory = directory();
    let saved = directory.path().join("heap.toft");
    let code = APP.replace("sys.stdin.readline()", "import os; os.kill(os.getpid(), 12)");
    let app = file(directory.path(), "app.py", code.as_bytes(), 0o644);
    let options = ["run", "--python", "--sample", "64", "--profile", text(&saved)];
    let at = ["--env", "TOFT_PROFILE_AT=signal:12"];
    succeeds(&[&options[..], &at, &["--", text(&python), text(&app)]].concat());
    check(&object(&["report", "--json", &format!("{}.1", text(&saved))]), &version);
}
