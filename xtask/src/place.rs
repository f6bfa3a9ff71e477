//! Where things are.

use crate::step;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the repository")
}

/// The folder of a crate: in `crates` is what ships, in `lab` what measures.
pub fn folder_of(name: &str) -> PathBuf {
    let folder = |above| root().join(above).join(name);
    Some(folder("lab")).filter(|folder| folder.is_dir()).unwrap_or_else(|| folder("crates"))
}

/// Where cargo puts what it builds here.
pub fn target_dir() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The cargo that runs this, without what it has set for this package: build scripts that read
/// these variables would otherwise be run again by every second command.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(root()).env("CARGO_TERM_PROGRESS_WHEN", "never");
    cargo.env("CARGO_BUILD_JOBS", jobs().to_string());
    cargo
}

/// Builds packages as they are released; returns the folder that they are in.
pub fn build(packages: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = cargo();
    cargo.args(["build", "--release"]);
    packages.iter().for_each(|package| _ = cargo.args(["--package", package]));
    step::succeed(&mut cargo)?;
    Ok(target_dir().join("release"))
}

/// As many compilers at a time as there are processors, if each can have two gigabytes.
fn jobs() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let kilobytes = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().trim_end_matches(" kB").parse::<usize>().ok()
    });
    kilobytes.map_or(processors, |kilobytes| processors.min(kilobytes >> 21)).max(1)
}
