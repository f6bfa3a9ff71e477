//! Huge pages for what is busy; swap for what is idle.

mod huge_pages;
mod page_idleness;

use crate::allocator::{Allocator, handle};

handle!(PageActivity, page_activity);
