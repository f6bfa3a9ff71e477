//! The two tiers of slabs.

/// The number of a tier, as a constant parameter.
pub type TierNumber = usize;
/// The small tier.
pub const SMALL: TierNumber = 0;
/// The medium tier.
pub const MEDIUM: TierNumber = 1;

/// The properties of a tier's slabs.
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    /// log2 of the bytes in a slab.
    pub shift: u32,
    /// The number of bytes of a plot's first step of growth.
    pub first_step: usize,
}

impl Tier {
    /// Returns the tier with a number.
    #[inline(always)]
    pub const fn of(tier: TierNumber) -> Tier {
        match tier {
            SMALL => Tier { shift: 16, first_step: 1 << 18 },
            _ => Tier { shift: 19, first_step: 1 << 19 },
        }
    }

    /// Returns the number of bytes in a slab.
    pub const fn slab_bytes(self) -> usize {
        1 << self.shift
    }
}
