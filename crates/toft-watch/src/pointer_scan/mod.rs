//! Scans of memory for pointers: blocks without any, and pointers to freed blocks.

mod causes;
mod dangling;
mod leaks;
mod reachability;

pub use dangling::{dangling, dangling_now_and_then, sweep_for_dangling};
pub use leaks::{To, report_leaks};
