//! What observes the allocator of the process: profiles, statistics, leaks at the program's end,
//! pointers into freed blocks, the details of reports. This crate has no stable interface; the
//! crate `toft` is what Rust programs use.
//!
//! The core calls this crate through its hook only ([`with`]). A program or a library that leaves
//! this crate out has the same `malloc` and `free`, and no such reports.
//!
//! | file | contents |
//! |---|---|
//! | `hook.rs` | the functions of the hook |
//! | `exit.rs` | what is reported when the program ends |
//! | `reports/` | what a report says beside its first line |
//! | `statistics.rs` | the snapshot as JSON, with the call sites |
//! | `profile/` | profiles by call site, and figures for monitoring |
//! | `pointer_scan/` | scans of memory for pointers: unreachable blocks, pointers to freed blocks |

#![cfg_attr(not(test), no_std)]

mod exit;
mod hook;
mod pointer_scan;
mod profile;
mod reports;
mod statistics;

pub use hook::with;
pub use pointer_scan::dangling;
pub use profile::{metrics_to, print_sites, profile_to};
pub use statistics::write_json;

// The tests of this crate are programs.
#[cfg(test)]
static ALONE: toft_core::hook::Hook = with(toft_core::hook::Hook::NONE);
#[cfg(test)]
toft_core::hook!(ALONE);
