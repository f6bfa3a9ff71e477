//! Huge pages for what is busy; swap for what is idle.

mod huge_pages;
mod page_idleness;

use crate::allocator::{Allocator, handle};

handle! {
    /// The allocator with the use that its pages are in.
    PageActivity,
    /// Returns what follows how pages are used.
    page_activity
}
