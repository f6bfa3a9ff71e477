//! Verification of the heap, perhaps in part.

mod contents;
mod extent;
mod pieces;
mod present;
mod verify;
mod verify_others;
mod verify_share;
mod verify_slots;

pub(crate) use contents::STALE;

use crate::allocator::{Allocator, handle};

handle!(Verifier, verifier);
