//! Threads that start together, timed as one.

use std::sync::Barrier;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Release},
};
use std::time::Instant;

/// Where threads run.
#[derive(Clone, Copy, Debug)]
pub enum Placed {
    /// Where the kernel puts them.
    Anywhere,
    /// Dealt out over the processors in turn, and kept there.
    Spread,
    /// As `Spread`, but such that threads 2k and 2k + 1 are never on one processor, and each
    /// processor gets threads of both kinds.
    Crosswise,
}

/// Runs `body(0)` to `body(count - 1)`, each on its own thread, and returns the seconds from the
/// moment when all were ready until the last was done, and what they returned. Creating and
/// joining the threads is not in the time.
pub fn together<R: Send>(
    count: usize,
    placed: Placed,
    body: impl Fn(usize) -> R + Sync,
) -> (f64, Vec<R>) {
    prepared(count, placed, |_| (), |index, ()| body(index))
}

/// [`together`], where each thread first makes what it works with, outside of the time.
pub fn prepared<S, R: Send>(
    count: usize,
    placed: Placed,
    prepare: impl Fn(usize) -> S + Sync,
    body: impl Fn(usize, S) -> R + Sync,
) -> (f64, Vec<R>) {
    let processors = allowed();
    let gate = Barrier::new(count);
    let (spans, results): (Vec<_>, Vec<R>) = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..count)
            .map(|index| {
                let (gate, prepare, body, processors) = (&gate, &prepare, &body, &processors);
                scope.spawn(move || {
                    match placed {
                        Placed::Anywhere => {}
                        Placed::Spread => stay_on(processors[index % processors.len()]),
                        Placed::Crosswise => {
                            let turn = index / 2 + index % 2;
                            stay_on(processors[turn % processors.len()]);
                        }
                    }
                    let ready = prepare(index);
                    gate.wait();
                    let start = Instant::now();
                    let result = body(index, ready);
                    ((start, Instant::now()), result)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a workload thread panicked")).unzip()
    });
    (span(&spans), results)
}

/// The seconds from the first beginning to the last end.
pub fn span(spans: &[(Instant, Instant)]) -> f64 {
    let first = spans.iter().map(|span| span.0).min().expect("no threads");
    let last = spans.iter().map(|span| span.1).max().expect("no threads");
    (last - first).as_secs_f64()
}

/// The processors that this process may use.
fn allowed() -> Vec<usize> {
    // SAFETY: zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a live local of the size that is given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return vec![0];
    }
    let limit = libc::CPU_SETSIZE.cast_unsigned() as usize;
    // SAFETY: the index is within the set.
    (0..limit).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Keeps the calling thread on a processor. A kernel that refuses leaves it where it is, which
/// costs steadiness and no correctness.
fn stay_on(cpu: usize) {
    // SAFETY: zero is an empty set; the index comes from the kernel's own set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Nanoseconds for a word to go from one processor to another and back: the machine's part in
/// whatever is handed between threads. The mean of a few thousand round trips.
pub fn link_ns() -> f64 {
    const TRIPS: usize = 5000;
    let word = AtomicUsize::new(0);
    let (seconds, _) = together(2, Placed::Crosswise, |side| {
        for trip in 0..TRIPS {
            let mut patience = Patience::default();
            while word.load(Acquire) != 2 * trip + side {
                patience.wait();
            }
            word.store(2 * trip + side + 1, Release);
        }
    });
    seconds * 1e9 / TRIPS as f64
}

/// Waits a little for another thread: spins first, then gives the processor away, so that more
/// threads than processors make progress.
#[derive(Default)]
pub struct Patience(u32);

impl Patience {
    /// One more fruitless look.
    #[inline]
    pub fn wait(&mut self) {
        self.0 += 1;
        if self.0 < 64 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_time_spans_the_slowest_thread_and_results_keep_their_order() {
        let (seconds, results) = together(3, Placed::Anywhere, |index| {
            std::thread::sleep(Duration::from_millis(10 * index as u64));
            index * 2
        });
        assert_eq!(results, [0, 2, 4]);
        assert!(seconds >= 0.02, "{seconds}");
    }

    #[test]
    fn what_threads_prepare_is_theirs_and_costs_no_time() {
        let pause = Duration::from_millis(200);
        let prepare = |index| {
            std::thread::sleep(pause);
            index * 10
        };
        let start = Instant::now();
        let (seconds, results) =
            prepared(2, Placed::Anywhere, prepare, |index, ready| index + ready);
        assert_eq!(results, [0, 11]);
        // The pause is part of what went by here, and of nothing that was timed there.
        assert!(start.elapsed().as_secs_f64() >= seconds + pause.as_secs_f64());
    }

    #[test]
    fn a_round_trip_takes_more_than_nothing() {
        assert!(link_ns() > 1.0);
    }

    #[test]
    fn spread_threads_stay_apart_and_crosswise_pairs_too() {
        let count = allowed().len();
        for placed in [Placed::Spread, Placed::Crosswise] {
            // SAFETY: the call has no preconditions.
            let (_, cpus) = together(4, placed, |_| unsafe { libc::sched_getcpu() });
            for pair in cpus.chunks(2) {
                assert_eq!(pair[0] != pair[1], count > 1, "{placed:?}: {cpus:?}");
            }
        }
    }
}
