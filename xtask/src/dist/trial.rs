//! Installs each artifact as its user would, uses it, removes it, and checks that nothing is left.
//! The scripts are in `packaging/try`.

use super::{Dist, emptied, name};
use crate::place;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The user `nobody` of Debian.
const UNPRIVILEGED: u32 = 65534;

/// The scripts that try an artifact, each with the suite of Debian to try it in.
fn scripts(artifact: &Path) -> &'static [(&'static str, &'static str)] {
    let name = name(artifact);
    let is = |part| name.contains(part);
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        // All Debian packages at once: in the release that they are built on, and in the oldest
        // that can be had.
        "deb" if name.starts_with("toft_") => {
            &[("debian.sh", "bookworm"), ("debian.sh", "bullseye")]
        }
        "rpm" => &[("rpm.sh", "")],
        "whl" => &[("python.sh", "")],
        "tgz" => &[("node.sh", "")],
        "gz" if is("-debug") => &[],
        "gz" if is("-aarch64-") => &[("aarch64.sh", "")],
        "gz" if is("-linux-") => &[("archive.sh", "")],
        _ => &[],
    }
}

/// Tries all, and says which do not work.
pub fn all(dist: &Dist, made: &[PathBuf]) -> Result<ExitCode, String> {
    let (mut passed, mut failed) = (0, 0);
    for artifact in made {
        for (script, suite) in scripts(artifact) {
            println!("==> trying {} by {script} {suite}", name(artifact));
            let folder = dist.work.join("try");
            emptied(&folder)?;
            let mut shell = shell(&folder, *script == "archive.sh")?;
            let given = if *script == "debian.sh" { &dist.out } else { artifact };
            let script = place::root().join("packaging/try").join(script);
            match shell.arg(script).arg(given).arg(suite).current_dir(&folder).status() {
                Ok(status) if status.success() => passed += 1,
                Ok(status) => {
                    failed += 1;
                    println!("{}: {status}", name(artifact));
                }
                Err(error) => return Err(format!("sh: {error}")),
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A shell. With `other` and as root it runs as a user who owns nothing but this folder.
fn shell(folder: &Path, other: bool) -> Result<Command, String> {
    if !other || !nix::unistd::geteuid().is_root() {
        return Ok(Command::new("sh"));
    }
    let chown = std::os::unix::fs::chown(folder, Some(UNPRIVILEGED), Some(UNPRIVILEGED));
    chown.map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new("setpriv");
    let number = UNPRIVILEGED.to_string();
    command.args(["--reuid", &number, "--regid", &number, "--clear-groups", "sh"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_artifact_is_tried() {
        let first = |name: &str| scripts(Path::new(name)).first().map(|(script, _)| *script);
        for (artifact, script) in [
            ("d/toft-0.1.0-x86_64-linux-glibc2.17.tar.gz", Some("archive.sh")),
            ("d/toft-0.1.0-x86_64-linux-musl.tar.gz", Some("archive.sh")),
            ("d/toft-0.1.0-x86_64-linux-glibc2.17-debug.tar.gz", None),
            ("d/toft-0.1.0-aarch64-linux-glibc2.17.tar.gz", Some("aarch64.sh")),
            ("d/toft_0.1.0-1_amd64.deb", Some("debian.sh")),
            ("d/libtoft0_0.1.0-1_amd64.deb", None),
            ("d/toft-0.1.0-1.x86_64.rpm", Some("rpm.sh")),
            ("d/toft-0.1.0-py3-none-manylinux_2_17_x86_64.whl", Some("python.sh")),
            ("d/toft-0.1.0.tgz", Some("node.sh")),
            ("d/SHA256SUMS", None),
        ] {
            assert_eq!(first(artifact), script, "{artifact}");
        }
    }
}
