//! The wheel: the command as a script, and `python -m toft`.

use super::build::Built;
use super::{Dist, copy, emptied, name, run, template, write};
use crate::install::VERSION;
use crate::place;
use std::fs;
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
            let page = place::root().join("docs/start/python.md");
            text += &fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
        }
        write(&info.join(file), &text)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&place::root().join(licence), &info.join("licenses").join(licence))?;
    }
    for file in ["__init__.py", "__main__.py"] {
        write(&stage.join("toft").join(file), &template(&format!("python/{file}"))?)?;
    }
    copy(&built.folder.join("toft"), &stage.join(format!("toft-{VERSION}.data/scripts/toft")))?;
    run(Command::new("/usr/bin/python3")
        .args(["-m", "wheel", "pack"])
        .arg(&stage)
        .arg("--dest-dir")
        .arg(&out)
        .env("SOURCE_DATE_EPOCH", &dist.epoch))?;
    let wheel = fs::read_dir(&out).map_err(|e| e.to_string())?.flatten().next();
    let wheel = wheel.ok_or("no wheel was packed")?.path();
    let path = dist.out.join(name(&wheel));
    copy(&wheel, &path)?;
    Ok(path)
}
