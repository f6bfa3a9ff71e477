//! The two tiers of slabs.

/// Which tier, as a constant parameter.
pub type TierNumber = usize;
/// The small tier.
pub const SMALL: TierNumber = 0;
/// The medium tier.
pub const MEDIUM: TierNumber = 1;

/// What a tier's slabs look like.
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    /// log2 of the bytes in a slab.
    pub shift: u32,
    /// Bytes that a plot grows by at first.
    pub first_step: usize,
    /// No slot size of the tier is divisible by a larger power of two than this one, as its log2.
    pub slot_bits: u32,
}

impl Tier {
    /// The tier of a number.
    #[inline(always)]
    pub const fn of(tier: TierNumber) -> Tier {
        match tier {
            SMALL => Tier { shift: 16, first_step: 1 << 18, slot_bits: 10 },
            _ => Tier { shift: 19, first_step: 1 << 19, slot_bits: 17 },
        }
    }

    /// Bytes in a slab.
    pub const fn slab_bytes(self) -> usize {
        1 << self.shift
    }

    /// Offset of an address within its slab.
    #[inline(always)]
    pub const fn offset(self, address: usize) -> usize {
        address & (self.slab_bytes() - 1)
    }
}
