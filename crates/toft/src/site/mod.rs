//! L5: from a call site to its partition.
//!
//! ```text
//! hash    the site's address, by a secret key: few instructions, and some sites share
//! exact   each site a partition of its own: a cache of each thread, and behind it a table of all
//! ```
//!
//! Which of the two is chosen at the start
//! ([`Options::is_exact`](crate::options::Options::is_exact)). In exact mode the hash sends every
//! site to row 0, whose bins are never filled: so malloc's fast path finds nothing, without an
//! instruction that asks for the mode, and the slow path begins with the cache.

mod cache;
mod hash;
mod hints;
mod table;
mod watch;
mod wrappers;

pub use cache::Cache;
pub use hash::SiteHash;
pub use hints::{Hints, Rule};
pub use table::{Sites, SitesPlaces, site_of_token};
pub use watch::{CODE_MOST, Code, Note, Watch, Way};
pub use wrappers::{BY_FRAME, Place, REACH, STEP_FIRST, Wrappers, code_of_frame};
