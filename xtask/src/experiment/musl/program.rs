//! A program with threads, on the allocator of a feature: `musl WORKLOAD THREADS`. It prints
//! milliseconds and the peak of resident memory in KiB.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

#[cfg(feature = "toft")]
#[global_allocator]
static GLOBAL: toft::Toft = toft::Toft;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % bound
    }
}

fn block(random: &mut Random) -> Vec<u8> {
    let mut block = Vec::with_capacity(16 + random.below(1000));
    block.push(1);
    block
}

/// Each thread frees one of its blocks at random and allocates another.
fn replace(random: &mut Random) {
    let mut blocks: Vec<_> = (0..1000).map(|_| block(random)).collect();
    for _ in 0..2_000_000 {
        let at = random.below(blocks.len());
        blocks[at] = block(random);
    }
}

/// Each thread frees what its neighbour has allocated.
fn hand_on(random: &mut Random, to: &Sender<Vec<Vec<u8>>>, from: &Receiver<Vec<Vec<u8>>>) {
    for _ in 0..2_000 {
        let batch = (0..200).map(|_| block(random)).collect();
        to.send(batch).unwrap();
        drop(from.recv().unwrap());
    }
}

/// Maps of strings, as programs have them.
fn maps(random: &mut Random) {
    for _ in 0..10 {
        let mut map = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            let key = random.below(30_000).to_string();
            map.entry(key).or_insert_with(Vec::new).push(format!("value {}", random.below(1000)));
        }
        let keys: Vec<String> = map.keys().step_by(2).cloned().collect();
        keys.iter().for_each(|key| drop(map.remove(key)));
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let threads: usize = words[2].parse().unwrap();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for (number, from) in receivers.into_iter().enumerate() {
            let (workload, to) = (&words[1], senders[(number + 1) % threads].clone());
            scope.spawn(move || {
                let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ number as u64);
                match workload.as_str() {
                    "replace" => replace(&mut random),
                    "hand-on" => hand_on(&mut random, &to, &from),
                    _ => maps(&mut random),
                }
            });
        }
    });
    let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("{milliseconds} {}", peak.trim().trim_end_matches(" kB"));
}
