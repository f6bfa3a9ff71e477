//! Sorting of a table by heapsort, in place.

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Sorts the numbers in place, without memory.
pub fn sort(numbers: &[AtomicU64]) {
    let load = |at: usize| numbers.get(at).map_or(0, |number| number.load(Relaxed));
    let mut all = numbers;
    sort_by(
        &mut all,
        numbers.len(),
        |_, a, b| load(a) < load(b),
        |numbers, a, b| swap(numbers, a, b),
    );
}

/// Sorts a table of any type. `less` and `swap` receive two indices of the table.
pub fn heap_sort<T>(
    table: &mut [T],
    less: impl Fn(&[T], usize, usize) -> bool,
    mut swap: impl FnMut(&mut [T], usize, usize),
) {
    let len = table.len();
    sort_by(table, len, |table, a, b| less(table, a, b), |table, a, b| swap(table, a, b));
}

fn sort_by<T: ?Sized>(
    table: &mut T,
    len: usize,
    less: impl Fn(&T, usize, usize) -> bool,
    mut swap: impl FnMut(&mut T, usize, usize),
) {
    let mut sift = |table: &mut T, mut root: usize, end: usize, first: Option<usize>| {
        if let Some(first) = first {
            swap(table, first, end);
        }
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            child += usize::from(child + 1 < end && less(table, child, child + 1));
            if !less(table, root, child) {
                return;
            }
            swap(table, root, child);
            root = child;
        }
    };
    (0..len / 2).rev().for_each(|root| sift(table, root, len, None));
    for end in (1..len).rev() {
        // The largest entry before `end` moves there.
        sift(table, 0, end, Some(0));
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
            let mut plain: Vec<_> = (0..len).map(|n| n * n * 7919 % 61).collect();
            heap_sort(&mut plain, |all, a, b| all[a] < all[b], |all, a, b| all.swap(a, b));
            assert_eq!(plain, wanted);
            assert_eq!(numbers.iter().map(|n| n.load(Relaxed)).collect::<Vec<_>>(), wanted);
        }
    }
}
