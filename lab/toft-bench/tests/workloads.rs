//! Every workload runs, counts its work, frees what it allocates, and is slower on a slower
//! allocator.

use serde_json::Value;
use std::process::Command;
use toft_bench::heap::Probe;
use toft_bench::params::Params;
use toft_bench::workloads::{ALL, run};

/// Numbers that make each workload short, and the operations that these numbers mean.
const SMALL: &[(&str, &str, std::ops::RangeInclusive<u64>)] = &[
    ("pair", "ops=1000", 1000..=1000),
    ("replace", "slots=100 ops=1000", 1000..=1000),
    ("replace", "slots=100 ops=1000 sites=32", 1000..=1000),
    ("local", "threads=1 slots=100 ops=1000", 1000..=1000),
    ("local", "threads=2 slots=100 ops=1000", 2000..=2000),
    ("handover", "threads=4 ops=3001", 6002..=6002),
    ("handover", "threads=2 ops=10001 batch=64", 10001..=10001),
    ("larson", "threads=2 slots=100 low=8 high=100 rounds=3 ops=500", 3000..=3000),
    ("mstress", "threads=2 rounds=2 scale=10", 9000..=9000),
    ("xmalloc", "threads=4 batches=20", 81_940..=81_940),
    ("leak", "count=5 blocks=20", 5..=5),
    ("many-threads", "threads=5 keep=20", 400..=400),
    ("batch", "blocks=100 repeat=3 order=2", 300..=300),
    ("batch", "blocks=100 repeat=3 entry=1", 300..=300),
    ("batch", "blocks=100 repeat=3 entry=2", 300..=300),
    ("batch", "blocks=100 repeat=3 entry=3", 300..=300),
    ("malloc-large", "slots=3 low=1k high=9k ops=20", 20..=20),
    ("vector", "low=1k high=300k percent=50 ops=20", 20..=20),
    ("large", "slots=5 ops=30 stride=4096", 30..=30),
    ("cfrac", "p=1000000007 q=9999999967 base=40", 500..=100_000),
    ("espresso", "functions=2 variables=8 cubes=20", 2..=2),
    ("trace", "repeat=2 window=64", 13_598..=13_598),
    ("churn", "slots=2000 ops=10000 settle_ms=10", 12_125..=12_125),
    ("churn", "slots=2000 ops=10000 settle_ms=0 touch=1 keep=10", 12_250..=12_250),
    ("micro", "pattern=0 size=16 ops=1000", 1000..=1000),
    ("micro", "pattern=1 blocks=100 repeat=3", 300..=300),
    ("micro", "pattern=2 blocks=100 repeat=3", 300..=300),
    ("micro", "pattern=3 size=16ki blocks=100 repeat=3", 300..=300),
    ("threaded", "kind=0 threads=2 ops=3000", 6000..=6000),
    ("threaded", "kind=1 threads=4 ops=10001", 40_004..=40_004),
    ("threaded", "kind=1 threads=5 ops=1000", 4000..=4000),
    ("latency", "slots=100 ops=2000", 2000..=2000),
    ("latency", "threads=2 slots=100 ops=2000", 4000..=4000),
    ("tiering", "blocks=500 hot=100 rounds=4", 1000..=1000),
    ("isoalloc", "entry=0 array=4096", 1920..=2928),
    ("isoalloc", "entry=1 array=4096", 1920..=2928),
    ("isoalloc", "entry=2 array=4096", 1920..=2928),
    ("isoalloc", "threads=3 times=2 array=65536", 20_000..=200_000),
    ("simple-malloc", "scenario=1 size=64 count=30 ops=100", 120..=120),
    ("simple-malloc", "scenario=2 size=64 count=30 ops=100", 120..=120),
    ("simple-malloc", "scenario=3 size=64 count=30 ops=100 calloc=1", 120..=120),
    ("simple-malloc", "scenario=0 size=64 count=0 ops=100", 6600..=6600),
    ("malloc-thread", "threads=3 ops=2000", 6000..=6000),
    ("malloc-thread", "threads=2 ops=2000 fill=1", 4000..=4000),
    ("malloc-tcache", "slots=1 ops=1000", 1000..=1000),
    ("malloc-tcache", "slots=4 ops=1001", 1001..=1001),
    ("malloc-tcache", "slots=28 burst=7 ops=1000", 1001..=1001),
    ("uns-filler", "cache=2 filler=3 misses=4 ops=900", 998..=998),
    ("uns-filler", "cache=0 filler=1 misses=8 ops=173", 173..=173),
    ("unlikely-hit", "remainders=10 ops=100", 120..=120),
    ("random-actions", "threads=2 ops=5000", 9000..=10_000),
    ("heap-exhaustion", "budget=4mi ops=500 pause_ms=1", 450..=499),
    ("octiles", "budget=1mi ops=5000", 1000..=5000),
    ("ar-malloc", "threads=1 slots=100 ops=3000", 3000..=3000),
    ("ar-malloc", "threads=2 slots=100 ops=3001 sizes=1 low=4 high=32768", 3002..=3002),
    ("ar-malloc", "threads=2 slots=100 ops=3000 sizes=2 touch=0", 3000..=3000),
    ("sh6", "threads=1 ops=9001", 9001..=9001),
    ("sh6", "threads=2 ops=40k", 80_000..=80_000),
    ("sh8", "threads=3 ops=20k passed=100", 60_000..=60_000),
    ("sh8", "threads=1 ops=3000", 3000..=3000),
    ("cache-scratch", "threads=1 rounds=50 writes=10", 50..=50),
    ("cache-scratch", "threads=8 rounds=50 writes=10", 400..=400),
    ("cache-thrash", "threads=2 rounds=50 writes=10", 100..=100),
    ("rptest", "threads=1 loops=5 slots=100", 1000..=3000),
    ("rptest", "threads=3 loops=10 slots=100 cross=1", 8000..=30_000),
    ("alloc-test", "threads=2 ops=2000 slots=100 exponent=12", 4000..=4000),
    ("barnes", "bodies=200 steps=3", 3..=3),
    ("churn", "slots=2000 ops=10000 settle_ms=10 calls=0 touch=1 purge=1", 12_125..=12_125),
    ("burst-idle", "threads=3 bytes=4mi", 5000..=100_000),
    ("burst-idle", "threads=2 bytes=4mi cross=1 idle_ms=4000", 5000..=100_000),
    ("thrash", "objects=300 rounds=5", 1500..=1500),
    (
        "latency",
        "slots=100 ops=2000 every_ns=1000 bursts=2 burst_bytes=65536 pause_us=10",
        2000..=2000,
    ),
    ("random-reads", "blocks=300 size=48 sites=5 ops=1000", 1000..=1000),
    ("lines", "shape=0 threads=3 warm=3 rounds=5", 24..=24),
    ("lines", "shape=1 threads=3 warm=3 rounds=5", 48..=48),
    ("fork", "count=3 work=0 blocks=300", 3..=3),
    ("fork", "count=3 work=20 blocks=300", 3..=3),
    ("sites", "sites=500 window=100 pass=4 slots=300 rounds=8", 2400..=2400),
];

/// Workloads of which an operation is one call of any kind, and not a block.
const CALLS: &[&str] = &["random-actions", "ar-malloc", "threaded", "rptest", "lines"];

/// The counts of the probe belong to the process, so one test does all workloads in turn.
#[test]
fn every_workload_counts_its_operations_and_frees_its_blocks() {
    for workload in ALL {
        assert!(
            SMALL.iter().any(|(name, ..)| *name == workload.name),
            "{} is not tried",
            workload.name
        );
    }
    for (name, numbers, expected) in SMALL {
        let workload = ALL.iter().find(|workload| workload.name == *name).unwrap();
        let params = Params::parse(numbers.split(' ').chain(["probe=1"])).unwrap();
        let before = Probe::seen();
        let outcome = run(workload, &params);
        let after = Probe::seen();
        let (allocations, frees) =
            (after.allocations - before.allocations, after.frees - before.frees);
        assert!(expected.contains(&outcome.ops), "{name} {numbers}: {} operations", outcome.ops);
        assert_eq!(allocations, frees, "{name} {numbers}");
        // An operation of `leak` is a thread, one of `espresso` a whole function.
        // The built-in trace has 3159 allocations; the rest of its events are frees and resizes.
        let least = match *name {
            "trace" => 2 * 3159,
            "random-reads" => 300,
            _ if CALLS.contains(name) => outcome.ops / 4,
            _ => outcome.ops,
        };
        assert!(allocations >= least, "{name} {numbers}: {allocations} allocations");
        for case in &workload.listed().cases {
            let of_all = |key| !matches!(key, "peak_mb" | "scaling" | "alloc_ns" | "free_ns");
            // Counted from outside, or only where the case asks for it.
            let inside = |key: &str| key != "syscalls_per_round" && !key.ends_with("_per_call");
            let of_all = |key| of_all(key) && inside(key) && !of_purge(key, numbers);
            for metric in case.metrics.iter().filter(|metric| of_all(metric.key)) {
                let figure = outcome.metrics.get(metric.key).copied().unwrap_or(f64::NAN);
                assert!(figure.is_finite() && figure >= 0.0, "{name}: {} is {figure}", metric.key);
            }
        }
    }
}

fn of_purge(key: &str, numbers: &str) -> bool {
    let may = numbers.contains("purge=1") || numbers.contains("sites=500");
    matches!(key, "drained_purged_mb" | "purge_ms") && !may
}

fn work(words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    let output = command.arg("work").args(words).env_remove("LD_PRELOAD").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_workload_in_a_process_of_its_own_prints_one_line_of_json() {
    let outcome = work(&["replace", "slots=1000", "low=16", "high=1016", "ops=20k"]);
    assert_eq!(outcome["ops"], 20_000);
    assert!(outcome["metrics"]["ns"].as_f64().unwrap() > 0.0);
    assert!(outcome["metrics"]["peak_mb"].as_f64().unwrap() > 0.5);
}

#[test]
fn a_workload_refuses_to_run_on_another_malloc_than_it_was_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.args(["work", "pair", "ops=10"]).env("LD_PRELOAD", "/nowhere/libabsent.so");
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("/nowhere/libabsent.so is not loaded")
    );
}
