//! Private zones, which a program creates for itself: `toft_zone_create` and its family. This crate
//! has no stable interface; the crate `toft` is what Rust programs use.
//!
//! ```text
//! handle --unmix--> number, generation --> record: lock, lists, figures
//!                                            |
//! addresses   | stretch of zone 1 | gap | stretch of zone 2 | gap | ...        a separate window
//!             |  lot  |  lot  |                                                64 KiB each
//! lots by address  | 1 | 1 | - | 2 | ...  the number of each lot's descriptor
//! ```
//!
//! A zone gets *stretches* of whole *lots* from the window of zones. A stretch is mapped at once,
//! and unmapped addresses follow it. Each stretch is twice as long as the last. A lot is cut into
//! slots of one size, and keeps that size. A block above [`SLOT_MAX`] bytes has a separate stretch,
//! which is unmapped when the block is freed.
//!
//! Descriptors of lots are outside the zones. A descriptor serves one lot after another, and a
//! record serves one zone after another. So neither memory nor mappings grow with the number of
//! zones that were ever created.
//!
//! Addresses are handed out round the window, each time after the last. The addresses of a zone are
//! therefore not used again until all others have been used. Malloc never gets them.
//!
//! Everything is written under a lock. It is the zone's lock, or the window's lock for addresses
//! and descriptors. The window's lock is taken second. Malloc and free never take either. In the
//! child of a fork, the locks of threads that no longer exist are opened, and the lists are rebuilt
//! from the descriptors (`repair.rs`). Descriptors are changed in an order that keeps them true at
//! every moment.
//!
//! Invariants, verified by `Zones::check`:
//! - Z1 the descriptor of a zone's lot leads to the lot's address, and the table of lots leads
//!   back.
//! - Z2 `live` of a lot is the number of its set bits. No set bit is from `fresh` on, and `fresh`
//!   is at most the number of slots.
//! - Z3 a lot is in its bin's list exactly when it has a free slot.
//! - Z4 a zone's figures are the sums over its lots.
//!
//! | file | contents |
//! |---|---|
//! | `handle.rs` | the handle of a zone, which cannot be guessed or used again |
//! | `lock.rs` | a lock that records which thread holds it |
//! | `lot.rs` | the descriptor of a lot, and its slots |
//! | `record.rs` | the record of a zone |
//! | `window.rs` | addresses, and the source of descriptors |
//! | `zones.rs` | the calls on a zone |
//! | `blocks.rs` | the blocks of one zone: allocation, size and free |
//! | `grow.rs` | how a zone gets addresses and returns them |
//! | `tags.rs` | a byte for each grain of a zone whose pointers have tags |
//! | `check.rs` | the invariants |
//! | `repair.rs` | repair in the child of a fork |
//! | `private_zones.rs`, `reports.rs` | the calls on an allocator's zones; reports of bad calls |
//! | `calls.rs`, `hook.rs` | the process's zones; the hook |

#![cfg_attr(not(test), no_std)]

mod blocks;
pub mod calls;
mod check;
mod grow;
mod handle;
mod hook;
mod lock;
mod lot;
mod private_zones;
mod record;
mod repair;
mod reports;
mod tags;
mod window;
mod zones;

pub use blocks::Zone;
pub use handle::Handle;
pub use hook::with;
pub use lot::{LOT_BYTES, SLOT_MAX, ZoneLocation};
pub use private_zones::PrivateZones;
pub use record::{Figures, Name};
pub use tags::{TAG_SHIFT, Tagged};
pub use zones::{Damage, Refusal, Show, Terms, Zones};
