//! L9: what keeps memory bounded, and returns it.
//!
//! | file | what |
//! |---|---|
//! | `sweep.rs` | returns pages of free slots to the OS |
//! | `trim.rs` | `malloc_trim`: a purge if enough was freed |
//! | `maintenance.rs` | the reclaimer's thread: when a sweep is due |
//! | `discard.rs` | pages of slots that were never handed out, or that are pinned |
//! | `exited_threads.rs` | what exited threads leave behind |
//! | `compact/` | slabs that share pages |
//! | `unshare.rs` | pages apart again before a fork |
//! | `limit.rs` | `TOFT_LIMIT` |
//! | `relief.rs` | when the system has no more memory |
//! | `huge_pages.rs`, `page_idleness.rs` | huge pages for busy slabs; swap for idle ones |
//! | `prefault.rs` | pages that are about to be needed |
//! | `non_resident.rs` | slots whose pages are not there |
//! | `mapping_options.rs` | locked, populated and named mappings |

pub(crate) mod compact;
mod discard;
mod exited_threads;
mod huge_pages;
pub(crate) mod limit;
mod maintenance;
mod mapping_options;
mod non_resident;
mod page_idleness;
mod prefault;
mod relief;
mod sweep;
mod trim;
mod unshare;

pub use compact::Compacted;
pub use sweep::{Swept, Which};

use crate::allocator::{Allocator, handle};

handle! {
    /// The allocator, as what keeps memory bounded sees it: all parts, and the methods of this
    /// folder.
    Keeper,
    /// Returns what keeps this allocator's memory bounded.
    keeper
}
