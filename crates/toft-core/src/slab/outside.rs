//! The offsets of a descriptor's fields, for readers outside the process (`stats/root.rs`).

use super::batch::Batch;
use super::slab::{SLAB_BYTES, Slab};
use super::states::{HELD, LENT, LIVE, QUARANTINED, SAMPLED_BIT, TAKEN};
use crate::policy::SECURE;
use core::mem::offset_of;

/// The offsets of fields within a descriptor, and the meaning of their values.
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
    /// The address of the batch with marks, in 64 bits. Zero if the build has no batches.
    pub batch: usize,
    /// The offset of the slab's address in a batch, in 64 bits.
    pub batch_slab: usize,
    /// The offset of the marks in a batch: a bit for each slot, like `remote`.
    pub batch_marks: usize,
    pub states: usize,
    /// The number of frees without those that the current credit has counted, in 64 bits.
    pub frees: usize,
    /// The number of frees that compaction has completed, in 64 bits.
    pub absorbed: usize,
    /// The value that the credit was set to, in 32 bits.
    pub credit_start: usize,
    /// What is left of the credit, in 32 bits.
    pub credit: usize,
    /// The state of a slot that the program has.
    pub live: u8,
    /// A bit that may also be set in that state.
    pub sampled: u8,
    /// The bits that are all set in the state of a slot whose memory another slab uses, and in no
    /// other state.
    pub lent: u8,
    /// The bits that are all set in the state of a held slot, which is a free slot, and in no other
    /// state.
    pub held: u8,
    /// The bit that is set in the state of a slot that is not free, or is held or lent.
    pub taken: u8,
    /// The state of a slot that was freed and waits in a quarantine or in its slab. Zero if the
    /// build has no such state.
    pub quarantined: u8,
}

impl SlabFields {
    /// The offsets and values of this build.
    pub const NOW: SlabFields = SlabFields {
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
        batch: if SECURE { 0 } else { offset_of!(Slab, batch) },
        batch_slab: Batch::SLAB,
        batch_marks: Batch::MARKS,
        states: offset_of!(Slab, states),
        frees: offset_of!(Slab, frees),
        absorbed: offset_of!(Slab, absorbed),
        credit_start: offset_of!(Slab, credit_start),
        credit: offset_of!(Slab, credit),
        live: LIVE.bits(),
        sampled: SAMPLED_BIT.bits(),
        lent: LENT.bits(),
        held: HELD.bits(),
        taken: TAKEN.bits(),
        quarantined: if SECURE { QUARANTINED.bits() } else { 0 },
    };
}
