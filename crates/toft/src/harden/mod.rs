//! L2: what the hardened build does to bytes: canaries, clearing; and its dice.
//!
//! Nothing here knows of slabs or heaps. `path/secure/mod.rs` calls it, at the places where a block
//! comes and goes; `policy.rs` says which of it is in a build.

mod canary;
mod dice;
mod wipe;

pub use canary::Canary;
pub use dice::Dice;
pub use wipe::{
    CLEARED_AT_ONCE, Long, PAGE_LEAST, TOUCHED_MAX, fetch_to_write, first_nonzero, is_filled,
    is_zero, is_zero_small, touch, wipe, wipe_small,
};
