//! L7: malloc, free, realloc, aligned, usable size.
//!
//! ```text
//! malloc:  entry -> site -> bin -> slab -> region -> os         (large: entry -> large -> region -> os)
//! free:    entry -> region (owner) -> bin (mine) | remote (another thread's) | large
//! ```

mod allocator;
mod away;
mod background;
mod bounds;
mod cold;
mod compact;
mod contents;
mod damage;
mod dangling;
mod detail;
pub mod doors;
mod environment;
mod extent;
mod fault;
mod free;
mod global;
mod gone;
mod guarded;
mod harden;
mod hints;
mod hot;
mod huge;
mod leaks;
mod limit;
mod malloc;
mod misuse;
mod nothing;
mod orphans;
mod part;
pub mod process;
mod profile;
mod reach;
mod ready;
mod realloc;
pub mod replaced;
mod reserved;
mod scope;
mod start;
mod stray;
mod sweep;
mod thread_exit;
mod through;
mod told;
mod unset;
mod unused;
mod verify;
mod verify_others;
mod verify_slots;
mod walls;
mod wishes;
pub mod zones;

pub use allocator::Allocator;
pub use compact::Compacted;
pub use global::Toft;
pub use misuse::Call;
pub use profile::{metrics_to, print as print_profile, profile_to};
pub use realloc::Resized;
pub use sweep::{Swept, Which};
pub use zones::Zone;
