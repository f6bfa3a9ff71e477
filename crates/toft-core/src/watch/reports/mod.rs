//! Reports of bad calls and of damage, and their details.

mod bounds;
pub(crate) mod damage;
mod describe;
pub(crate) mod detail;
pub(crate) mod misuse;

use crate::allocator::{Allocator, handle};

handle! {
    /// The allocator, as reports see it.
    Reports,
    /// Returns what reports misuse and damage.
    reports
}
