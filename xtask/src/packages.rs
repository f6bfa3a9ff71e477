//! The Debian packages that commands need: installed where that can be done, named where not.

use crate::{files, place};
use std::process::{Command, Stdio};
pub use toft_bench::preloadable::installed as find;

/// What the tests need that CI runs.
pub const TESTS: &str = "tests/packages.txt";

/// What `cargo xtask test real` needs beyond that: too large for every run of CI.
pub const REAL: &str = "tests/packages-real.txt";

/// What `cargo xtask dist` needs.
pub const DIST: &str = "packaging/packages.txt";

/// The packages of a list.
fn listed(list: &str) -> Result<Vec<String>, String> {
    let text = files::read(&place::root().join(list))?;
    let lines = text.lines().map(str::trim);
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(Into::into).collect())
}

/// A program of the package's name that came from elsewhere (cargo by rustup) is as good. A name
/// may be a pattern, for what has a version in its name: `libpython3.*-testsuite`.
fn is_there(package: &str) -> bool {
    find(package).is_some() || {
        let query = Command::new("dpkg-query")
            .args(["--show", "--showformat=${db:Status-Status}\\n", package])
            .output();
        query.is_ok_and(|out| out.stdout.split(|&b| b == b'\n').any(|line| line == b"installed"))
    }
}

fn missing(list: &str) -> Result<Vec<String>, String> {
    Ok(listed(list)?.into_iter().filter(|package| !is_there(package)).collect())
}

/// `apt-get`, as root: directly, or by a sudo that asks for no password.
fn apt_get() -> Option<Command> {
    find("apt-get")?;
    let mut command = if nix::unistd::geteuid().is_root() {
        Command::new("apt-get")
    } else {
        let quiet = Command::new("sudo")
            .args(["-n", "true"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !quiet.is_ok_and(|status| status.success()) {
            return None;
        }
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive").args([
        "--quiet",
        "--quiet",
        "--option=Dpkg::Use-Pty=0",
    ]);
    command.stdin(Stdio::null());
    Some(command)
}

fn apt(arguments: &[&str], packages: &[String]) -> bool {
    apt_get().is_some_and(|mut command| {
        command.args(arguments).args(packages).status().is_ok_and(|status| status.success())
    })
}

/// Installs what is missing of a list, if `install` is set and it can be done. Returns true if all
/// is there now.
pub fn prepare(list: &str, install: bool) -> Result<bool, String> {
    let wanted = missing(list)?;
    if wanted.is_empty() {
        return Ok(true);
    }
    println!("\n==> missing Debian packages: {}", wanted.join(" "));
    if install && apt_get().is_some() {
        println!("==> installing them");
        let get = ["install", "--yes", "--no-install-recommends"];
        // Without `update` a fresh machine knows no package at all.
        if !apt(&["update"], &[]) || !apt(&get, &wanted) {
            // One that this release does not have must not keep the others away.
            for package in &wanted {
                apt(&get, std::slice::from_ref(package));
            }
        }
    }
    let left = missing(list)?;
    if !left.is_empty() {
        println!("==> not installed: {}", left.join(" "));
        println!("    What needs them is left out or fails. To install them, as root:");
        println!("    apt-get update && apt-get install --yes '{}'", left.join("' '"));
    }
    Ok(left.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_of_packages() {
        let lists = [TESTS, REAL, DIST].map(|list| listed(list).unwrap());
        assert!(lists[0].len() > 5 && lists[1..].iter().all(|list| !list.is_empty()));
        for package in lists.iter().flatten() {
            let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.*".contains(c);
            assert!(package.chars().all(ok), "{package}");
        }
    }

    #[test]
    fn a_package_that_nobody_has_is_missing() {
        assert!(!is_there("toft-no-such-package"));
        assert!(is_there("sh"));
        assert!(!is_there("toft-no-such-*"));
    }
}
