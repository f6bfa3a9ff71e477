//! L2: which addresses belong to Toft, and to which partition.
//!
//! No addresses are reserved. Toft owns a *window* of addresses at a random place, and maps pieces
//! of it as they are needed, never over anything else (decision 0001). A limit on address space
//! therefore counts only the used part. A smaller window is the fallback for small systems.
//!
//! ```text
//! base            + span             + large span     + span
//!  | small plots    | large blocks     | medium plots   |        data window, at a random place
//!
//!  | tables | small slabs | medium slabs | large blocks | heaps |  metadata, at another
//! ```
//!
//! A tier's span is cut into *plots*. Each partition takes its slabs from its own plot, upwards
//! from a random place in it. It moves to another plot when the first is used up. So the addresses
//! of two call sites are far apart, and nothing is mapped between them.

#[cfg(not(loom))]
mod carve;
mod counts;
mod descriptor;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod levels;
#[cfg(not(loom))]
mod lookup;
mod partition;
#[cfg(not(loom))]
mod plot;
mod site;
mod tier;

#[cfg(not(loom))]
pub use carve::{Carve, STEP};
#[cfg(loom)]
pub use counts::{Counts, Growing, PlotCounts};
pub use descriptor::Descriptor;
#[cfg(not(loom))]
pub use layout::{Layout, Windows};
#[cfg(not(loom))]
pub use levels::{Keyed, Levels};
pub use partition::Partition;
#[cfg(not(loom))]
pub use plot::{PlotPlace, Plots};
pub use site::Site;
pub use tier::{MEDIUM, SMALL, Tier, TierNumber};
