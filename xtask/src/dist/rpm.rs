//! The RPM, by rpmbuild: `packaging/rpm/toft.spec` says what is in it.

use super::build::Built;
use super::{Dist, copy, emptied, run, template, write};
use crate::install::{Place, VERSION, install};
use crate::place;
use std::path::PathBuf;
use std::process::Command;

/// Where libraries lie on Fedora, RHEL and openSUSE.
const LIBDIR: &str = "lib64";

/// The package.
pub fn make(dist: &Dist, built: &Built) -> Result<PathBuf, String> {
    let (work, machine) = (dist.work.join("rpm"), built.machine.name);
    let staged = work.join("staged");
    emptied(&work)?;
    install(&built.folder, &Place::packed("/usr", &staged, LIBDIR))?;
    copy(&place::root().join("README.md"), &staged.join("usr/share/doc/toft/README.md"))?;
    write(&work.join("toft.spec"), template("rpm/toft.spec")?)?;
    run(Command::new("rpmbuild")
        .args(["-bb", "--quiet", "--nodeps", "--target", machine])
        .arg(format!("--define=_topdir {}", work.display()))
        .arg(format!("--define=staged {}", staged.display()))
        .arg("toft.spec")
        .env("SOURCE_DATE_EPOCH", &dist.epoch)
        .current_dir(&work))?;
    let name = format!("toft-{VERSION}-1.{machine}.rpm");
    copy(&work.join("RPMS").join(machine).join(&name), &dist.out.join(&name))?;
    Ok(dist.out.join(name))
}
