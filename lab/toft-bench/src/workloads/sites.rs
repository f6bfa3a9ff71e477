//! Many call sites: an allocator that keys on the return address sees each of these functions as
//! a separate place.

use crate::heap::{Heap, take};

/// A function that allocates and touches, at one call site.
pub type Site<H> = fn(H, usize) -> *mut u8;

/// How many different sites [`sites`] offers.
pub const SITES: usize = 32;

/// Allocates at call site number `N`.
#[inline(never)]
fn site<H: Heap, const N: usize>(heap: H, size: usize) -> *mut u8 {
    let block = take(heap, size);
    // SAFETY: no instruction at all; the number in the comment keeps the compiler from merging
    // the otherwise identical functions into one site.
    unsafe { std::arch::asm!("/* site {} */", const N, options(nomem, nostack, preserves_flags)) };
    block
}

pub fn sites<H: Heap>() -> [Site<H>; SITES] {
    macro_rules! table {
        ($($n:literal)*) => { [$(site::<H, $n>),*] };
    }
    table!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_sites_share_their_code() {
        let addresses: BTreeSet<usize> =
            sites::<Libc>().iter().map(|&site| site as usize).collect();
        assert_eq!(addresses.len(), SITES);
    }
}
