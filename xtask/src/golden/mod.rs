//! The machine code of the two fast paths: what a hit of malloc, and a free of a small block of the
//! thread's own, execute from the first instruction to `ret`.
//!
//! Forbidden there, always: a locked instruction, a call, a division, a trap, more than one access
//! to thread-local storage. And no more instructions, branches, loads and multiplications than were
//! recorded, with the compiler that was used then; another compiler may choose other instructions.
//!
//! And where code lies (`usual.rs`): what every program runs side by side.

mod figures;
mod image;
mod path;
mod usual;

use crate::place;
use figures::Figures;
use image::Image;
use std::path::PathBuf;
use std::process::ExitCode;

/// The exported functions whose paths are recorded.
const FUNCTIONS: &[&str] = &["malloc", "free"];

fn recorded(function: &str) -> PathBuf {
    place::root().join("crates/toft/golden").join(format!("{function}.txt"))
}

fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = std::process::Command::new(rustc).arg("--version").output();
    let out = out.map_err(|e| format!("rustc: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.split(' ').take(2).collect::<Vec<_>>().join(" "))
}

/// Builds the library as it is shipped, and reads it.
fn library() -> Result<Image, String> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--quiet", "--release", "--package", "toft-preload"]);
    // Flags of a coverage or sanitizer run would give other code.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let status = cargo.status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("the preload library does not build".into());
    }
    Image::read(&place::target_dir().join("release/libtoft.so"))
}

/// `cargo xtask golden [--bless]`.
pub fn main(bless: bool) -> Result<ExitCode, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("recorded for x86-64 only".into());
    }
    let (image, compiler) = (library()?, compiler()?);
    let mut wrong = Vec::new();
    for function in FUNCTIONS {
        let now = Figures::of(&image, function)?;
        println!("{function}: {}", now.line());
        wrong.extend(now.forbidden().into_iter().map(|what| format!("{function}: {what}")));
        let file = recorded(function);
        let text = now.text(function, &compiler);
        if bless {
            std::fs::write(&file, &text).map_err(|e| format!("{}: {e}", file.display()))?;
        } else {
            wrong.extend(compare(function, &now, &compiler)?);
        }
    }
    wrong.extend(usual::check()?);
    wrong.iter().for_each(|line| println!("{line}"));
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the path has become worse than it was when it was recorded.
fn compare(function: &str, now: &Figures, compiler: &str) -> Result<Vec<String>, String> {
    let file = recorded(function);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let (before, by) = Figures::parse(&text).ok_or(format!("{}: no figures", file.display()))?;
    if by != compiler {
        println!("{function}: recorded with {by}, this is {compiler}: figures are not compared");
        return Ok(Vec::new());
    }
    Ok(now.worse_than(&before).into_iter().map(|what| format!("{function}: {what}")).collect())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_fast_paths_are_no_worse_than_recorded() {
        let (image, compiler) = (library().unwrap(), compiler().unwrap());
        for function in FUNCTIONS {
            let now = Figures::of(&image, function).unwrap();
            assert_eq!(now.forbidden(), [""; 0], "{function}\n{}", now.text(function, &compiler));
            let worse = compare(function, &now, &compiler).unwrap();
            assert!(worse.is_empty(), "{worse:?}\n{}", now.text(function, &compiler));
        }
    }

    #[test]
    fn a_path_that_is_not_fast_is_found_out() {
        // realloc looks its block up, and may call the system.
        let image = library().unwrap();
        let realloc = Figures::of(&image, "toft_realloc_at").unwrap();
        assert!(!realloc.forbidden().is_empty(), "{}", realloc.text("toft_realloc_at", ""));
        let malloc = Figures::of(&image, "malloc").unwrap();
        assert!(!realloc.worse_than(&malloc).is_empty());
    }
}
