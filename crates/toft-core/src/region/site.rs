//! A call site.

/// Where the program asked for a block: the return address of its call of malloc, or a token, which
/// is a number that the program passes in its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct Site(usize);

/// The number of bits of a site that are a program's own number.
const TOKEN_BITS: u32 = 47;

impl Site {
    /// Returns the site of a return address, or the site whose `address` this is.
    #[inline(always)]
    pub const fn at(address: usize) -> Site {
        Site(address)
    }

    /// Returns the site that stands for a program's own number. No address of code has its highest
    /// bits. Numbers below 2^47 give different sites. Larger numbers may give the site of another
    /// number.
    pub const fn of_token(token: u64) -> Site {
        let folded = token ^ (token >> TOKEN_BITS).wrapping_mul(0x5851_F42D_4C95_7F2D);
        let low = folded & ((1 << TOKEN_BITS) - 1);
        Site((1 << 63 | 1 << TOKEN_BITS | low) as usize)
    }

    /// Returns the number that the site stands for, if it is no address of code. Of a number from
    /// 2^47 on it returns the smaller one that has the same site.
    pub const fn token(self) -> Option<u64> {
        let low = self.0 as u64 & ((1 << TOKEN_BITS) - 1);
        if Site::of_token(low).0 == self.0 { Some(low) } else { None }
    }

    /// Returns the return address, or the number that a token has in its place.
    #[inline(always)]
    pub const fn address(self) -> usize {
        self.0
    }
}
