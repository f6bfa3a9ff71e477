//! The test suites, in the order in which they run.

use crate::arena::Need;
use crate::carried::{self, Carried};
use crate::secure::{self, Strength};
use crate::tally::Suite;
use crate::{arena, packages, place, step};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A suite. The minutes leave room for a busy machine; `step.rs` limits all steps together.
struct Plan {
    /// The name on the command line.
    name: &'static str,
    /// The longest run.
    minutes: u64,
    command: fn() -> Result<Command, String>,
    /// Runs only if it is named.
    by_name: bool,
    /// Builds in a separate target folder.
    apart: bool,
    /// Runs beside the others, because it depends on nothing that they do: those wait for other
    /// processes much of the time.
    beside: bool,
    /// What rustup must have. Without it the suite is left out.
    need: Option<Need>,
}

impl Plan {
    const fn new(
        name: &'static str,
        minutes: u64,
        command: fn() -> Result<Command, String>,
    ) -> Plan {
        Plan { name, minutes, command, by_name: false, apart: false, beside: false, need: None }
    }

    const fn by_name(self) -> Plan {
        Plan { by_name: true, ..self }
    }

    const fn apart(self) -> Plan {
        Plan { apart: true, ..self }
    }

    const fn beside(self) -> Plan {
        Plan { beside: true, ..self }
    }

    const fn on(self, target: &'static str) -> Plan {
        self.with(Need::Target(target))
    }

    const fn with(self, need: Need) -> Plan {
        Plan { need: Some(need), ..self }
    }

    /// Runs its command with these variables, in one of two ways.
    fn run(
        &self,
        command: Result<Command, String>,
        variables: Vec<(&str, PathBuf)>,
        run: fn(&str, &mut Command, Duration) -> Vec<Suite>,
    ) -> Vec<Suite> {
        match command {
            Ok(mut command) => {
                let limit = Duration::from_secs(60 * self.minutes);
                named(self.name, run(self.name, command.envs(variables), limit))
            }
            Err(why) => vec![Suite::broken(self.name, why)],
        }
    }

    /// What it needs and rustup cannot get, or the linker that is not installed.
    fn missing(&self) -> Option<String> {
        let need = self.need?;
        if !arena::had(need) {
            return Some(arena::name(need));
        }
        let linker = AARCH64_LINKER.1;
        let is_linked = !matches!(need, Need::Target(AARCH64)) || packages::find(linker).is_some();
        (!is_linked).then(|| linker.to_owned())
    }
}

const PLANS: &[Plan] = &[
    Plan::new("workspace", 60, workspace),
    // C and C++ on the built library.
    Plan::new("whole", 60, || programs(&RUNNERS)),
    Plan::new("secure", 45, || on_secure(Strength::Full, &["abi", "misuse", "storms"])),
    // What names this build. Of the rest, each check is one of the default build or of the full
    // secure one, which are tested above.
    Plan::new("secure-light", 45, || {
        let mut cargo = on_secure(Strength::Light, &["abi", "misuse", "corpus"])?;
        cargo.env("TOFT_TEST_ONLY", "build");
        Ok(cargo)
    }),
    Plan::new("secure-light-all", 60, || on_secure(Strength::Light, &["abi", "misuse", "storms"]))
        .by_name(),
    // The library without one of its features, by the programs that are not about that one.
    Plan::new("without-deepbind", 60, || without("deepbind", &["deepbind", "links_"])).by_name(),
    Plan::new("without-jemalloc", 60, || without("jemalloc", &["jemalloc", "allocx", "links_"]))
        .by_name(),
    Plan::new("without-tokens", 60, || without("tokens", &["token", "links_"])).by_name(),
    Plan::new("without-watch", 60, || without("watch", READERS)).by_name(),
    Plan::new("without-zones", 60, || without("zones", &["zone", "links_"])).by_name(),
    // Real programs on libc and on both builds, a quick run.
    Plan::new("real", 60, || crate::real::command(true, None)),
    Plan::new("properties", 90, properties).by_name(),
    // The core's and the zones' unit and property tests, with the policy of each secure build.
    Plan::new("secure-core", 60, || core_with("fake-os,secure")).beside(),
    Plan::new("secure-light-core", 60, || core_with("fake-os,secure-light")).by_name(),
    Plan::new("loom", 60, loom).apart().beside(),
    // Each experiment of the lab, quickly, in an exported tree.
    Plan::new("experiments", 30, experiments).by_name(),
    // The builds that `cargo experiment cost` compares.
    Plan::new("cost", 60, cost).by_name(),
    Plan::new("musl", 45, musl).on(MUSL).apart(),
    Plan::new("musl-all", 60, musl_all).on(MUSL).apart().by_name(),
    Plan::new("musl-secure", 60, musl_secure).on(MUSL).apart().by_name(),
    Plan::new("aarch64", 45, aarch64).on(AARCH64).apart(),
    // Every program that an emulator can run.
    Plan::new("aarch64-all", 90, || {
        elsewhere("aarch64", &aarch64_library()?, &["abi", "misuse", "storms"])
    })
    .on(AARCH64)
    .apart()
    .by_name(),
    Plan::new("aarch64-arena", 90, aarch64_arena).on(AARCH64).by_name(),
    Plan::new("aarch64-core", 120, aarch64_core).on(AARCH64).by_name(),
    // The core's property tests under the thread sanitizer, which finds a plain access to what
    // another thread writes.
    Plan::new("core-races", 120, core_races).with(Need::Component("nightly", "rust-src")).by_name(),
];

/// The features of the workspace's tests, as `.ci/run` has them. With others cargo would compile
/// everything again.
pub const FEATURES: &str = "toft-core/fake-os,toft-zone/fake-os,toft-arena/all";

/// A verb of cargo for the workspace, with the features of its tests.
pub fn of_workspace(verb: &str) -> Command {
    let mut cargo = place::cargo();
    cargo.args([verb, "--workspace", "--features", FEATURES]);
    cargo
}

/// Builds the tests that a command of cargo runs, and returns the command.
fn built(cargo: impl Fn() -> Command) -> Result<Command, String> {
    step::succeed(cargo().arg("--no-run"))?;
    let mut cargo = cargo();
    cargo.arg("--no-fail-fast");
    Ok(cargo)
}

/// Unit, property and documentation tests of every crate.
fn workspace() -> Result<Command, String> {
    let carried = carried::build()?;
    let mut cargo = built(|| {
        let mut cargo = of_workspace("test");
        cargo.envs(carried.iter().cloned());
        cargo
    })?;
    // Most tests of the command wait for another process.
    cargo.env("RUST_TEST_THREADS", "4").env(SEED.0, SEED.1);
    Ok(cargo)
}

/// Random cases begin with this, so that a run of CI depends on nothing but the change. The suite
/// `properties` tests others each night.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

/// Every property test, with more cases, which no other run has.
fn properties() -> Result<Command, String> {
    let mut cargo = built(|| {
        let mut cargo = of_workspace("test");
        cargo.args(["--test", "properties", "--test", "round_trip", "--test", "heap"]);
        cargo
    })?;
    cargo.env("PROPTEST_CASES", "2000").env("TOFT_ARENA_CASES", "2000");
    Ok(cargo)
}

/// Number of C and C++ programs that run in parallel. On 2 processors four instead of two take 45 s
/// instead of 74 (`abi`), and 60 instead of 83 (`storms`).
const AT_A_TIME: &str = "--test-threads=4";

/// The runners of programs in C and C++.
const RUNNERS: [&str; 6] = ["abi", "misuse", "corpus", "storms", "probes", "containers"];

/// The programs in C and C++ of these runners.
fn programs(runners: &[&str]) -> Result<Command, String> {
    let mut cargo = built(|| {
        let mut cargo = of_workspace("test");
        runners.iter().for_each(|runner| _ = cargo.args(["--test", runner]));
        cargo
    })?;
    cargo.args(["--", AT_A_TIME]);
    Ok(cargo)
}

fn on_secure(strength: Strength, runners: &[&str]) -> Result<Command, String> {
    let library = secure::build(strength)?;
    let mut cargo = programs(runners)?;
    cargo.env("TOFT_TEST_LIBRARY", library);
    Ok(cargo)
}

/// The features of `libtoft.so` that it can do without, as in its manifest.
const FEATURES_OF_LIBRARY: [&str; 5] = ["deepbind", "jemalloc", "tokens", "watch", "zones"];

/// The programs that read what the observers write: statistics, profiles, the details of reports.
const READERS: &[&str] = &[
    "dangling",
    "free_permanently",
    "guarded_read_after_free",
    "guarded_tail_free",
    "hints_",
    "jemalloc_sites",
    "leaks",
    "links_",
    "malloc_stats",
    "option_partitions",
    "option_report",
    "option_sites",
    "partitions_",
    "profile_",
    "reclaimer_small",
    "report_full",
    "rust_dynamic",
    "sites_exact",
    "stacks_",
    "uninit_read",
    "warn_continues",
    "wrapper_nameless",
    "wrapper_replaced",
];

/// The programs in C and C++ on the library without a feature, but for those of these names.
fn without(feature: &str, names: &[&str]) -> Result<Command, String> {
    let others = FEATURES_OF_LIBRARY.into_iter().filter(|&other| other != feature);
    let others = others.collect::<Vec<_>>().join(",");
    let folder = place::target_dir().join(format!("without-{feature}"));
    let mut cargo = place::cargo();
    cargo.args(["build", "--release", "--package", "toft-preload", "--no-default-features"]);
    step::succeed(cargo.args(["--features", &others, "--target-dir"]).arg(&folder))?;
    let mut cargo = programs(&["abi", "misuse", "storms"])?;
    // What it exports is less.
    for name in names.iter().chain(&["exports_the_list"]) {
        cargo.args(["--skip", name]);
    }
    cargo.env("TOFT_TEST_LIBRARY", folder.join("release/libtoft.so"));
    Ok(cargo)
}

const MUSL: &str = "x86_64-unknown-linux-musl";
const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_LINKER: (&str, &str) =
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");

/// Static programs with musl, in C and in Rust, that call its functions. Not those that watch
/// memory for seconds, no storms, and no misuse, whose checks are the same as with glibc:
/// `musl-all`.
fn musl() -> Result<Command, String> {
    let archive = built_for(MUSL, "")?.join("libtoft.a");
    let mut cargo = elsewhere("musl", &archive, &["abi"])?;
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

/// The property tests of the core and the zones, under an emulator.
fn aarch64_core() -> Result<Command, String> {
    let tests =
        ["--package=toft-core", "--package=toft-zone", "--features", "fake-os", "--release"];
    Ok(properties_on_aarch64(&tests, &NOT_EMULATED))
}

/// The tests that do not run where the fake machine is small.
const NOT_EMULATED: [&str; 7] = [
    // No page is mapped twice there.
    "compact",
    "what_is_shared_stays",
    "what_shares_pages",
    // They need more than 64 GiB of addresses.
    "a_foreign_mapping_is_in_the_way_of_every",
    "law_5_a_failure",
    "under_pressure_memory_is_given_back",
    "a_system_with_fewer_bits",
];

/// The property tests of the core under the thread sanitizer, of which the standard library must be
/// built, too.
fn core_races() -> Result<Command, String> {
    let mut cargo = arena::with("nightly");
    cargo.args(["test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu"]);
    cargo.args(["--package", "toft-core", "--features", "fake-os", "--test", "properties"]);
    cargo.env("RUSTFLAGS", "-Zsanitizer=thread --cfg emulated");
    cargo.env("CARGO_TARGET_DIR", place::target_dir().join("races"));
    cargo.env("PROPTEST_CASES", "2").env(SEED.0, SEED.1);
    cargo.args(["--", "--test-threads=2"]);
    NOT_EMULATED.iter().for_each(|test| _ = cargo.args(["--skip", test]));
    Ok(cargo)
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
fn elsewhere(platform: &str, library: &Path, runners: &[&str]) -> Result<Command, String> {
    let mut cargo = programs(runners)?;
    cargo.env("TOFT_TEST_PLATFORM", platform).env("TOFT_TEST_LIBRARY", library);
    Ok(cargo)
}

fn core_with(features: &str) -> Result<Command, String> {
    let mut cargo = built(|| {
        let mut cargo = place::cargo();
        cargo.args(["test", "--package", "toft-core", "--package", "toft-zone"]);
        cargo.args(["--features", features]);
        cargo.args(["--lib", "--test", "properties"]);
        cargo
    })?;
    // More tests at a time would wait for address space (`os/fake/host.rs`).
    cargo.env("RUST_TEST_THREADS", "3").env(SEED.0, SEED.1);
    Ok(cargo)
}

/// The models of what threads do to each other. Everything is compiled otherwise, so apart.
fn loom() -> Result<Command, String> {
    built(|| {
        let mut cargo = place::cargo();
        cargo.args(["test", "--package", "toft-core", "--package", "toft-ar-malloc", "--release"]);
        cargo.args(["--features", "toft-core/loom,toft-ar-malloc/loom"]);
        cargo.args(["--test", "loom", "--test", "loom_hold", "--test", "loom_life"]);
        cargo
            .env("RUSTFLAGS", "--cfg loom -Dwarnings")
            .env("CARGO_TARGET_DIR", place::target_dir().join("loom"));
        cargo
    })
}

/// The names of the suites that run only if they are named.
pub fn by_name() -> impl Iterator<Item = &'static str> {
    PLANS.iter().filter(|plan| plan.by_name).map(|plan| plan.name)
}

/// The experiments share a target directory, so they run one after the other.
fn experiments() -> Result<Command, String> {
    let mut cargo = of_workspace("test");
    cargo.args(["--test", "export", "--", "--include-ignored", "--test-threads=1"]);
    Ok(cargo)
}

/// Each build has lost the idea that it is without, and no other.
fn cost() -> Result<Command, String> {
    let mut cargo = of_workspace("test");
    cargo.args(["--bin", "toft-experiments", "--", "--ignored", "--test-threads=1"]);
    Ok(cargo)
}

/// Runs the suites of these names, or all.
pub fn run(names: &[String], install: bool) -> Result<Vec<Suite>, String> {
    let known = |name: &String| PLANS.iter().any(|plan| plan.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = PLANS.iter().map(|plan| plan.name).collect();
        return Err(format!("no suite is called {unknown}; there are {}", all.join(", ")));
    }
    let mut chosen: Vec<&Plan> = PLANS.iter().filter(|plan| is_chosen(plan, names)).collect();
    let prepare = || packages::prepare(packages::TESTS, install);
    let complete = step::timed("Debian packages", prepare)?;
    let carries = |plan: &&Plan| matches!(plan.name, "workspace" | "real");
    let carried = if chosen.iter().any(carries) { carried::build()? } else { Vec::new() };
    let mut tally = Vec::new();
    chosen.retain(|plan| {
        let missing = plan.missing();
        tally.extend(missing.iter().map(|missing| Suite::left_out(plan.name, missing)));
        missing.is_none()
    });
    println!("\n==> building what the suites need");
    let mut commands = step::timed("builds", || commands(&chosen));
    let mut command_of = |plan: &Plan| commands.remove(plan.name).expect("each has a command");
    // What runs alone is shown as it runs.
    let alone = chosen.len() == 1;
    let (beside, chosen): (Vec<&Plan>, Vec<&Plan>) =
        chosen.into_iter().partition(|plan| plan.beside && !alone);
    let beside: Vec<_> = beside.into_iter().map(|plan| (plan, command_of(plan))).collect();
    let commands: Vec<_> = chosen.into_iter().map(|plan| (plan, command_of(plan))).collect();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let each =
                |(plan, command): (&Plan, _)| plan.run(command, Vec::new(), step::run_beside);
            beside.into_iter().flat_map(each).collect::<Vec<_>>()
        });
        tally.extend(one_by_one(commands, complete, &carried));
        tally.extend(beside.join().expect("no suite panics"));
    });
    Ok(tally)
}

/// Runs suites one after the other.
fn one_by_one(
    commands: Vec<(&Plan, Result<Command, String>)>,
    complete: bool,
    carried: &Carried,
) -> Vec<Suite> {
    let mut tally = Vec::new();
    let mut is_command_built = false;
    for (plan, command) in commands {
        let mut settings = carried.clone();
        // Only these tests clear their environment, and the library complains about a name that it
        // does not know.
        if matches!(plan.name, "whole" | "secure" | "secure-light" | "real" | "musl" | "aarch64") {
            if complete {
                // A test that finds something missing has failed.
                settings.push(("TOFT_TEST_REQUIRE", "1".into()));
            }
            if is_command_built {
                // By itself cargo would build the command with other features.
                settings.push(("TOFT_TEST_COMMAND", place::target_dir().join("debug/toft")));
            }
        }
        is_command_built |= plan.name == "workspace";
        tally.extend(plan.run(command, settings, step::run));
    }
    tally
}

/// Builds what the suites need, and returns their commands. Cargo locks its target folder while it
/// builds, so the suites that share one come one after the other, beside those that are apart.
fn commands(plans: &[&Plan]) -> HashMap<&'static str, Result<Command, String>> {
    let (apart, here): (Vec<&Plan>, Vec<&Plan>) = plans.iter().partition(|plan| plan.apart);
    let each = |plans: Vec<&Plan>| {
        plans.into_iter().map(|plan| (plan.name, (plan.command)())).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let apart = scope.spawn(move || each(apart));
        let here = each(here);
        here.into_iter().chain(apart.join().expect("no command panics")).collect()
    })
}

/// Returns true if a suite is named, or if none is and it does not wait to be named.
fn is_chosen(plan: &Plan, names: &[String]) -> bool {
    if names.is_empty() { !plan.by_name } else { names.iter().any(|name| name == plan.name) }
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
    fn each_feature_of_the_library_has_a_suite_without_it() {
        let manifest = crate::files::kept("crates/toft-preload/Cargo.toml");
        let default = manifest.lines().find_map(|line| line.strip_prefix("default = "));
        assert_eq!(default, Some(format!("{FEATURES_OF_LIBRARY:?}").as_str()));
        for feature in FEATURES_OF_LIBRARY {
            let name = format!("without-{feature}");
            assert!(PLANS.iter().any(|plan| plan.name == name && plan.by_name), "{name}");
        }
    }

    #[test]
    fn a_suite_without_tests_is_a_failure() {
        assert_eq!(named("t", Vec::new())[0].failed, 1);
        let one = Suite { passed: 1, ..Suite::default() };
        assert_eq!(named("t", vec![one.clone()]), [one]);
    }

    #[test]
    fn the_script_builds_with_the_features_of_the_tests() {
        assert!(crate::files::kept(".ci/run").contains(FEATURES));
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
        let missing = Plan::new("a", 1, loom).on("none-none-none").missing();
        assert_eq!(missing.as_deref(), Some("target none-none-none"));
        assert_eq!(Plan::new("a", 1, loom).missing(), None);
    }

    #[test]
    fn names_that_do_not_exist_are_told() {
        let told = run(&["loom".into(), "lomo".into()], false);
        assert!(told.unwrap_err().contains("lomo"));
    }
}
