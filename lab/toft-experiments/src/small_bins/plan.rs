//! The cases, the ideas that are compared, and what was published about the patch.

/// What is done, and on which allocators.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    /// The workload of `toft-bench`.
    pub workload: &'static str,
    /// Its numbers, without `ops`.
    pub numbers: &'static str,
    /// Operations of a full run, and of a quick one.
    pub ops: [u64; 2],
    /// The allocators that it runs on; all if there are none.
    pub on: &'static [&'static str],
}

const fn all(
    name: &'static str,
    workload: &'static str,
    numbers: &'static str,
    ops: [u64; 2],
) -> Case {
    Case { name, workload, numbers, ops, on: &[] }
}

const fn simple(name: &'static str, numbers: &'static str, ops: [u64; 2]) -> Case {
    all(name, "simple-malloc", numbers, ops)
}

const fn threads(name: &'static str, numbers: &'static str, ops: [u64; 2]) -> Case {
    Case { name, workload: "malloc-thread", numbers, ops, on: THREADED }
}

/// The allocators that run with many threads.
const THREADED: &[&str] = &[
    "original",
    "mod",
    "inverted",
    "first-out",
    "remainders",
    "stacks",
    "runs",
    "parking",
    "hysteresis",
    "original-parking",
    "original-hysteresis",
    "glibc",
    "glibc-no-cache",
];

/// The case of all 120 rows of simple-malloc.
pub const GRID: &str = "simple-malloc-all";

/// Every case. Those of `simple-malloc` are on the main thread, before there was another.
pub const CASES: &[Case] = &[
    all("uns_filler", "uns-filler", "cache=7 filler=16 misses=8", [4_000_000, 400_000]),
    all("unlikely_hit little", "unlikely-hit", "remainders=10", [4_000_000, 400_000]),
    all("unlikely_hit many", "unlikely-hit", "remainders=1000", [4_000_000, 400_000]),
    simple("simple 128 x 25", "scenario=1 size=128 count=25", [5_000_000, 500_000]),
    simple("simple 128 x 1600", "scenario=1 size=128 count=1600", [3_000_000, 300_000]),
    simple("simple 512 x 25", "scenario=1 size=512 count=25", [5_000_000, 500_000]),
    simple("simple 512 x 400", "scenario=1 size=512 count=400", [2_000_000, 200_000]),
    simple("simple 512 x 1600", "scenario=1 size=512 count=1600", [1_000_000, 100_000]),
    simple("simple 2048 x 25", "scenario=1 size=2048 count=25", [5_000_000, 500_000]),
    simple("simple 2048 x 100", "scenario=1 size=2048 count=100", [1_000_000, 100_000]),
    simple("simple 2048 x 1600", "scenario=1 size=2048 count=1600", [500_000, 50_000]),
    threads(
        "malloc-thread 1",
        "fill=1 threads=1 slots=1024 low=4 high=32768",
        [2_000_000, 300_000],
    ),
    threads("malloc-thread 8", "fill=1 threads=8 slots=1024 low=4 high=32768", [100_000, 20_000]),
    threads("malloc-thread 16", "fill=1 threads=16 slots=1024 low=4 high=32768", [50_000, 10_000]),
    threads("malloc-thread 32", "fill=1 threads=32 slots=1024 low=4 high=32768", [25_000, 5_000]),
    Case {
        name: GRID,
        workload: "simple-malloc",
        numbers: "scenario=0 size=0 count=0",
        // Shorter rows are noise: a pair takes some nanoseconds.
        ops: [400_000, 20_000],
        on: &["hysteresis", "original-hysteresis", "runs", "original", "glibc"],
    },
];

/// The ratios that were published with the patch: the time of the original over that of the patched
/// malloc. More than 1 is a win of the patch. The case of each has its name.
pub const PUBLISHED: &[(&str, f64)] = &[
    ("uns_filler", 1.186),
    ("unlikely_hit little", 1.00476),
    ("unlikely_hit many", 1.00520),
    ("simple 128 x 25", 0.9126),
    ("simple 128 x 1600", 0.9962),
    ("simple 512 x 25", 0.9843),
    ("simple 512 x 400", 1.0024),
    ("simple 512 x 1600", 1.0042),
    ("simple 2048 x 25", 0.98313),
    ("simple 2048 x 100", 1.0026),
    ("simple 2048 x 1600", 1.00248),
];

/// The control group.
pub const ORIGINAL: &str = "original";
/// The patch as glibc has it.
pub const INVERTED: &str = "inverted";
/// The last of the ideas.
pub const HYSTERESIS: &str = "hysteresis";
/// Its control group.
pub const ORIGINAL_HYSTERESIS: &str = "original-hysteresis";
/// The malloc of this machine.
pub const GLIBC: &str = "glibc";

/// The other variants of the patch.
pub const VARIANTS: &[&str] = &["mod", "mod-unlikely", "only-unlikely", INVERTED];

/// Ideas: a variant, the one that it differs from in this idea alone, and the idea.
pub const IDEAS: &[(&str, &str, &str)] = &[
    (INVERTED, ORIGINAL, "the patch"),
    ("remainders", INVERTED, "remainders direct"),
    ("first-out", "remainders", "large chunks direct"),
    ("stacks", "first-out", "last freed, first used"),
    ("runs", "stacks", "runs outside of the bins"),
    ("parking", "runs", "a cache"),
    (HYSTERESIS, "parking", "hysteresis"),
    (HYSTERESIS, ORIGINAL_HYSTERESIS, "all routing, with both"),
];

/// The cases of which the page shows every idea.
pub const SHOWN: &[&str] = &[
    "uns_filler",
    "unlikely_hit many",
    "simple 128 x 25",
    "simple 512 x 400",
    "simple 2048 x 1600",
    "malloc-thread 1",
    "malloc-thread 8",
    "malloc-thread 16",
    "malloc-thread 32",
];

/// The peers of the experiment that are glibc.
pub const SYSTEM: &[&str] = &[GLIBC, "glibc-no-cache", "glibc-no-trim"];

/// The sizes of simple-malloc.
pub const SIZES: [usize; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Its runs.
pub const COUNTS: [usize; 4] = [25, 100, 400, 1600];
/// Its scenarios: the main thread, a thread, and the main thread after that thread.
pub const SCENARIOS: [&str; 3] = ["main", "thread", "after"];

/// The key of a row of the case [`GRID`].
pub fn row(scenario: &str, size: usize, count: usize) -> String {
    format!("ns_{scenario}_{size}_{count}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use toft_small_bins::variant::NAMES;

    #[test]
    fn every_name_is_that_of_a_case_or_an_allocator() {
        let is_case = |name: &&str| CASES.iter().any(|case| case.name == *name);
        let known = |name: &&str| NAMES.contains(name) || SYSTEM.contains(name);
        assert!(PUBLISHED.iter().map(|(name, _)| name).chain(SHOWN).all(is_case));
        assert!(CASES.iter().flat_map(|case| case.on).all(known));
        assert!(VARIANTS.iter().chain([&ORIGINAL]).all(known));
        assert!(IDEAS.iter().all(|(of, to, _)| known(of) && known(to)));
        for (name, of) in CASES.iter().map(|case| (case.workload, case)) {
            assert!(toft_bench::workloads::ALL.iter().any(|one| one.name == name), "{of:?}");
        }
    }

    /// An idea differs from the variant before it in one choice.
    #[test]
    fn every_variant_is_compared() {
        let compared =
            IDEAS.iter().flat_map(|(of, to, _)| [*of, *to]).chain(VARIANTS.iter().copied());
        let compared: Vec<&str> = compared.chain(["original-parking"]).collect();
        assert!(NAMES.iter().all(|name| compared.contains(name)));
    }
}
