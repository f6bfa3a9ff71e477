//! btmalloc's micro benchmark: one size at a time, in four patterns. The pattern `churn` is the
//! workload `pair`, the others are those of `batch`, so this file only says which is which.
//!
//! Unlike btmalloc's own, the random order is made outside of the time, and a first batch goes
//! before it, since what the kernel takes for a page would be most of a block's time. An allocator
//! that gives its pages back after each batch pays for them again.

use super::prelude::*;
use super::{batch, pair};

pub const WORKLOAD: Workload = workload!("micro", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let in_order = |order: &str| {
        let order = Params::parse([order]).expect("the words below are numbers");
        batch::run(heap, &params.clone().with(&order))
    };
    match params.get("pattern", 0) {
        0 => pair::run(heap, params),
        1 => in_order("order=1"),
        2 => in_order("order=0"),
        3 => in_order("order=2"),
        other => panic!("there is no pattern {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::{Call, recorded};

    #[test]
    fn churn_counts_pairs_and_the_other_patterns_time_both_halves() {
        let outcome = |words: &str| run(Libc, &Params::of(words));
        let churn = outcome("pattern=0 size=16 ops=500");
        assert_eq!(churn.ops, 500);
        assert!(!churn.metrics.contains_key("free_ns"));
        for pattern in 1..=3 {
            let batch = outcome(&format!("pattern={pattern} size=16 blocks=100 repeat=4"));
            assert_eq!(batch.ops, 400);
            let [alloc, free, both] = ["alloc_ns", "free_ns", "ns"].map(|key| batch.metrics[key]);
            assert!(alloc > 0.0 && free > 0.0);
            assert!((alloc + free - both).abs() < both * 1e-6, "{alloc} + {free} is not {both}");
        }
    }

    /// The blocks of the last batch as they came, and as they went.
    fn last_batch(words: &str, blocks: usize) -> (Vec<usize>, Vec<usize>) {
        let (heap, _) = recorded(run, words);
        let went: Vec<usize> = heap
            .calls()
            .iter()
            .filter_map(|call| if let Call::Free(block, _) = call { Some(*block) } else { None })
            .collect();
        assert_eq!(heap.range(), (48, 48));
        ((went.len() - blocks..went.len()).collect(), went[went.len() - blocks..].to_vec())
    }

    #[test]
    fn the_pattern_is_the_order_in_which_blocks_go() {
        let batch = |pattern| last_batch(&format!("{pattern} size=48 blocks=90 repeat=2"), 90);
        let (mut came, went) = batch("pattern=1");
        came.reverse();
        assert_eq!(came, went);
        let (came, went) = batch("pattern=2");
        assert_eq!(came, went);
        let (mut came, mut went) = batch("pattern=3");
        assert_ne!(came, went);
        came.reverse();
        assert_ne!(came, went);
        came.sort_unstable();
        went.sort_unstable();
        assert_eq!(came, went);
    }
}
