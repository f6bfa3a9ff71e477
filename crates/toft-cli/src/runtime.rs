//! Language runtimes of which Toft sees only a part: what they keep to themselves, and what shows
//! more.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A runtime, as it is by default.
pub struct Runtime {
    /// Its programs, without a version.
    names: &'static [&'static str],
    /// The variable or the option that starts it otherwise.
    pub setting: &'static str,
    /// Whether it contains a malloc that it does not use.
    unused_malloc: bool,
    /// What it keeps to itself.
    pub keeps: &'static str,
    /// The option of `toft run` that starts it otherwise, if there is one.
    pub option: &'static str,
    /// What follows `toft run`, and what that shows.
    pub remedy: &'static str,
    /// An option without which `setting` names not all functions of sampled stacks, and what to
    /// say of it; empty if there is none.
    names_more: [&'static str; 2],
}

const RUNTIMES: [Runtime; 3] = [
    Runtime {
        names: &["python"],
        setting: "PYTHONMALLOC=malloc",
        // mimalloc since 3.13, which only builds without a global lock use.
        unused_malloc: true,
        keeps: "CPython keeps small objects in its own pools",
        option: " --python",
        remedy: "--python shows each object",
        names_more: ["", ""],
    },
    Runtime {
        names: &["node", "nodejs"],
        setting: "--perf-basic-prof",
        unused_malloc: false,
        keeps: "V8 keeps JavaScript objects in its own heap",
        option: "",
        remedy: "--sample 512k -- node --perf-basic-prof --interpreted-frames-native-stack shows the \
                 JavaScript functions that allocate the rest",
        names_more: [
            "--interpreted-frames-native-stack",
            "stacks lack the JavaScript functions that V8 has not compiled: node \
             --interpreted-frames-native-stack names these, too",
        ],
    },
    Runtime {
        names: &["java"],
        setting: "PreserveFramePointer",
        unused_malloc: false,
        keeps: "the JVM keeps Java objects in its own heap",
        option: "",
        remedy: "--sample 512k -- java -XX:+PreserveFramePointer, and then jcmd PID Compiler.perfmap, \
                 shows the Java methods that allocate the rest",
        names_more: ["", ""],
    },
];

impl Runtime {
    /// Returns the runtime that a program is, by its name. The name of a debug build ends in `d`.
    fn named(program: &Path) -> Option<&'static Runtime> {
        let program = program.file_name()?.to_string_lossy();
        let is = |name: &&str| {
            let version = program.strip_prefix(name).map(|version| version.trim_end_matches('d'));
            version.is_some_and(|all| all.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        };
        RUNTIMES.iter().find(|runtime| runtime.names.iter().any(is))
    }

    /// Returns true if a program is a runtime that contains a malloc and does not use it.
    pub fn has_unused_malloc(program: &Path) -> bool {
        Runtime::named(program).is_some_and(|runtime| runtime.unused_malloc)
    }

    /// Returns the runtime that a program is. Returns none if its arguments or its environment, as
    /// one text, start it otherwise.
    pub fn of(program: &Path, words: &OsStr) -> Option<&'static Runtime> {
        let runtime = Runtime::named(program)?;
        (!words.to_string_lossy().contains(runtime.setting)).then_some(runtime)
    }

    /// Returns what to say of a program that names some functions of sampled stacks, by its
    /// arguments and environment, and could name more.
    pub fn could_name_more(program: &Path, words: &OsStr) -> Option<&'static str> {
        let Runtime { setting, names_more: [option, advice], .. } = Runtime::named(program)?;
        let words = words.to_string_lossy();
        (words.contains(setting) && !words.contains(option)).then_some(*advice)
    }

    /// Returns the runtime that a running process is.
    pub fn of_process(pid: i32) -> Option<&'static Runtime> {
        let file = |name: &str| format!("/proc/{pid}/{name}");
        let program = fs::read_link(file("exe")).ok()?;
        let words = [fs::read(file("cmdline")).ok()?, fs::read(file("environ")).ok()?].concat();
        Runtime::of(&program, OsStr::from_bytes(&words))
    }
}
