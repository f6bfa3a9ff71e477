//! Which bin a size belongs to: one for each size below [`Shape::EXACT`], then `1 << STEPS` for
//! each doubling. The last bin takes everything that is larger.
//!
//! ```text
//!   size 24    32         1016  | 1024..1087  1088..1151 ..     | 2048..2175 ..         (STEPS 4)
//!   bin   3     4   ...    127  |    128         129     .. 143 |    144     ..
//! ```

use crate::shape::{Shape, Sizes};
use crate::table::Tables;

/// The bin in which a free chunk of this size is kept.
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) fn of_free<S: Shape>(size: usize) -> usize {
    if size < S::EXACT {
        return size >> S::ALIGN.trailing_zeros();
    }
    let doubling = size.ilog2();
    let above = (doubling - S::EXACT.trailing_zeros()) as usize;
    let step = (size >> (doubling - S::STEPS)) - (1 << S::STEPS);
    let bin = (S::EXACT >> S::ALIGN.trailing_zeros()) + (above << S::STEPS) + step;
    bin.min(S::Bins::BINS - 1)
}

/// The first bin of which every chunk is at least this large; `BINS` if there is none. The size is
/// [rounded](crate::shape::Sizes::rounded).
#[cfg_attr(not(feature = "small"), inline(always))]
pub(crate) fn of_request<S: Shape>(size: usize) -> usize {
    if size < S::EXACT {
        return size >> S::ALIGN.trailing_zeros();
    }
    // What was rounded is the smallest of its bin.
    if size < S::ROUNDED {
        debug_assert!(S::rounded(size) == size);
        return of_free::<S>(size);
    }
    // A power of two less than the step to the next bin, so nothing overflows: sizes are below
    // `LIMIT`, half of all numbers.
    let up = (1 << (size.ilog2() - S::STEPS)) - 1;
    let bin = of_free::<S>(size + up);
    // The last bin has no upper bound: a request that belongs there may be larger than some of it.
    // One that is only rounded up to it is not.
    if bin == S::Bins::BINS - 1 && of_free::<S>(size) == bin { S::Bins::BINS } else { bin }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Fast, Micro, Narrow, Packed, Small, Standard};

    fn sizes<S: Shape>() -> impl Iterator<Item = usize> {
        let around = |size: usize| [size - S::ALIGN, size, size + S::ALIGN];
        let small = (S::MIN..5000).step_by(S::ALIGN);
        small.chain((13..30).flat_map(move |bits| around(1 << bits)))
    }

    fn holds<S: Shape>() {
        let mut before = 0;
        for size in sizes::<S>() {
            let own = of_free::<S>(size);
            let from = of_request::<S>(S::rounded(size));
            assert!(before <= own && own < S::Bins::BINS && own <= from, "{size}");
            before = own;
            // No chunk of the request's bin is smaller, and the bin below has some that are.
            for chunk in sizes::<S>().filter(|&chunk| of_free::<S>(chunk) >= from) {
                assert!(chunk >= size, "a chunk of {chunk} for {size}");
            }
            assert!(size >= S::EXACT || own == from);
            // And no bin is passed over of which all are large enough.
            assert!(from <= own + 1, "{size}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes hours, and touches no memory")]
    fn a_bin_for_a_request_has_no_smaller_chunk() {
        holds::<Packed>();
        holds::<Standard>();
        holds::<Narrow>();
        holds::<Fast>();
        holds::<Micro>();
    }

    #[test]
    #[cfg_attr(miri, ignore = "as above")]
    fn a_request_below_the_last_bin_finds_it() {
        let last = <Small as Shape>::Bins::BINS - 1;
        let first = (1..).map(|n| n * 8).find(|&size| of_free::<Small>(size) == last).unwrap();
        assert_eq!((of_request::<Small>(first - 8), of_request::<Small>(first)), (last, last + 1));
        holds::<Small>();
    }

    #[test]
    fn bins_are_exact_and_then_a_sixteenth_wide() {
        let bins =
            |sizes: &[usize]| sizes.iter().map(|&s| of_free::<Packed>(s)).collect::<Vec<_>>();
        assert_eq!(
            bins(&[24, 32, 1016, 1024, 1080, 1088, 2040, 2048, 2176]),
            [3, 4, 127, 128, 128, 129, 143, 144, 145]
        );
        assert_eq!(of_request::<Packed>(1032), 129);
        assert_eq!(of_request::<Packed>(1024), 128);
    }

    #[test]
    fn what_is_too_large_is_in_the_last_bin_and_for_a_request_in_none() {
        let last = <Packed as Shape>::Bins::BINS - 1;
        assert_eq!(of_free::<Packed>(Packed::LIMIT - 8), last);
        assert_eq!(of_request::<Packed>(Packed::LIMIT - 8), last + 1);
        assert_eq!(of_request::<Narrow>(Narrow::LIMIT - 8), <Narrow as Shape>::Bins::BINS);
    }
}
