//! The workloads that run inside one process, and the table of their cases.

mod alloc_test;
mod ar_malloc;
mod barnes;
mod batch;
pub mod burst_idle;
mod bursts;
mod cfrac;
pub mod churn;
mod circle;
mod espresso;
mod false_sharing;
mod fork;
mod handover;
mod heap_exhaustion;
mod isoalloc;
mod large;
mod larson;
mod latency;
mod leak;
mod live;
mod local;
mod malloc_tcache;
pub mod malloc_thread;
mod many_threads;
mod micro;
mod mstress;
mod octiles;
mod pair;
mod random_actions;
mod random_reads;
mod replace;
mod rptest;
mod sh;
pub mod simple_malloc;
pub mod site_churn;
mod sites;
mod sizes;
#[cfg(test)]
mod test_heaps;
pub mod thrash;
mod threaded;
mod tiering;
pub mod trace;
pub(crate) mod turns;
pub mod unlikely_hit;
pub mod uns_filler;
mod xmalloc;

use crate::cases::{Listed, listed};
use crate::heap::{Libc, Probe};
use crate::outcome::Outcome;
use crate::params::Params;

/// The allocator that a workload of this process runs on.
#[derive(Clone, Copy, Debug)]
pub enum On {
    /// The process's own `malloc`.
    Libc(Libc),
    /// The process's own `malloc`, counted and slowed.
    Probe(Probe),
}

/// A program that allocates.
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// The text of its file in `workloads/`.
    pub file: &'static str,
    /// Runs it.
    pub run: fn(On, &Params) -> Outcome,
}

impl Workload {
    /// What its file says.
    #[must_use]
    pub fn listed(&self) -> &'static Listed {
        listed(self.file)
    }
}

/// Makes a [`Workload`] of its name, which is also that of its file, and of a function that is
/// generic over the heap.
macro_rules! workload {
    ($name:literal, $run:ident) => {
        $crate::workloads::Workload {
            name: $name,
            file: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/", $name, ".toml")),
            run: |on, params| match on {
                $crate::workloads::On::Libc(heap) => $run(heap, params),
                $crate::workloads::On::Probe(heap) => $run(heap, params),
            },
        }
    };
}
pub(crate) use workload;

/// What every workload is made of.
mod prelude {
    pub(super) use super::{Workload, workload};
    pub(super) use crate::heap::{Heap, launder, take, take_filled, touched};
    pub(super) use crate::mapped::Mapped;
    pub(super) use crate::outcome::Outcome;
    pub(super) use crate::params::Params;
    pub(super) use crate::rng::Rng;
    pub(super) use crate::threads::{Patience, Placed, link_ns, prepared, span, together};
    pub(super) use std::time::{Duration, Instant};
}

/// Every workload, in the order of the table.
pub const ALL: &[Workload] = &[
    pair::WORKLOAD,
    replace::WORKLOAD,
    local::WORKLOAD,
    handover::WORKLOAD,
    larson::WORKLOAD,
    mstress::WORKLOAD,
    xmalloc::WORKLOAD,
    leak::WORKLOAD,
    many_threads::WORKLOAD,
    batch::WORKLOAD,
    large::WORKLOAD,
    large::MALLOC_LARGE,
    large::VECTOR,
    cfrac::WORKLOAD,
    espresso::WORKLOAD,
    churn::WORKLOAD,
    micro::WORKLOAD,
    threaded::WORKLOAD,
    latency::WORKLOAD,
    tiering::WORKLOAD,
    burst_idle::WORKLOAD,
    thrash::WORKLOAD,
    site_churn::WORKLOAD,
    fork::WORKLOAD,
    random_reads::WORKLOAD,
    turns::WORKLOAD,
    isoalloc::WORKLOAD,
    simple_malloc::WORKLOAD,
    malloc_thread::WORKLOAD,
    malloc_tcache::WORKLOAD,
    uns_filler::WORKLOAD,
    unlikely_hit::WORKLOAD,
    random_actions::WORKLOAD,
    heap_exhaustion::WORKLOAD,
    octiles::WORKLOAD,
    ar_malloc::WORKLOAD,
    sh::SH6,
    sh::SH8,
    false_sharing::SCRATCH,
    false_sharing::THRASH,
    rptest::WORKLOAD,
    alloc_test::WORKLOAD,
    barnes::WORKLOAD,
    trace::WORKLOAD,
];

/// The workload called `name`.
pub fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

/// Runs a workload in this process. The parameters `probe=1` and `delay_ns=N` put a [`Probe`]
/// between it and `malloc`.
#[must_use]
pub fn run(workload: &Workload, params: &Params) -> Outcome {
    let delay = params.get("delay_ns", 0);
    let on = if delay > 0 || params.get("probe", 0) > 0 {
        On::Probe(Probe::new(delay))
    } else {
        On::Libc(Libc)
    };
    (workload.run)(on, params)
}
