//! L9: what keeps memory bounded, and returns it. In this order: each room uses only those above
//! it.
//!
//! | room | type | what |
//! |---|---|---|
//! | `mappings/` | `Mapper` | mapping options, guard pages, prefault, non-resident slots |
//! | `maintenance/` | `Maintenance` | on slow paths: idle memory goes, or a thread is to do it |
//! | `held_heaps/` | `HeldHeaps` | heaps without a thread; what others have freed into a heap |
//! | `quarantines.rs` | `Quarantines` | freed blocks that wait, in the secure build |
//! | `sweeper/` | `Sweeper` | sweeps, purges, `malloc_trim`; what exited threads leave behind |
//! | `limit/` | `MemoryLimit` | `TOFT_LIMIT`; when the system has no more memory |
//! | `compact/` | `Compactor` | slabs that share pages; pages apart again before a fork |
//! | `cold_pages.rs` | `ColdPages` | swap for idle live data |
//! | `reclaimer_thread.rs` | `ReclaimerThread` | the thread that does all of this |

mod cold_pages;
pub(crate) mod compact;
mod held_heaps;
pub(crate) mod limit;
mod maintenance;
mod mappings;
mod quarantines;
pub(crate) mod reclaimer_thread;
mod sweeper;

pub use compact::Compacted;
pub use sweeper::{Swept, Which};
