//! Checks of the bytes beside a block, in the secure build.

mod canary;
mod freed;
mod patrol;
mod reserved;

use crate::allocator::{Allocator, handle};

handle!(SlotChecks, slot_checks);
