//! The ideas that can be taken away to measure what each costs: `cargo xtask experiment cost`,
//! [docs/experiments/cost.md](https://github.com/toft-malloc/toft/blob/main/docs/experiments/cost.md).
//!
//! Without a feature every constant here says what Toft does, and the branches on it are gone from
//! the machine code. No build that is shipped has a feature of this kind: each takes a promise
//! away, or memory. How an address is looked up is chosen in `region/lookup`, in the same way.

/// Whether the call site decides where a block lies. Without (`experiment-no-partitions`) all
/// blocks are of one partition, whatever the options say, and nothing is hashed.
pub const PARTITION: bool = !cfg!(feature = "experiment-no-partitions");

/// Whether free verifies what it is given. Without (`experiment-no-validation`) it believes its
/// caller that the address begins a live slot. What is left is what free needs to do its work: the
/// search for the slab, which tells small from medium from large, and the slot's state, which
/// malloc finds free slots by.
pub const VALIDATE: bool = !cfg!(feature = "experiment-no-validation");

/// Whether wrappers of malloc are looked through by what the unwind tables say. Without
/// (`experiment-frame-pointers`) only by frame pointers.
pub const UNWIND_TABLES: bool = !cfg!(feature = "experiment-frame-pointers");

/// Slots that malloc may claim at a time, at most 64, which is all of a group: the size of the
/// magazine. Another number is for `experiment-claim-limit` only, which reads it from the variable
/// `TOFT_EXPERIMENT_CLAIM` when it is compiled.
pub const CLAIM_MAX: u32 = claim_max();

const fn claim_max() -> u32 {
    #[cfg(feature = "experiment-claim-limit")]
    if let Some(text) = option_env!("TOFT_EXPERIMENT_CLAIM") {
        match u32::from_str_radix(text, 10) {
            Ok(number @ 1..=64) => return number,
            _ => panic!("TOFT_EXPERIMENT_CLAIM is not a number from 1 to 64"),
        }
    }
    64
}

/// How many partitions there are where so many were asked for.
pub const fn partitions(asked: usize) -> usize {
    if PARTITION { asked } else { 1 }
}
