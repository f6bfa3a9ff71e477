//! Programs of crates.io that commands here use: the one on the path, or one that is built once
//! below `target/tools`.

use crate::{place, step};
use std::path::Path;
use std::process::Command;

/// A program, the package that has it, and the version of that.
#[derive(Clone, Copy)]
pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
    pub version: &'static str,
}

impl Tool {
    /// The program; builds it if it is not there.
    pub fn command(&self) -> Result<Command, String> {
        let Tool { program, package, version } = *self;
        let works = |program: &Path| {
            let said = Command::new(program).arg("--version").output();
            said.is_ok_and(|output| output.status.success())
        };
        let folder = place::target_dir().join("tools");
        let own = folder.join("bin").join(program);
        if works(Path::new(program)) {
            return Ok(Command::new(program));
        }
        if !works(&own) {
            println!("==> building {package} {version}, once");
            let mut cargo = place::cargo();
            cargo.args(["install", package, "--locked", "--version", version, "--root"]);
            step::succeed(cargo.arg(&folder))?;
        }
        Ok(Command::new(own))
    }
}
