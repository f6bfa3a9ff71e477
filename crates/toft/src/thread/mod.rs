//! L6: the heap that a thread owns: the TLS slot, birth, exit, adoption, fork.
//!
//! A heap outlives its thread. When a thread exits, its heap stays as it is and becomes an
//! *orphan*: the next thread to be born takes the whole of it. Until then threads that would need a
//! new slab take slabs with room out of it. Nothing is flushed, moved or lost.

mod demand;
mod fork;
mod heap;
mod heaps;
mod maintenance;
mod quarantine;
mod repair;
mod shared;
mod slabs;
mod tls;

pub use crate::sync::Seat;
pub(crate) use demand::Demand;
pub use fork::repair_after_fork;
pub use heap::Heap;
pub use heaps::{HeapPlaces, HeapState, Heaps};
pub(crate) use quarantine::{Leaving, Quarantine};
pub use shared::SHARE_FROM;
pub use tls::{
    CAREFUL_HEAP, EMPTY_HEAP, EXITED_HEAP, current_heap, set_current_heap, thread_block,
};
