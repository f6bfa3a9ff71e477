//! One folder of sources, as a list of tests.

use crate::compile::compile;
use crate::directives::Source;
use crate::judge::judge;
use crate::library::{companion, library};
use crate::platform::{Platform, platform};
use crate::process::run;
use std::ffi::OsString;
use std::path::Path;

/// The sources of a folder, with their twins, in the order of their names.
pub fn sources(suite: &str) -> Vec<Result<Source, String>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(suite);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files: Vec<_> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "c" || e == "cc"))
        .collect();
    files.sort();
    let mut out = Vec::new();
    for file in files {
        match Source::cases(&file) {
            Err(e) => out.push(Err(e)),
            Ok(cases) => {
                for source in cases {
                    let twin = source.twin.then(|| source.as_twin());
                    out.extend([Some(source), twin].into_iter().flatten().map(Ok));
                }
            }
        }
    }
    out
}

/// Compiles a source and runs it as often as it says.
pub fn run_source(suite: &str, source: &Source) -> Result<(), String> {
    if source.setuid {
        return crate::secure::run_setuid(source);
    }
    run_on(suite, source, &preloaded(source)?)
}

/// Compiles a source and runs it as often as it says, with these libraries preloaded.
pub fn run_on(suite: &str, source: &Source, preload: &Option<OsString>) -> Result<(), String> {
    let program = compile(suite, source)?;
    for arguments in &source.runs {
        let mut command = platform().command(&program.binary, preload.as_deref());
        command.args(arguments).env("AUX_DIR", &program.aux_dir).env("TEST_NAME", &source.name);
        command.envs(source.env.iter().map(|(k, v)| (k, v)));
        judge(source, &run(command, &source.limits, source.timeout))?;
    }
    Ok(())
}

/// What the loader is asked to load first.
fn preloaded(source: &Source) -> Result<Option<OsString>, String> {
    let Some(path) = library().path().filter(|_| platform() != Platform::Musl) else {
        return Ok(None);
    };
    let mut preload = path.as_os_str().to_owned();
    if source.checked {
        preload.push(":");
        preload.push(companion(path)?);
    }
    Ok(Some(preload))
}

/// The promises of the security page that the default build keeps (16 comes with a later issue).
pub const DEFAULT_BUILD: [u32; 21] =
    [1, 2, 3, 4, 6, 10, 15, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31];

/// The promises that only the secure build keeps, as far as slots are concerned.
pub const SECURE_BUILD: [u32; 8] = [5, 7, 8, 11, 12, 13, 14, 18];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_has_a_test_that_names_it() {
        let mut held = Vec::new();
        for suite in ["abi", "misuse", "storms"] {
            for source in sources(suite) {
                held.extend(source.expect("directives are well formed").promises);
            }
        }
        let promised = || DEFAULT_BUILD.iter().chain(&SECURE_BUILD);
        let open: Vec<_> = promised().filter(|p| !held.contains(p)).collect();
        assert!(open.is_empty(), "promises without a test: {open:?}");
    }

    #[test]
    fn every_misuse_has_a_message_or_a_measure() {
        for source in sources("misuse") {
            let source = source.expect("directives are well formed");
            assert!(!source.promises.is_empty(), "{} names no promise", source.path.display());
        }
    }

    /// Two programs of one name would be built over each other.
    #[test]
    fn every_test_has_a_name_of_its_own() {
        for suite in ["abi", "misuse", "storms"] {
            let mut names = std::collections::HashSet::new();
            for source in sources(suite).into_iter().flatten() {
                assert!(names.insert(source.name.clone()), "{suite}: two tests {}", source.name);
            }
        }
    }
}
