//! The secret that canaries are made from: 128 bits from the kernel, for the life of the process.
//!
//! It lies in the allocator's own page, which is read-only after the start. What is made from it
//! lies in memory that no program may read, behind what was asked for, and is cleared with the block.

use crate::os::{Error, Os};
use crate::policy::HARDENED;

/// Two keys.
#[derive(Clone, Copy)]
pub struct Secret {
    add: u64,
    times: u64,
}

// Not derived: no line that shows an allocator may show its keys.
impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// No secret, for an allocator of nothing.
    pub const fn none() -> Secret {
        Secret { add: 0, times: 1 }
    }

    /// A secret from the kernel. Without entropy there is none: an error, never a weak one.
    pub fn new(os: &impl Os) -> Result<Secret, Error> {
        if !HARDENED {
            return Ok(Secret::none());
        }
        Ok(Secret { add: os.random()?, times: os.random()? | 1 })
    }

    /// A word for an address: the whole product of two words that both depend on the secret, folded.
    /// One word gives away none of the 128 bits; it is no cryptographic code, though: who reads many
    /// words could work at the keys.
    #[inline(always)]
    pub fn word(&self, address: usize) -> u64 {
        let product = u128::from(address as u64 ^ self.add) * u128::from(self.times);
        product as u64 ^ (product >> 64) as u64
    }

    /// The word that the reserved slot at an address carries, again and again. No canary has the same.
    #[inline]
    pub fn reserved_word(&self, address: usize) -> u64 {
        self.word(!address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ_by_address_and_by_secret() {
        let (a, b) = (Secret { add: 0x1234_5678_9ABC_DEF0, times: 0xF00D_FACE_CAFE_BEEF }, {
            Secret { add: 0x0FED_CBA9_8765_4321, times: 0x9E37_79B9_7F4A_7C15 }
        });
        let mut bits = [0u32; 64];
        let words = 4096;
        for n in 0..words {
            let address = 0x7000_0000_0000 + n * 64;
            assert_ne!(a.word(address), b.word(address));
            assert_ne!(a.word(address), a.word(address + 64));
            for (bit, count) in bits.iter_mut().enumerate() {
                *count += (a.word(address) >> bit & 1) as u32;
            }
        }
        // Six standard deviations of a fair coin thrown 4096 times.
        let fair = |&count: &u32| count.abs_diff(words as u32 / 2) < 6 * 32;
        assert!(bits.iter().all(fair), "{bits:?}");
    }
}
