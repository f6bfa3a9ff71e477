//! The RPM, by cargo-generate-rpm: `packaging/rpm/toft.toml` is the manifest that it reads.

use super::build::Built;
use super::{Dist, copy, emptied, run, template, write};
use crate::install::{Place, VERSION, install};
use crate::place;
use crate::tools::Tool;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const CARGO_GENERATE_RPM: Tool =
    Tool { program: "cargo-generate-rpm", package: "cargo-generate-rpm", version: "^0.21" };

/// Where libraries lie on Fedora, RHEL and openSUSE.
const LIBDIR: &str = "lib64";

/// The package.
pub fn make(dist: &Dist, built: &Built) -> Result<PathBuf, String> {
    let (work, machine) = (dist.work.join("rpm"), built.machine.name);
    emptied(&work)?;
    let mut files = install(&built.folder, &Place::packed("/usr", &work, LIBDIR))?;
    files.push(work.join("usr/share/doc/toft/README.md"));
    copy(&place::root().join("README.md"), &files[files.len() - 1])?;
    let mut assets = String::new();
    for file in &files {
        let metadata = fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let below = file.strip_prefix(&work).map_err(|e| e.to_string())?;
        assets += &asset(below, metadata.permissions().mode() & 0o777);
    }
    write(&work.join("Cargo.toml"), template("rpm/toft.toml")?.replace("@ASSETS@\n", &assets))?;
    let path = dist.out.join(format!("toft-{VERSION}-1.{machine}.rpm"));
    run(CARGO_GENERATE_RPM
        .command()?
        // The manifest says what the package needs. Older versions of rpm cannot read zstd.
        .args(["--auto-req", "disabled", "--payload-compress", "xz"])
        .args(["--arch", machine, "--source-date", &dist.epoch, "--output"])
        .arg(&path)
        .current_dir(&work))?;
    Ok(path)
}

/// The manifest's line for a file. cargo-generate-rpm follows links, so a library is a separate
/// file under each name. Its longest name is left out: ldconfig would warn that the one with the
/// interface's version is not a link to it.
fn asset(file: &Path, mode: u32) -> String {
    let (file, doc) = (file.display(), file.iter().any(|part| part == "doc" || part == "man"));
    if file.to_string().ends_with(&format!(".so.{VERSION}")) {
        return String::new();
    }
    format!("    {{ source = '{file}', dest = '/{file}', mode = '{mode:o}', doc = {doc} }},\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_has_its_mode_and_a_library_the_names_that_programs_ask_for() {
        let line = |file: &str| asset(Path::new(file), 0o755);
        let library = "    { source = 'usr/lib64/a.so.0', dest = '/usr/lib64/a.so.0', mode = '755', doc = false },\n";
        assert_eq!(line("usr/lib64/a.so.0"), library);
        assert_eq!(line(&format!("usr/lib64/a.so.{VERSION}")), "");
        assert!(line("usr/share/man/man1/toft.1").contains("doc = true"));
    }
}
