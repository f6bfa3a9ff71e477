//! Profiles that the library writes itself: `toft run --profile`, TOFT_PROFILE with its signal and
//! its growth, and the proof that a profile has every byte: five real programs, counted by a
//! library between them and Toft.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::*;
use serde_json::Value;

/// Keeps 1000 blocks, raises a signal, gives half of them back, and ends with status 7.
const HOLDER: &str = include_str!("programs/profile-holder.c");

fn holder(directory: &Path) -> PathBuf {
    compile(directory, "holder", HOLDER, &["-fno-builtin"])
}

fn profile(path: &Path) -> Value {
    object(&["report", "--json", text(path)])
}

/// Objects of a function's rows.
fn objects_of(profile: &Value, function: &str) -> u64 {
    let rows = profile["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["frames"][0]["function"] == function);
    rows.map(|row| row["objects"].as_u64().unwrap()).sum()
}

fn profiled(options: &[&str], file: &Path, words: &[&str]) -> Output {
    let mut toft = toft();
    toft.args(["run", "--profile"]).arg(file).args(options).arg("--").args(words);
    toft.output().unwrap()
}

#[test]
fn at_exit_the_profile_is_written_in_the_form_of_its_name() {
    let directory = directory();
    let program = holder(directory.path());
    let file = directory.path().join("heap.toft");
    fs::write(&file, "an old one").unwrap();
    let output = profiled(&[], &file, &[text(&program)]);
    assert_eq!(output.status.code(), Some(7), "the program's own status");
    assert!(message(&output).contains("next: toft report"), "{}", stderr(&output));
    let at_exit = profile(&file);
    assert_eq!((objects_of(&at_exit, "fill"), at_exit["source"].as_str()), (500, Some("exit")));
    assert_eq!(
        (at_exit["name"].as_str(), at_exit["partitions"].as_u64()),
        (Some("holder"), Some(2048))
    );

    let page = directory.path().join("heap.html");
    profiled(&[], &page, &[text(&program)]);
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE html>"));
    let folded = directory.path().join("heap.folded");
    profiled(&[], &folded, &[text(&program)]);
    assert!(fs::read_to_string(&folded).unwrap().contains("holder;fill at holder.c:"));
}

#[test]
fn a_profile_that_cannot_be_written_is_reported_before_or_after() {
    let directory = directory();
    let program = holder(directory.path());
    for (name, why) in [
        ("heap.xyz", "its extension is not one of .toft"),
        ("no/folder/heap.toft", "no such folder"),
    ] {
        let output = profiled(&[], &directory.path().join(name), &[text(&program)]);
        assert_eq!(output.status.code(), Some(125), "{name}");
        assert!(message(&output).contains(why), "{}", stderr(&output));
    }
    let file = directory.path().join("heap.toft");
    let output = ends_with(124, profiled(&[], &file, &[text(&program), "leave"]));
    assert!(message(&output).contains("no profile: the program was killed, or called _exit"));
    // Without the option nothing is written, and nothing is printed.
    assert_clean(&run(&[], &[text(&program), "well"]));
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_signal_and_growth_write_numbered_ones() {
    let directory = directory();
    let program = holder(directory.path());
    let file = directory.path().join("heap.toft");
    let output =
        profiled(&["--env", "TOFT_PROFILE_AT=signal:12"], &file, &[text(&program), "signal"]);
    assert_eq!(output.status.code(), Some(7), "the handler goes on: {}", stderr(&output));
    let at_signal = profile(&directory.path().join("heap.toft.1"));
    assert_eq!(
        (objects_of(&at_signal, "fill"), at_signal["source"].as_str()),
        (1000, Some("signal"))
    );
    assert_eq!(objects_of(&profile(&file), "fill"), 500);
    assert!(!directory.path().join("heap.toft.2").exists());

    // 100 MB are five times 20 MiB, less what fits in no more.
    let grown = directory.path().join("grown.toft");
    ends_with(7, profiled(&["--env", "TOFT_PROFILE_AT=growth:20m"], &grown, &[text(&program)]));
    let count = |number| {
        let path = directory.path().join(format!("grown.toft.{number}"));
        path.exists()
            .then(|| (objects_of(&profile(&path), "fill"), profile(&path)["source"].clone()))
    };
    let counts: Vec<(u64, Value)> = (1..20).map_while(count).collect();
    assert!((3..=6).contains(&counts.len()), "{counts:?}");
    assert!(counts.is_sorted_by_key(|(objects, _)| *objects), "{counts:?}");
    assert!(counts.iter().all(|(_, source)| source == "growth") && counts[0].0 < 250, "{counts:?}");
    // Large blocks are growth, too, though no slab is.
    let large = directory.path().join("large.toft");
    let words = ["--env", "TOFT_PROFILE_AT=growth:20m"];
    ends_with(7, profiled(&words, &large, &[text(&program), "large"]));
    let there = |number: &u32| directory.path().join(format!("large.toft.{number}")).exists();
    let files = (1..20).take_while(there).count();
    assert!((3..=5).contains(&files), "{files}");
    // And a signal for which no profile is requested does what it always does.
    let killed = profiled(&[], &file, &[text(&program), "signal"]);
    assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
    // A signal that no process can handle is reported.
    let refused_signal = profiled(&["--env", "TOFT_PROFILE_AT=signal:9"], &file, &[text(&program)]);
    assert_contains(&stderr(&refused_signal), &["TOFT_PROFILE_AT: the kernel does not allow"]);

    for moments in ["signal:12", "growth:1m"] {
        let alone = run(&["--env", &format!("TOFT_PROFILE_AT={moments}")], &["true"]);
        let line = "toft: TOFT_PROFILE_AT changes nothing without TOFT_PROFILE";
        assert_eq!(message(&alone), line);
    }
}

#[test]
fn children_write_files_of_their_own() {
    let directory = directory();
    let program = holder(directory.path());
    let file = directory.path().join("heap.toft");
    profiled(&[], &file, &[text(&program), "fork"]);
    assert_eq!(objects_of(&profile(&file), "childs"), 0);
    let others = |from: &str| -> Vec<PathBuf> {
        let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| text(path).contains(&format!("{from}."))).collect()
    };
    let child = others("heap.toft");
    assert_eq!(child.len(), 1, "{child:?}");
    assert_eq!(objects_of(&profile(&child[0]), "childs"), 1);

    // A starter that is replaced by the program, and programs that another starts.
    let exec = directory.path().join("exec.toft");
    profiled(&["--children"], &exec, &["env", text(&program)]);
    assert_eq!(objects_of(&profile(&exec), "fill"), 500);
    let many = directory.path().join("many.toft");
    let words = format!("{0}; {0}; true", text(&program));
    profiled(&["--children"], &many, &["sh", "-c", &words]);
    assert_eq!(others("many.toft").len(), 2);

    // With %p in the name each process writes one file, and the message names the right one.
    for options in [&[][..], &["--children"]] {
        let output = profiled(options, &directory.path().join("of-%p.toft"), &[text(&program)]);
        let line = message(&output);
        let name =
            line.split_once("toft: wrote ").and_then(|(_, rest)| rest.split_once("; next: "));
        let written = name.unwrap_or_else(|| panic!("{}", stderr(&output))).0;
        assert_eq!(objects_of(&profile(Path::new(written)), "fill"), 500);
        let number = written.rsplit_once("/of-").unwrap().1.trim_end_matches(".toft");
        assert!(number.parse::<u32>().is_ok(), "{written}");
    }
}

/// Counts, between a program and whatever malloc it has, which blocks are live, and says at exit
/// what `malloc_usable_size` says of them; and how many there ever were, and their bytes. A block
/// that `realloc` has moved is another one; one that has grown in place is the same, with more
/// bytes.
const TALLY: &str = include_str!("programs/profile-tally.c");

/// What a run of it left, by process: what was counted, and what the profile says: bytes and blocks
/// that live, and bytes and blocks that there ever were.
fn tallied(directory: &Path, program: &str, words: &[&str]) -> HashMap<String, [[u64; 4]; 2]> {
    let tally =
        compile(directory, "tally.so", TALLY, &["-shared", "-fPIC", "-O2", "-fno-builtin", "-ldl"]);
    let mut command = Command::new(program);
    command.args(words).current_dir(directory);
    command.env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0");
    command.env("LD_PRELOAD", format!("{}:{}", text(&tally), library().display()));
    command.env("TALLY", directory.join("tally")).env("TOFT_PROFILE", directory.join("heap.%p"));
    tool(&mut command);
    let mut runs = HashMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(pid) = name.strip_prefix("tally.").filter(|pid| pid.parse::<u32>().is_ok()) else {
            continue;
        };
        let counted = fs::read_to_string(&path).unwrap();
        let counted: Vec<u64> = counted.split(' ').map(|word| word.parse().unwrap()).collect();
        let profile = profile(&directory.join(format!("heap.{pid}")));
        let number = |name: &str| profile[name].as_u64().unwrap();
        let sum = |name: &str| -> u64 {
            profile["rows"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
        };
        runs.insert(
            pid.to_owned(),
            [
                counted.try_into().unwrap(),
                [number("bytes"), number("objects"), sum("allocated"), sum("allocations")],
            ],
        );
    }
    runs
}

#[test]
fn a_profile_has_every_byte_that_an_independent_count_has_in_five_programs() {
    // A reference more than there are, so that the interpreter does not give it all back at its
    // end.
    let make = "import ctypes, json; kept = [json.loads('{\"a\": [1, 2, {\"b\": %d}]}' % i) for i in range(20000)]; \
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))";
    let sql = "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
               insert into t select i, hex(randomblob(50)) from n; create index x on t(b); select count(*) from t;";
    let lua = "kept = {} for i = 1, 50000 do kept[i] = {name = 'n' .. i, next = kept[i - 1]} end os.exit(0, false)";
    let perl = "our %kept; $kept{$_} = [map { \"x$_\" } 1..9] for 1..9000; exit 0";
    let git = "for i in 1 2 3 4 5 6 7 8; do echo $i > f$i; done; git init -q . && git add f? && git -c user.name=a \
               -c user.email=a@b commit -qm one && exec git log --stat";
    for (program, words, least) in [
        ("/usr/bin/python3", vec!["-c", make], 1000),
        ("sqlite3", vec![":memory:", sql], 10),
        ("lua5.4", vec!["-e", lua], 50_000),
        ("perl", vec!["-e", perl], 1000),
        ("bash", vec!["-c", git], 10),
    ] {
        let directory = directory();
        let runs = tallied(directory.path(), program, &words);
        assert!(!runs.is_empty(), "{program}");
        for (pid, [counted, profiled]) in &runs {
            assert_eq!(counted, profiled, "{program}, process {pid}: counted, profiled");
        }
        let most = runs.values().map(|[counted, _]| counted[1]).max().unwrap();
        let ever = runs.values().map(|[counted, _]| counted[3]).max().unwrap();
        eprintln!("{program}: {} processes, the largest with {most} blocks of {ever}", runs.len());
        assert!(most >= least, "{program}: {most} blocks");
    }
}
