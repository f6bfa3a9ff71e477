//! Installs each artifact as its user would, uses it, removes it, and checks that nothing is left.
//! The scripts are in `packaging/try`.

use super::{Dist, emptied, name};
use crate::place;
use crate::tally::Suite;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user `nobody` of Debian.
const UNPRIVILEGED: u32 = 65534;

/// A release of Debian in which packages are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The one that they are built on.
    Bookworm,
    /// The oldest that can be had.
    Bullseye,
}

impl Release {
    pub const ALL: &[Release] = &[Release::Bookworm, Release::Bullseye];

    fn name(self) -> &'static str {
        match self {
            Release::Bookworm => "bookworm",
            Release::Bullseye => "bullseye",
        }
    }
}

/// The script that tries an artifact. `debian.sh` tries all Debian packages at once.
fn script(artifact: &Path) -> Option<&'static str> {
    let name = name(artifact);
    let is = |part| name.contains(part);
    match name.rsplit_once('.')?.1 {
        "deb" if name.starts_with("toft_") => Some("debian.sh"),
        "rpm" => Some("rpm.sh"),
        "whl" => Some("python.sh"),
        "tgz" => Some("node.sh"),
        "gz" if is("-debug") => None,
        "gz" if is("-aarch64-") => Some("aarch64.sh"),
        "gz" if is("-linux-") => Some("archive.sh"),
        _ => None,
    }
}

/// Tries each artifact, the Debian packages in these releases. One test for each trial.
pub fn all(dist: &Dist, made: &[PathBuf], releases: &[Release]) -> Vec<Suite> {
    let mut tally = Vec::new();
    for artifact in made {
        match script(artifact) {
            None => {}
            Some("debian.sh") => {
                for release in releases.iter().map(|release| release.name()) {
                    tally.push(trial(dist, artifact, "debian.sh", release));
                }
            }
            Some(script) => tally.push(trial(dist, artifact, script, "")),
        }
    }
    tally
}

fn trial(dist: &Dist, artifact: &Path, script: &str, release: &str) -> Suite {
    let title = format!("{} by {script} {release}", name(artifact));
    println!("==> trying {title}");
    let folder = dist.work.join("try");
    let given = if script == "debian.sh" { &dist.out } else { artifact };
    let script_file = place::root().join("packaging/try").join(script);
    let done = emptied(&folder).and_then(|()| shell(&folder, script == "archive.sh")).and_then(
        |mut shell| {
            shell.arg(script_file).arg(given).arg(release).current_dir(&folder);
            crate::step::succeed(&mut shell)
        },
    );
    Suite::checked(title.trim_end(), 1, done)
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
        for (artifact, wanted) in [
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
            assert_eq!(script(Path::new(artifact)), wanted, "{artifact}");
        }
    }
}
