//! The workloads that run inside one process, and the table of their cases.

pub mod alloc_test;
pub mod ar_malloc;
pub mod barnes;
pub mod batch;
pub mod burst_idle;
pub mod bursts;
pub mod cfrac;
pub mod churn;
pub mod circle;
pub mod espresso;
pub mod false_sharing;
pub mod fork;
pub mod handover;
pub mod heap_exhaustion;
pub mod isoalloc;
pub mod large;
pub mod larson;
pub mod latency;
pub mod leak;
pub mod live;
pub mod local;
pub mod malloc_tcache;
pub mod malloc_thread;
pub mod many_threads;
pub mod micro;
pub mod mstress;
pub mod octiles;
pub mod pair;
pub mod random_actions;
pub mod replace;
pub mod rptest;
pub mod sh;
pub mod simple_malloc;
pub mod site_churn;
pub mod sites;
pub mod sizes;
#[cfg(test)]
mod test_heaps;
pub mod thrash;
pub mod threaded;
pub mod tiering;
pub mod trace;
pub mod unlikely_hit;
pub mod uns_filler;
#[cfg(test)]
mod watch;
pub mod xmalloc;

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

/// Makes the `run` of a [`Workload`] out of a function that is generic over the heap.
macro_rules! on_any_heap {
    ($run:ident) => {
        |on, params| match on {
            $crate::workloads::On::Libc(heap) => $run(heap, params),
            $crate::workloads::On::Probe(heap) => $run(heap, params),
        }
    };
}
pub(crate) use on_any_heap;

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
#[must_use]
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
