//! Factors a number by its continued fraction (Morrison and Brillhart), on numbers that live in
//! small short-lived heap blocks: the load of the classic `cfrac` benchmark, rewritten.

mod num;

use crate::workloads::prelude::*;
use num::Num;
use std::cmp::Ordering;

pub const WORKLOAD: Workload = workload!("cfrac", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let [p, q] = [("p", 1_000_000_007), ("q", 9_999_999_967)]
        .map(|(key, default)| Num::new(heap, params.get(key, default)));
    let product = p.mul(&q);
    let start = Instant::now();
    let mut search = Search::new(heap, &product, params.size("base", 60));
    let factor = search.factor();
    let seconds = start.elapsed().as_secs_f64();
    let found = factor.order(&p) == Ordering::Equal || factor.order(&q) == Ordering::Equal;
    assert!(found, "the factorisation went wrong");
    Outcome::timed(search.steps, seconds)
}

/// A square, modulo the number, that splits over the factor base.
struct Relation<H: Heap> {
    root: Num<H>,
    /// The exponent of -1, then those of the primes.
    exponents: Vec<u16>,
}

struct Search<'a, H: Heap> {
    heap: H,
    number: &'a Num<H>,
    primes: Vec<u16>,
    steps: u64,
}

impl<'a, H: Heap> Search<'a, H> {
    fn new(heap: H, number: &'a Num<H>, base: usize) -> Self {
        let divides_a_square = |p: &u16| {
            let rest = number.divide_digit(*p).1;
            *p == 2 || power(rest.into(), u32::from(*p - 1) / 2, (*p).into()) <= 1
        };
        let primes = (2..).filter(is_prime).filter(divides_a_square).take(base).collect();
        Self { heap, number, primes, steps: 0 }
    }

    /// A proper factor. The number is the product of two odd primes, so that half of all
    /// dependencies give one.
    fn factor(&mut self) -> Num<H> {
        let mut wanted = self.primes.len() + 12;
        loop {
            let relations = self.relations(wanted);
            if let Some(factor) = self.combine(&relations) {
                return factor;
            }
            wanted += 20;
        }
    }

    /// Walks along the continued fraction of the square root and keeps the smooth remainders.
    fn relations(&mut self, wanted: usize) -> Vec<Relation<H>> {
        let (heap, number) = (self.heap, self.number);
        let root = number.root();
        let (mut convergent, mut before) = (root.copy(), Num::new(heap, 1));
        let (mut p, mut q, mut quotient) = (Num::new(heap, 0), Num::new(heap, 1), root.copy());
        let mut found = Vec::new();
        let mut negative = false;
        while found.len() < wanted {
            self.steps += 1;
            negative = !negative;
            p = quotient.mul(&q).sub(&p);
            q = number.sub(&p.mul(&p)).divide(&q).0;
            if let Some(exponents) = self.split(&q, negative) {
                found.push(Relation { root: convergent.copy(), exponents });
            }
            quotient = root.add(&p).divide(&q).0;
            let next = quotient.mul(&convergent).add(&before).modulo(number);
            before = std::mem::replace(&mut convergent, next);
        }
        found
    }

    /// The exponents of a number over the factor base, if it splits.
    fn split(&self, number: &Num<H>, negative: bool) -> Option<Vec<u16>> {
        let mut left = number.copy();
        let mut exponents: Option<Vec<u16>> = None;
        for (index, prime) in self.primes.iter().enumerate() {
            loop {
                let (quotient, rest) = left.divide_digit(*prime);
                if rest != 0 {
                    break;
                }
                exponents.get_or_insert_with(|| vec![0; self.primes.len() + 1])[index + 1] += 1;
                left = quotient;
            }
        }
        let mut exponents = exponents.filter(|_| left.small() == Some(1))?;
        exponents[0] = negative.into();
        Some(exponents)
    }

    /// Gaussian elimination over the parities; each dependency is a try at a factor.
    fn combine(&self, relations: &[Relation<H>]) -> Option<Num<H>> {
        let columns = self.primes.len() + 1;
        // A row: which exponents are odd, and the relations that it is the product of.
        let mut rows: Vec<(Vec<bool>, Vec<bool>)> = relations
            .iter()
            .enumerate()
            .map(|(at, relation)| {
                let odd = relation.exponents.iter().map(|e| e % 2 == 1).collect();
                (odd, (0..relations.len()).map(|other| other == at).collect())
            })
            .collect();
        for column in 0..columns {
            let Some(at) = rows.iter().position(|(odd, _)| odd[column]) else {
                continue;
            };
            let pivot = rows.swap_remove(at);
            for row in rows.iter_mut().filter(|row| row.0[column]) {
                for (bit, other) in row.0.iter_mut().zip(&pivot.0) {
                    *bit ^= other;
                }
                for (bit, other) in row.1.iter_mut().zip(&pivot.1) {
                    *bit ^= other;
                }
            }
        }
        rows.iter().find_map(|(_, members)| self.try_factor(relations, members))
    }

    fn try_factor(&self, relations: &[Relation<H>], members: &[bool]) -> Option<Num<H>> {
        let mut x = Num::new(self.heap, 1);
        let mut sums = vec![0; self.primes.len() + 1];
        for (relation, _) in relations.iter().zip(members).filter(|(_, member)| **member) {
            x = x.mul(&relation.root).modulo(self.number);
            for (sum, exponent) in sums.iter_mut().zip(&relation.exponents) {
                *sum += u32::from(*exponent);
            }
        }
        let mut y = Num::new(self.heap, 1);
        for (prime, sum) in self.primes.iter().zip(&sums[1..]) {
            let prime = Num::new(self.heap, (*prime).into());
            for _ in 0..sum / 2 {
                y = y.mul(&prime).modulo(self.number);
            }
        }
        let factor = x.add(&y).gcd(self.number);
        let proper = factor.small() != Some(1) && factor.order(self.number) == Ordering::Less;
        proper.then_some(factor)
    }
}

fn is_prime(n: &u16) -> bool {
    (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d))
}

fn power(base: u32, mut exponent: u32, modulus: u32) -> u32 {
    let modulus = u64::from(modulus);
    let (mut base, mut result) = (u64::from(base), 1);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = result * base % modulus;
        }
        base = base * base % modulus;
        exponent /= 2;
    }
    result as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;

    #[test]
    fn products_of_two_primes_are_taken_apart() {
        // Not close to a square: its continued fraction would repeat before it says enough.
        for (p, q) in [(10_007, 45_013), (65_537, 1_000_003), (1_000_000_007, 998_244_353)] {
            let number = Num::new(Libc, p).mul(&Num::new(Libc, q));
            let factor = Search::new(Libc, &number, 30).factor().small().unwrap();
            assert!(factor == p || factor == q, "{p} x {q}: {factor}");
        }
    }

    #[test]
    fn the_factor_base_holds_primes_that_can_divide() {
        let number = Num::new(Libc, 10_007 * 45_013);
        let search = Search::new(Libc, &number, 5);
        assert_eq!(search.primes.len(), 5);
        for prime in &search.primes {
            let rest = 10_007 * 45_013 % u64::from(*prime);
            let prime = u64::from(*prime);
            assert!((0..prime).any(|x| x * x % prime == rest), "{prime}");
        }
    }
}
