//! L2: which addresses belong to Toft, and to which partition.
//!
//! No addresses are reserved. Toft owns a *window* of addresses at a random place, and maps pieces
//! of it as they are needed, never over anything else (decision 0001). A limit on address space
//! therefore counts only the used part. A smaller window is the fallback for small systems. Large
//! blocks are outside the window if other mappings fill it (`large/outside.rs`).
//!
//! ```text
//! field of slabs | large blocks |                                  data window, at a random place
//! tables | descriptors | page map | large blocks | heaps |                  metadata, at another
//! ```
//!
//! All slabs are in one *field* ([`Field`]). In the default build they are neighbours (decision
//! 0079). In the secure builds each partition takes its slabs from its own *plots*, upwards from a
//! random place. So the addresses of two call sites are far apart, and nothing is mapped between
//! them.
//!
//! | file | contents |
//! |---|---|
//! | `field/` | the field: where slabs are, and which slab an address is in |
//! | `run.rs` | how a run of address space grows |
//! | `layout.rs` | where everything is |
//! | `carve.rs`, `levels.rs` | metadata that is mapped as it is needed, and tables in it |

#[cfg(not(loom))]
mod carve;
mod descriptor;
#[cfg(not(loom))]
mod field;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod levels;
mod partition;
#[cfg(not(loom))]
mod run;
mod site;

#[cfg(not(loom))]
pub use carve::{Carve, STEP};
pub use descriptor::Descriptor;
#[cfg(not(loom))]
pub use field::{DenseField, Field, FieldPlaces, PlotField, SlabNeed, Slabs};
#[cfg(not(loom))]
pub use layout::{Layout, Windows};
#[cfg(not(loom))]
pub use levels::{Keyed, Levels};
pub use partition::Partition;
pub use site::Site;
