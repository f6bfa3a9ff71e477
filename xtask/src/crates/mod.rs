//! `cargo xtask crates`: the crates as crates.io would have them, tried by a user who has nothing
//! else.
//!
//! 1. `cargo publish --dry-run` of all of them, without its build: step 3 builds all of them from
//!    what is packed.
//! 2. A folder takes the place of crates.io: the packed crates, and their dependencies.
//! 3. A user with an empty home folder, no network and no checkout installs the command from it,
//!    inspects a heap, and uninstalls it (`user.rs`).
//!
//! `metadata.rs` has what is checked in every run of the tests: what each crate says of itself, and
//! its files.

mod metadata;
mod user;

use crate::place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What is published. Everything else has `publish = false`.
pub const PUBLISHED: [&str; 7] =
    ["toft", "toft-arena", "toft-bench", "toft-cli", "toft-core", "toft-profile", "toft-trace"];

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Tries all of it. Takes some minutes: everything that the command depends on is compiled in a new
/// place.
pub fn main() -> Result<ExitCode, String> {
    metadata::check()?;
    println!("\n==> cargo publish --dry-run");
    run(place::cargo().args(["publish", "--dry-run", "--workspace", "--locked", "--no-verify"]))?;
    println!("\n==> a folder with all crates");
    let scratch = Scratch::new()?;
    let source = scratch.0.join("source");
    fill(&source)?;
    user::install_and_use(&source, &scratch.0.join("home"))?;
    println!("\n==> all {} crates can be published, and the command installed", PUBLISHED.len());
    Ok(ExitCode::SUCCESS)
}

/// Makes a directory source: what the workspace depends on, and our crates as they are packed.
fn fill(source: &Path) -> Result<(), String> {
    // It prints how to configure it.
    let mut vendor = place::cargo();
    vendor.args(["vendor", "--quiet", "--locked"]).arg(source).stdout(Stdio::null());
    run(&mut vendor)?;
    let mut package = place::cargo();
    package.args(["package", "--quiet", "--locked", "--no-verify"]);
    for name in PUBLISHED {
        package.args(["--package", name]);
    }
    run(&mut package)?;
    for name in PUBLISHED {
        let packed = place::target_dir().join(format!("package/{name}-{VERSION}.crate"));
        let folder = source.join(name);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&packed).arg("-C").arg(&folder).arg("--strip-components=1");
        run(&mut tar)?;
        let digest = output(Command::new("sha256sum").arg(&packed))?;
        let digest = digest.split_whitespace().next().unwrap_or_default();
        // Of no single file: what is in the folder is not checked against it.
        let checksum = format!("{{\"files\":{{}},\"package\":\"{digest}\"}}");
        let file = folder.join(".cargo-checksum.json");
        fs::write(&file, checksum).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// A folder outside of the checkout, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, String> {
        let folder = std::env::temp_dir().join(format!("toft-crates-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command; an error if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// Runs a command and returns its standard output.
fn output(command: &mut Command) -> Result<String, String> {
    let out = command.stderr(Stdio::inherit()).output();
    let out = out.map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    if !out.status.success() {
        return Err(format!("{command:?}: {}", out.status));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("{command:?}: {e}"))
}
