//! What is about to be started, and can it run on Toft? `run` asks before it starts anything.
//!
//! `resolve` finds the file as `execvp` would and follows `#!` lines, `elf` reads the facts off the
//! binary, and this file turns facts into findings: one clear line each, with what the launcher
//! does about it.

pub mod allocator;
pub mod elf;
pub mod resolve;
mod script;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getegid, geteuid, getgid, getuid};

use crate::runtime::Runtime;
use crate::verb::{Failure, NOT_EXECUTABLE};
use allocator::is_library;
use elf::{Facts, Format};
use resolve::Resolved;

/// What the launcher does about a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Toft cannot work here: not started, unless `--force`.
    Refuse,
    /// Started, but the user should know.
    Warn,
}

#[derive(Debug)]
pub struct Finding {
    /// A stable word for scripts, part of the JSON output.
    pub kind: &'static str,
    /// What is so, as the end of a sentence whose subject is the target.
    pub what: String,
    /// What follows from it.
    pub so: &'static str,
    pub effect: Effect,
    /// The file that it is about, if that is not the target but what the target starts.
    pub of: Option<PathBuf>,
}

/// A target that has been looked at.
pub struct Vetted {
    /// Its files, its name and its arguments.
    pub target: Resolved,
    /// Why what the user means is not the target but what it starts. The version managers of
    /// Python, Ruby and Node put shell scripts in the place of the programs. A user who writes
    /// `nice` does not mean `nice` itself.
    pub starter: Option<&'static str>,
    /// What was found, the gravest first.
    pub findings: Vec<Finding>,
    /// Whether it may load a second C library, with a separate malloc, by `dlmopen`.
    pub second_libc: bool,
    /// The languages whose functions allocate for their callers in it, as `TOFT_WRAPPERS` has them.
    pub languages: Vec<&'static str>,
}

impl Vetted {
    /// The finding for which the target is not started, if any.
    pub fn refusal(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.effect == Effect::Refuse)
    }

    /// The file that brings its own malloc, if one does: what it allocates there, Toft does not
    /// see.
    pub fn own_malloc(&self) -> Option<&Path> {
        let finding = self.findings.iter().find(|finding| finding.kind == OWN_MALLOC)?;
        Some(finding.of.as_deref().unwrap_or(&self.target.binary))
    }
}

const OWN_MALLOC: &str = "own-malloc";

/// Programs whose only purpose is to start another one.
const STARTERS: [&str; 13] = [
    "env", "nice", "nohup", "timeout", "setsid", "stdbuf", "ionice", "chrt", "taskset", "setarch",
    "unshare", "time", "xargs",
];
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "busybox"];

/// Finds the target and examines it.
pub fn vet(program: &OsString, arguments: &[OsString], path: &OsString) -> Result<Vetted, Failure> {
    let target = resolve::resolve(program, arguments, path)?;
    let Resolved { named, script, arguments, binary, .. } = &target;
    let (mut findings, mut second_libc, mut languages) = (Vec::new(), false, Vec::new());
    match elf::read(binary) {
        Ok(facts) => {
            examine(binary, &facts, &mut findings);
            second_libc = facts.calls_dlmopen;
            languages = facts.languages();
        }
        Err(elf::Unreadable::Denied) => findings.push(Finding {
            kind: "unreadable",
            what: "may be executed but not read".into(),
            so: "it was not examined",
            effect: Effect::Warn,
            of: None,
        }),
        Err(elf::Unreadable::NotElf) => {
            let why = format!("{} is neither an ELF program nor a script", binary.display());
            return Err(Failure::new(NOT_EXECUTABLE, why));
        }
        Err(elf::Unreadable::Broken(why)) => findings.push(Finding {
            kind: "damaged",
            what: format!("is a damaged ELF file ({why})"),
            so: "the kernel decides",
            effect: Effect::Warn,
            of: None,
        }),
    }
    if let Some(id) = secure_execution(binary) {
        findings.push(Finding {
            kind: "secure",
            what: format!("runs with more rights than its caller ({id})"),
            so: "the loader then ignores LD_PRELOAD",
            effect: Effect::Refuse,
            of: None,
        });
    }
    let known = |names: &[&str]| {
        binary.file_name().and_then(|n| n.to_str()).is_some_and(|n| names.contains(&n))
    };
    if *script && known(&SHELLS) {
        findings.extend(behind(named));
    }
    let starter = if *script && known(&SHELLS) {
        Some("is a shell script")
    } else {
        (!arguments.is_empty() && known(&STARTERS)).then_some("starts another program")
    };
    findings.sort_by_key(|finding| finding.effect == Effect::Warn);
    Ok(Vetted { target, starter, findings, second_libc, languages })
}

/// What a script starts, if it brings its own malloc.
fn behind(script: &Path) -> Option<Finding> {
    let program = script::leads_to(script)?;
    let mut findings = Vec::new();
    examine(&program, &elf::read(&program).ok()?, &mut findings);
    let found = findings.into_iter().find(|finding| finding.kind == OWN_MALLOC)?;
    Some(Finding { of: Some(program), ..found })
}

/// Facts to findings. The first refusal says all there is to say; a second would only confuse.
fn examine(binary: &Path, facts: &Facts, findings: &mut Vec<Finding>) {
    let mut add =
        |kind, what, so, effect| findings.push(Finding { kind, what, so, effect, of: None });
    match facts.format {
        Format::Bits32 => {
            add(
                "32-bit",
                "is a 32-bit program".into(),
                "Toft is for 64-bit programs",
                Effect::Refuse,
            );
            return;
        }
        Format::OtherMachine(machine) => {
            let what = format!("is built for another machine (ELF machine {machine})");
            add("other-machine", what, "this library cannot load into it", Effect::Refuse);
            return;
        }
        Format::Native => {}
    }
    if facts.is_loader {
        return;
    }
    let Some(interpreter) = &facts.interpreter else {
        let what =
            if facts.go { "is statically linked, a Go program" } else { "is statically linked" };
        add("static", what.into(), "LD_PRELOAD cannot reach it", Effect::Refuse);
        return;
    };
    if interpreter.contains("musl") {
        let what = format!("is linked against musl ({interpreter})");
        add("musl", what, "this library is built for glibc", Effect::Refuse);
        return;
    }
    if !Path::new(interpreter).exists() {
        let what = format!("needs the loader {interpreter}, which is not there");
        add("no-loader", what, "the kernel cannot start it", Effect::Refuse);
        return;
    }
    if let Some(by) = &facts.sanitizer {
        let what = format!("contains a sanitizer ({by})");
        add("sanitizer", what, "a sanitizer needs its own malloc", Effect::Refuse);
        return;
    }
    if facts.go {
        add(
            "go",
            "is a Go program".into(),
            "only what its C code allocates comes from Toft",
            Effect::Warn,
        );
    }
    let own = match (facts.own_malloc.as_deref(), facts.exports_malloc) {
        (Some("Toft"), _) => Some((
            "brings its own malloc (Toft)".into(),
            "start it without toft run, with the options in its environment; going on",
        )),
        (_, true) => Some((
            "brings its own malloc and exports it".into(),
            "its own takes precedence over a preloaded one; going on",
        )),
        (Some(by), false) if !Runtime::has_unused_malloc(binary) => Some((
            format!("brings its own malloc ({by})"),
            "blocks of that malloc are not Toft's; going on",
        )),
        _ => None,
    };
    if let Some((what, so)) = own {
        add(OWN_MALLOC, what, so, Effect::Warn);
    } else if let Some(library) = facts.needed.iter().find(|library| is_library(library)) {
        let what = format!("is linked against another malloc ({library})");
        let so = if library.starts_with("libjemalloc") {
            "Toft replaces its malloc, mallocx and mallctl; going on"
        } else {
            "Toft replaces its malloc and operator new, and no other function of it; going on"
        };
        add("linked-malloc", what, so, Effect::Warn);
    }
    if facts.malloc_extension {
        add(
            "malloc-extension",
            "calls tcmalloc's MallocExtension".into(),
            "its figures and releases are of tcmalloc, not of Toft; going on",
            Effect::Warn,
        );
    }
}

/// Why the kernel will start this file in secure-execution mode, if it will: the same rule as in
/// the kernel's `bprm_creds_from_file`, as far as it can be known from outside.
fn secure_execution(binary: &Path) -> Option<&'static str> {
    if getuid() != geteuid() || getgid() != getegid() {
        return Some("the caller itself runs setuid or setgid");
    }
    // Both make the kernel ignore the bits, so that the program runs as an ordinary one.
    let no_new_rights = nix::sys::prctl::get_no_new_privs().unwrap_or(false);
    let nosuid = statvfs(binary).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_NOSUID));
    if no_new_rights || nosuid {
        return None;
    }
    let about = fs::metadata(binary).ok()?;
    if about.mode() & 0o4000 != 0 && about.uid() != getuid().as_raw() {
        return Some("setuid");
    }
    if about.mode() & 0o2010 == 0o2010 && about.gid() != getgid().as_raw() {
        return Some("setgid");
    }
    // For root, file capabilities add nothing and the kernel does not switch.
    (!getuid().is_root() && crate::sys::has_capabilities(binary)).then_some("file capabilities")
}
