//! How long the reclaimer's thread waits between two sweeps, by what became of the memory that the
//! last ones returned.
//!
//! A program that works in rounds longer than the decay time frees memory that it wants again in
//! the next round. To return it costs a call, and a page fault for each page. Such a program has as
//! many page faults after a sweep as the sweep returned pages. Each time that this is so, the next
//! pause is twice as long, up to a maximum. It is as short as before when memory does not come
//! back, and as soon as the program rests.

/// The longest pause, in decay times.
const MOST: u32 = 4;
/// If fewer bytes were returned lately, they are no reason to wait.
const OWED_LEAST: usize = 1 << 20;
/// A program is at rest if it used less of a processor than this share of the time, as a divisor.
const WORK_SHARE: u64 = 8;

/// What the process has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of page faults that needed no disk.
    pub faults: u64,
    /// Microseconds of processor time of all threads.
    pub work: u64,
}

/// The pace of the sweeps. It belongs to the reclaimer's thread.
#[derive(Debug)]
pub struct Pace {
    /// The bytes that were returned lately: all of the last sweep, half of the one before, and so
    /// on.
    owed: usize,
    /// The length of a pause, in decay times.
    steps: u32,
    /// At the last sweep.
    swept: Usage,
    /// At the last step of a pause.
    stepped: Usage,
}

impl Pace {
    /// Returns the pace of a program of which nothing is known.
    pub fn new(now: Usage) -> Pace {
        Pace { owed: 0, steps: 1, swept: now, stepped: now }
    }

    /// Notes a sweep that returned `bytes` bytes. Pages have `page` bytes.
    pub fn note(&mut self, now: Usage, page: usize, bytes: usize) {
        let faults = now.faults.wrapping_sub(self.swept.faults) as usize;
        let came = faults.saturating_mul(page);
        if self.owed >= OWED_LEAST && came >= self.owed / 2 {
            self.steps = (2 * self.steps).min(MOST);
        } else if self.owed < OWED_LEAST || came < self.owed / 4 {
            self.steps = (self.steps / 2).max(1);
        }
        self.owed = (self.owed / 2).saturating_add(bytes);
        (self.swept, self.stepped) = (now, now);
    }

    /// The length of the next pause, in decay times.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Returns true if the program was at work in the last step of a pause, which took
    /// `milliseconds`. Otherwise the pause is over.
    pub fn is_at_work(&mut self, now: Usage, milliseconds: u32) -> bool {
        let work = now.work.wrapping_sub(self.stepped.work);
        self.stepped = now;
        work >= u64::from(milliseconds) * 1000 / WORK_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Notes sweeps that returned some MiB, after some MiB of faults. Returns the steps after each.
    fn steps(sweeps: &[(usize, usize)]) -> Vec<u32> {
        let mut usage = Usage::default();
        let mut pace = Pace::new(usage);
        let note = |(came, returned): &(usize, usize)| {
            usage.faults += (came * MIB / 4096) as u64;
            pace.note(usage, 4096, returned * MIB);
            pace.steps()
        };
        sweeps.iter().map(note).collect()
    }

    #[test]
    fn the_pause_is_longer_while_memory_comes_back() {
        assert_eq!(steps(&[(0, 40), (40, 40), (40, 40), (60, 0)]), [1, 2, 4, 4]);
        // A part of it, or all of it some sweeps later.
        assert_eq!(steps(&[(0, 40), (25, 0), (15, 0)]), [1, 2, 4]);
    }

    #[test]
    fn the_pause_is_short_where_memory_does_not_come_back() {
        assert_eq!(steps(&[(0, 40), (0, 40), (5, 40), (5, 40)]), [1, 1, 1, 1]);
        assert_eq!(steps(&[(0, 40), (40, 40), (60, 40), (0, 40), (0, 0)]), [1, 2, 4, 2, 1]);
        // A program that only grows has faults, and nothing was returned.
        assert_eq!(steps(&[(500, 0), (500, 0), (500, 0)]), [1, 1, 1]);
    }

    #[test]
    fn a_program_at_rest_ends_the_pause() {
        let at = |work| Usage { faults: 0, work };
        let mut pace = Pace::new(at(0));
        assert!(pace.is_at_work(at(100_000), 100));
        assert!(pace.is_at_work(at(112_500), 100));
        assert!(!pace.is_at_work(at(124_000), 100));
        assert!(!pace.is_at_work(at(124_000), 100));
    }
}
