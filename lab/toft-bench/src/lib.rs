//! Workloads for memory allocators, and an honest way to compare allocators on them.
//!
//! A *workload* is a program that calls `malloc`; a *case* is a workload with its numbers filled
//! in, and is one row of the result; a *peer* is an allocator that a process can be started on. The
//! runner starts every case on every peer, interleaved, in a fresh process each time.

mod asleep;
mod bars;
mod baseline;
mod callgrind;
mod cases;
pub mod child;
pub mod cli;
mod family;
mod files;
#[cfg(test)]
mod fixtures;
mod grid;
pub mod heap;
mod host;
pub mod interval;
mod json;
mod lines;
pub mod machine;
mod mapped;
pub mod marks;
mod measured;
mod metrics;
pub mod misuse;
pub mod mount;
mod out;
pub mod outcome;
pub mod params;
mod patience;
mod peer_build;
mod peer_cache;
mod peer_settings;
mod peer_table;
pub mod peers;
mod percentiles;
pub mod plot;
pub mod preloadable;
mod program;
mod progress;
mod published;
mod purge;
mod record;
mod releases;
mod report;
pub mod resident;
mod rng;
mod runner;
pub mod signals;
mod standing;
mod standing_table;
pub mod stats;
mod syscalls;
mod table;
mod threads;
mod thunks;
pub mod workloads;

/// The folder of this crate in the checkout that it was built from. A released build, which must
/// not depend on where it was built, has a folder that does not exist.
pub(crate) const FOLDER: &str = match option_env!("TOFT_RELEASE") {
    Some(_) => "/toft/lab/toft-bench",
    None => env!("CARGO_MANIFEST_DIR"),
};
