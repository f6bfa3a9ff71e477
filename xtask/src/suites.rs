//! The test suites, in the order in which they run.

use crate::secure::{self, Strength};
use crate::tally::Suite;
use crate::{arena, carried, packages, place, step};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A suite. The minutes leave room for a busy machine; `step.rs` limits all steps together.
struct Plan {
    /// The name on the command line.
    name: &'static str,
    /// The longest run.
    minutes: u64,
    command: fn() -> Result<Command, String>,
    /// Runs only if it is named.
    by_name: bool,
    /// The target that rustup must have. Without it the suite is left out.
    target: Option<&'static str>,
}

impl Plan {
    const fn new(
        name: &'static str,
        minutes: u64,
        command: fn() -> Result<Command, String>,
    ) -> Plan {
        Plan { name, minutes, command, by_name: false, target: None }
    }

    const fn by_name(self) -> Plan {
        Plan { by_name: true, ..self }
    }

    const fn on(self, target: &'static str) -> Plan {
        Plan { target: Some(target), ..self }
    }

    /// The target that it needs and rustup cannot get, or the linker that is not installed.
    fn missing(&self) -> Option<&'static str> {
        let target = self.target?;
        if !arena::had(arena::Need::Target(target)) {
            return Some(target);
        }
        let linker = AARCH64_LINKER.1;
        (target == AARCH64 && packages::find(linker).is_none()).then_some(linker)
    }
}

const PLANS: &[Plan] = &[
    Plan::new("workspace", 60, workspace),
    // C and C++ on the built library.
    Plan::new("whole", 60, || Ok(programs(&[]))),
    Plan::new("secure", 45, || on_secure(Strength::Full, &["abi", "misuse", "storms"])),
    Plan::new("secure-light", 45, || {
        on_secure(Strength::Light, &["abi", "misuse", "corpus", "storms"])
    }),
    // Real programs on libc and on both builds, a quick run.
    Plan::new("real", 60, || crate::real::command(true, None)),
    // The core's unit and property tests, with the policy of each secure build.
    Plan::new("secure-core", 60, || core_with("fake-os,secure")),
    Plan::new("secure-light-core", 60, || core_with("fake-os,secure-light")).by_name(),
    Plan::new("loom", 60, loom),
    // Each experiment of the lab, quickly, in an exported tree.
    Plan::new("experiments", 30, experiments),
    // The builds that `cargo experiment cost` compares.
    Plan::new("cost", 60, cost).by_name(),
    Plan::new("musl", 45, musl).on(MUSL),
    Plan::new("musl-all", 60, musl_all).on(MUSL).by_name(),
    Plan::new("musl-secure", 60, musl_secure).on(MUSL).by_name(),
    Plan::new("aarch64", 45, aarch64).on(AARCH64),
    // Every program that an emulator can run.
    Plan::new("aarch64-all", 90, || {
        elsewhere("aarch64", &aarch64_library()?, &["abi", "misuse", "storms"])
    })
    .on(AARCH64)
    .by_name(),
    Plan::new("aarch64-arena", 90, aarch64_arena).on(AARCH64).by_name(),
    Plan::new("aarch64-core", 120, aarch64_core).on(AARCH64).by_name(),
];

/// A verb of cargo for the workspace, with the features of its tests.
pub fn of_workspace(verb: &str) -> Command {
    let mut cargo = place::cargo();
    cargo.args([verb, "--workspace", "--exclude", "toft-tests"]);
    cargo.args(["--features", "toft-core/fake-os,toft-arena/all"]);
    cargo
}

/// Unit, property and documentation tests of every crate.
fn workspace() -> Result<Command, String> {
    let mut cargo = of_workspace("test");
    cargo.arg("--no-fail-fast");
    // Most tests of the command wait for another process.
    cargo.env("RUST_TEST_THREADS", "4");
    Ok(cargo)
}

/// Number of C and C++ programs that run in parallel. On 2 processors four instead of two take 45 s
/// instead of 74 (`abi`), and 60 instead of 83 (`storms`).
const AT_A_TIME: &str = "--test-threads=4";

/// The programs in C and C++.
fn programs(tests: &[&str]) -> Command {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft-tests", "--no-fail-fast"]);
    tests.iter().for_each(|test| _ = cargo.args(["--test", test]));
    cargo.args(["--", AT_A_TIME]);
    cargo
}

fn on_secure(strength: Strength, tests: &[&str]) -> Result<Command, String> {
    let library = secure::build(strength)?;
    let mut cargo = programs(tests);
    cargo.env("TOFT_TEST_LIBRARY", library);
    Ok(cargo)
}

const MUSL: &str = "x86_64-unknown-linux-musl";
const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_LINKER: (&str, &str) =
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");

/// Static programs with musl, in C and in Rust. Not those that watch memory for seconds, and no
/// storms: `musl-all`.
fn musl() -> Result<Command, String> {
    let archive = built_for(MUSL, "")?.join("libtoft.a");
    let mut cargo = elsewhere("musl", &archive, &["abi", "misuse"])?;
    for slow in ["bound_", "limit_", "idle", "ulimit_", "profile_", "true_figures"] {
        cargo.args(["--skip", slow]);
    }
    Ok(cargo)
}

/// All of them.
fn musl_all() -> Result<Command, String> {
    let archive = built_for(MUSL, "")?.join("libtoft.a");
    elsewhere("musl", &archive, &["abi", "misuse", "storms"])
}

/// All of them on the secure build.
fn musl_secure() -> Result<Command, String> {
    let folder = built_for(MUSL, "secure")?;
    let archive = folder.join("libtoft-secure.a");
    std::fs::copy(folder.join("libtoft.a"), &archive).map_err(|e| e.to_string())?;
    elsewhere("musl", &archive, &["abi", "misuse", "storms"])
}

/// The library by the cross compiler, its golden listing, and the programs that test the ABI, under
/// an emulator.
fn aarch64() -> Result<Command, String> {
    let library = aarch64_library()?;
    match crate::golden::check_aarch64(&library)? {
        wrong if wrong.is_empty() => elsewhere("aarch64", &library, &["abi"]),
        wrong => Err(wrong.join("; ")),
    }
}

/// The arena's unit and property tests, under an emulator.
fn aarch64_arena() -> Result<Command, String> {
    let tests = ["--package", "toft-arena", "--features", "all", "--lib"];
    // It cannot start a program again, and what is resident is the emulator's.
    let skipped = ["a_hook_that_panics_ends_the_program", "pages_of_the_system_are_not_resident"];
    Ok(properties_on_aarch64(&tests, &skipped))
}

/// The core's property tests, under an emulator.
fn aarch64_core() -> Result<Command, String> {
    let tests = ["--package", "toft-core", "--features", "fake-os", "--release"];
    let skipped = [
        // The emulator maps no page twice.
        "compact",
        "what_is_shared_stays",
        "what_shares_pages",
        // They need more than the 64 GiB of addresses that the fake machine has there.
        "a_foreign_mapping_is_in_the_way_of_every",
        "law_5_a_failure",
        "under_pressure_memory_is_given_back",
        "a_system_with_fewer_bits",
    ];
    Ok(properties_on_aarch64(&tests, &skipped))
}

/// Property tests under an emulator, which takes ten times as long.
fn properties_on_aarch64(tests: &[&str], skipped: &[&str]) -> Command {
    let mut cargo = place::cargo();
    cargo.args(["test", "--no-fail-fast", "--target", AARCH64, "--test", "properties"]);
    cargo.args(tests).env(AARCH64_LINKER.0, AARCH64_LINKER.1);
    let runner = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER";
    cargo.env(runner, "qemu-aarch64 -L /usr/aarch64-linux-gnu");
    cargo.env("TOFT_ARENA_CASES", "16").env("PROPTEST_CASES", "2");
    // Each fake machine of the core takes gigabytes of the emulator's tables.
    cargo.args(["--", "--test-threads=1"]);
    skipped.iter().for_each(|test| _ = cargo.args(["--skip", test]));
    cargo
}

/// Builds the library for aarch64.
pub fn aarch64_library() -> Result<PathBuf, String> {
    match Plan::new("aarch64", 0, aarch64).on(AARCH64).missing() {
        Some(missing) => Err(format!("there is no {missing}")),
        None => Ok(built_for(AARCH64, "")?.join("libtoft.so")),
    }
}

/// Builds the libraries for another target, and says where they are.
fn built_for(target: &str, features: &str) -> Result<PathBuf, String> {
    let folder = place::target_dir().join(format!("{target}-{features}"));
    let mut cargo = place::cargo();
    cargo.args(["build", "--release", "--package", "toft-preload", "--features", features]);
    if target == AARCH64 {
        // What is preloaded beside it; a static program has none.
        cargo.args(["--package", "toft-checked"]);
        cargo.env(AARCH64_LINKER.0, AARCH64_LINKER.1);
    }
    step::succeed(cargo.args(["--target", target, "--target-dir"]).arg(&folder))?;
    Ok(folder.join(target).join("release"))
}

/// The programs in C, for another platform (`tests/src/platform.rs`).
fn elsewhere(platform: &str, library: &Path, tests: &[&str]) -> Result<Command, String> {
    let mut cargo = programs(tests);
    cargo.env("TOFT_TEST_PLATFORM", platform).env("TOFT_TEST_LIBRARY", library);
    Ok(cargo)
}

fn core_with(features: &str) -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft-core", "--no-fail-fast", "--features", features]);
    cargo.args(["--lib", "--test", "properties"]);
    // More tests at a time would wait for address space (`os/fake/host.rs`).
    cargo.env("RUST_TEST_THREADS", "3");
    Ok(cargo)
}

/// The models of what threads do to each other. Everything is compiled otherwise, so apart.
fn loom() -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft-core", "--package", "toft-ar-malloc", "--release"]);
    cargo.args(["--features", "toft-core/loom,toft-ar-malloc/loom"]);
    cargo.args(["--test", "loom", "--test", "loom_hold", "--test", "loom_life"]);
    cargo
        .env("RUSTFLAGS", "--cfg loom -Dwarnings")
        .env("CARGO_TARGET_DIR", place::target_dir().join("loom"));
    Ok(cargo)
}

/// The names of the suites that run only if they are named.
pub fn by_name() -> impl Iterator<Item = &'static str> {
    PLANS.iter().filter(|plan| plan.by_name).map(|plan| plan.name)
}

/// The experiments share a target directory, so they run one after the other.
fn experiments() -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft-experiments", "--test", "export", "--"]);
    cargo.args(["--include-ignored", "--test-threads=1"]);
    Ok(cargo)
}

/// Each build has lost the idea that it is without, and no other.
fn cost() -> Result<Command, String> {
    let mut cargo = place::cargo();
    cargo.args(["test", "--package", "toft-experiments", "--bin", "toft-experiments", "--"]);
    cargo.args(["--ignored", "--test-threads=1"]);
    Ok(cargo)
}

/// Runs the suites of these names, or all.
pub fn run(names: &[String], install: bool) -> Result<Vec<Suite>, String> {
    let known = |name: &String| PLANS.iter().any(|plan| plan.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = PLANS.iter().map(|plan| plan.name).collect();
        return Err(format!("no suite is called {unknown}; there are {}", all.join(", ")));
    }
    let chosen: Vec<&Plan> = PLANS.iter().filter(|plan| is_chosen(plan, names)).collect();
    let complete = packages::prepare(packages::TESTS, install)?;
    let carried = if chosen.len() > 1 { carried::build()? } else { Vec::new() };
    let (mut tally, mut times) = (Vec::new(), Vec::new());
    for plan in chosen {
        let began = Instant::now();
        if let Some(missing) = plan.missing() {
            tally.push(Suite::left_out(plan.name, missing));
            continue;
        }
        let mut command = match (plan.command)() {
            Ok(command) => command,
            Err(why) => {
                tally.push(Suite::broken(plan.name, why));
                continue;
            }
        };
        if matches!(plan.name, "whole" | "secure" | "secure-light" | "real" | "musl" | "aarch64")
            && complete
        {
            // A test that finds something missing has failed. Only these tests clear their
            // environment, and the library complains about a name that it does not know.
            command.env("TOFT_TEST_REQUIRE", "1");
        }
        command.envs(carried.iter().cloned());
        if plan.name == "real" && times.iter().any(|&(name, _)| name == "workspace") {
            command.env("TOFT_TEST_COMMAND", place::target_dir().join("debug/toft"));
        }
        let suites = step::run(plan.name, &mut command, Duration::from_secs(60 * plan.minutes));
        tally.extend(named(plan.name, suites));
        times.push((plan.name, began.elapsed()));
    }
    println!("\n==> wall time: {}", slowest_first(times));
    Ok(tally)
}

/// Returns true if a suite is named, or if none is and it does not wait to be named.
fn is_chosen(plan: &Plan, names: &[String]) -> bool {
    if names.is_empty() { !plan.by_name } else { names.iter().any(|name| name == plan.name) }
}

/// Names and seconds of suites.
fn slowest_first(mut times: Vec<(&str, Duration)>) -> String {
    times.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
    let each = times.iter().map(|(name, time)| format!("{name} {} s", time.as_secs()));
    each.collect::<Vec<_>>().join(", ")
}

/// A suite without a single test has not been found.
fn named(name: &str, mut suites: Vec<Suite>) -> Vec<Suite> {
    let tests = |suite: &Suite| suite.passed + suite.failed + suite.ignored;
    if suites.iter().map(tests).sum::<usize>() == 0 {
        suites.push(Suite::broken(name, "no test has run".into()));
    }
    suites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_without_tests_is_a_failure() {
        assert_eq!(named("t", Vec::new())[0].failed, 1);
        let one = Suite { passed: 1, ..Suite::default() };
        assert_eq!(named("t", vec![one.clone()]), [one]);
    }

    #[test]
    fn a_suite_that_waits_to_be_named_runs_only_then() {
        let plan = Plan::new("a", 1, loom).by_name();
        assert!(is_chosen(&plan, &["a".into()]) && !is_chosen(&plan, &[]));
        assert!(is_chosen(&Plan::new("b", 1, loom), &[]));
        assert!(!is_chosen(&Plan::new("b", 1, loom), &["a".into()]));
    }

    #[test]
    fn a_suite_without_its_target_is_left_out() {
        assert_eq!(Plan::new("a", 1, loom).on("none-none-none").missing(), Some("none-none-none"));
        assert_eq!(Plan::new("a", 1, loom).missing(), None);
    }

    #[test]
    fn the_slowest_suite_comes_first() {
        let times =
            [("a", 3), ("b", 700), ("c", 20)].map(|(name, s)| (name, Duration::from_secs(s)));
        assert_eq!(slowest_first(times.into()), "b 700 s, c 20 s, a 3 s");
    }

    #[test]
    fn names_that_do_not_exist_are_told() {
        let told = run(&["loom".into(), "lomo".into()], false);
        assert!(told.unwrap_err().contains("lomo"));
    }
}
