//! The figures that workloads measure: the key of each, its unit, what it is about.

/// Which direction of a metric is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, sizes.
    Less,
    /// Rates.
    More,
}

/// What a metric is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// How long something takes, or how much is done in a time.
    Speed,
    /// How much memory there is.
    Memory,
    /// Something that explains the others.
    Cause,
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
    /// What it is about.
    pub about: About,
}

const fn time(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::Less, about: About::Speed }
}

const fn rate(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::More, about: About::Speed }
}

const fn memory(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::Less, about: About::Memory }
}

const fn share(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::More, about: About::Memory }
}

const fn cause(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::Less, about: About::Cause }
}

/// Nanoseconds per operation.
pub const NS: Metric = time("ns", "ns/op");
/// Million operations per second, all threads together.
pub const MOPS: Metric = rate("mops", "Mops");
/// Wall time.
pub const SECONDS: Metric = time("seconds", "s");
/// Peak resident memory of the process, from the kernel.
pub const PEAK: Metric = memory("peak_mb", "MB peak");

/// Times the rate of one thread.
pub const SCALING: Metric = Metric { about: About::Cause, ..rate("scaling", "x one thread") };
/// Microseconds per operation.
pub const US: Metric = time("us", "us/op");
/// Microseconds for each thread that is started and ended.
pub const US_PER_THREAD: Metric = time("us_per_thread", "us/thread");
/// The median wall time of one process.
pub const MS: Metric = time("ms", "ms/process");
/// Thousand requests per second.
pub const KREQ: Metric = rate("kreq", "kreq/s");
/// Resident memory of a server after its work.
pub const RESIDENT: Metric = memory("rss_mb", "MB after");
/// Resident memory in a steady state, over the bytes that are live then.
pub const STEADY: Metric = memory("steady_x", "x live, steady");
/// Resident memory in a steady state.
pub const STEADY_MB: Metric = memory("steady_mb", "MB steady");
/// Resident memory after everything was freed.
pub const DRAINED: Metric = memory("drained_mb", "MB drained");
/// Processor time, of all threads and of children that were waited for.
pub const CPU: Metric = cause("cpu_seconds", "s of processor");
/// Page faults that needed no disk.
pub const FAULTS: Metric = cause("minor_faults", "faults");
/// The time that half of the calls stay below, and so on.
pub const P50: Metric = time("p50_ns", "ns p50");
/// See [`P50`].
pub const P99: Metric = time("p99_ns", "ns p99");
/// See [`P50`].
pub const P999: Metric = time("p999_ns", "ns p99.9");
/// See [`P50`].
pub const P9999: Metric = time("p9999_ns", "ns p99.99");
/// Instructions per operation, counted by callgrind.
pub const INSTRUCTIONS: Metric = cause("instructions", "instructions/op");
/// Of the bytes that there are, those that blocks were had for before memory ran out.
pub const EFFICIENCY: Metric = Metric { about: About::Memory, ..rate("efficiency", "% used") };
/// The time that seven eighths of the allocations stay below.
pub const OCTILE7: Metric = time("alloc_octile7_ns", "ns alloc octile 7");
/// The mean time of an allocation before the memory was exhausted for the first time.
pub const FIRST: Metric = time("first_ns", "ns/alloc, memory left");

/// Nanoseconds per allocation, where allocating and freeing are timed apart.
pub const ALLOC_NS: Metric = time("alloc_ns", "ns/malloc");
/// Nanoseconds per free; see [`ALLOC_NS`].
pub const FREE_NS: Metric = time("free_ns", "ns/free");
/// The slowest call; see [`P50`].
pub const MAX_NS: Metric = time("max_ns", "ns max");
/// Resident memory when every slot was filled once.
pub const GROWN: Metric = memory("grown_mb", "MB grown");
/// Resident memory when the slots were replaced many times.
pub const CHURNED: Metric = memory("churned_mb", "MB churned");
/// Resident memory when most blocks were freed.
pub const SHRUNK: Metric = memory("shrunk_mb", "MB shrunk");
/// The pages that hold blocks which the program does not need for a while.
pub const SPAN: Metric = memory("span_mb", "MB spanned");
/// Resident memory after the kernel was asked to page such blocks out.
pub const PAGED: Metric = memory("paged_mb", "MB paged");

/// Of the rounds of writing, those in which another thread's block lay in the same cache line.
pub const SHARED_LINE: Metric = cause("shared_line_percent", "% in a shared line");

/// Of the memory that a burst took, what is back after a time without calls.
pub const BACK_100MS: Metric = share("back_100ms_pct", "% back, 0.1 s");
/// See [`BACK_100MS`].
pub const BACK_500MS: Metric = share("back_500ms_pct", "% back, 0.5 s");
/// See [`BACK_100MS`].
pub const BACK_1S: Metric = share("back_1s_pct", "% back, 1 s");
/// See [`BACK_100MS`].
pub const BACK_2S: Metric = share("back_2s_pct", "% back, 2 s");
/// See [`BACK_100MS`].
pub const BACK_4S: Metric = share("back_4s_pct", "% back, 4 s");
/// What is not, after 2 s.
pub const LEFT: Metric = memory("left_mb", "MB left, 2 s");
/// Resident while all threads live.
pub const ALIVE: Metric = memory("alive_mb", "MB, all alive");
/// Resident when all threads have exited, after 1 s.
pub const AFTER_EXIT: Metric = memory("after_exit_mb", "MB after exit");
/// How often threads of the program that slept ran nevertheless.
pub const WOKEN: Metric = cause("woken", "times woken");
/// Page faults without disk in a round of the steady state.
pub const FAULTS_PER_ROUND: Metric = cause("faults_per_round", "faults/round");
/// Page faults without disk of a child, from the fork to its end.
pub const FAULTS_PER_CHILD: Metric = cause("faults_per_child", "faults/child");
/// System calls of all threads in a round of the steady state, counted in a run that is not timed.
pub const CALLS_PER_ROUND: Metric = cause("syscalls_per_round", "system calls/round");
/// Page faults in the second and later uses of memory that had been freed.
pub const REFAULTS: Metric = cause("refaults", "faults again");
/// Resident memory after everything was freed and the allocator was asked to give back what it can.
pub const PURGED: Metric = memory("drained_purged_mb", "MB purged");
/// How long it took to answer.
pub const PURGE_MS: Metric = cause("purge_ms", "ms/purge");
/// Address space when a quarter of the work is done.
pub const MAPPED_25: Metric = memory("mapped_25_mb", "MB mapped, 25 %");
/// Address space after half of the work.
pub const MAPPED_50: Metric = memory("mapped_50_mb", "MB mapped, 50 %");
/// Address space after all of the work.
pub const MAPPED: Metric = memory("mapped_mb", "MB mapped");
/// Page tables when a quarter of the work is done.
pub const TABLES_25: Metric = memory("tables_25_mb", "MB page tables, 25 %");
/// Page tables after half of the work.
pub const TABLES_50: Metric = memory("tables_50_mb", "MB page tables, 50 %");
/// Page tables after all of the work.
pub const TABLES: Metric = memory("tables_mb", "MB page tables");
/// Address space after everything was freed and the allocator was asked to give back what it can.
pub const MAPPED_PURGED: Metric = memory("mapped_purged_mb", "MB mapped, purged");
/// Page tables then.
pub const TABLES_PURGED: Metric = memory("tables_purged_mb", "MB page tables, purged");
/// Bytes that were asked for and not freed.
pub const LIVE: Metric = cause("live_mb", "MB live");

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
    BACK_100MS,
    BACK_500MS,
    BACK_1S,
    BACK_2S,
    BACK_4S,
    LEFT,
    ALIVE,
    AFTER_EXIT,
    WOKEN,
    FAULTS_PER_ROUND,
    FAULTS_PER_CHILD,
    CALLS_PER_ROUND,
    REFAULTS,
    PURGED,
    PURGE_MS,
    MAPPED_25,
    MAPPED_50,
    MAPPED,
    TABLES_25,
    TABLES_50,
    TABLES,
    MAPPED_PURGED,
    TABLES_PURGED,
    LIVE,
];

/// The metric of a key.
#[must_use]
pub fn metric(key: &str) -> Option<Metric> {
    METRICS.iter().copied().find(|metric| metric.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_is_there_once_and_finds_its_metric() {
        let keys: BTreeSet<&str> = METRICS.iter().map(|metric| metric.key).collect();
        assert_eq!(keys.len(), METRICS.len());
        assert_eq!(metric("kreq"), Some(KREQ));
        assert_eq!(metric("kreq "), None);
    }
}
