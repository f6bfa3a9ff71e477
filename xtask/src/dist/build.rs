//! The libraries and the command, as they are given away.
//!
//! Equal sources give equal bytes: no path of this machine is in them. What is stripped is kept in
//! a debug file beside, which debuggers find by its name. They are linked for an old glibc
//! ([`glibc`]).

use super::machine::Machine;
use super::{Dist, copy, emptied, glibc, name, run};
use crate::carried::{Carried, LIBRARIES};
use crate::install::COMMANDS;
use crate::secure::Strength;
use crate::{files, place};
use std::path::{Path, PathBuf};
use std::process::Command;

const MUSL: &str = "x86_64-unknown-linux-musl";

/// What was built.
pub struct Built {
    pub machine: Machine,
    /// Stripped, under the names by which `install` takes them.
    pub folder: PathBuf,
    /// The debug files.
    pub debug: PathBuf,
}

/// The libraries, and the command with those inside.
pub fn build(dist: &Dist, machine: Machine) -> Result<Built, String> {
    println!("==> building for {}, {}", machine.name, glibc::FLOOR);
    let target = machine.target();
    rustup(&target)?;
    let work = dist.work.join(machine.name);
    let stubs = glibc::stubs(&machine, work.join("stubs"))?;
    let flags = [
        format!("-Clinker={}", machine.compiler()),
        format!("-Clink-arg=-L{}", stubs.display()),
        "-Clink-arg=-lpthread".into(),
        "-Clink-arg=-ldl".into(),
        // The system's libgcc_s needs newer symbols than the stubs have. A user's own libgcc_s is
        // loaded.
        "-Clink-arg=-Wl,--allow-shlib-undefined".into(),
    ];
    let compile = |folder: &Path, packages: &[&str], features, environment: &[_]| {
        compile(&target, &flags, folder, packages, features, environment)
    };
    let [usual, secure, light] =
        ["cargo", "cargo-secure", "cargo-secure-light"].map(|folder| dist.work.join(folder));
    let built = Built::empty(machine, &work, "gnu")?;
    compile(&usual, &["toft-preload", "toft-checked", "toft-record"], "", &[])?;
    compile(&secure, &["toft-preload"], "secure", &[])?;
    compile(&light, &["toft-preload"], "secure-light", &[])?;
    let files = |folder: &Path| folder.join(&target).join("release");
    built.strip_libraries(|strength, name| match strength {
        None => files(&usual).join(name),
        Some(Strength::Full) => files(&secure).join(name.replace("-secure", "")),
        Some(Strength::Light) => files(&light).join(name.replace("-secure-light", "")),
    })?;
    compile(&usual, &["toft-cli", "toft-bench"], "", &built.carried())?;
    built.strip_commands(&files(&usual))?;
    built.check_symbols()?;
    Ok(built)
}

/// The command alone, without a C library of the system, with the libraries of `built` inside.
pub fn build_command(dist: &Dist, built: &Built) -> Result<Built, String> {
    let cargo = dist.work.join("cargo");
    rustup(MUSL)?;
    compile(MUSL, &[], &cargo, &["toft-cli", "toft-bench"], "", &built.carried())?;
    let command = Built::empty(built.machine, &dist.work.join(built.machine.name), "musl")?;
    command.strip_commands(&cargo.join(MUSL).join("release"))?;
    Ok(command)
}

impl Built {
    /// Without a file yet, in folders of this kind below `work`.
    pub fn empty(machine: Machine, work: &Path, kind: &str) -> Result<Built, String> {
        let folder = work.join(format!("{kind}-files"));
        let debug = work.join(format!("{kind}-debug"));
        emptied(&folder)?;
        emptied(&debug)?;
        Ok(Built { machine, folder, debug })
    }

    /// The libraries that the command carries, as its build script gets them.
    fn carried(&self) -> Carried {
        LIBRARIES.map(|(variable, name)| (variable, self.folder.join(name))).into()
    }

    /// Puts all libraries here, stripped. `from` returns where one is, by its build and name.
    pub fn strip_libraries(
        &self,
        from: impl Fn(Option<Strength>, &str) -> PathBuf,
    ) -> Result<(), String> {
        for (strength, name) in [
            (None, "libtoft"),
            (Some(Strength::Full), "libtoft-secure"),
            (Some(Strength::Light), "libtoft-secure-light"),
        ] {
            let (shared, archive) = (format!("{name}.so"), format!("{name}.a"));
            self.strip(&from(strength, &shared), &shared)?;
            self.strip_archive(&from(strength, &archive), &archive)?;
        }
        ["libtoft_checked.so", "libtoft_record.so"]
            .iter()
            .try_for_each(|name| self.strip(&from(None, name), name))
    }

    /// Puts the commands of a folder here, stripped.
    pub fn strip_commands(&self, from: &Path) -> Result<(), String> {
        COMMANDS.iter().try_for_each(|name| self.strip(&from.join(name), name))
    }

    /// Puts a stripped program or library here, and its debug file beside.
    pub fn strip(&self, from: &Path, name: &str) -> Result<(), String> {
        let (to, debug) = (self.folder.join(name), self.debug.join(format!("{name}.debug")));
        let objcopy = || Command::new(self.machine.objcopy());
        run(objcopy().arg("--only-keep-debug").arg(from).arg(&debug))?;
        let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
        link.push(&debug);
        run(objcopy().arg("--strip-unneeded").arg(link).arg(from).arg(&to))
    }

    /// Puts a static library here, without its debug information.
    fn strip_archive(&self, from: &Path, name: &str) -> Result<(), String> {
        let to = self.folder.join(name);
        copy(from, &to)?;
        run(Command::new(self.machine.strip())
            .args(["--strip-debug", "--enable-deterministic-archives"])
            .arg(to))
    }

    /// Fails if a file needs a newer glibc than the artifacts promise.
    fn check_symbols(&self) -> Result<(), String> {
        let mut wrong = Vec::new();
        for path in files::in_folder(&self.folder)? {
            if path.extension().is_none_or(|ending| ending == "so") {
                let symbols = glibc::too_new(&path)?;
                wrong
                    .extend(symbols.iter().map(|symbol| format!("{} needs {symbol}", name(&path))));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

/// Has rustup install the standard library of a target.
fn rustup(target: &str) -> Result<(), String> {
    run(Command::new("rustup").args(["target", "add", target]))
}

/// Builds packages without a path of this machine.
fn compile(
    target: &str,
    flags: &[String],
    folder: &Path,
    packages: &[&str],
    features: &str,
    environment: &[(&str, PathBuf)],
) -> Result<(), String> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--release", "--locked", "--target", target, "--target-dir"]).arg(folder);
    packages.iter().for_each(|package| {
        cargo.args(["--package", package]);
    });
    cargo.args(["--features", features]);
    // `strip` puts it beside.
    for package in ["toft-cli", "toft-bench"] {
        cargo.args(["--config", &format!("profile.release.package.{package}.strip=false")]);
    }
    let flags = [&remapped()?[..], flags].concat();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    // The bench knows no folder of this machine then.
    cargo.env("TOFT_RELEASE", "1");
    cargo.envs(environment.iter().map(|(name, path)| (name, path)));
    run(&mut cargo)
}

/// Names for the paths of this machine.
fn remapped() -> Result<Vec<String>, String> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok([(place::root(), "toft"), (&home, "cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .into())
}
