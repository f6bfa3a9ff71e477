//! L8: observation of the heap: reports, checks, samples and profiles. Rooms of the same line use
//! only those of the lines above.
//!
//! | room | type | contents |
//! |---|---|---|
//! | `reports/` | `Reports` | reports of bad calls and damage, and their details |
//! | `slot_checks/` | `SlotChecks` | bytes beside a block: canaries, reserved slots |
//! | `verifier/` | `Verifier` | verification of the heap, perhaps in part |
//! | `sampling.rs` | `Profiler` | random samples of allocations, with their stacks |
//! | `guarded/` | `UninitializedReads` | faults beside guarded blocks; reads before writes |

pub(crate) mod guarded;
pub mod reports;
mod sampling;
mod slot_checks;
pub(crate) mod verifier;
