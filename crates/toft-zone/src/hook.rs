//! The hook of a process with zones.

use crate::Zones;
use crate::private_zones::PrivateZones;
use toft_core::Allocator;
use toft_core::hook::Hook;
use toft_core::os::Linux;
use toft_core::os::thread::thread_block;
use toft_core::process::instance;
use toft_core::report::{Call, Line};

// The tests of this crate are programs.
#[cfg(test)]
static ALONE: Hook = with(Hook::NONE);
#[cfg(test)]
toft_core::hook!(ALONE);

/// The number of bytes in the tables of zones.
static TABLES: usize = Zones::TABLE_BYTES;

/// Returns a hook with the functions of this crate and, for all else, those of `below`.
#[must_use]
pub const fn with(below: Hook) -> Hook {
    Hook { tables: &TABLES, metadata_bytes, foreign_address, forked, ..below }
}

/// Returns the zones of the process's allocator.
#[inline]
pub(crate) fn zones_of(allocator: &Allocator<Linux>) -> Zones {
    // SAFETY: (1) an allocator with the hook above has such tables for it, and this function alone
    // uses them; of another allocator it is zero.
    unsafe { Zones::at_tables(allocator.hook_tables(&TABLES)) }
}

fn metadata_bytes() -> usize {
    instance().map_or(0, |allocator| zones_of(allocator).table_bytes())
}

fn foreign_address(line: &mut Line, call: Call, address: usize) -> bool {
    let Some(allocator) = instance() else { return false };
    let zones = zones_of(allocator);
    if !zones.contains(address) {
        return false;
    }
    PrivateZones { zones, allocator }.describe(line, call, address);
    true
}

fn forked() {
    if let Some(allocator) = instance() {
        zones_of(allocator).repair(allocator.os(), thread_block());
    }
}
