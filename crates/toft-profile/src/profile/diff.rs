//! What has grown between two profiles, by call site.

use std::collections::HashMap;

use super::{Profile, Row};

/// A call site then and now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The site, with what it has now; where it has gone, as it was then.
    pub row: Row,
    /// Its bytes and blocks then.
    pub before: (u64, u64),
    /// And now.
    pub after: (u64, u64),
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
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// Every site that has more or less, most growth first.
    pub changes: Vec<Change>,
    /// Bytes that all together have more.
    pub bytes: i128,
    /// Blocks that they have more.
    pub objects: i128,
}

impl Diff {
    /// From one profile to a later one. Sites are matched by their functions and lines, or where these have
    /// no names by the file and the place in it, so that the two may be of different processes.
    pub fn of(before: &Profile, after: &Profile) -> Diff {
        let mut changes: HashMap<(String, String), Change> = HashMap::new();
        for row in before.by_place() {
            let change =
                Change { before: (row.bytes, row.objects), after: (0, 0), row: row.clone() };
            changes.insert(row.key(), change);
        }
        for row in after.by_place() {
            let now = (row.bytes, row.objects);
            let change = changes.entry(row.key()).or_insert_with(|| Change {
                row: row.clone(),
                before: (0, 0),
                after: (0, 0),
            });
            change.after = now;
            change.row = row;
        }
        let mut changes: Vec<Change> =
            changes.into_values().filter(|change| change.before != change.after).collect();
        changes
            .sort_by(|a, b| b.bytes().cmp(&a.bytes()).then_with(|| a.row.key().cmp(&b.row.key())));
        Diff {
            changes,
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
        moved.site += 0x1000_0000;
        moved.module = Some("/elsewhere/sample".into());
        let after = profile(vec![row("same", 1, 16, 3), row("new", 4, 48, 1), moved]);
        let diff = Diff::of(&before, &after);
        let seen: Vec<_> =
            diff.changes.iter().map(|c| (c.row.function(), c.bytes(), c.objects())).collect();
        assert_eq!(
            seen,
            [("grows".into(), 64, 4), ("new".into(), 48, 1), ("gone".into(), -64, -2)]
        );
        assert_eq!((diff.bytes, diff.objects), (48, 3));
        assert_eq!(Diff::of(&before, &before).changes, []);
    }
}
