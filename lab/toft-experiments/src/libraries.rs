//! The libraries that experiments build and load, and the folders that they are built in.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the source tree that this program was built from.
pub fn root() -> &'static Path {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    lab.and_then(Path::parent).expect("the crate is in the folder `lab` of the tree")
}

/// Returns the folder for what an experiment builds.
pub fn build_folder(experiment: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("experiments").join(experiment)
}

/// Returns cargo in a source tree, without variables of this process that would change what it
/// builds.
pub fn cargo(tree: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let starts = ["CARGO_PKG_", "CARGO_MANIFEST_", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"];
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if starts.iter().any(|start| text.starts_with(start)) {
            cargo.env_remove(&variable);
        }
    }
    cargo.env_remove("LD_PRELOAD").current_dir(tree);
    cargo
}

/// Runs a command whose output is only shown if it fails.
pub fn succeed(command: &mut Command, what: &str) -> Result<(), String> {
    let output = command.output();
    let program = command.get_program().to_string_lossy().into_owned();
    let output = output.map_err(|error| format!("{what}: {program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{what}: {}", said.trim())) }
}

/// A library of a source tree.
#[derive(Debug)]
pub struct Library<'a> {
    /// The name in messages.
    pub name: &'a str,
    /// The words of cargo that build it, up to `--`.
    pub words: &'a str,
    /// The words after `--`.
    pub link: &'a [&'a str],
    /// The file's name.
    pub file: &'a str,
    /// Link-time optimisation. A library without `std` needs `fat`: the core library that rustc
    /// ships refers to `rust_eh_personality`, which only `std` defines.
    pub lto: &'a str,
    /// Variables that choose what is built.
    pub variables: &'a [(&'a str, &'a str)],
}

impl Library<'_> {
    /// Toft as it is shipped.
    pub const TOFT: Library<'static> = Library {
        name: "toft",
        words: "build --package toft-preload",
        link: &[],
        file: "libtoft.so",
        lto: "fat",
        variables: &[],
    };

    /// Builds the library from `tree`, and returns its path. No other library may share the target
    /// directory `target`: cargo would take the object code of one for that of the other.
    ///
    /// A full build has the settings of the profile. A quick one has 16 codegen units, and follows
    /// the settings of the environment, except for link-time optimisation.
    pub fn build(&self, tree: &Path, target: &Path, quick: bool) -> Result<PathBuf, String> {
        eprintln!("builds {}", self.name);
        let mut cargo = cargo(tree);
        for (variable, _) in std::env::vars_os() {
            if !quick && variable.to_string_lossy().starts_with("CARGO_PROFILE_") {
                cargo.env_remove(&variable);
            }
        }
        if quick {
            cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
            cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        }
        cargo.env("CARGO_PROFILE_RELEASE_LTO", self.lto).env("CARGO_TARGET_DIR", target);
        cargo.envs(self.variables.iter().copied());
        cargo.args(self.words.split_whitespace()).args(["--quiet", "--locked", "--release"]);
        if !self.link.is_empty() {
            cargo.arg("--").args(self.link);
        }
        succeed(&mut cargo, &format!("{} does not build", self.name))?;
        let built = target.join("release").join(self.file);
        built.canonicalize().map_err(|error| format!("{}: {error}", built.display()))
    }
}
