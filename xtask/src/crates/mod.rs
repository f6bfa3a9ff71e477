//! `cargo xtask crates`: the crates as crates.io would have them, tried by a user who has nothing
//! else.
//!
//! 1. `cargo publish --dry-run` of all of them, without its build: step 3 builds all of them from
//!    what is packed.
//! 2. A folder takes the place of crates.io: the packed crates, and their dependencies.
//! 3. A user with an empty home folder, no network and no checkout installs the command from it,
//!    inspects a heap, and uninstalls it (`packaging/try/crates.sh`).
//!
//! `metadata.rs` has what is checked in every run of the tests: what each crate says of itself, and
//! its files. Only steps 1 and 3 find a dependency that cannot be had, or an included file that is
//! not packed.

mod metadata;

use crate::step::{succeed as run, text};
use crate::{files, place};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// What is published. Everything else has `publish = false`.
pub const PUBLISHED: [&str; 9] = [
    "toft",
    "toft-arena",
    "toft-bench",
    "toft-cli",
    "toft-core",
    "toft-profile",
    "toft-trace",
    "toft-watch",
    "toft-zone",
];

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Tries all of it. Takes some minutes: everything that the command depends on is compiled in a new
/// place.
pub fn main() -> Result<ExitCode, String> {
    metadata::check()?;
    println!("\n==> cargo publish --dry-run");
    run(place::cargo().args(["publish", "--dry-run", "--workspace", "--locked", "--no-verify"]))?;
    println!("\n==> a folder with all crates");
    // Outside of the checkout, which cargo would find there.
    let scratch = std::env::temp_dir().join(format!("toft-crates-{}", std::process::id()));
    let source = scratch.join("source");
    let tried = fill(&source).and_then(|()| run(&mut user(&source, &scratch.join("user"))?));
    let _ = std::fs::remove_dir_all(&scratch);
    tried?;
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
        files::make_folder(&folder)?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&packed).arg("-C").arg(&folder).arg("--strip-components=1");
        run(&mut tar)?;
        let digest = text(Command::new("sha256sum").arg(&packed))?;
        let digest = digest.split_whitespace().next().unwrap_or_default();
        // Of no single file: what is in the folder is not checked against it.
        let checksum = format!("{{\"files\":{{}},\"package\":\"{digest}\"}}");
        files::write(&folder.join(".cargo-checksum.json"), checksum)?;
    }
    Ok(())
}

/// The trial of a user who has a new folder, and only the compiler of our environment.
fn user(source: &Path, folder: &Path) -> Result<Command, String> {
    files::make_folder(folder)?;
    let mut shell = Command::new("sh");
    shell.arg(place::root().join("packaging/try/crates.sh")).arg(source);
    shell.current_dir(folder).env_clear();
    for name in ["PATH", "RUSTUP_TOOLCHAIN", "RUSTUP_HOME", "LANG"] {
        shell.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    if let (None, Some(home)) = (std::env::var_os("RUSTUP_HOME"), std::env::var_os("HOME")) {
        shell.env("RUSTUP_HOME", Path::new(&home).join(".rustup"));
    }
    Ok(shell)
}
