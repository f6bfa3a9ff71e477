//! Where a descriptor's fields lie, for those who read it from outside the process
//! (`stats/root.rs`).

use super::slab::{SLAB_BYTES, Slab};
use super::states::{HELD, LENT, LIVE, QUARANTINED, TAKEN, TOLD_BIT};
use crate::policy::HARDENED;
use core::mem::offset_of;

/// Offsets of fields within a descriptor, and what their values mean.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct SlabFields {
    pub bytes: usize,
    pub owner: usize,
    pub slots: usize,
    pub base: usize,
    pub site: usize,
    pub size: usize,
    pub partition: usize,
    pub claim: usize,
    pub claim_states: usize,
    pub remote: usize,
    pub states: usize,
    /// Frees but for those that the credit has counted, 64 bits; those that were absorbed, 64 bits;
    /// and the credit that was given and what is left of it, 32 bits each.
    pub frees: usize,
    pub absorbed: usize,
    pub credit_start: usize,
    pub credit: usize,
    /// The state of a slot that the program has.
    pub live: u8,
    /// A bit that may be set in that state.
    pub told: u8,
    /// The bits that are set in the state of a slot of which another slab has the memory, and in no
    /// other.
    pub lent: u8,
    /// The bits that are set in the state of a slot that is held, and in no other but free ones.
    pub held: u8,
    /// The bit that is set in the state of a slot that is not free, or is held or lent.
    pub taken: u8,
    /// The state of a slot that was freed and waits in a quarantine, or in its slab; zero where
    /// there is none.
    pub quarantined: u8,
}

impl Slab {
    /// Where the fields lie.
    pub const FIELDS: SlabFields = SlabFields {
        bytes: SLAB_BYTES,
        owner: offset_of!(Slab, owner),
        slots: offset_of!(Slab, slots),
        base: offset_of!(Slab, base),
        site: Slab::SITE,
        size: offset_of!(Slab, size),
        partition: offset_of!(Slab, partition),
        claim: offset_of!(Slab, claim),
        claim_states: offset_of!(Slab, claim_states),
        remote: offset_of!(Slab, remote),
        states: offset_of!(Slab, states),
        frees: offset_of!(Slab, frees),
        absorbed: offset_of!(Slab, absorbed),
        credit_start: offset_of!(Slab, credit_start),
        credit: offset_of!(Slab, credit),
        live: LIVE,
        told: TOLD_BIT,
        lent: LENT,
        held: HELD,
        taken: TAKEN,
        quarantined: if HARDENED { QUARANTINED } else { 0 },
    };
}
