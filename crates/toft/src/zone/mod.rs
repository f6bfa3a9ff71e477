//! L4: private zones, which a program makes for itself: `toft_zone_create` and its family.
//!
//! ```text
//! handle --unmix--> number, generation --> record: lock, lists, figures
//!                                            |
//! addresses   | stretch of zone 1 | gap | stretch of zone 2 | gap | ...        a window of their own
//!             |  lot  |  lot  |                                                64 KiB each
//! lots by address  | 1 | 1 | - | 2 | ...  the number of each lot's descriptor
//! ```
//!
//! A zone draws *stretches* of whole *lots* from the window of zones: mapped at once, followed by
//! addresses that are not, twice as long each time. A lot is cut into slots of one size, and keeps
//! to it; a block above [`SLOT_MAX`] bytes has a stretch to itself, and is unmapped when it is
//! freed. What is known of lots lies apart, in descriptors that serve one lot after another, as the
//! records of zones do one zone after another: so neither memory nor mappings grow with the number
//! of zones that ever were.
//!
//! Addresses are handed out round the window, each time after the last: one that a zone had is
//! unowned until all others have had their turn, and never malloc's.
//!
//! All of this is written under a lock: that of the zone, or, for addresses and descriptors, that
//! of the window, which is taken second. Neither is ever wanted by malloc or free. In the child of
//! a fork, locks of threads that are no more are opened, and the lists are made again from the
//! descriptors (`repair.rs`): descriptors are changed in an order that leaves them true at every
//! moment.
//!
//! Invariants, verified by `Zones::check`:
//! - Z1 the descriptor of a zone's lot leads to the lot's address, and the table of lots leads
//!   back.
//! - Z2 `live` of a lot counts its bits, none of them behind `fresh`, and that not behind its
//!   slots.
//! - Z3 a lot is in its bin's list exactly if it has a slot that is free.
//! - Z4 a zone's figures are the sums over its lots.
//!
//! | file | what |
//! |---|---|
//! | `handle.rs` | the number that stands for a zone, which cannot be guessed or used again |
//! | `lock.rs` | a lock that knows who has it |
//! | `lot.rs` | the descriptor of a lot, and its slots |
//! | `record.rs` | what is known of a zone |
//! | `window.rs` | addresses, and where descriptors come from |
//! | `zones.rs` | what can be asked of a zone |
//! | `blocks.rs` | blocks of one zone: taken, measured, given back |
//! | `grow.rs` | how a zone gets addresses and loses them |
//! | `tags.rs` | a byte for each grain of a zone whose pointers have tags |
//! | `check.rs` | the invariants |
//! | `repair.rs` | in the child of a fork |

mod blocks;
mod check;
mod grow;
mod handle;
mod lock;
mod lot;
mod record;
mod repair;
mod tags;
mod window;
mod zones;

pub use handle::Handle;
pub use lot::{LOT_BYTES, SLOT_MAX, Whereabouts};
pub use record::{Figures, Name};
pub use tags::{TAG_SHIFT, Tagged};
pub use zones::{Damage, Refusal, Show, Terms, Zones};
