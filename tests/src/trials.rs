//! A folder of sources as the trials of a test binary.

use crate::directives::Source;
use crate::library::{Library, build_under_test, library};
use crate::need;
use crate::platform::platform;
use crate::suite::{run_source, sources};
use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A trial that fails with what `body` says.
pub fn trial(
    name: impl Into<String>,
    body: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let begin = Instant::now();
        let result = body();
        TIMES.lock().unwrap_or_else(PoisonError::into_inner).push((begin.elapsed(), name));
        result.map_err(Failed::from)
    })
}

/// How long each trial took.
static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// A trial that cannot run, because Debian packages are not installed: left out, or failed where
/// all tests are required.
pub fn without(name: &str, missing: &str) -> Trial {
    if need::required() {
        let why = format!("not installed: Debian package {missing}");
        return trial(name, move || Err(why));
    }
    left_out(name, missing)
}

/// A trial that is left out because Debian packages are not installed.
pub fn left_out(name: &str, missing: &str) -> Trial {
    trial(format!("{name} (needs Debian package {missing})"), || Ok(())).with_ignored_flag(true)
}

/// A trial that needs programs.
pub fn needing(
    name: &str,
    needs: &[(String, String)],
    body: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    match need::missing(needs).join(", ") {
        missing if missing.is_empty() => trial(name, body),
        missing => without(name, &missing),
    }
}

fn of_source(suite: &'static str, source: Source) -> Trial {
    let kind = match source.promises[..] {
        [] => String::new(),
        _ => {
            let numbers: Vec<_> = source.promises.iter().map(u32::to_string).collect();
            format!("promise {}", numbers.join(" "))
        }
    };
    if let (Library::Libc, Some(why)) = (library(), &source.libc_skip) {
        return trial(format!("{} (not on libc: {why})", source.name), || Ok(()))
            .with_ignored_flag(true)
            .with_kind(kind);
    }
    if let Some(why) = platform().refuses(&source) {
        return trial(format!("{} (not on {}: {why})", source.name, platform().word()), || Ok(()))
            .with_ignored_flag(true)
            .with_kind(kind);
    }
    if let Some((builds, why)) = &source.builds
        && !builds.contains(&build_under_test())
    {
        return trial(format!("{} ({why})", source.name), || Ok(()))
            .with_ignored_flag(true)
            .with_kind(kind);
    }
    if source.setuid && !crate::secure::can_run() {
        return trial(format!("{} (needs root)", source.name), || Ok(()))
            .with_ignored_flag(true)
            .with_kind(kind);
    }
    if let Some(why) = &source.pkeys
        && !need::pkeys()
    {
        return trial(format!("{} (no protection keys here: {why})", source.name), || Ok(()))
            .with_ignored_flag(true)
            .with_kind(kind);
    }
    let name = source.name.clone();
    let needs = [source.needs.clone(), platform().needs()].concat();
    needing(&name, &needs, move || run_source(suite, &source)).with_kind(kind)
}

/// Returns true if a source has a trial: if it is for some builds only, or if all sources have one.
fn is_chosen(source: &Source, all: bool) -> bool {
    all || source.builds.is_some()
}

/// One trial for each source of a folder. With `TOFT_TEST_ONLY=build` only for those that are for
/// some builds: what holds of each build is tested on others.
pub fn trials(suite: &'static str) -> Vec<Trial> {
    let all = std::env::var_os("TOFT_TEST_ONLY").is_none_or(|only| only != "build");
    sources(suite)
        .into_iter()
        .filter(|source| source.as_ref().map_or(true, |source| is_chosen(source, all)))
        .map(|source| match source {
            Ok(source) => of_source(suite, source),
            Err(e) => trial("directives", move || Err(e)),
        })
        .collect()
}

/// Runs the trials as the arguments say, names the slowest, and ends the process.
pub fn main(trials: Vec<Trial>) -> ! {
    toft_bench::signals::default_in_children();
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    times.sort();
    let slowest =
        times.iter().rev().take(8).map(|(time, name)| format!("{name} {} s", time.as_secs()));
    println!("slowest: {}", slowest.collect::<Vec<_>>().join(", "));
    conclusion.exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_one_build_has_the_sources_that_name_builds() {
        let named = |name: &str| {
            let found = sources("misuse").into_iter().flatten().find(|source| source.name == name);
            found.expect("there is such a source")
        };
        let (of_builds, of_all) = (named("canary_secret"), named("double_free_strdup"));
        assert!(is_chosen(&of_builds, false) && is_chosen(&of_builds, true));
        assert!(!is_chosen(&of_all, false) && is_chosen(&of_all, true));
    }
}
