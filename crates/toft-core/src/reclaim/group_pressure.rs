//! The check if the group of processes that this process belongs to is short of memory.

use crate::os::Group;

/// Thousandths of the group's limit: the group is short of memory from this number on.
const FULL: u32 = 900;
/// Thousandths of the group's limit: below this number the group is not short of memory any more.
const NOT_FULL: u32 = 800;
/// Hundredths of a percent of the time in which some task waits for memory: the group is short of
/// memory from this number on.
const WAITING: u32 = 1000;
/// Hundredths of a percent of that time: below this number the group is not short of memory any
/// more.
const NOT_WAITING: u32 = 200;

/// Returns true if the group is short of memory. `was` is the result of the last check. A value
/// that is not known has no influence.
pub fn has_group_pressure(was: bool, group: Group) -> bool {
    let (full, waiting) = if was { (NOT_FULL, NOT_WAITING) } else { (FULL, WAITING) };
    group.fullness.is_some_and(|now| now >= full)
        || group.pressure.is_some_and(|now| now >= waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_from_nine_tenths_on_and_until_below_eight() {
        for (fullness, pressure, from_not, from_was) in [
            (None, None, false, false),
            (Some(0), Some(0), false, false),
            (Some(799), None, false, false),
            (Some(800), None, false, true),
            (Some(899), None, false, true),
            (Some(900), None, true, true),
            (Some(5000), None, true, true),
            (None, Some(199), false, false),
            (None, Some(200), false, true),
            (None, Some(999), false, true),
            (None, Some(1000), true, true),
            (Some(0), Some(10_000), true, true),
            (Some(950), Some(0), true, true),
        ] {
            let group = Group { fullness, pressure };
            assert_eq!(has_group_pressure(false, group), from_not, "{group:?}");
            assert_eq!(has_group_pressure(true, group), from_was, "{group:?}");
        }
    }
}
