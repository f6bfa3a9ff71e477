//! What has grown between two profiles, by call site.

use std::collections::HashMap;

use super::row::mean_lifetime;
use super::{Profile, Row, SampledStack};

/// A call site then and now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The site, with what it has now; where it has gone, as it was then.
    pub row: Row,
    /// Its bytes and blocks then.
    pub before: (u64, u64),
    /// And now.
    pub after: (u64, u64),
    /// Blocks that it has had since, and their bytes: of one process at two times, and zero
    /// otherwise.
    pub had: (u64, u64),
}

impl Change {
    /// Bytes that it has more.
    pub fn bytes(&self) -> i128 {
        i128::from(self.after.0) - i128::from(self.before.0)
    }

    /// Blocks that it has more.
    pub fn objects(&self) -> i128 {
        i128::from(self.after.1) - i128::from(self.before.1)
    }

    /// Whether it has more live memory, or less.
    pub fn is_growth(&self) -> bool {
        self.before != self.after
    }

    /// Returns the mean lifetime of its blocks in seconds, if any were allocated meanwhile.
    pub fn lifetime(&self, seconds: f64) -> Option<f64> {
        mean_lifetime([self.before.1, self.after.1], self.had.0, seconds)
    }
}

/// A sampled stack, and what it had before and has now. All are estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct StackChange {
    /// The stack as it was last seen.
    pub stack: SampledStack,
    /// Live bytes and blocks before.
    pub before: (u64, u64),
    /// And after.
    pub after: (u64, u64),
}

impl StackChange {
    /// Bytes that it has more.
    pub fn bytes(&self) -> i128 {
        i128::from(self.after.0) - i128::from(self.before.0)
    }

    /// Blocks that it has more.
    pub fn objects(&self) -> i128 {
        i128::from(self.after.1) - i128::from(self.before.1)
    }

    /// Returns the stacks that have more or less than before, most growth first. Stacks are
    /// matched by their functions and lines.
    pub fn between(before: &Profile, after: &Profile) -> Vec<StackChange> {
        let mut changes: HashMap<(bool, Vec<String>), StackChange> = HashMap::new();
        for (profile, is_after) in [(before, false), (after, true)] {
            for stack in profile.sampled.iter().flat_map(|sampled| &sampled.stacks) {
                let change = changes.entry((stack.truncated, stack.words()));
                let change = change.or_insert_with(|| StackChange {
                    stack: stack.clone(),
                    before: (0, 0),
                    after: (0, 0),
                });
                let side = if is_after { &mut change.after } else { &mut change.before };
                side.0 = side.0.saturating_add(stack.bytes);
                side.1 = side.1.saturating_add(stack.objects);
            }
        }
        let mut changes: Vec<_> = changes
            .into_iter()
            .filter(|(_, change)| change.bytes() != 0 || change.objects() != 0)
            .collect();
        changes.sort_by(|(a_key, a), (b_key, b)| {
            b.bytes().cmp(&a.bytes()).then_with(|| a_key.cmp(b_key))
        });
        changes.into_iter().map(|(_, change)| change).collect()
    }
}

/// What has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// Every site that has more or less, or that has had any since; most growth first.
    pub changes: Vec<Change>,
    /// Bytes that all together have more.
    pub bytes: i128,
    /// Blocks that they have more.
    pub objects: i128,
    /// Blocks that all have had since, and their bytes; as of [`Change::had`].
    pub had: (u64, u64),
    /// Seconds between the two, of one process at two times.
    pub seconds: Option<f64>,
}

impl Diff {
    /// From one profile to a later one. Sites are matched by their functions and lines, or where
    /// these have no names by the file and the place in it, so that the two may be of different
    /// processes.
    pub fn of(before: &Profile, after: &Profile) -> Diff {
        let same = (before.pid, &before.name) == (after.pid, &after.name) && before.allocations > 0;
        let mut changes: HashMap<(String, String), Change> = HashMap::new();
        for row in before.by_place() {
            let before = (row.bytes, row.objects);
            let change = Change { before, after: (0, 0), had: (0, 0), row: row.clone() };
            changes.insert(row.location.key(), change);
        }
        for row in after.by_place() {
            let now = (row.bytes, row.objects);
            let change = changes.entry(row.location.key()).or_insert_with(|| Change {
                row: Row { allocations: 0, allocated: 0, ..row.clone() },
                before: (0, 0),
                after: (0, 0),
                had: (0, 0),
            });
            change.after = now;
            if same {
                // Of a thread at work a reading may be one behind.
                change.had = (
                    row.allocations.saturating_sub(change.row.allocations),
                    row.allocated.saturating_sub(change.row.allocated),
                );
            }
            change.row = row;
        }
        let mut changes: Vec<Change> = changes
            .into_values()
            .filter(|change| change.is_growth() || change.had != (0, 0))
            .collect();
        changes.sort_by(|a, b| {
            b.bytes().cmp(&a.bytes()).then_with(|| a.row.location.key().cmp(&b.row.location.key()))
        });
        let had = changes.iter().fold((0, 0), |sum: (u64, u64), change| {
            (sum.0.saturating_add(change.had.0), sum.1.saturating_add(change.had.1))
        });
        let seconds = after.time.checked_sub(before.time).filter(|&seconds| same && seconds > 0);
        Diff {
            changes,
            had,
            seconds: seconds.map(|seconds| seconds as f64),
            bytes: i128::from(after.bytes) - i128::from(before.bytes),
            objects: i128::from(after.objects) - i128::from(before.objects),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::*;
    use super::*;

    #[test]
    fn sites_are_matched_by_name_wherever_the_program_lies() {
        let before =
            profile(vec![row("same", 1, 16, 3), row("gone", 2, 32, 2), row("grows", 3, 16, 1)]);
        let mut moved = row("grows", 3, 16, 5);
        moved.location.site += 0x1000_0000;
        moved.location.module = Some("/elsewhere/sample".into());
        let after = profile(vec![row("same", 1, 16, 3), row("new", 4, 48, 1), moved]);
        let diff = Diff::of(&before, &after);
        let seen: Vec<_> = diff
            .changes
            .iter()
            .map(|c| (c.row.location.function(), c.bytes(), c.objects()))
            .collect();
        assert_eq!(
            seen,
            [("grows".into(), 64, 4), ("new".into(), 48, 1), ("gone".into(), -64, -2)]
        );
        assert_eq!((diff.bytes, diff.objects), (48, 3));
        assert_eq!(Diff::of(&before, &before).changes, []);
    }

    #[test]
    fn allocations_between_two_readings_of_one_process_are_counted() {
        let mut before = profile(vec![row("churn", 1, 16, 10), row("still", 2, 16, 5)]);
        let mut churn = row("churn", 1, 16, 20);
        (churn.allocations, churn.allocated) = (1020, 16 * 1020);
        let mut after = profile(vec![churn, row("still", 2, 16, 5)]);
        after.time = before.time + 10;
        let diff = Diff::of(&before, &after);
        assert_eq!((diff.had, diff.seconds), ((1000, 16_000), Some(10.0)));
        assert_eq!(diff.changes.len(), 1);
        // 15 live on average, 100 a second.
        assert_eq!(diff.changes[0].lifetime(10.0), Some(0.15));
        assert!(diff.changes[0].is_growth());
        // As many live as before, but others.
        before.rows[0].objects = 20;
        before.rows[0].bytes = 320;
        let steady = Diff::of(&before, &after);
        assert_eq!((steady.changes.len(), steady.changes[0].is_growth()), (1, false));
        // Two processes have no time between them.
        after.pid += 1;
        let other = Diff::of(&before, &after);
        assert_eq!((other.had, other.seconds, other.changes.len()), ((0, 0), None, 0));
        assert_eq!(diff.changes[0].clone().lifetime(0.0), Some(0.0));
    }
}
