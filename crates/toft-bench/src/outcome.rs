//! What one run of a case reports.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which direction of a metric is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, sizes.
    Less,
    /// Rates.
    More,
}

/// A figure that a workload measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its key in the output of a run.
    pub key: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// The good direction.
    pub better: Better,
}

/// Nanoseconds per operation.
pub const NS: Metric = Metric { key: "ns", unit: "ns/op", better: Better::Less };
/// Million operations per second, all threads together.
pub const MOPS: Metric = Metric { key: "mops", unit: "Mops", better: Better::More };
/// Wall time.
pub const SECONDS: Metric = Metric { key: "seconds", unit: "s", better: Better::Less };
/// Peak resident memory of the process, from the kernel.
pub const PEAK: Metric = Metric { key: "peak_mb", unit: "MB peak", better: Better::Less };

/// Times the rate of one thread.
pub const SCALING: Metric = Metric { key: "scaling", unit: "x one thread", better: Better::More };
/// Microseconds per operation.
pub const US: Metric = Metric { key: "us", unit: "us/op", better: Better::Less };
/// Microseconds for each thread that is started and ended.
pub const US_PER_THREAD: Metric =
    Metric { key: "us_per_thread", unit: "us/thread", better: Better::Less };
/// The median wall time of one process.
pub const MS: Metric = Metric { key: "ms", unit: "ms/process", better: Better::Less };
/// Thousand requests per second.
pub const KREQ: Metric = Metric { key: "kreq", unit: "kreq/s", better: Better::More };
/// Resident memory of a server after its work.
pub const RESIDENT: Metric = Metric { key: "rss_mb", unit: "MB after", better: Better::Less };
/// Resident memory in a steady state, over the bytes that are live then.
pub const STEADY: Metric = Metric { key: "steady_x", unit: "x live, steady", better: Better::Less };
/// Resident memory in a steady state.
pub const STEADY_MB: Metric = Metric { key: "steady_mb", unit: "MB steady", better: Better::Less };
/// Resident memory after everything was freed.
pub const DRAINED: Metric = Metric { key: "drained_mb", unit: "MB drained", better: Better::Less };
/// Processor time, of all threads and of children that were waited for.
pub const CPU: Metric = Metric { key: "cpu_seconds", unit: "s of processor", better: Better::Less };
/// Page faults that needed no disk.
pub const FAULTS: Metric = Metric { key: "minor_faults", unit: "faults", better: Better::Less };
/// The time that half of the calls stay below, and so on.
pub const P50: Metric = Metric { key: "p50_ns", unit: "ns p50", better: Better::Less };
/// See [`P50`].
pub const P99: Metric = Metric { key: "p99_ns", unit: "ns p99", better: Better::Less };
/// See [`P50`].
pub const P999: Metric = Metric { key: "p999_ns", unit: "ns p99.9", better: Better::Less };
/// See [`P50`].
pub const P9999: Metric = Metric { key: "p9999_ns", unit: "ns p99.99", better: Better::Less };
/// Instructions per operation, counted by callgrind.
pub const INSTRUCTIONS: Metric =
    Metric { key: "instructions", unit: "instructions/op", better: Better::Less };
/// Of the bytes that there are, those that blocks were had for before memory ran out.
pub const EFFICIENCY: Metric = Metric { key: "efficiency", unit: "% used", better: Better::More };
/// The time that seven eighths of the allocations stay below.
pub const OCTILE7: Metric =
    Metric { key: "alloc_octile7_ns", unit: "ns alloc octile 7", better: Better::Less };
/// The mean time of an allocation before the memory was exhausted for the first time.
pub const FIRST: Metric =
    Metric { key: "first_ns", unit: "ns/alloc, memory left", better: Better::Less };

/// Nanoseconds per allocation, where allocating and freeing are timed apart.
pub const ALLOC_NS: Metric = Metric { key: "alloc_ns", unit: "ns/malloc", better: Better::Less };
/// Nanoseconds per free; see [`ALLOC_NS`].
pub const FREE_NS: Metric = Metric { key: "free_ns", unit: "ns/free", better: Better::Less };
/// The slowest call; see [`P50`].
pub const MAX_NS: Metric = Metric { key: "max_ns", unit: "ns max", better: Better::Less };
/// Resident memory when every slot was filled once.
pub const GROWN: Metric = Metric { key: "grown_mb", unit: "MB grown", better: Better::Less };
/// Resident memory when the slots were replaced many times.
pub const CHURNED: Metric = Metric { key: "churned_mb", unit: "MB churned", better: Better::Less };
/// Resident memory when most blocks were freed.
pub const SHRUNK: Metric = Metric { key: "shrunk_mb", unit: "MB shrunk", better: Better::Less };
/// The pages that hold blocks of which nobody has need for a while.
pub const SPAN: Metric = Metric { key: "span_mb", unit: "MB spanned", better: Better::Less };
/// Resident memory after the kernel was asked to page such blocks out.
pub const PAGED: Metric = Metric { key: "paged_mb", unit: "MB paged", better: Better::Less };

/// Of the rounds of writing, those in which another thread's block lay in the same cache line.
pub const SHARED_LINE: Metric =
    Metric { key: "shared_line_percent", unit: "% in a shared line", better: Better::Less };

/// Every metric, for the files of the workloads.
pub const METRICS: &[Metric] = &[
    NS,
    MOPS,
    SECONDS,
    PEAK,
    SCALING,
    US,
    US_PER_THREAD,
    MS,
    KREQ,
    RESIDENT,
    STEADY,
    STEADY_MB,
    DRAINED,
    CPU,
    FAULTS,
    P50,
    P99,
    P999,
    P9999,
    INSTRUCTIONS,
    EFFICIENCY,
    ALLOC_NS,
    FREE_NS,
    MAX_NS,
    GROWN,
    CHURNED,
    SHRUNK,
    SPAN,
    PAGED,
    OCTILE7,
    FIRST,
    SHARED_LINE,
];

/// The metric of a key.
#[must_use]
pub fn metric(key: &str) -> Option<Metric> {
    METRICS.iter().copied().find(|metric| metric.key == key)
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Operations done, by the workload's own definition of one.
    pub ops: u64,
    /// A figure for each metric key; also some that no table shows.
    pub metrics: BTreeMap<String, f64>,
}

impl Outcome {
    /// An outcome of `ops` operations in `seconds`: sets `ns`, `mops` and `seconds`.
    #[must_use]
    pub fn timed(ops: u64, seconds: f64) -> Self {
        let mut outcome = Self { ops, metrics: BTreeMap::new() };
        outcome.set("ns", seconds * 1e9 / ops as f64);
        outcome.set("mops", ops as f64 / seconds / 1e6);
        outcome.set("seconds", seconds);
        outcome
    }

    /// Sets a figure.
    pub fn set(&mut self, key: &str, value: f64) {
        self.metrics.insert(key.to_owned(), value);
    }

    /// [`Outcome::set`], chained.
    #[must_use]
    pub fn with(mut self, key: &str, value: f64) -> Self {
        self.set(key, value);
        self
    }
}

/// Kilobytes of the kernel (1024 B) as the megabytes (10^6 B) of the tables.
#[must_use]
pub fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

/// A field of `/proc/self/status` in KiB, e.g. `VmHWM`; 0 when the kernel does not say.
#[must_use]
pub fn status_kib(pid: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status_field(&status, field)
}

/// A field of the text of a `status` file, in KiB.
#[must_use]
pub fn status_field(status: &str, field: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_agree() {
        let outcome = Outcome::timed(2_000_000, 0.5);
        assert_eq!(outcome.metrics["ns"], 250.0);
        assert_eq!(outcome.metrics["mops"], 4.0);
    }

    #[test]
    fn status_fields_are_found_by_their_whole_name() {
        let text = "VmHWMx:\t9 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 77 kB\n";
        assert_eq!(status_field(text, "VmHWM"), 1234);
        assert_eq!(status_field(text, "VmRSS"), 77);
        assert_eq!(status_field(text, "Vm"), 0);
        assert!(status_kib("self", "VmHWM") > 100);
    }
}
