//! When a program that does not end is given up, on a machine that may be busy with other things.
//!
//! A clock on the wall tells how busy the machine is as much as what the program does: a run that
//! ends well alone would be given up beside others. So what counts is
//!
//! - the processor time that the program has used, for one that goes round and round;
//! - the time in which none of its threads used any or was about to, for one that waits for what
//!   never comes;
//! - and, ten minutes off, the clock on the wall, for one that does a little now and then, and
//!   never ends.
//!
//! Programs that start others are not what this is for: their processor time is not counted.

use crate::child::{End, Running, end_or_give_up};
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a program may take at most, whatever it does. Far off: beside forty others one that
/// needs half a second of a processor takes half a minute.
const ON_THE_WALL: Duration = Duration::from_secs(600);

/// How often it is looked at: soon at first, because most are done by then.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LATER_LOOKS: Duration = Duration::from_millis(500);

/// Runs a command until it ends, or has used `patience` of processor time, or has done nothing for
/// so long.
pub fn end(command: Command, patience: Duration) -> io::Result<End> {
    end_or_give_up(command, None, |running| ends(running, patience))
}

fn ends(running: &Running, patience: Duration) -> io::Result<bool> {
    let begin = Instant::now();
    let (mut used, mut active, mut look) = (Duration::ZERO, begin, FIRST_LOOK);
    loop {
        if running.ends_within(look.min(patience))? {
            return Ok(true);
        }
        let now = Instant::now();
        let so_far = processor_time(running.pid());
        if so_far != used || is_about_to_run(running.pid()) {
            (used, active) = (so_far, now);
        }
        let (idle, wall) = (now.duration_since(active), now.duration_since(begin));
        if used >= patience || idle >= patience || wall >= ON_THE_WALL {
            // What has ended in this very moment has ended.
            return running.ends_within(Duration::ZERO);
        }
        look = LATER_LOOKS;
    }
}

/// The processor time of all its threads, those that have ended included; none when it is gone.
fn processor_time(pid: libc::pid_t) -> Duration {
    let mut clock = 0;
    // SAFETY: the pointer is to a live local of the right type.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return Duration::ZERO;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Whether some thread runs, waits for a processor, or for a disk: all that is not asleep.
fn is_about_to_run(pid: libc::pid_t) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        // The name stands in parentheses, and may have some itself.
        stat.rsplit_once(") ")?.1.chars().next()
    };
    tasks.filter_map(state).any(|state| matches!(state, 'R' | 'D'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::shell;

    #[test]
    fn what_goes_round_and_what_waits_for_ever_is_given_up_and_what_ends_is_not() {
        let patience = Duration::from_millis(300);
        let round = end(shell("while :; do :; done"), patience).unwrap();
        assert!(round.status.is_none());
        let used = crate::child::processor_seconds(&round.usage);
        assert!(used >= 0.3, "{used}");
        let waits = end(shell("exec sleep 1000"), patience).unwrap();
        assert!(waits.status.is_none());
        assert!(crate::child::processor_seconds(&waits.usage) < 0.3);
        assert!(waits.seconds >= 0.3, "{}", waits.seconds);
        let ends = end(shell("exit 7"), Duration::from_secs(10)).unwrap();
        assert_eq!(ends.status.and_then(|status| status.code()), Some(7));
    }

    /// A busy machine, as a program that has to wait again and again sees it: more time passes on
    /// the wall than it is given, and it ends well.
    #[test]
    fn what_takes_long_on_the_wall_alone_is_not_given_up() {
        let patience = Duration::from_secs(2);
        let end = end(shell("for i in $(seq 25); do sleep 0.1; done; exit 5"), patience).unwrap();
        assert!(end.seconds > patience.as_secs_f64());
        assert_eq!(end.status.and_then(|status| status.code()), Some(5), "{end:?}");
    }
}
