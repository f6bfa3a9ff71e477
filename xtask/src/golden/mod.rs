//! The machine code of the two fast paths: what a hit of malloc, and a free of a small block of the
//! thread's own, execute from the first instruction to `ret`.
//!
//! Forbidden there, always: a locked instruction, a call, a division, a trap, more than one access
//! to thread-local storage. And no more instructions, branches, loads and multiplications than were
//! recorded. Another compiler may choose other instructions, so the listings are of one compiler.
//!
//! And where code lies (`usual.rs`): what every program runs side by side.

mod aarch64;
mod figures;
mod image;
mod path;
mod step;
mod usual;
mod x86;

use crate::step::{succeed, text};
use crate::{files, place, suites};
use figures::Figures;
use image::{Image, Machine};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exported functions whose paths are recorded.
const FUNCTIONS: &[&str] = &["malloc", "free"];

/// The listings of x86-64 are in the folder itself.
fn recorded(machine: Machine, function: &str) -> PathBuf {
    let folder = match machine {
        Machine::X86 => "crates/toft-core/golden",
        Machine::Aarch64 => "crates/toft-core/golden/aarch64",
    };
    place::root().join(folder).join(format!("{function}.txt"))
}

fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = text(std::process::Command::new(rustc).arg("--version"))?;
    Ok(version.split(' ').take(2).collect::<Vec<_>>().join(" "))
}

/// Builds the library as it is shipped, and reads it.
fn library() -> Result<Image, String> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--release", "--package", "toft-preload"]);
    // Flags of a coverage or sanitizer run would give other code.
    succeed(cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS"))?;
    Image::read(&place::target_dir().join("release/libtoft.so"))
}

/// `cargo xtask golden [--bless]`.
pub fn main(bless: bool) -> Result<ExitCode, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("recorded for x86-64 only".into());
    }
    let mut wrong = check(&library()?, bless)?;
    match suites::aarch64_library() {
        Ok(library) => wrong.extend(check(&Image::read(&library)?, bless)?),
        Err(why) => println!("aarch64: left out: {why}"),
    }
    wrong.extend(usual::check()?);
    wrong.iter().for_each(|line| println!("{line}"));
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is wrong with the fast paths of a library for aarch64.
pub fn check_aarch64(library: &Path) -> Result<Vec<String>, String> {
    check(&Image::read(library)?, false)
}

/// Compares the fast paths with what was recorded, or records them; says what is wrong.
fn check(image: &Image, bless: bool) -> Result<Vec<String>, String> {
    let compiler = compiler()?;
    let mut wrong = Vec::new();
    for function in FUNCTIONS {
        let now = Figures::of(image, function)?;
        println!("{}, {function}: {}", image.machine, now.line());
        let forbidden = now.forbidden().into_iter();
        wrong.extend(forbidden.map(|what| format!("{}, {function}: {what}", image.machine)));
        if bless {
            let file = recorded(image.machine, function);
            files::write(&file, now.text(function, image.machine, &compiler))?;
        } else {
            wrong.extend(compare(image.machine, function, &now, &compiler)?);
        }
    }
    Ok(wrong)
}

/// How the path has become worse than it was when it was recorded.
fn compare(
    machine: Machine,
    function: &str,
    now: &Figures,
    compiler: &str,
) -> Result<Vec<String>, String> {
    let file = recorded(machine, function);
    let (before, by) =
        Figures::parse(&files::read(&file)?).ok_or(format!("{}: no figures", file.display()))?;
    if by != compiler {
        return Ok(vec![format!(
            "{machine}, {function}: recorded with {by}, this is {compiler}: look at the code, then run \
             `cargo xtask golden --bless`"
        )]);
    }
    let worse = now.worse_than(&before).into_iter();
    Ok(worse.map(|what| format!("{machine}, {function}: {what}")).collect())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_fast_paths_are_no_worse_than_recorded() {
        assert_eq!(check(&library().unwrap(), false).unwrap(), [""; 0]);
    }

    #[test]
    fn another_compiler_is_named() {
        let now = Figures::of(&library().unwrap(), "malloc").unwrap();
        let said = compare(Machine::X86, "malloc", &now, "rustc 1.0.0").unwrap();
        assert!(said.len() == 1 && said[0].contains("this is rustc 1.0.0"), "{said:?}");
    }

    #[test]
    fn a_path_that_is_not_fast_is_found_out() {
        // realloc looks its block up, and may call the system.
        let image = library().unwrap();
        let realloc = Figures::of(&image, "toft_realloc_at").unwrap();
        assert!(
            !realloc.forbidden().is_empty(),
            "{}",
            realloc.text("toft_realloc_at", image.machine, "")
        );
        let malloc = Figures::of(&image, "malloc").unwrap();
        assert!(!realloc.worse_than(&malloc).is_empty());
    }
}
