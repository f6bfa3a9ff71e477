//! Sorting of numbers in a table: by heap, in place.

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Sorts in place, and takes no memory.
pub fn sort(numbers: &[AtomicU64]) {
    let load = |at: usize| numbers.get(at).map_or(0, |number| number.load(Relaxed));
    let sift = |mut root: usize, end: usize| {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            child += usize::from(child + 1 < end && load(child) < load(child + 1));
            if load(root) >= load(child) {
                return;
            }
            swap(numbers, root, child);
            root = child;
        }
    };
    (0..numbers.len() / 2).rev().for_each(|root| sift(root, numbers.len()));
    for end in (1..numbers.len()).rev() {
        swap(numbers, 0, end);
        sift(0, end);
    }
}

fn swap(numbers: &[AtomicU64], a: usize, b: usize) {
    if let (Some(a), Some(b)) = (numbers.get(a), numbers.get(b)) {
        let was = a.swap(b.load(Relaxed), Relaxed);
        b.store(was, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sorted_is_in_order_and_the_same() {
        for len in 0..70u64 {
            let numbers: Vec<_> = (0..len).map(|n| AtomicU64::new(n * n * 7919 % 61)).collect();
            let mut wanted: Vec<_> = numbers.iter().map(|n| n.load(Relaxed)).collect();
            wanted.sort_unstable();
            sort(&numbers);
            assert_eq!(numbers.iter().map(|n| n.load(Relaxed)).collect::<Vec<_>>(), wanted);
        }
    }
}
