//! Counters and snapshots, without allocation and without cost on the fast paths. Everything is
//! counted from the states on request.

pub mod metrics;
mod resident;
mod root;
mod snapshot;
mod totals;

pub use resident::{Resident, resident_now};
pub use root::{Anchor, MAGIC, Root, VERSION};
pub use snapshot::{Snapshot, pinned_bytes, snapshot};
pub use totals::{Totals, thread_bytes, totals};
