//! Swap for what is idle.

mod page_idleness;

use crate::allocator::{Allocator, handle};

handle!(PageActivity, page_activity);
