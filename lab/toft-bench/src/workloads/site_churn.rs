//! Ten thousand call sites whose sizes change and which come and go: what does it cost in address
//! space and page tables, when an address never gets another owner?
//!
//! The sites are pieces of code made when the workload starts, so that each call of `malloc` has
//! its own return address. Live blocks are replaced in rounds. In each round only some sites
//! allocate, a window that moves over all of them; each time that it has passed over all, every
//! site goes on to the next doubling of its size. After as many passes as there are doublings,
//! which is half of the rounds of the full case, each site has had every size. From then on nothing
//! is new: an allocator whose use of addresses is bounded by its sites and sizes grows no more. In
//! the end all is freed and the allocator is asked to give back what it can.

use super::prelude::*;
use super::replace::drain;
use crate::resident::{resident, status_bytes};
use crate::thunks::Thunks;

pub(crate) const WORKLOAD: Workload = workload!("sites", run);

/// The smallest size, and how often it doubles: to 8 KiB.
const FIRST: usize = 16;
const DOUBLINGS: usize = 9;

/// Runs it.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let rounds = params.size("rounds", 400);
    let mut churn = Churn::new(heap, params);
    let fresh = State::now();
    let (mut seconds, mut done) = (0.0, 0);
    let mut states = [fresh; 3];
    for (state, percent) in states.iter_mut().zip([25, 50, 100]) {
        let end = (rounds * percent).div_ceil(100);
        let start = Instant::now();
        (done..end).for_each(|round| churn.round(round));
        seconds += start.elapsed().as_secs_f64();
        done = end;
        *state = State::now();
    }
    let live: u64 = churn.sizes.iter().map(|&size| u64::from(size)).sum();
    drain(heap, &mut churn.slots);
    heap.purge();
    let purged = State::now();
    let [quarter, half, whole] = states;
    let above = |now: u64, fresh: u64| now.saturating_sub(fresh) as f64 / 1e6;
    Outcome::timed((rounds * churn.slots.len()) as u64, seconds)
        .with("mapped_25_mb", above(quarter.mapped, fresh.mapped))
        .with("mapped_50_mb", above(half.mapped, fresh.mapped))
        .with("mapped_mb", above(whole.mapped, fresh.mapped))
        .with("tables_25_mb", above(quarter.tables, fresh.tables))
        .with("tables_50_mb", above(half.tables, fresh.tables))
        .with("tables_mb", above(whole.tables, fresh.tables))
        .with("mapped_purged_mb", above(purged.mapped, fresh.mapped))
        .with("tables_purged_mb", above(purged.tables, fresh.tables))
        .with("drained_purged_mb", above(purged.resident, fresh.resident))
        .with("steady_mb", above(whole.resident, fresh.resident))
        .with("live_mb", live as f64 / 1e6)
}

/// What the kernel counts of this process.
#[derive(Clone, Copy)]
struct State {
    mapped: u64,
    tables: u64,
    resident: u64,
}

impl State {
    fn now() -> Self {
        Self { mapped: status_bytes("VmSize"), tables: status_bytes("VmPTE"), resident: resident() }
    }
}

/// Live blocks, and the sites that allocate them.
struct Churn<H> {
    heap: H,
    code: Thunks,
    slots: Mapped<*mut u8>,
    sizes: Mapped<u32>,
    rng: Rng,
    /// How many sites allocate in a round.
    window: usize,
    /// How many rounds it takes until all have done so.
    pass: usize,
}

impl<H: Heap> Churn<H> {
    fn new(heap: H, params: &Params) -> Self {
        let (sites, window) = (params.size("sites", 10_000), params.size("window", 1000));
        let slots = params.size("slots", 100_000);
        Self {
            heap,
            code: Thunks::new(sites, heap.entry()),
            slots: Mapped::new(slots),
            sizes: Mapped::new(slots),
            rng: Rng::new(params.get("seed", 1)),
            window: window.min(sites),
            pass: params.size("pass", 22).max(1),
        }
    }

    /// The site of a draw below the window, and the size that it has in this round.
    fn site(&mut self, round: usize) -> (usize, usize) {
        let sites = self.code.len();
        let begin = sites * (round % self.pass) / self.pass;
        let site = (begin + self.rng.below(self.window)) % sites;
        // Neighbours differ, or each window would have one size.
        let doubling = (site * 7 + round / self.pass) % DOUBLINGS;
        let low = FIRST << doubling;
        (site, low + self.rng.below(low))
    }

    fn round(&mut self, round: usize) {
        for _ in 0..self.slots.len() {
            let index = self.rng.below(self.slots.len());
            let (site, size) = self.site(round);
            // SAFETY: the slot holds a live block or null, and gets another below.
            unsafe { self.heap.free(self.slots[index]) };
            // SAFETY: the code calls the entry of this heap.
            let block = unsafe { self.code.call(site, size, &raw const self.heap) };
            self.slots[index] = touched(block, size);
            self.sizes[index] = size as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::Recorder;
    use std::collections::BTreeSet;

    fn small() -> Params {
        Params::of("sites=90 window=10 pass=9 slots=200 rounds=8")
    }

    #[test]
    fn after_as_many_passes_as_doublings_every_site_has_had_every_size() {
        let mut churn = Churn::new(Libc, &small());
        let mut seen = BTreeSet::new();
        let mut doublings = |churn: &mut Churn<Libc>, rounds: std::ops::Range<usize>| {
            for round in rounds {
                for _ in 0..2000 {
                    let (site, size) = churn.site(round);
                    seen.insert((site, (size / FIRST).ilog2()));
                }
            }
            seen.len()
        };
        assert_eq!(doublings(&mut churn, 0..9), 90, "one size each in one pass");
        assert_eq!(doublings(&mut churn, 9..81), 90 * DOUBLINGS);
        assert_eq!(doublings(&mut churn, 81..162), 90 * DOUBLINGS, "and nothing new after that");
    }

    #[test]
    fn blocks_are_replaced_at_their_sites_and_freed() {
        let heap = Recorder::new();
        let outcome = run(heap, &small());
        let sizes = heap.sizes();
        assert_eq!((outcome.ops, sizes.len()), (1600, 1600));
        assert_eq!(heap.calls().len(), 3200);
        assert!(sizes.iter().all(|size| (FIRST..FIRST << DOUBLINGS).contains(size)));
        let live = outcome.metrics["live_mb"];
        assert!(live > 0.0 && live * 1e6 < sizes.iter().sum::<usize>() as f64, "{live}");
    }
}
