//! Which cases, which groups, and what the original has published.

use crate::metrics::{About, Better, Metric, NS};
use std::sync::LazyLock;

/// What the experiment is called where workloads are named.
pub const NAME: &str = "smallbin";

/// The cases that are timed. The second of `simple-malloc` and those after it are rows of the
/// first, for longer.
pub const CASES: &[&str] = &[
    "uns-filler",
    "uns-filler-16",
    "unlikely-hit-little",
    "unlikely-hit-many",
    "simple-malloc-all",
    "simple-malloc-16x25",
    "simple-malloc-128x25",
    "simple-malloc-512x400",
    "simple-malloc-2048x100",
    "malloc-thread-1",
    "malloc-thread-8",
    "malloc-thread-16",
    "malloc-thread-32",
];

/// Those of which instructions are counted.
pub const COUNTED: &[&str] = &[
    "uns-filler",
    "unlikely-hit-little",
    "unlikely-hit-many",
    "simple-malloc-16x25",
    "simple-malloc-128x25",
    "simple-malloc-512x400",
    "simple-malloc-2048x100",
    "malloc-thread-1",
];

/// All that is sorted.
pub const ORIGINAL: &str = "arena-original";
/// The patch as glibc has it.
pub const INVERTED: &str = "arena-inverted";
/// The arena's own routing: nothing is sorted.
pub const STANDARD: &str = "arena-standard";
/// And a chunk that grows stays outside of the bins.
pub const RUNS: &str = "arena-runs";
/// `RUNS` with a cache of small blocks, as glibc has one.
pub const PARKING: &str = "arena-parking";
/// The control group of `PARKING`.
pub const ORIGINAL_PARKING: &str = "arena-original-parking";
/// The system's malloc as it is.
pub const GLIBC: &str = "glibc";

/// The variants of the patch, each compared with [`ORIGINAL`], and what the tables call them.
pub const VARIANTS: &[(&str, &str)] = &[
    ("arena-mod", "mod"),
    ("arena-mod-unlikely", "mod-unlikely"),
    ("arena-only-unlikely", "only-unlikely"),
    (INVERTED, "mod-unlikely-inverted"),
];

/// Ideas: a group, the one that it differs from in this idea alone, and the idea.
pub const STEPS: &[(&str, &str, &str)] = &[
    (INVERTED, ORIGINAL, "the patch"),
    ("arena-remainders", INVERTED, "remainders direct"),
    ("arena-first-out", "arena-remainders", "large chunks direct"),
    (STANDARD, "arena-first-out", "last freed, first used"),
    (RUNS, STANDARD, "runs outside of the bins"),
    (PARKING, RUNS, "a cache"),
    (STANDARD, "arena-thrifty", "hysteresis"),
    ("arena-inverted-parking", ORIGINAL_PARKING, "the patch, with a cache"),
    ("arena-swift", PARKING, "steps of 32 bytes"),
];

/// The other peers that the experiment always has.
pub const OTHERS: &[&str] = &[GLIBC, "glibc-no-cache", "glibc-no-trim"];

/// All groups, in the order of the tables.
pub fn groups() -> Vec<&'static str> {
    let mut all = vec![ORIGINAL];
    all.extend(VARIANTS.iter().map(|(peer, _)| *peer));
    for (peer, before, _) in STEPS {
        for name in [before, peer] {
            if !all.contains(name) {
                all.push(name);
            }
        }
    }
    all
}

/// The sizes of simple-malloc.
pub const SIZES: [usize; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Its runs.
pub const COUNTS: [usize; 4] = [25, 100, 400, 1600];
/// Its scenarios, and what they are.
pub const SCENARIOS: [(&str, &str); 3] = [
    ("main", "the main thread, before there was another"),
    ("thread", "a thread"),
    ("after", "the main thread, after that thread"),
];

/// The case that has all rows of simple-malloc.
pub const ALL_ROWS: &str = "simple-malloc-all";

/// A row of simple-malloc, as a metric of [`ALL_ROWS`].
pub fn simple(scenario: &str, size: usize, count: usize) -> Metric {
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let rows = SCENARIOS.iter().flat_map(|(scenario, _)| {
            SIZES.iter().flat_map(move |size| {
                COUNTS.iter().map(move |count| format!("ns_{scenario}_{size}_{count}"))
            })
        });
        rows.collect()
    });
    let wanted = format!("ns_{scenario}_{size}_{count}");
    let key = KEYS.iter().find(|key| **key == wanted).map_or("", String::as_str);
    Metric { key, unit: "ns/op", better: Better::Less, about: About::Speed }
}

/// A row for which the original has published how many times the time of the patched malloc the
/// unpatched one took.
pub struct Published {
    /// What the tables call it.
    pub name: String,
    /// The case.
    pub case: &'static str,
    /// The figure of the case.
    pub metric: Metric,
    /// The ratio: more than 1 is better with the patch.
    pub ratio: f64,
}

/// All that were published.
pub fn published() -> Vec<Published> {
    let of = |name: &str, case, ratio| Published { name: name.to_owned(), case, metric: NS, ratio };
    let row = |size, count, ratio| Published {
        name: format!("simple {size} x {count}"),
        case: ALL_ROWS,
        metric: simple("main", size, count),
        ratio,
    };
    vec![
        of("uns_filler", "uns-filler", 1.186),
        of("unlikely_hit little", "unlikely-hit-little", 1.0048),
        of("unlikely_hit many", "unlikely-hit-many", 1.0052),
        of("simple 128 x 25", "simple-malloc-128x25", 0.9126),
        row(128, 1600, 0.9962),
        row(512, 25, 0.9843),
        of("simple 512 x 400", "simple-malloc-512x400", 1.0024),
        row(512, 1600, 1.0042),
        row(2048, 25, 0.9831),
        of("simple 2048 x 100", "simple-malloc-2048x100", 1.0026),
        row(2048, 1600, 1.0025),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{peers, runner};

    #[test]
    fn cases_and_groups_exist() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(runner::choose(&names(CASES)).unwrap().len(), CASES.len());
        assert!(COUNTED.iter().all(|case| CASES.contains(case)));
        assert!(published().iter().all(|row| CASES.contains(&row.case)));
        assert!(peers::choose(&names(&groups())).is_ok());
        assert!(peers::choose(&names(OTHERS)).is_ok());
    }

    /// Every allocator inside of this program is a part of the experiment.
    #[test]
    fn no_group_is_forgotten() {
        let inside = peers::recipes().into_iter().filter(|recipe| recipe.inside.is_some());
        let mut inside: Vec<String> = inside.map(|recipe| recipe.name).collect();
        let mut groups: Vec<String> = groups().into_iter().map(str::to_owned).collect();
        inside.sort();
        groups.sort();
        assert_eq!(inside, groups);
    }

    #[test]
    fn every_row_has_its_own_key() {
        assert_eq!(simple("thread", 4096, 1600).key, "ns_thread_4096_1600");
        assert_eq!(simple("thread", 4096, 7).key, "");
    }
}
