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
    pub unit: &'static str,
    pub better: Better,
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
/// The median wall time of one process.
pub const MS: Metric = time("ms", "ms/process");
/// Thousand requests per second.
pub const KREQ: Metric = rate("kreq", "kreq/s");
/// Resident memory of a server after its work.
pub const RESIDENT: Metric = memory("rss_mb", "MB after");
/// Resident memory in a steady state, over the bytes that are live then.
pub const STEADY: Metric = memory("steady_x", "x live, steady");
/// Resident memory after everything was freed.
pub const DRAINED: Metric = memory("drained_mb", "MB drained");
/// Processor time, of all threads and of children that were waited for.
pub const CPU: Metric = cause("cpu_seconds", "s of processor");
/// Page faults that needed no disk.
pub const FAULTS: Metric = cause("minor_faults", "faults");
/// The time that 999 of 1000 calls stay below.
pub const P999: Metric = time("p999_ns", "ns p99.9");
/// The time that 9999 of 10 000 calls stay below.
pub const P9999: Metric = time("p9999_ns", "ns p99.99");
/// Instructions per operation, counted by callgrind.
pub const INSTRUCTIONS: Metric = cause("instructions", "instructions/op");
/// Of the memory that a burst took, what is back after two seconds without calls.
pub const BACK_2S: Metric = share("back_2s_pct", "% back, 2 s");
/// How often threads of the program that slept ran nevertheless.
pub const WOKEN: Metric = cause("woken", "times woken");
/// System calls of all threads in a round of the steady state, counted in a run that is not timed.
pub const CALLS_PER_ROUND: Metric = cause("syscalls_per_round", "system calls/round");
/// Resident memory after everything was freed and the allocator was asked to give back what it can.
pub const PURGED: Metric = memory("drained_purged_mb", "MB purged");

/// Cache lines that move between processors in a call, by simulation.
pub const LINES: Metric = cause("lines_per_call", "lines moved/call");
/// Accesses to memory in a call.
pub const ACCESSES: Metric = cause("accesses_per_call", "accesses/call");

/// Every metric, for the files of the workloads.
pub const METRICS: &[Metric] = &[
    NS,
    MOPS,
    SECONDS,
    PEAK,
    SCALING,
    time("us", "us/op"),
    time("us_per_thread", "us/thread"),
    MS,
    KREQ,
    RESIDENT,
    STEADY,
    memory("steady_mb", "MB steady"),
    DRAINED,
    CPU,
    FAULTS,
    // Percentiles of the time of a call.
    time("p50_ns", "ns p50"),
    time("p99_ns", "ns p99"),
    P999,
    P9999,
    INSTRUCTIONS,
    // Of the bytes that there are, those that blocks were had for before memory ran out.
    Metric { about: About::Memory, ..rate("efficiency", "% used") },
    time("alloc_ns", "ns/malloc"),
    time("free_ns", "ns/free"),
    time("max_ns", "ns max"),
    // Resident memory when every slot was filled once.
    memory("grown_mb", "MB grown"),
    // Resident memory when the slots were replaced many times.
    memory("churned_mb", "MB churned"),
    // Resident memory when most blocks were freed.
    memory("shrunk_mb", "MB shrunk"),
    // The pages that hold blocks which the program does not need for a while.
    memory("span_mb", "MB spanned"),
    // Resident memory after the kernel was asked to page such blocks out.
    memory("paged_mb", "MB paged"),
    // The time that seven eighths of the allocations stay below.
    time("alloc_octile7_ns", "ns alloc octile 7"),
    // The mean time of an allocation before the memory was exhausted for the first time.
    time("first_ns", "ns/alloc, memory left"),
    // Of the rounds of writing, those in which another thread's block lay in the same cache line.
    cause("shared_line_percent", "% in a shared line"),
    // As `BACK_2S`, after other times.
    share("back_100ms_pct", "% back, 0.1 s"),
    share("back_500ms_pct", "% back, 0.5 s"),
    share("back_1s_pct", "% back, 1 s"),
    BACK_2S,
    share("back_4s_pct", "% back, 4 s"),
    // What is not back.
    memory("left_mb", "MB left, 2 s"),
    memory("alive_mb", "MB, all alive"),
    memory("after_exit_mb", "MB after exit"),
    WOKEN,
    cause("faults_per_round", "faults/round"),
    cause("faults_per_child", "faults/child"),
    // Of a process that forks: the call of `fork` alone, and the least of all children.
    time("fork_us", "us/fork"),
    time("fork_us_least", "us/fork, least"),
    time("us_least", "us/op, least"),
    cause("mappings", "mappings"),
    // Processor time of a process from its start to its end.
    time("cpu_us", "us of processor/start"),
    cause("faults_per_start", "faults/start"),
    cause("syscalls_added", "system calls more than libc"),
    // Cache lines that come from another processor.
    LINES,
    ACCESSES,
    CALLS_PER_ROUND,
    // Page faults in the second and later uses of memory that had been freed.
    cause("refaults", "faults again"),
    PURGED,
    cause("purge_ms", "ms/purge"),
    memory("mapped_25_mb", "MB mapped, 25 %"),
    memory("mapped_50_mb", "MB mapped, 50 %"),
    memory("mapped_mb", "MB mapped"),
    memory("tables_25_mb", "MB page tables, 25 %"),
    memory("tables_50_mb", "MB page tables, 50 %"),
    memory("tables_mb", "MB page tables"),
    memory("mapped_purged_mb", "MB mapped, purged"),
    memory("tables_purged_mb", "MB page tables, purged"),
    // Bytes that were asked for and not freed.
    cause("live_mb", "MB live"),
];

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
