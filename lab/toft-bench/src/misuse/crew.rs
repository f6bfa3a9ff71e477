//! Working through all cases: on as many processors as there are, until all is done or the time is
//! up.
//!
//! Cases are taken in a scattered order, so that those that take long (an allocator that hangs
//! where another one aborts) are spread over the whole, and what is done tells how long the rest
//! takes.

use super::programs::Programs;
use super::trial::{Job, Outcome};
use super::unfinished::{Done, Unfinished};
use crate::progress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for a run, and for all.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// What [`crate::patience`] has with a run.
    pub patience: Duration,
    /// No case is begun after so long.
    pub all: Duration,
}

/// Tries all jobs that `done` does not have, and keeps each. `None` in the place of a job: the time
/// was up first. Fails when an outcome cannot be written, since the rest would be lost as well.
pub fn work(
    jobs: &[Job],
    programs: &Programs,
    times: Times,
    done: &Done,
    file: &Unfinished,
) -> Result<Vec<Option<Outcome>>, String> {
    let begin = Instant::now();
    let outcomes: Vec<_> =
        jobs.iter().map(|job| Mutex::new(done.get(&job.to_string()).cloned())).collect();
    let open = |place: &usize| lock(&outcomes[*place]).is_none();
    let order: Vec<usize> = scattered(jobs.len()).into_iter().filter(open).collect();
    let bar = progress::bar(order.len());
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(None);
    let hand = || {
        while begin.elapsed() < times.all && lock(&wrong).is_none() {
            let Some(&place) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let job = jobs[place];
            bar.set_message(job.to_string());
            let outcome = job.outcome(job.run(programs, times.patience));
            if let Err(error) = file.keep(&job, &outcome) {
                *lock(&wrong) = Some(error);
            }
            *lock(&outcomes[place]) = Some(outcome);
            bar.inc(1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(hand)));
    bar.finish_and_clear();
    let wrong = lock(&wrong).take();
    match wrong {
        Some(error) => Err(error),
        None => Ok(outcomes.into_iter().map(|outcome| lock(&outcome).take()).collect()),
    }
}

/// All numbers below `count`, each once, neighbours far apart.
fn scattered(count: usize) -> Vec<usize> {
    let share = |step: &usize| {
        (1..=*step).rev().find(|n| step.is_multiple_of(*n) && count.is_multiple_of(*n)) == Some(1)
    };
    // By the golden section whatever is done lies evenly over the whole.
    let golden = (count as f64 * 0.618_034) as usize;
    let step = (golden.max(1)..).find(share).unwrap_or(1);
    (0..count).map(|n| n * step % count).collect()
}

/// No thread panics with one of these, and what one of them guards is whole at all times.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_taken_once_and_neighbours_are_apart() {
        for count in [0, 1, 2, 3, 10, 48, 12208] {
            let mut order = scattered(count);
            if count > 40 {
                let near = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < count / 4);
                assert_eq!(near.count(), 0);
            }
            order.sort_unstable();
            assert_eq!(order, (0..count).collect::<Vec<_>>());
        }
    }
}
