//! Whole programs: the scripts of `programs/`, each run without the library and with it.
//!
//! A script runs in an empty folder of its own and prints what the program computed. Both runs must
//! end well and print the same; the one on the library must say nothing in its name on standard
//! error, and must have started at least one process on it. Leading comments tell what it needs:
//!
//! ```text
//! # needs: TOOL PACKAGE        a program, and the Debian package that has it
//! # probe: PACKAGE COMMAND     a command that fails where the package is missing
//! # timeout: 120               seconds for each run
//! # untouched: WHY             the program cannot be preloaded: only the outputs are compared
//! ```

use crate::directives::Ending;
use crate::library::{Library, library, scratch_dir};
use crate::process::{Finished, command, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A script and its directives.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file.
    pub path: PathBuf,
    /// Its name without the ending.
    pub name: String,
    /// Programs it needs, with their Debian packages.
    pub needs: Vec<(String, String)>,
    /// Commands that fail where a Debian package is missing, with that package.
    pub probes: Vec<(String, String)>,
    timeout: Duration,
    untouched: bool,
}

/// The folder of the scripts.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

impl Script {
    fn read(path: PathBuf) -> Result<Script, String> {
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut script = Script {
            path,
            name,
            needs: Vec::new(),
            probes: Vec::new(),
            timeout: Duration::from_secs(120),
            untouched: false,
        };
        for line in text.lines().take_while(|l| l.starts_with('#')) {
            let Some((key, value)) = line.trim_start_matches(['#', ' ']).split_once(": ") else {
                continue;
            };
            let pair = || value.split_once(' ').map(|(a, b)| (a.to_owned(), b.trim().to_owned()));
            let wrong = || format!("{}: not understood: {line}", script.path.display());
            match key {
                "needs" => script.needs.push(pair().ok_or_else(wrong)?),
                "probe" => {
                    let (package, probe) = pair().ok_or_else(wrong)?;
                    script.probes.push((probe, package));
                }
                "timeout" => {
                    script.timeout = Duration::from_secs(value.parse().map_err(|_| wrong())?);
                }
                "untouched" => script.untouched = true,
                _ => {}
            }
        }
        Ok(script)
    }

    /// The Debian packages that are not installed.
    pub fn missing(&self) -> Vec<&str> {
        let mut missing = crate::need::missing(&self.needs);
        let fails = |probe: &str| {
            !command("sh").args(["-c", probe]).output().is_ok_and(|out| out.status.success())
        };
        // A probe means nothing where its program is missing.
        if missing.is_empty() {
            missing.extend(self.probes.iter().filter(|(p, _)| fails(p)).map(|(_, k)| k.as_str()));
        }
        missing
    }
}

/// All scripts, in the order of their names.
pub fn scripts() -> Result<Vec<Script>, String> {
    let dir = folder();
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files: Vec<_> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "sh"))
        .collect();
    files.sort();
    files.into_iter().map(Script::read).collect()
}

/// The descriptor on which processes report that they run on the library: high enough that no
/// script uses it.
const REPORT: &str = "180";

/// Runs the script, on the library if there is one. Also gives what processes reported.
fn run_script(script: &Script, preload: Option<&Path>) -> Result<(Finished, String), String> {
    let which = if preload.is_some() { "toft" } else { "plain" };
    let dir = scratch_dir("programs").join(format!("{}-{which}", script.name));
    let said = |e: std::io::Error| format!("{}: {e}", dir.display());
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(said)?;
    }
    std::fs::create_dir_all(dir.join("work")).map_err(said)?;
    let report = dir.join("report");
    // Sockets are bound in the temporary folder (Chromium does), and a socket's path has room for 108
    // bytes: the folder is a short one of its own, wherever the clone lies.
    let temporary = tempfile::Builder::new().prefix("toft-").tempdir().map_err(said)?;
    // The first shell opens the report before the library is in any process.
    let start = format!(
        "exec {REPORT}>>\"$REPORT_FILE\"; unset REPORT_FILE; \
         if [ -n \"$PRELOAD\" ]; then export LD_PRELOAD=\"$PRELOAD\" TOFT_REPORT_FD={REPORT}; fi; \
         unset PRELOAD; exec bash -eu -o pipefail \"$1\""
    );
    let mut command: Command = command("bash");
    command
        .args(["--norc", "-c", &start, "start"])
        .arg(&script.path)
        .current_dir(dir.join("work"))
        .env("REPORT_FILE", &report)
        .env("PRELOAD", preload.map(Path::as_os_str).unwrap_or_default())
        .env("PROGRAMS", folder())
        .env("HOME", dir.join("work"))
        .env("TMPDIR", temporary.path())
        .env("PYTHONHASHSEED", "0")
        .env("TZ", "UTC");
    // The cargo that runs these tests must not be seen by one that is tested.
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO") && name != "CARGO_HOME" || name == "RUSTFLAGS" {
            command.env_remove(&key);
        }
    }
    // With a new home, rustup and cargo would no longer find what is installed in the old one.
    if let Some(home) = std::env::var_os("HOME") {
        for (key, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            if std::env::var_os(key).is_none() {
                command.env(key, Path::new(&home).join(folder));
            }
        }
    }
    let mut finished = run(command, &[], script.timeout);
    for place in [dir.as_path(), temporary.path()] {
        finished.stdout = finished.stdout.replace(&place.display().to_string(), "DIR");
    }
    Ok((finished, std::fs::read_to_string(&report).unwrap_or_default()))
}

/// Compares a script's two runs.
pub fn compare(script: &Script) -> Result<(), String> {
    let (plain, _) = run_script(script, None)?;
    if plain.timed_out || plain.ending != Ending::Exit(0) {
        return Err(plain.describe("fails without the library"));
    }
    if plain.stdout.is_empty() {
        return Err(plain.describe("prints nothing that could be compared"));
    }
    let Library::Toft(path) = library() else {
        return Ok(());
    };
    let (toft, report) = run_script(script, Some(path))?;
    if toft.timed_out {
        return Err(toft.describe(&format!("not done after {} s", script.timeout.as_secs())));
    }
    if toft.ending != plain.ending {
        return Err(toft.describe("ends otherwise than without the library"));
    }
    if toft.stdout != plain.stdout {
        let wrong = format!("prints other than without the library:\n{}", plain.stdout);
        return Err(toft.describe(&wrong));
    }
    if toft.stderr.lines().any(|line| line.starts_with("toft:")) {
        return Err(toft.describe("the library complained"));
    }
    if !script.untouched && !report.contains("toft-ready ") {
        return Err(toft.describe("no process reported that it runs on the library"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_in_the_list() {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages.txt");
        let list = std::fs::read_to_string(list).expect("packages.txt");
        let listed: Vec<_> = list.lines().filter(|l| !l.starts_with('#')).collect();
        for script in scripts().expect("scripts can be read") {
            for (_, package) in script.needs.iter().chain(&script.probes) {
                assert!(listed.contains(&package.as_str()), "{}: {package}", script.name);
            }
        }
    }
}
