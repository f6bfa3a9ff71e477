//! L2: the changes to bytes in the secure build: canaries and clearing. Also its dice.
//!
//! Nothing here depends on slabs or heaps. `path/secure/mod.rs` calls it when a block is handed out
//! or freed. `policy.rs` decides which parts are in a build.

mod canary;
mod dice;
mod wipe;

pub use canary::Canary;
#[cfg(all(test, feature = "secure-light", not(loom)))]
pub(crate) use canary::spread;
pub use dice::Dice;
pub use wipe::{
    CLEARED_AT_ONCE, Long, PAGE_LEAST, TOUCHED_MAX, fetch_to_write, first_nonzero, is_filled,
    is_zero, is_zero_at_ends, is_zero_small, touch, wipe, wipe_small,
};
