//! L6: the heap that a thread owns: the TLS slot, birth, exit, adoption, fork.
//!
//! A heap outlives its thread. When a thread exits, its heap stays as it is and becomes an
//! *orphan*. The next new thread adopts the whole heap. Until then, a thread that would need a new
//! slab takes over a slab with free slots from the orphan. The exit publishes what the thread has
//! freed in slabs of others, and moves nothing else. A sweep later the reclaimer clears the orphan
//! out.

mod counters;
mod demand;
mod fork;
mod heap;
mod heaps;
mod maintenance;
mod partition_count;
mod patrol;
mod quarantine;
mod repair;
mod shared;
mod slabs;
mod tls;

pub use crate::sync::ReentrancyGuard;
pub(crate) use demand::Demand;
pub use fork::repair_after_fork;
pub use heap::Heap;
pub use heaps::{HeapPlaces, HeapSpace, HeapState, Heaps};
pub use partition_count::PARTITIONS_FIRST;
pub(crate) use patrol::Patrol;
pub(crate) use quarantine::{Leaving, Quarantine, entry_slot};
pub use shared::SHARE_FROM;
pub use tls::{CAREFUL_HEAP, EMPTY_HEAP, EXITED_HEAP, current_heap, set_current_heap};
