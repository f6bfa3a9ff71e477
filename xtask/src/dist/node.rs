//! The package for npm: the command alone, which npm puts on the path.

use super::build::Built;
use super::{Dist, copy, copy_licences, emptied, run, template, write};
use crate::install::{COMMANDS, VERSION};
use crate::place;
use std::path::PathBuf;
use std::process::Command;

/// The package.
pub fn make(dist: &Dist, built: &Built) -> Result<PathBuf, String> {
    let stage = dist.work.join("npm");
    emptied(&stage)?;
    write(&stage.join("package.json"), template("npm/package.json")?)?;
    for command in COMMANDS {
        copy(&built.folder.join(command), &stage.join("bin").join(command))?;
    }
    copy(&place::root().join("docs/start/node.md"), &stage.join("README.md"))?;
    copy_licences(&stage)?;
    let mut npm = Command::new("npm");
    run(npm.args(["pack", "--quiet", "--pack-destination"]).arg(&dist.out).current_dir(&stage))?;
    Ok(dist.out.join(format!("toft-{VERSION}.tgz")))
}
