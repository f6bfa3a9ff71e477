//! After glibc's bench-malloc-simple: allocate a run of blocks of one size, free them in the same
//! order, again and again. Where the run does not fit what an allocator keeps at hand, and where
//! the freed run is given back to the kernel and asked for again, shows in the size of the run.
//!
//! Three scenarios, in glibc's order: the main thread before there was another thread, a thread,
//! and the main thread after that thread has ended. `scenario`, `size` and `count` are numbers of a
//! case; 0 stands for all of them. A case over several reports the geometric mean as `ns`, and each
//! of them as `ns_SCENARIO_SIZE_COUNT`. As with glibc's program, each size has a process of its
//! own: blocks of another size, left in a cache, keep the heap's end from being given back, and
//! hide what that costs. Other than glibc's program, this one touches the blocks.

use super::prelude::*;
use crate::stats::geometric_mean;
use std::io::{Read, Write};

pub(crate) const WORKLOAD: Workload = workload!("simple-malloc", run);

/// The sizes of glibc's program.
const SIZES: [usize; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Its runs of blocks.
const COUNTS: [usize; 4] = [25, 100, 400, 1600];
/// Who allocates, in the order in which they are measured.
const SCENARIOS: [&str; 3] = ["main", "thread", "after"];
/// The number of each of [`SCENARIOS`] in a case.
const NUMBERS: [usize; 3] = [1, 3, 2];

/// The seconds of each scenario and count, for one size. Of a fixed size: a table from malloc would
/// lie between the blocks.
type Spans = [[f64; COUNTS.len()]; SCENARIOS.len()];

/// Allocates and frees runs of blocks.
pub fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (size, count) = ([params.size("size", 64)], [params.size("count", 100)]);
    let sizes = if size == [0] { &SIZES[..] } else { &size };
    let counts = if count == [0] { &COUNTS[..] } else { &count };
    let scenario = params.size("scenario", 1);
    assert!(scenario <= 3, "scenario={scenario}: 1 main, 2 main after a thread, 3 thread, 0 all");
    let plan = Plan {
        counts,
        wanted: NUMBERS.map(|number| scenario == 0 || scenario == number),
        pairs: params.size("ops", 200_000),
        calloc: params.get("calloc", 0) == 1,
    };
    let mut spans = [Spans::default(); SIZES.len()];
    for (spans, &size) in spans.iter_mut().zip(sizes) {
        if sizes.len() == 1 {
            *spans = one_size(heap, size, &plan);
        } else {
            *spans = in_a_process_of_its_own(|| one_size(heap, size, &plan));
        }
    }
    outcome(&spans, sizes, &plan)
}

/// What is done with each size.
struct Plan<'a> {
    counts: &'a [usize],
    /// Which of [`SCENARIOS`].
    wanted: [bool; SCENARIOS.len()],
    pairs: usize,
    calloc: bool,
}

fn one_size<H: Heap>(heap: H, size: usize, plan: &Plan) -> Spans {
    let longest = plan.counts.iter().copied().max().expect("never empty");
    let mut blocks = Mapped::<*mut u8>::new(longest);
    let mut all = |spans: &mut [f64; COUNTS.len()]| {
        for (span, &count) in spans.iter_mut().zip(plan.counts) {
            *span = measure(heap, &mut blocks[..count], size, plan.pairs, plan.calloc);
        }
    };
    let mut spans = Spans::default();
    let [main, thread, after] = &mut spans;
    if plan.wanted[0] {
        all(main);
    }
    if plan.wanted[1] || plan.wanted[2] {
        std::thread::scope(|scope| {
            scope.spawn(|| all(thread));
        });
    }
    if plan.wanted[2] {
        all(after);
    }
    spans
}

/// Runs `body` in a child of this process, which has only its main thread as long as it is the
/// command `work`.
fn in_a_process_of_its_own(body: impl FnOnce() -> Spans) -> Spans {
    /// Ends the process: a panic must not go on in a copy of the caller.
    struct Ends(i32);
    impl Drop for Ends {
        fn drop(&mut self) {
            // SAFETY: the call does not return, and runs nothing of this process.
            unsafe { libc::_exit(self.0) }
        }
    }

    let (mut read, mut write) = std::io::pipe().expect("no pipe");
    // SAFETY: the child uses its own copy of everything, and leaves by `_exit` alone.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process");
    if child == 0 {
        let mut ends = Ends(1);
        // Less than a pipe holds, so neither process waits for the other.
        if body().iter().flatten().all(|span| write.write_all(&span.to_ne_bytes()).is_ok()) {
            ends.0 = 0;
        }
        drop(ends);
        unreachable!("the process has ended");
    }
    drop(write);
    let mut status = 0;
    // SAFETY: the child is ours, no other code waits for it, and the status is a live local.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((ended, status), (child, 0), "the process of a size failed");
    let mut spans = Spans::default();
    for span in spans.iter_mut().flatten() {
        let mut bytes = [0; 8];
        read.read_exact(&mut bytes).expect("the child wrote all of them");
        *span = f64::from_ne_bytes(bytes);
    }
    spans
}

fn outcome(spans: &[Spans; SIZES.len()], sizes: &[usize], plan: &Plan) -> Outcome {
    let (mut total, mut seconds) = (0, 0.0);
    let mut named = Vec::new();
    for (spans, size) in spans.iter().zip(sizes) {
        for ((scenario, spans), wanted) in SCENARIOS.iter().zip(spans).zip(plan.wanted) {
            for (span, &count) in spans.iter().zip(plan.counts).filter(|_| wanted) {
                let pairs = rounds(plan.pairs, count) * count;
                total += pairs as u64;
                seconds += span;
                named.push((format!("ns_{scenario}_{size}_{count}"), span * 1e9 / pairs as f64));
            }
        }
    }
    let times: Vec<f64> = named.iter().map(|(_, ns)| *ns).collect();
    let mean = geometric_mean(&times).expect("every time is positive");
    let mut outcome = Outcome::timed(total, seconds).with("ns", mean);
    if named.len() > 1 {
        named.iter().for_each(|(key, ns)| outcome.set(key, *ns));
    }
    outcome
}

fn rounds(pairs: usize, count: usize) -> usize {
    pairs.div_ceil(count)
}

/// The seconds of `pairs` pairs, or of as many more as fill the last round.
fn measure<H: Heap>(
    heap: H,
    blocks: &mut [*mut u8],
    size: usize,
    pairs: usize,
    calloc: bool,
) -> f64 {
    let rounds = rounds(pairs, blocks.len());
    let work: fn(H, &mut [*mut u8], usize, usize) =
        if calloc { repeat::<H, true> } else { repeat::<H, false> };
    work(heap, blocks, size, rounds.div_ceil(10));
    let start = Instant::now();
    work(heap, blocks, size, rounds);
    start.elapsed().as_secs_f64()
}

#[inline(never)]
fn repeat<H: Heap, const CALLOC: bool>(
    heap: H,
    blocks: &mut [*mut u8],
    size: usize,
    rounds: usize,
) {
    for _ in 0..rounds {
        for block in &mut *blocks {
            *block = if CALLOC { touched(heap.calloc(size), size) } else { take(heap, size) };
        }
        for block in &*blocks {
            // SAFETY: allocated in this round, and each is freed once.
            unsafe { heap.free(*block) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{Call, recorded};
    use super::*;
    use crate::heap::Libc;

    fn with(words: &str) -> Outcome {
        run(Libc, &Params::of(words))
    }

    #[test]
    fn one_combination_is_reported_as_itself_and_all_as_their_geometric_mean() {
        let one = with("scenario=3 size=48 count=7 ops=70");
        assert_eq!(one.ops, 70);
        assert!(one.metrics.keys().all(|key| !key.starts_with("ns_")), "{one:?}");
        let all = with("scenario=0 size=0 count=0 ops=100");
        // Rounds are whole: 100, 100, 400 and 1600 pairs.
        assert_eq!(all.ops, 3 * 10 * 2200);
        let each: Vec<f64> = all
            .metrics
            .iter()
            .filter_map(|(key, ns)| key.starts_with("ns_").then_some(*ns))
            .collect();
        assert_eq!(each.len(), 3 * 10 * 4);
        let mean = geometric_mean(&each).unwrap();
        assert!((all.metrics["ns"] / mean - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn each_number_is_its_own_scenario() {
        for (number, name) in [(1, "main"), (2, "after"), (3, "thread")] {
            let outcome = with(&format!("scenario={number} size=64 count=0 ops=10"));
            let keys: Vec<_> =
                outcome.metrics.keys().filter(|key| key.starts_with("ns_")).cloned().collect();
            assert_eq!(keys.len(), 4);
            assert!(keys.iter().all(|key| key.starts_with(&format!("ns_{name}_64_"))), "{keys:?}");
        }
    }

    #[test]
    fn a_run_is_freed_in_the_order_of_its_allocation_and_calloc_is_calloc() {
        for (calloc, asked) in [(0, Call::Malloc(48)), (1, Call::Calloc(48))] {
            let (recorder, _) = recorded(run, &format!("size=48 count=3 ops=3 calloc={calloc}"));
            // A round to warm up, and one in the time.
            let round = |n| [Call::Free(n, 1), Call::Free(n + 1, 1), Call::Free(n + 2, 1)];
            let both = [[asked; 3], round(0), [asked; 3], round(3)];
            assert_eq!(recorder.calls(), both.concat());
        }
    }
}
