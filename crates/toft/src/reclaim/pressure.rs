//! Whether the system is short of memory: it has refused some, and has not granted much since.
//!
//! ```text
//!        refused                    granted GRANTS times, and refused nothing between
//!  off -----------> on, for GRANTS more -------------------------------------------> off
//! ```
//!
//! While it is on, every thread gives memory back as soon as it is free, because another thread may
//! need it for blocks of another size; that costs system calls. A request that the system could not
//! meet even if it had back all that the allocator has is no sign of that
//! ([`Blocks::could_map`](crate::large::Blocks::could_map)).

use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// Mappings that the system grants, one after the other, before it is taken to have memory again.
pub const GRANTS: usize = 64;

/// The state. Zeroed memory is off.
///
/// Any thread that maps memory writes it, and any thread that frees reads it. It publishes nothing,
/// and a thread that sees an old value gives back a slab too many or too few: relaxed is enough.
#[derive(Debug)]
pub struct Pressure {
    /// Grants after which it ends; zero while it is off.
    left: AtomicUsize,
}

impl Pressure {
    /// Whether memory is to be given back as soon as it is free.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.left.load(Relaxed) != 0
    }

    /// The system has refused memory that it might have if some was given back.
    pub fn refused(&self) {
        self.left.store(GRANTS, Relaxed);
    }

    /// The system has granted memory. Returns true if the pressure ends with that.
    #[inline]
    pub fn granted(&self) -> bool {
        let left = self.left.load(Relaxed);
        // Two threads may count as one, and a refusal at the same time may be forgotten: the next
        // one sets it again.
        left != 0 && {
            self.left.store(left - 1, Relaxed);
            left == 1
        }
    }
}
