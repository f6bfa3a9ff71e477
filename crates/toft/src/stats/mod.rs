//! Counters and snapshots, without allocation and without a cost on the fast paths: everything is
//! counted from the states when somebody asks.

mod json;
mod snapshot;

pub use json::write_json;
pub use snapshot::{Snapshot, snapshot};
