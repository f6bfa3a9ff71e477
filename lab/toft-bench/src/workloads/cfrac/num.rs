//! Natural numbers, each in a separate heap block and never changed: every step of a computation
//! allocates its result and frees what it no longer needs.

use crate::heap::{Heap, launder};
use std::cmp::Ordering;

/// What stands before the digits: their count, and room that the published program needs for a
/// sign, a count of references and the room that there is.
const HEADER: usize = 4;

/// A natural number. The block holds a header, then the digits in base 2^16, the least first and no
/// leading zeros: blocks are as large, and arithmetic takes as long, as in the published program.
pub struct Num<H: Heap> {
    heap: H,
    block: *mut u16,
}

impl<H: Heap> Drop for Num<H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: allocated by `build`, owned by this value alone.
        unsafe { self.heap.free(self.block.cast()) };
    }
}

impl<H: Heap> Num<H> {
    /// A number of at most `len` digits that `fill` writes into zeroed memory.
    fn build(heap: H, len: usize, fill: impl FnOnce(&mut [u16])) -> Self {
        let block = launder(heap.malloc(size_of::<u16>() * (HEADER + len))).cast::<u16>();
        assert!(!block.is_null(), "no memory for a number");
        // SAFETY: the block has that many words and is aligned for them; they are zeroed before
        // anybody reads them.
        let words = unsafe {
            block.write_bytes(0, HEADER + len);
            std::slice::from_raw_parts_mut(block, HEADER + len)
        };
        let (header, digits) = words.split_at_mut(HEADER);
        fill(digits);
        header[0] = trimmed(digits).len() as u16;
        Self { heap, block }
    }

    /// A small number.
    pub fn new(heap: H, value: u64) -> Self {
        let needed = (64 - value.leading_zeros()).div_ceil(16) as usize;
        Self::build(heap, needed, |digits| {
            for (at, digit) in digits.iter_mut().enumerate() {
                *digit = (value >> (16 * at)) as u16;
            }
        })
    }

    fn digits(&self) -> &[u16] {
        // SAFETY: the first word counts the digits after the header, all written by `build`.
        unsafe { std::slice::from_raw_parts(self.block.add(HEADER), *self.block as usize) }
    }

    pub fn is_zero(&self) -> bool {
        self.digits().is_empty()
    }

    /// The value, where it fits.
    pub fn small(&self) -> Option<u64> {
        let digits = self.digits();
        let value = || digits.iter().rev().fold(0, |sum, digit| sum << 16 | u64::from(*digit));
        (digits.len() <= 4).then(value)
    }

    pub fn order(&self, other: &Self) -> Ordering {
        let (a, b) = (self.digits(), other.digits());
        a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
    }

    pub fn copy(&self) -> Self {
        let digits = self.digits();
        Self::build(self.heap, digits.len(), |out| out.copy_from_slice(digits))
    }

    pub fn add(&self, other: &Self) -> Self {
        let (a, b) = (self.digits(), other.digits());
        Self::build(self.heap, a.len().max(b.len()) + 1, |out| {
            let mut carry = 0;
            for (at, digit) in out.iter_mut().enumerate() {
                carry += u32::from(*a.get(at).unwrap_or(&0)) + u32::from(*b.get(at).unwrap_or(&0));
                *digit = carry as u16;
                carry >>= 16;
            }
        })
    }

    /// The difference; `other` is at most `self`.
    pub fn sub(&self, other: &Self) -> Self {
        let (a, b) = (self.digits(), other.digits());
        Self::build(self.heap, a.len(), |out| {
            let mut borrow = 0;
            for (at, digit) in out.iter_mut().enumerate() {
                let step = i32::from(a[at]) - i32::from(*b.get(at).unwrap_or(&0)) + borrow;
                *digit = step as u16;
                borrow = step >> 16;
            }
            debug_assert_eq!(borrow, 0, "a negative difference");
        })
    }

    pub fn mul(&self, other: &Self) -> Self {
        let (a, b) = (self.digits(), other.digits());
        Self::build(self.heap, a.len() + b.len(), |out| {
            for (i, x) in a.iter().enumerate() {
                let mut carry = 0;
                for (j, y) in b.iter().enumerate() {
                    carry += u32::from(*x) * u32::from(*y) + u32::from(out[i + j]);
                    out[i + j] = carry as u16;
                    carry >>= 16;
                }
                out[i + b.len()] = carry as u16;
            }
        })
    }

    /// Quotient and remainder by a digit.
    pub fn divide_digit(&self, by: u16) -> (Self, u16) {
        let digits = self.digits();
        let mut rest = 0;
        let quotient = Self::build(self.heap, digits.len(), |out| {
            for (digit, result) in digits.iter().zip(out).rev() {
                let step = rest << 16 | u32::from(*digit);
                *result = (step / u32::from(by)) as u16;
                rest = step % u32::from(by);
            }
        });
        (quotient, rest as u16)
    }

    /// Quotient and remainder (Knuth's algorithm D).
    pub fn divide(&self, by: &Self) -> (Self, Self) {
        let heap = self.heap;
        if self.order(by) == Ordering::Less {
            return (Self::new(heap, 0), self.copy());
        }
        if let [digit] = *by.digits() {
            let (quotient, rest) = self.divide_digit(digit);
            return (quotient, Self::new(heap, rest.into()));
        }
        let top = by.digits().last().expect("a division by zero");
        let shift = top.leading_zeros();
        let divisor = by.shifted(shift);
        let scale = divisor.digits().len();
        let mut quotient = None;
        let rest = Self::build(heap, self.digits().len() + 1, |rest| {
            shift_into(self.digits(), shift, rest);
            let places = rest.len() - scale;
            quotient = Some(Self::build(heap, places, |out| {
                for place in (0..places).rev() {
                    out[place] = divide_step(&mut rest[place..=place + scale], divisor.digits());
                }
            }));
            for at in 0..rest.len() {
                let high = u32::from(*rest.get(at + 1).unwrap_or(&0));
                rest[at] = ((high << 16 | u32::from(rest[at])) >> shift) as u16;
            }
        });
        (quotient.expect("set while the remainder was built"), rest)
    }

    fn shifted(&self, bits: u32) -> Self {
        let digits = self.digits();
        Self::build(self.heap, digits.len() + 1, |out| shift_into(digits, bits, out))
    }

    pub fn modulo(&self, by: &Self) -> Self {
        self.divide(by).1
    }

    /// The integer square root, by Newton's method from above.
    pub fn root(&self) -> Self {
        let mut guess = Self::build(self.heap, self.digits().len() / 2 + 2, |out| {
            out[self.digits().len() / 2 + 1] = 1;
        });
        loop {
            let sum = guess.add(&self.divide(&guess).0);
            let next = sum.divide_digit(2).0;
            if next.order(&guess) != Ordering::Less {
                return guess;
            }
            guess = next;
        }
    }

    pub fn gcd(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.copy(), other.copy());
        while !b.is_zero() {
            let rest = a.modulo(&b);
            a = std::mem::replace(&mut b, rest);
        }
        a
    }
}

fn trimmed(digits: &[u16]) -> &[u16] {
    let len = digits.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
    &digits[..len]
}

/// Writes `digits << bits` (`bits` below 16); `out` has a digit more.
fn shift_into(digits: &[u16], bits: u32, out: &mut [u16]) {
    let mut carry = 0;
    for (at, digit) in out.iter_mut().enumerate() {
        let wide = u32::from(*digits.get(at).unwrap_or(&0)) << bits | carry;
        *digit = wide as u16;
        carry = wide >> 16;
    }
}

/// One digit of a quotient: takes that multiple of `by` off `rest`, which is a digit longer.
fn divide_step(rest: &mut [u16], by: &[u16]) -> u16 {
    let n = by.len();
    let high = u32::from(rest[n]) << 16 | u32::from(rest[n - 1]);
    let mut guess = (high / u32::from(by[n - 1])).min(u32::from(u16::MAX));
    loop {
        let (mut borrow, mut carry) = (0i32, 0u32);
        for (digit, factor) in rest.iter_mut().zip(by.iter().chain([&0])) {
            carry += guess * u32::from(*factor);
            let step = i32::from(*digit) - i32::from(carry as u16) + borrow;
            *digit = step as u16;
            borrow = step >> 16;
            carry >>= 16;
        }
        if borrow == 0 {
            return guess as u16;
        }
        // The guess was too large, by two at most: put everything back and try one less.
        let mut carry = 0u32;
        let mut product = 0u32;
        for (digit, factor) in rest.iter_mut().zip(by.iter().chain([&0])) {
            product += guess * u32::from(*factor);
            carry += u32::from(*digit) + u32::from(product as u16);
            *digit = carry as u16;
            carry >>= 16;
            product >>= 16;
        }
        guess -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::rng::Rng;

    fn big(value: u128) -> Num<Libc> {
        let [low, high] = [value as u64, (value >> 64) as u64].map(|part| Num::new(Libc, part));
        let base = Num::new(Libc, 1 << 32);
        high.mul(&base).mul(&base).add(&low)
    }

    fn value(num: &Num<Libc>) -> u128 {
        num.digits().iter().rev().fold(0, |sum, digit| sum << 16 | u128::from(*digit))
    }

    #[test]
    fn arithmetic_agrees_with_that_of_the_machine() {
        let mut rng = Rng::new(3);
        for _ in 0..20_000 {
            let [a, b] = [0; 2].map(|_: u32| {
                let wide = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
                wide >> (1 + rng.below(120))
            });
            let (small, large) = (a.min(b), a.max(b));
            assert_eq!(value(&big(a).add(&big(b))), a + b);
            assert_eq!(value(&big(large).sub(&big(small))), large - small);
            assert_eq!(big(a).order(&big(b)), a.cmp(&b));
            let (x, y) = (a as u64, b as u64);
            assert_eq!(
                value(&Num::new(Libc, x).mul(&Num::new(Libc, y))),
                u128::from(x) * u128::from(y)
            );
            if small > 0 {
                let (quotient, rest) = big(large).divide(&big(small));
                assert_eq!((value(&quotient), value(&rest)), (large / small, large % small));
            }
            assert_eq!(value(&big(a).root()), a.isqrt());
        }
    }

    #[test]
    fn divisions_that_need_the_correction_are_right() {
        for (a, b) in [
            (u128::MAX, (1 << 64) + 1),
            (0x7fff_ffff_8000_0000_0000_0000_0000_0000, 0x8000_0000_0000_0001),
            (0x8000_0000_0000_0000_0000_0003, 0x2000_0000_0000_0001),
            (u128::MAX - 1, u128::MAX),
        ] {
            let (quotient, rest) = big(a).divide(&big(b));
            assert_eq!((value(&quotient), value(&rest)), (a / b, a % b), "{a:x} / {b:x}");
        }
    }

    #[test]
    fn the_gcd_is_found() {
        assert_eq!(value(&big(12 * 1_000_003).gcd(&big(18 * 999_983))), 6);
        assert_eq!(value(&big(5).gcd(&big(0))), 5);
    }
}
