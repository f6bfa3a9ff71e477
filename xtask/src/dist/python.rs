//! The wheel: the command as a script, and `python -m toft`.

use super::build::Built;
use super::{Dist, copy, copy_licences, emptied, name, run, template, write};
use crate::install::{COMMANDS, VERSION};
use crate::{files, place};
use std::path::PathBuf;
use std::process::Command;

/// The wheel.
pub fn make(dist: &Dist, built: &Built) -> Result<PathBuf, String> {
    let (stage, out) = (dist.work.join("wheel"), dist.work.join("wheel-out"));
    emptied(&stage)?;
    emptied(&out)?;
    let info = stage.join(format!("toft-{VERSION}.dist-info"));
    for file in ["METADATA", "WHEEL"] {
        let mut text = template(&format!("python/{file}"))?;
        if file == "METADATA" {
            // The page of the package is the page for Python.
            text += &files::read(&place::root().join("docs/start/python.md"))?;
        }
        write(&info.join(file), text)?;
    }
    copy_licences(&info.join("licenses"))?;
    for file in ["__init__.py", "__main__.py"] {
        write(&stage.join("toft").join(file), template(&format!("python/{file}"))?)?;
    }
    let scripts = stage.join(format!("toft-{VERSION}.data/scripts"));
    for command in COMMANDS {
        copy(&built.folder.join(command), &scripts.join(command))?;
    }
    run(Command::new("/usr/bin/python3")
        .args(["-m", "wheel", "pack"])
        .arg(&stage)
        .arg("--dest-dir")
        .arg(&out)
        .env("SOURCE_DATE_EPOCH", &dist.epoch))?;
    let wheels = files::in_folder(&out)?;
    let wheel = wheels.first().ok_or("no wheel was packed")?;
    let path = dist.out.join(name(wheel));
    copy(wheel, &path)?;
    Ok(path)
}
