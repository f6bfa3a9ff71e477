use super::measure::{About, Results, mean};
use super::variants::{BASE, VARIANTS, build, copy, patch};
use super::{AGAIN, CASES, findings, tables};
use crate::libraries::{build_folder, cargo, root};
use crate::page::Findings;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Held by a test that builds libraries, because builds share a folder.
static BUILDS: Mutex<()> = Mutex::new(());

/// What the patches change, and something else.
const PARTS: [&str; 2] = ["crates/toft-core/src", "crates/toft-preload/src"];

/// A folder below the target directory, so inside the repository if there is one.
fn folder(name: &str) -> PathBuf {
    build_folder("cost").join("tests").join(name)
}

/// Returns the files that a patch changes.
fn changed(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("+++ b/")).collect()
}

#[test]
fn every_patch_applies_to_the_tree_and_is_short() {
    for name in VARIANTS {
        let text = std::fs::read_to_string(patch(name)).unwrap();
        assert!(text.lines().count() < 100, "{name} has {} lines", text.lines().count());
        let tree = folder(name);
        copy(name, &PARTS, &tree).unwrap();
        let files = changed(&text);
        assert!(!files.is_empty(), "{name} changes no file");
        for file in files {
            let read = |root: &Path| std::fs::read_to_string(root.join(file)).unwrap_or_default();
            assert_ne!(read(&tree), read(root()), "{name} leaves {file} as it is");
        }
        // No other part of the library differs.
        let preload = "crates/toft-preload/src/lib.rs";
        let read = |root: &Path| std::fs::read(root.join(preload)).unwrap();
        assert_eq!(read(&tree), read(root()));
        std::fs::remove_dir_all(tree).unwrap();
    }
}

#[test]
fn there_is_no_other_patch() {
    let entries = std::fs::read_dir(root().join("lab/cost")).unwrap().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let mut patches = VARIANTS.map(patch);
    files.sort();
    patches.sort();
    assert_eq!(files, patches);
}

/// The tree has changed where a patch changes it.
#[test]
fn a_patch_that_does_not_fit_is_an_error() {
    let tree = folder("changed");
    copy(BASE, &PARTS, &tree).unwrap();
    super::variants::apply(&patch("no-partitions"), &tree).unwrap();
    let error = super::variants::apply(&patch("no-partitions"), &tree).unwrap_err();
    assert!(error.contains("no-partitions.patch does not apply"), "{error}");
    std::fs::remove_dir_all(tree).unwrap();
}

/// A copy is made again without touching what did not change, and without what left the tree.
#[test]
fn a_second_copy_writes_only_what_differs() {
    let tree = folder("again");
    copy(BASE, &PARTS, &tree).unwrap();
    let written = |file: &str| std::fs::metadata(tree.join(file)).unwrap().modified().unwrap();
    let (same, other) = ("crates/toft-preload/src/lib.rs", "crates/toft-core/src/lib.rs");
    let before = written(same);
    std::fs::write(tree.join(other), "changed").unwrap();
    std::fs::write(tree.join("crates/toft-core/src/none.rs"), "").unwrap();
    copy(BASE, &PARTS, &tree).unwrap();
    assert_eq!(written(same), before);
    assert_ne!(std::fs::read(tree.join(other)).unwrap(), b"changed");
    assert!(!tree.join("crates/toft-core/src/none.rs").exists());
    std::fs::remove_dir_all(tree).unwrap();
}

const RECORD: &str = r#"{ "cases": [
  { "case": "pair-64", "metrics": ["ns", "instructions"], "peers": {
      "toft": [{"metrics": {"ns": 4.0, "instructions": 80.0}}, {"metrics": {"ns": 6.0, "instructions": 80.0}}],
      "a": [{"metrics": {"ns": 2.0, "instructions": 70.5}}, {"metrics": {"ns": 3.0, "instructions": 70.5}}],
      "b": {"failed": "signal: 6"} },
    "ratios": [
      {"metric": "ns", "of": "toft", "to": "a", "median": 2.0, "mean": 2.0, "low": 1.9, "high": 2.1, "open": false, "noisy": false},
      {"metric": "instructions", "of": "toft", "to": "a", "median": 1.13, "mean": 1.13, "low": 1.13, "high": 1.13, "open": false, "noisy": false} ] },
  { "case": "local-2", "metrics": ["mops", "peak_mb"], "peers": {
      "toft": [{"metrics": {"mops": 100.0, "peak_mb": 5.0}}],
      "a": [{"metrics": {"mops": 80.0, "peak_mb": 4.0}}],
      "b": [{"metrics": {"mops": 100.0, "peak_mb": 5.0}}] },
    "ratios": [
      {"metric": "mops", "of": "toft", "to": "a", "median": 1.25, "mean": 1.25, "low": 1.24, "high": 1.26, "open": false, "noisy": false},
      {"metric": "mops", "of": "toft", "to": "b", "median": 1.0, "mean": 1.0, "low": 0.98, "high": 1.02, "open": true, "noisy": false},
      {"metric": "peak_mb", "of": "toft", "to": "a", "median": 1.25, "mean": null, "low": null, "high": null, "open": true, "noisy": false} ] } ] }"#;

/// Findings of a full run, with a figure in each cell and the rows that the laboratory's cases
/// give. A workload's name stands for all its cases. Instructions are counted of each, which
/// callgrind cannot do for all.
pub fn made() -> Findings {
    let names = [AGAIN].into_iter().chain(VARIANTS);
    let asked = |name: &str| CASES.contains(&name);
    let workloads = toft_bench::workloads::ALL.iter();
    let all = workloads.flat_map(|it| it.listed().cases.iter().map(|case| (it.name, case)));
    let cases: Vec<serde_json::Value> = all
        .filter(|(workload, case)| asked(workload) || asked(&case.name))
        .map(|(_, case)| {
            let keys = case.metrics.iter().map(|metric| metric.key).chain(["instructions"]);
            let keys: Vec<&str> = keys.collect();
            let run: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).into(), json!(10.0))).collect();
            let run = json!([{ "metrics": run }]);
            let peers = [BASE].into_iter().chain(names.clone());
            let peers: serde_json::Map<_, _> = peers.map(|it| (it.to_owned(), run.clone())).collect();
            let ratio = |to: &str, metric: &str| {
                json!({"metric": metric, "to": to, "median": 1.0, "mean": 1.0, "low": 0.98, "high": 1.02})
            };
            let ratios: Vec<_> =
                names.clone().flat_map(|to| keys.iter().map(move |metric| ratio(to, metric))).collect();
            json!({"case": case.name, "metrics": keys, "peers": peers, "ratios": ratios})
        })
        .collect();
    assert_eq!(cases.len(), CASES.len() + 3, "churn has four cases");
    let text = json!({ "cases": cases }).to_string();
    let results = Results::of(&text, names.map(str::to_owned).collect()).unwrap();
    findings(&results, 7, false)
}

fn results() -> Results {
    Results::of(RECORD, vec!["a".into(), "b".into()]).unwrap()
}

#[test]
fn ratios_are_of_the_variant_and_rates_are_not_turned() {
    let rows = results().rows(About::Time);
    let ratio = |row: usize, variant: usize| rows[row].variants[variant].unwrap().1;
    assert_eq!(ratio(0, 0).ratio, 0.5, "half the time");
    assert!(rows[0].variants[1].is_none(), "failed");
    assert_eq!(ratio(1, 0).ratio, 1.25, "four fifths of the rate");
    // Only the second row has a ratio of every variant.
    assert_eq!(mean(&rows, 0), (Some(1.25), 1));
    assert_eq!(mean(&rows, 1), (Some(1.0), 1));
}

#[test]
fn tables_name_failures_and_what_tells_nothing() {
    let all = tables::sections(&results(), 2, false);
    let of = |name: &str| &all.iter().find(|section| section.name == name).unwrap().text;
    let time = of("time");
    assert!(time.contains("| pair-64 | 5.00±1.00 ns/op | 0.50±5% | failed |"), "{time}");
    assert!(time.contains("| local-2 | 100 Mops | 1.25±1% | 1.00±2%? |"), "{time}");
    assert!(time.contains("| **geometric mean of 1** |  | **1.25** | **1.00** |"), "{time}");
    // There was one round, so the ratio has no interval.
    assert!(of("memory").contains("| local-2 | 5.00 MB | (0.80) | failed |"), "{}", of("memory"));
    let counts = of("instructions");
    assert!(counts.contains("| pair-64 | 80.0 | 70.5 (-9.5) | failed |"), "{counts}");
}

#[test]
fn a_run_with_a_failure_is_not_complete() {
    assert!(!results().is_complete());
    let well = RECORD.replace("{\"failed\": \"signal: 6\"}", "[]");
    assert!(Results::of(&well, vec!["a".into(), "b".into()]).unwrap().is_complete());
    assert!(!Results::of("{}", Vec::new()).unwrap().is_complete());
}

#[test]
fn a_plot_has_a_dot_for_each_ratio_that_tells_something() {
    let (name, text) = &findings(&results(), 2, false).plots[0];
    // Two of the key, and three ratios.
    assert_eq!((name.as_str(), text.matches("<circle").count()), ("cost-time.svg", 5), "{text}");
    assert!(text.contains(">pair-64</text>"), "{text}");
}

/// A program of `tests/` in C, and the variants on which it must fail.
const CHECKS: [(&str, &str, &[&str]); 13] = [
    ("abi", "malloc_basic", &[]),
    ("abi", "realloc_semantics", &[]),
    ("abi", "calloc_zero", &[]),
    ("abi", "aligned_random_cross", &[]),
    ("storms", "fork_step", &[]),
    ("misuse", "site_separation", &["no-partitions"]),
    ("misuse", "class_separation", &[]),
    ("misuse", "double_free_small", &["no-validation"]),
    ("misuse", "double_free_small_twin", &[]),
    ("misuse", "double_free_medium", &["no-validation"]),
    ("misuse", "double_free_large", &[]),
    ("misuse", "interior_8_small_twin", &[]),
    ("misuse", "foreign_stack", &[]),
];

/// Each variant works, has lost what its name says, and nothing else. Builds five libraries.
#[test]
#[ignore = "takes minutes: cargo xtask test cost"]
fn each_variant_loses_what_its_name_says_and_nothing_else() {
    let _alone = BUILDS.lock();
    let mut wrong = Vec::new();
    for name in [BASE].into_iter().chain(VARIANTS) {
        let library = build(name, true).unwrap();
        for (suite, program, lost) in CHECKS {
            match passes(&library, suite, program) {
                Ok(passed) if passed == lost.contains(&name) => {
                    wrong.push(format!(
                        "{name}: {program} {}",
                        if passed { "holds" } else { "fails" }
                    ));
                }
                Ok(_) => {}
                Err(why) => wrong.push(format!("{name}: {program}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Has 2 GiB of slabs, of which few pages are resident, and prints its status.
const SLABS: &str = "import ctypes
malloc = ctypes.CDLL(None).malloc
malloc.argtypes = [ctypes.c_size_t]
for _ in range(16384): malloc(128 << 10)
print(open('/proc/self/status').read())";

/// The page maps of the two lookups are in address space.
#[test]
#[ignore = "takes minutes: cargo xtask test cost"]
fn the_page_maps_of_the_lookups_have_the_size_that_the_patches_say() {
    let _alone = BUILDS.lock();
    let libraries = [BASE, "flat", "radix"].map(|name| build(name, true).unwrap());
    // In KiB: the least of some runs, in which nothing else happened to be mapped.
    let space = |library: &PathBuf, words: &[&str]| {
        let run = |_| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env("LD_PRELOAD", library).env("TOFT_RECLAIM", "off");
            let status = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        (0..5).map(run).min().unwrap()
    };
    let small = |library: &PathBuf| space(library, &["cat", "/proc/self/status"]);
    let [base, flat, radix] = libraries.each_ref().map(small);
    assert!(base < 200_000, "{base}");
    // Four bytes for each 4 MiB of a field of 4 TiB.
    assert!((base + 3000..base + 8000).contains(&radix), "{base} {radix}");
    // A flat table grows with the slabs.
    assert!(base.abs_diff(flat) < 256, "{base} {flat}");
    let large = |library: &PathBuf| space(library, &["python3", "-c", SLABS]);
    let [base, flat, _] = libraries.each_ref().map(large);
    assert!(base > 2 << 20, "{base}");
    // Half a million pages have 4 bytes more each. The table is mapped twice as far as it is used.
    assert!((base + 4000..base + 4400).contains(&flat), "{base} {flat}");
}

/// Returns true if a program passes on a library. Fails if it has not run.
fn passes(library: &Path, suite: &str, program: &str) -> Result<bool, String> {
    let mut cargo = cargo(root());
    cargo.args(["test", "--quiet", "--package", "toft-tests", "--test", suite]);
    cargo.args(["--", "--exact", program]).env("TOFT_TEST_LIBRARY", library);
    let output = cargo.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let has = |count: &str| said.lines().any(|line| line.contains(count));
    match (has("1 passed; 0 failed"), has("0 passed; 1 failed")) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(format!("it has not run: {said}{}", String::from_utf8_lossy(&output.stderr))),
    }
}
