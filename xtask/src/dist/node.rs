//! The package for npm: the command alone, which npm puts on the path.

use super::build::Built;
use super::{Dist, copy, emptied, output, template, write};
use crate::install::VERSION;
use crate::place;
use std::path::PathBuf;
use std::process::Command;

/// The package.
pub fn make(dist: &Dist, built: &Built) -> Result<PathBuf, String> {
    let stage = dist.work.join("npm");
    emptied(&stage)?;
    write(&stage.join("package.json"), &template("npm/package.json")?)?;
    copy(&built.folder.join("toft"), &stage.join("bin/toft"))?;
    copy(&place::root().join("docs/start/node.md"), &stage.join("README.md"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&place::root().join(licence), &stage.join(licence))?;
    }
    output(
        Command::new("npm").args(["pack", "--pack-destination"]).arg(&dist.out).current_dir(&stage),
    )?;
    Ok(dist.out.join(format!("toft-{VERSION}.tgz")))
}
