//! A short run of the fuzz target on stable Rust, without cargo-fuzz: random bytes, and the corpus
//! with random changes, through the same entry.
//!
//! `TOFT_FUZZ_SECONDS` sets how long it runs (10 without), `TOFT_FUZZ_SEED` where it begins. What
//! fails is printed with its bytes, which are a corpus file for `cargo fuzz run arena`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 32) as u8).collect()
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/arena");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("{}", folder.display()));
    let mut inputs: Vec<_> =
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "there is nothing to begin with in {}", folder.display());
    inputs
}

#[test]
fn arena() {
    let run = |input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| crate::common::fuzz::arena(input))) {
            println!("target arena fails on {} bytes: {input:02x?}", input.len());
            resume_unwind(panic);
        }
    };
    let inputs = corpus();
    inputs.iter().for_each(|input| run(input));
    let mut random = Random(number("TOFT_FUZZ_SEED", 1) | 1 << 40);
    let end = Instant::now() + Duration::from_secs(number("TOFT_FUZZ_SECONDS", 10));
    let mut rounds = 0;
    while Instant::now() < end || rounds < 50 {
        let length = 2 + 8 * random.below(200);
        let mut input = match random.below(3) {
            0 => random.bytes(length),
            _ => inputs[random.below(inputs.len())].clone(),
        };
        for _ in 0..random.below(24) {
            let at = random.below(input.len() + 1);
            let value = random.next() as u8;
            match random.below(4) {
                // A whole operation, so that those behind it stay what they are.
                0 => drop(input.splice(at..at, random.bytes(8))),
                1 => drop(input.drain(at..(at + 8).min(input.len()))),
                2 if at < input.len() => input[at] ^= 1 << (value % 8),
                _ if at < input.len() => input[at] = value,
                _ => input.push(value),
            }
        }
        run(&input);
        rounds += 1;
    }
    println!("target arena: {rounds} inputs");
}
