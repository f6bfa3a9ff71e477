//! L5: from a call site to its partition.
//!
//! ```text
//! hash    a keyed hash of the site's address: few instructions, and some sites share a partition
//! exact   a separate partition for each site: a cache in each thread, and a table of all sites
//! ```
//!
//! The mode is chosen at the start ([`Options::is_exact`](crate::options::Options::is_exact)). In
//! exact mode the hash sends every site to row 0, whose bins are never filled. So the fast path of
//! malloc finds no slot, without an instruction that tests the mode. The slow path then begins with
//! the cache.

mod cache;
mod hash;
mod hints;
mod table;
mod wrappers;

pub use crate::region::Site;
pub use cache::Cache;
pub use hash::{HeapHash, SiteHash};
pub use hints::{Hints, Rule};
pub use table::{Sites, SitesPlaces};
pub use wrappers::{
    BY_FRAME, LEVELS_MAX, NEW_WORDS, Place, REACH, STEP_FIRST, Wrappers, code_of_frame,
};
