//! Working through all cases: on as many processors as there are, with a line that tells how far it
//! is, until all is done or the time is up.
//!
//! Cases are taken in a scattered order, so that those that take long (an allocator that hangs
//! where another one aborts) are spread over the whole, and what is done tells how long the rest
//! takes.

use super::programs::Programs;
use super::trial::{Job, Outcome};
use super::unfinished::{Done, Unfinished};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for a run, and for all.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// What [`crate::patience`] has with a run.
    pub patience: Duration,
    /// No case is begun after so long.
    pub all: Duration,
}

/// What all threads share.
struct Crew<'a> {
    jobs: &'a [Job<'a>],
    order: Vec<usize>,
    outcomes: Vec<Mutex<Option<Outcome>>>,
    /// How many of `order` are taken; only ever added to.
    next: AtomicUsize,
    /// How many are done. It says nothing of their outcomes, which have separate locks.
    done: AtomicUsize,
    before: usize,
    begin: Instant,
    /// What each thread has in hand, since when.
    in_hand: Vec<Mutex<Option<(usize, Instant)>>>,
    /// Set when the file cannot be written: the rest would be lost as well.
    stop: AtomicBool,
}

/// Tries all jobs that `done` does not have, and keeps each. `None` in the place of a job: the time
/// was up first.
pub fn work(
    jobs: &[Job],
    programs: &Programs,
    times: Times,
    done: &Done,
    keep: Option<&Unfinished>,
) -> Result<Vec<Option<Outcome>>, String> {
    let outcomes: Vec<_> =
        jobs.iter().map(|job| Mutex::new(done.get(&job.to_string()).cloned())).collect();
    let open = |place: &usize| lock(&outcomes[*place]).is_none();
    let order: Vec<usize> = scattered(jobs.len()).into_iter().filter(open).collect();
    let before = jobs.len() - order.len();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let crew = Crew {
        jobs,
        order,
        outcomes,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(before),
        before,
        begin: Instant::now(),
        in_hand: (0..threads).map(|_| Mutex::new(None)).collect(),
        stop: AtomicBool::new(false),
    };
    let wrong = Mutex::new(None);
    let over = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| crew.tell(&over));
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (crew, wrong) = (&crew, &wrong);
                scope.spawn(move || {
                    if let Err(error) = crew.hand(thread, programs, times, keep) {
                        *lock(wrong) = Some(error);
                        crew.stop.store(true, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        *lock(&over.0) = true;
        over.1.notify_all();
        joined.into_iter().for_each(|worker| worker.expect("no worker panics"));
    });
    match wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(crew.outcomes.into_iter().map(|outcome| lock(&outcome).take()).collect()),
    }
}

impl Crew<'_> {
    /// One thread's share.
    fn hand(
        &self,
        thread: usize,
        programs: &Programs,
        times: Times,
        keep: Option<&Unfinished>,
    ) -> Result<(), String> {
        while self.begin.elapsed() < times.all && !self.stop.load(Ordering::Relaxed) {
            let Some(&place) = self.order.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            *lock(&self.in_hand[thread]) = Some((place, Instant::now()));
            let job = self.jobs[place];
            let outcome = job.outcome(job.run(programs, times.patience));
            keep.map_or(Ok(()), |file| file.keep(&job, &outcome))?;
            *lock(&self.outcomes[place]) = Some(outcome);
            *lock(&self.in_hand[thread]) = None;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Prints the progress, to a terminal on one line that changes, elsewhere on one in ten
    /// seconds; and at the end.
    fn tell(&self, (over, ended): &(Mutex<bool>, Condvar)) {
        let terminal = std::io::stderr().is_terminal();
        let pause = Duration::from_secs(if terminal { 1 } else { 10 });
        let mut is_over = lock(over);
        while !*is_over {
            let waited = ended.wait_timeout_while(is_over, pause, |over| !*over);
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
            let (line, mut stderr) = (self.line(), std::io::stderr().lock());
            let end = if *is_over { "\n" } else { "" };
            // A missing reader is no reason to stop.
            let _ = match terminal {
                true => write!(stderr, "\r\x1b[K{line}{end}"),
                false => writeln!(stderr, "{line}"),
            };
        }
    }

    fn line(&self) -> String {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.jobs.len());
        let longest = self.in_hand.iter().filter_map(|held| *lock(held)).min_by_key(|held| held.1);
        let longest = longest.map(|(place, since)| (self.jobs[place].to_string(), since.elapsed()));
        text(done, all, self.before, self.begin.elapsed(), longest)
    }
}

/// How far it is.
fn text(
    done: usize,
    all: usize,
    before: usize,
    took: Duration,
    longest: Option<(String, Duration)>,
) -> String {
    let mut text = format!("{done} of {all}, {}", minutes(took));
    let new = done - before;
    // Before that chance says more than what was done.
    if new >= 20 && done < all {
        let left = took.mul_f64((all - done) as f64 / new as f64);
        text.push_str(&format!(", about {} more", minutes(left)));
    }
    if let Some((job, since)) = longest
        && since >= Duration::from_secs(2)
    {
        text.push_str(&format!("; {} s in {job}", since.as_secs()));
    }
    text
}

fn minutes(time: Duration) -> String {
    format!("{}:{:02} min", time.as_secs() / 60, time.as_secs() % 60)
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
    fn the_line_says_how_far_and_what_takes_long() {
        let second = Duration::from_secs;
        assert_eq!(text(0, 12208, 0, second(3), None), "0 of 12208, 0:03 min");
        assert_eq!(text(50, 150, 0, second(65), None), "50 of 150, 1:05 min, about 2:10 min more");
        // What an earlier run has done took no time of this one.
        assert_eq!(text(50, 75, 25, second(60), None), "50 of 75, 1:00 min, about 1:00 min more");
        assert_eq!(text(150, 150, 0, second(60), None), "150 of 150, 1:00 min");
        let job = || "rpmalloc, class 15 (c same 64 owner)".to_owned();
        let long = text(9, 10, 0, second(60), Some((job(), second(19))));
        assert_eq!(long, "9 of 10, 1:00 min; 19 s in rpmalloc, class 15 (c same 64 owner)");
        assert_eq!(text(9, 10, 0, second(60), Some((job(), second(1)))), "9 of 10, 1:00 min");
    }

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
