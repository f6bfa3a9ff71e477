//! L2: which addresses belong to Toft, and to which partition.
//!
//! No addresses are reserved. Toft owns a *window* of addresses at a random place, and maps pieces
//! of it as they are needed, never over anything else (decision 0001). A limit on address space
//! therefore counts only the used part. A smaller window is the fallback for small systems. Large
//! blocks are outside the window if other mappings fill it (`large/outside.rs`).
//!
//! ```text
//! default   | field of slabs  | large blocks     |                   data window, at a random place
//! secure    | small plots     | large blocks     | medium plots   |
//!
//! default   | tables | descriptors | page map           | large blocks | heaps |   metadata, at another
//! secure    | tables | small slabs | medium slabs       | large blocks | heaps |
//! ```
//!
//! In the default build all slabs are neighbours in one *field* ([`Field`], decision 0079). In the
//! secure builds a tier's span is cut into *plots*. Each partition takes its slabs from its own
//! plot, upwards from a random place in it. It moves to another plot when the first is used up. So
//! the addresses of two call sites are far apart, and nothing is mapped between them.
//!
//! | file | contents |
//! |---|---|
//! | `slabs.rs` | either of the two, with the same methods |
//! | `field/`, `run.rs` | the field, and how a run of address space grows |
//! | `plot/`, `lookup.rs`, `counts.rs` | plots |
//! | `layout.rs` | where everything is |
//! | `carve.rs`, `levels.rs` | metadata that is mapped as it is needed, and tables in it |

#[cfg(not(loom))]
mod carve;
mod counts;
mod descriptor;
#[cfg(not(loom))]
mod field;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod levels;
#[cfg(not(loom))]
mod lookup;
mod partition;
#[cfg(not(loom))]
mod plot;
#[cfg(not(loom))]
mod run;
mod site;
#[cfg(not(loom))]
mod slabs;
mod tier;

#[cfg(not(loom))]
pub use carve::{Carve, STEP};
#[cfg(loom)]
pub use counts::{Counts, Growing, PlotCounts};
pub use descriptor::Descriptor;
#[cfg(not(loom))]
pub use field::{Field, FieldPlaces};
#[cfg(not(loom))]
pub use layout::{Layout, Windows};
#[cfg(not(loom))]
pub use levels::{Keyed, Levels};
pub use partition::Partition;
#[cfg(not(loom))]
pub use plot::{PlotPlace, Plots};
pub use site::Site;
#[cfg(not(loom))]
pub use slabs::{SlabNeed, SlabPlace, Slabs, Tiers};
pub use tier::{MEDIUM, SMALL, Tier, TierNumber};
