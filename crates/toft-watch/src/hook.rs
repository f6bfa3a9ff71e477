//! The functions that the core calls.

use crate::{exit, pointer_scan, profile, reports};
use toft_core::hook::Hook;

/// Returns a hook with the functions of this crate and, for all else, those of `below`.
#[must_use]
pub const fn with(below: Hook) -> Hook {
    Hook {
        starts: profile::at_start,
        grows: profile::when_grown,
        allocated: pointer_scan::dangling_now_and_then,
        reported: reports::details,
        exits: exit::report,
        ..below
    }
}
