//! Memory pressure: the system has refused memory, and has not granted much since.
//!
//! ```text
//!        refused                    granted GRANTS times, and refused nothing between
//!  off -----------> on, for GRANTS more -------------------------------------------> off
//! ```
//!
//! While the pressure is on, every thread gives memory back as soon as it is free. Another thread
//! may need it for blocks of another size. That costs system calls. If the system could not serve a
//! request even with all of the allocator's memory, the refusal is no sign of pressure
//! (`Units::could_map`).

use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// The number of mappings that the system grants in a row before the pressure ends.
pub const GRANTS: usize = 64;

/// The state of the pressure. Zeroed memory is off.
///
/// Any thread that maps memory writes it, and any thread that frees memory reads it. It publishes
/// nothing. A thread that reads an old value gives back a slab too many or too few, so Relaxed is
/// enough.
#[derive(Debug)]
pub struct Pressure {
    /// The number of grants after which the pressure ends, or zero while it is off.
    left: AtomicUsize,
}

impl Pressure {
    /// Returns true if memory is to be given back as soon as it is free.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.left.load(Relaxed) != 0
    }

    /// Notes that the system has refused memory, which it might have if some was given back.
    pub fn refused(&self) {
        self.left.store(GRANTS, Relaxed);
    }

    /// Notes that the system has granted memory. Returns true if the pressure ends with that.
    #[inline]
    pub fn granted(&self) -> bool {
        let left = self.left.load(Relaxed);
        // Two threads may count as one, and a refusal at the same time may be lost. The next
        // refusal sets it again.
        left != 0 && {
            self.left.store(left - 1, Relaxed);
            left == 1
        }
    }
}
