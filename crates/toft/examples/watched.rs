//! The target of `cargo xtask experiment look`: has as many GiB of live blocks as its first word
//! says, each page written to, and measures how long its own calls take, with and without another
//! process that reads it.
//!
//! ```text
//! watched GIB      prints `ready BYTES BLOCKS`; then for each line `SECONDS` that it reads:
//!                  `p50 p99 p99.9 max` in nanoseconds, of pairs of malloc and free, and how many there were
//! ```

use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

/// Blocks that come and go.
const WORKING: usize = 10_000;
/// Pairs between two readings of the clock for the end.
const PAIRS: usize = 1000;
/// Durations are counted by their nanoseconds up to so many, and above by powers.
const EXACT: usize = 1 << 16;

/// Throws that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// A block, written to.
#[inline(never)]
fn block(bytes: usize) -> Box<[u8]> {
    vec![1u8; bytes].into_boxed_slice()
}

/// Small ones, as programs have most.
#[inline(never)]
fn node(dice: &mut Dice) -> Box<[u8]> {
    block(32 + dice.below(224))
}

/// Of some kilobytes.
#[inline(never)]
fn buffer(dice: &mut Dice) -> Box<[u8]> {
    block(1024 + dice.below(15 << 10))
}

/// Large ones.
#[inline(never)]
fn table(dice: &mut Dice) -> Box<[u8]> {
    block((256 << 10) + dice.below(1 << 20))
}

/// Counts durations.
struct Durations {
    exact: Vec<u64>,
    longer: Vec<u64>,
    count: u64,
}

impl Durations {
    fn add(&mut self, time: Duration) {
        let nanoseconds = time.as_nanos() as usize;
        match self.exact.get_mut(nanoseconds) {
            Some(count) => *count += 1,
            None => self.longer.push(nanoseconds as u64),
        }
        self.count += 1;
    }

    /// So many of a thousand pairs took no longer.
    fn of_thousand(&mut self, part: u64) -> u64 {
        let rank = self.count * part / 1000;
        let mut seen = 0;
        for (nanoseconds, count) in self.exact.iter().enumerate() {
            seen += count;
            if seen > rank {
                return nanoseconds as u64;
            }
        }
        self.longer.sort_unstable();
        let place = (rank - seen) as usize;
        self.longer.get(place).or(self.longer.last()).copied().unwrap_or(0)
    }
}

fn measure(time: Duration, working: &mut [Vec<u8>], dice: &mut Dice) -> Durations {
    let exact = vec![0; EXACT];
    let mut durations = Durations { exact, longer: Vec::with_capacity(1 << 16), count: 0 };
    let end = Instant::now() + time;
    while Instant::now() < end {
        for _ in 0..PAIRS {
            let (place, size) = (dice.below(WORKING), 16 + dice.below(1008));
            let start = Instant::now();
            let new = Vec::with_capacity(black_box(size));
            drop(black_box(std::mem::replace(&mut working[place], new)));
            durations.add(start.elapsed());
        }
    }
    durations
}

fn main() {
    let gib: f64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let goal = (gib * f64::from(1 << 30)) as usize;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut kept, mut bytes) = (Vec::new(), 0);
    while bytes < goal {
        // By bytes: two parts nodes, five parts buffers, three parts tables.
        let one = match dice.below(1_000_000) {
            0..9_000 => buffer(&mut dice),
            9_000..9_060 => table(&mut dice),
            _ => node(&mut dice),
        };
        bytes += one.len();
        kept.push(one);
    }
    let mut working: Vec<Vec<u8>> = (0..WORKING).map(|_| Vec::with_capacity(100)).collect();
    println!("ready {bytes} {}", kept.len());
    for line in std::io::stdin().lock().lines() {
        let Ok(seconds) = line.unwrap_or_default().trim().parse() else { break };
        let mut found = measure(Duration::from_secs_f64(seconds), &mut working, &mut dice);
        let exact = found.exact.iter().rposition(|&count| count != 0).unwrap_or(0) as u64;
        let longest = found.longer.iter().max().copied().unwrap_or(exact);
        let parts = [500, 990, 999].map(|part| found.of_thousand(part));
        println!("{} {} {} {longest} {}", parts[0], parts[1], parts[2], found.count);
        let _ = std::io::stdout().flush();
    }
    black_box(&kept);
}
