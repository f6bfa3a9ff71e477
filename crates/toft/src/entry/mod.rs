//! L7: malloc, free, realloc, aligned, usable size.
//!
//! ```text
//! malloc:  entry -> site -> bin -> slab -> region -> os         (large: entry -> large -> region -> os)
//! free:    entry -> region (owner) -> bin (mine) | remote (another thread's) | large
//! ```

mod allocator;
mod background;
mod bounds;
mod cold;
mod compact;
mod damage;
mod detail;
mod fault;
mod free;
mod global;
mod guarded;
mod harden;
mod huge;
mod leaks;
mod limit;
mod malloc;
mod misuse;
mod nothing;
#[cfg(feature = "experiment-parallel")]
pub mod parallel;
mod part;
pub mod process;
mod reach;
mod ready;
mod realloc;
mod scope;
mod start;
mod sweep;
mod through;
mod unused;
mod verify;
mod walls;
mod wishes;

pub use allocator::Allocator;
pub use compact::Compacted;
pub use global::Toft;
pub use misuse::Call;
pub use realloc::Resized;
pub use sweep::{Swept, Which};
