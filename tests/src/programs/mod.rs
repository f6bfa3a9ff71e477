//! Real programs under load: the scripts of `programs/`, each run on libc and on other allocators.
//!
//! A script runs in its own empty folder and prints what the program computed. It must end well on
//! every allocator and print what it prints on libc. On Toft it must also print nothing in the
//! library's name on standard error, and at least one process must run on the library. Leading
//! comments state what the script needs:
//!
//! ```text
//! # needs: TOOL PACKAGE        a program, and the Debian package that has it
//! # probe: PACKAGE COMMAND     a command that fails where the package is missing
//! # timeout: 120               seconds for each run
//! # untouched: WHY             the program cannot be preloaded: only the outputs are compared
//! ```
//!
//! | file | what |
//! |---|---|
//! | `run.rs` | one script on one allocator |
//! | `measure.rs` | the events of a script, and its figures |
//! | `tree.rs` | memory and processor time of a process and its descendants |
//! | `page.rs` | the figures as a page |
//! | `labels.rs` | the functions that profiles of programs name, as a section of that page |

pub mod labels;
pub mod measure;
pub mod page;
pub mod run;
pub mod tree;

use crate::directives::PATIENCE;
use crate::process::command;
use std::path::{Path, PathBuf};
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
    /// Reads a script. Other directives than these are another reader's.
    pub(crate) fn read(path: PathBuf) -> Result<Script, String> {
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut script = Script {
            path,
            name,
            needs: Vec::new(),
            probes: Vec::new(),
            timeout: PATIENCE * Duration::from_secs(120),
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
                    script.timeout =
                        PATIENCE * Duration::from_secs(value.parse().map_err(|_| wrong())?);
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
    files_in(&folder())?.into_iter().map(Script::read).collect()
}

/// The scripts of a folder, in the order of their names.
pub(crate) fn files_in(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files: Vec<_> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "sh"))
        .collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_in_the_list() {
        let list = ["packages.txt", "packages-real.txt"].map(|name| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        });
        let lines = list.iter().flat_map(|list| list.lines());
        let listed: Vec<_> = lines.filter(|line| !line.starts_with('#')).collect();
        let labelled = labels::programs().expect("scripts can be read");
        let scripts = scripts().expect("scripts can be read").into_iter();
        for script in scripts.chain(labelled.into_iter().map(|program| program.script)) {
            for (_, package) in script.needs.iter().chain(&script.probes) {
                assert!(listed.contains(&package.as_str()), "{}: {package}", script.name);
            }
        }
        let sources = ["abi", "misuse", "storms"].into_iter().flat_map(crate::suite::sources);
        for source in sources.map(|source| source.expect("directives are well formed")) {
            for (_, package) in &source.needs {
                assert!(listed.contains(&package.as_str()), "{}: {package}", source.name);
            }
        }
    }
}
