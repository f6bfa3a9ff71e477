//! Workloads for memory allocators, and an honest way to compare allocators on them.
//!
//! A *workload* is a program that calls `malloc`; a *case* is a workload with its numbers filled
//! in, and is one row of the result; a *peer* is an allocator that a process can be started on. The
//! runner starts every case on every peer, interleaved, in a fresh process each time.

pub mod asleep;
pub mod bars;
pub mod baseline;
pub mod callgrind;
pub mod cases;
pub mod child;
pub mod cli;
pub mod family;
pub mod heap;
pub mod host;
pub mod interval;
pub mod machine;
pub mod mapped;
pub mod marks;
pub mod measured;
pub mod metrics;
pub mod misuse;
pub mod mount;
pub mod out;
pub mod outcome;
pub mod params;
pub mod patience;
pub mod peer_build;
pub mod peer_cache;
pub mod peer_settings;
pub mod peer_table;
pub mod peers;
pub mod percentiles;
pub mod preloadable;
pub mod program;
pub mod published;
pub mod purge;
pub mod record;
#[cfg(test)]
mod recorder;
pub mod releases;
pub mod report;
pub mod resident;
pub mod rng;
pub mod runner;
pub mod standing;
mod standing_table;
pub mod stats;
pub mod syscalls;
pub mod table;
pub mod threads;
pub mod thunks;
pub mod workloads;

/// The folder of this crate in the checkout that it was built from. A released build, which must
/// not depend on where it was built, has a folder that does not exist.
pub(crate) const FOLDER: &str = match option_env!("TOFT_RELEASE") {
    Some(_) => "/toft/lab/toft-bench",
    None => env!("CARGO_MANIFEST_DIR"),
};
