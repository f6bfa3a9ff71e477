//! A short run of the fuzz targets on stable Rust, without cargo-fuzz: random bytes, and the corpus
//! with random changes, through the same entries.
//!
//! `TOFT_FUZZ_SECONDS` sets how long each target runs (10 without), `TOFT_FUZZ_SEED` where it
//! begins. What fails is printed with its bytes, which are a corpus file for `cargo fuzz run core`.

use crate::common::ops::random_bytes;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("{}", folder.display()));
    let mut inputs: Vec<_> =
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "there is nothing to begin with in {}", folder.display());
    inputs
}

/// The corpus as it is, then changed inputs until the time is over.
fn run(target: &str, entry: impl Fn(&[u8])) {
    let run_one = |input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(input))) {
            println!("target {target} fails on {} bytes: {input:02x?}", input.len());
            resume_unwind(panic);
        }
    };
    let inputs = corpus(target);
    for input in &inputs {
        run_one(input);
    }
    let end = Instant::now() + Duration::from_secs(number("TOFT_FUZZ_SECONDS", 10));
    let mut seed = number("TOFT_FUZZ_SEED", 1);
    let mut rounds = 0u64;
    while Instant::now() < end || rounds < 50 {
        let noise = random_bytes(seed, 260);
        let mut input = match seed % 3 {
            0 => noise[16..16 + usize::from(noise[0]) * 8].to_vec(),
            _ => inputs[noise[1] as usize % inputs.len()].clone(),
        };
        for change in noise[16..].as_chunks::<4>().0.iter().take(noise[2] as usize % 24) {
            let [place, what, value, more] = *change;
            let at = (usize::from(place) << 8 | usize::from(more)) % (input.len() + 1);
            match what % 4 {
                0 => input.insert(at, value),
                1 if at < input.len() => drop(input.remove(at)),
                2 if at < input.len() => input[at] ^= 1 << (value % 8),
                _ if at < input.len() => input[at] = value,
                _ => input.push(value),
            }
        }
        run_one(&input);
        (seed, rounds) = (seed.wrapping_add(1), rounds + 1);
    }
    println!("target {target}: {rounds} inputs");
}

#[test]
fn core() {
    run("core", crate::common::fuzz::core);
}

#[test]
fn options() {
    run("options", crate::common::fuzz::options);
}
