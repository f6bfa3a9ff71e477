//! Each artifact, tried as its user does it: installed in an empty place, used, removed, and nothing left. What a user
//! types is in `packaging/tried`.

use super::{Dist, emptied, name};
use crate::place;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The user `nobody` of Debian.
const NOBODY: u32 = 65534;

/// The script that tries an artifact, and what it is given.
fn script(artifact: &Path) -> Option<(&'static str, &Path)> {
    let name = name(artifact);
    let out = artifact.parent()?;
    match name.rsplit_once('.')?.1 {
        // All packages at once.
        "deb" => name.starts_with("toft_").then_some(("debian.sh", out)),
        "whl" => Some(("python.sh", artifact)),
        "tgz" => Some(("node.sh", artifact)),
        "gz" => (!name.contains("-debug")).then_some(("archive.sh", artifact)),
        _ => None,
    }
}

/// Tries all, and says which do not work.
pub fn all(dist: &Dist, made: &[PathBuf]) -> Result<ExitCode, String> {
    let (mut passed, mut failed) = (0, 0);
    for artifact in made {
        let Some((script, given)) = script(artifact) else { continue };
        println!("==> trying {}", name(artifact));
        let folder = dist.work.join("tried");
        emptied(&folder)?;
        let mut shell = shell(&folder, script == "archive.sh")?;
        let script = place::root().join("packaging/tried").join(script);
        match shell.arg(script).arg(given).current_dir(&folder).status() {
            Ok(status) if status.success() => passed += 1,
            Ok(status) => {
                failed += 1;
                println!("{}: {status}", name(artifact));
            }
            Err(error) => return Err(format!("sh: {error}")),
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A shell; of a user who may do nothing but in this folder, where that is asked for and can be.
fn shell(folder: &Path, other: bool) -> Result<Command, String> {
    if !other || !nix::unistd::geteuid().is_root() {
        return Ok(Command::new("sh"));
    }
    let chown = nix::unistd::chown(folder, Some(NOBODY.into()), Some(NOBODY.into()));
    chown.map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new("setpriv");
    let number = NOBODY.to_string();
    command.args(["--reuid", &number, "--regid", &number, "--clear-groups", "sh"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_artifact_is_tried_once() {
        let tried = |name: &str| script(Path::new(name)).map(|(script, _)| script);
        assert_eq!(tried("d/toft-0.1.0-x86_64-linux-gnu.tar.gz"), Some("archive.sh"));
        assert_eq!(tried("d/toft-0.1.0-x86_64-linux-gnu-debug.tar.gz"), None);
        assert_eq!(tried("d/toft_0.1.0-1_amd64.deb"), Some("debian.sh"));
        assert_eq!(tried("d/libtoft0_0.1.0-1_amd64.deb"), None);
        assert_eq!(tried("d/toft-0.1.0-py3-none-manylinux_2_34_x86_64.whl"), Some("python.sh"));
        assert_eq!(tried("d/toft-0.1.0.tgz"), Some("node.sh"));
    }
}
