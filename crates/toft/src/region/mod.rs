//! L2: which addresses are ours and whose they are.
//!
//! Nothing is reserved. Toft owns a *window* of addresses at a random place and maps pieces of it
//! as they are needed, never over anything else (decision 0001). So a limit on address space holds
//! for what is used, not for what is reserved, and a fallback for small systems is a smaller
//! window.
//!
//! ```text
//! base            + span             + large span     + span
//!  | small plots    | large blocks     | medium plots   |        data window, at a random place
//!
//!  | tables | small slabs | medium slabs | large blocks | heaps |  metadata, at another
//! ```
//!
//! A tier's span is cut into *plots*: each partition draws its slabs from its own plot, from a
//! random place in it upwards, and moves to another plot when the first is used up. So the
//! addresses of two call sites are far apart, and what is between them is not mapped.

#[cfg(not(loom))]
mod carve;
mod descriptor;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod levels;
#[cfg(not(loom))]
mod lookup;
#[cfg(not(loom))]
mod plot;
mod tier;

#[cfg(not(loom))]
pub use carve::{Carve, STEP};
pub use descriptor::Descriptor;
#[cfg(not(loom))]
pub use layout::{Layout, Windows};
#[cfg(not(loom))]
pub use levels::{Keyed, Levels};
#[cfg(not(loom))]
pub use plot::Plots;
pub use tier::{MEDIUM, SMALL, Tier, TierNumber};
