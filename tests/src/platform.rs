//! The system that test programs are built for: this one, or the one that `TOFT_TEST_PLATFORM`
//! names.

use crate::directives::Source;
use crate::library::{library, scratch_dir};
use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What `qemu-aarch64` cannot show, by words in the sources of programs that need it.
const BEYOND_EMULATION: &[(&str, &[&str])] = &[
    (
        "cannot start programs again",
        &["run_again(", "anew_with(", "execl(", "execv(", "execve(\"/proc/self/exe", "hints.h"],
    ),
    (
        "adds its own memory to the figures",
        &["bound.h", "bound_scatter.h", "limit.h", "cold.h", "minflt"],
    ),
    ("has no filters of system calls", &["SECCOMP", "filter.h"]),
    ("does not limit addresses", &["RLIMIT_AS", "RLIMIT_DATA"]),
    ("has no userfaultfd", &["userfaultfd", "compact.h", "=uninit", "TOFT_COMPACT"]),
    ("cannot read the process's memory by a system call", &["toft_dangling", "TOFT_DANGLING"]),
    ("cannot read the stack by a system call", &["TOFT_WRAPPERS", "{re:/.*libc.*}"]),
    ("cannot be traced", &["PTRACE_"]),
    ("has no memory for a hole in a full address space", &["make_hole("]),
];

/// Says what an emulator does not have, of what a program with this source needs.
pub fn beyond_emulation(text: &str) -> Option<&'static str> {
    let needs = |words: &[&str]| words.iter().any(|word| text.contains(word));
    BEYOND_EMULATION.iter().find(|(_, words)| needs(words)).map(|&(why, _)| why)
}

/// Where the cross compiler's libraries are, for the emulator.
const AARCH64_ROOT: &str = "/usr/aarch64-linux-gnu";

/// A system that programs are built for and run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// This one, with its own compilers; the library is preloaded.
    Native,
    /// Static programs with musl; the library under test is an archive, and is linked into each.
    Musl,
    /// aarch64 with glibc, under `qemu-aarch64`; the library is preloaded there.
    Aarch64,
}

/// The platform under test.
pub fn platform() -> Platform {
    static PLATFORM: OnceLock<Platform> = OnceLock::new();
    *PLATFORM.get_or_init(|| match std::env::var("TOFT_TEST_PLATFORM").as_deref() {
        Err(_) => Platform::Native,
        Ok("musl") => Platform::Musl,
        Ok("aarch64") => Platform::Aarch64,
        Ok(other) => panic!("TOFT_TEST_PLATFORM={other}: there are musl and aarch64"),
    })
}

impl Platform {
    /// The word for it in directives.
    pub fn word(self) -> &'static str {
        match self {
            Platform::Native => "native",
            Platform::Musl => "musl",
            Platform::Aarch64 => "aarch64",
        }
    }

    /// Programs that it takes, with their Debian packages.
    pub fn needs(self) -> Vec<(String, String)> {
        let needs: &[(&str, &str)] = match self {
            Platform::Native => &[],
            Platform::Musl => &[("musl-gcc", "musl-tools")],
            Platform::Aarch64 => &[
                ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
                ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
                ("qemu-aarch64", "qemu-user"),
            ],
        };
        needs.iter().map(|&(tool, package)| (tool.into(), package.into())).collect()
    }

    /// The compiler, which also links.
    pub fn compiler(self, cpp: bool) -> Command {
        let (variable, name) = if cpp { ("CXX", "c++") } else { ("CC", "cc") };
        match self {
            Platform::Native => {
                Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()))
            }
            Platform::Musl => {
                let mut command = Command::new("musl-gcc");
                // The kernel's headers come from this system.
                command.args(["-static", "-idirafter", "/usr/include"]);
                command.args(["-idirafter", "/usr/include/x86_64-linux-gnu"]);
                // As Alpine's compiler and Rust's do, and this wrapper does not.
                command.arg("-Wl,--eh-frame-hdr,--build-id");
                command
            }
            Platform::Aarch64 => {
                let name = if cpp { "aarch64-linux-gnu-g++" } else { "aarch64-linux-gnu-gcc" };
                let mut command = Command::new(name);
                command.arg("-DEMULATED");
                command
            }
        }
    }

    /// What a program is linked to besides its source: for a static one the library, and a `dlsym`
    /// that knows the functions of the library. musl's `dlsym` finds nothing in a static program.
    pub fn linked(self) -> Result<Vec<PathBuf>, String> {
        static FUNCTIONS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        if self != Platform::Musl {
            return Ok(Vec::new());
        }
        let functions = FUNCTIONS.get_or_init(functions).clone()?;
        Ok([functions].into_iter().chain(library().path().map(Path::to_owned)).collect())
    }

    /// Why a source cannot run here, if that is so.
    pub fn refuses(self, source: &Source) -> Option<String> {
        if self == Platform::Native {
            return None;
        }
        if let Some((_, why)) = source.skips.iter().find(|(word, _)| word == self.word()) {
            return Some(why.clone());
        }
        let why = match self {
            Platform::Musl if source.is_cpp() => "there is no C++ library for musl",
            Platform::Musl if !source.aux.is_empty() => "a static program opens no libraries",
            Platform::Musl if source.checked => "nothing is preloaded into a static program",
            _ if source.setuid => "the program is linked to the library of this system",
            _ if !source.needs.is_empty() => "the tools are for programs of this system",
            Platform::Aarch64 if source.pkeys.is_some() => "aarch64 has other protection keys",
            Platform::Aarch64 => return source.beyond_emulation.map(|why| format!("qemu {why}")),
            _ => return None,
        };
        Some(why.into())
    }

    /// A command with a clean environment that runs a program with a library preloaded, if one is
    /// named.
    pub fn command(self, program: &Path, preload: Option<&std::ffi::OsStr>) -> Command {
        match (self, preload) {
            (Platform::Aarch64, preload) => {
                let mut command = process::command("qemu-aarch64");
                command.args(["-L", AARCH64_ROOT]);
                if let Some(preload) = preload {
                    // Only in the program: the emulator is of this system.
                    let mut word = std::ffi::OsString::from("LD_PRELOAD=");
                    word.push(preload);
                    command.arg("-E").arg(word);
                }
                command.arg(program);
                command
            }
            (_, preload) => {
                let mut command = process::command(program);
                command.envs(preload.map(|preload| ("LD_PRELOAD", preload)));
                command
            }
        }
    }
}

/// Writes a `dlsym` for static programs, of all that `abi/symbols.txt` lists and the program has.
fn functions() -> Result<PathBuf, String> {
    let mut text = "#include <string.h>\n".to_owned();
    // Those of which the library asks for the next definition. A static program has none.
    let next = |name: &str| ["dlopen", "dlmopen", "unshare", "setns", "capset"].contains(&name);
    let names = || include_str!("../abi/symbols.txt").lines().filter(|name| !next(name));
    // What the library always has is asked for, as by a program that is linked to it; some of the
    // rest is glibc's.
    let weak = |name: &str| if name.starts_with("toft_") { "" } else { " __attribute__((weak))" };
    for name in names() {
        text += &format!("extern char at_{name}[] __asm__(\"{name}\"){};\n", weak(name));
    }
    text += "void *dlsym(void *handle, const char *name) {\n    (void)handle;\n";
    for name in names() {
        text += &format!("    if (!strcmp(name, \"{name}\")) return at_{name};\n");
    }
    text += "    return 0;\n}\n";
    let path = scratch_dir("musl").join("functions.c");
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}
