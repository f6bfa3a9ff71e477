//! The arena against other allocators for memory that the program hands over, on the benchmarks of
//! Talloc and talc. `cargo bench -p toft-arena -- --help` says what may be chosen.
//!
//! Each figure is the best of several rounds, in which the allocators take turns.

mod peers;
mod workloads;

use peers::{Peer, Region};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What one workload says of one peer: names and figures.
pub type Figures = Vec<(&'static str, f64)>;

type Run = fn(&mut dyn FnMut(&Region) -> Box<dyn Peer>, &Region, u64) -> Figures;

const WORKLOADS: &[(&str, Run)] = &[
    ("random", workloads::random_actions),
    ("exhaustion", workloads::heap_exhaustion),
    ("efficiency", workloads::efficiency),
    ("octiles", workloads::octiles),
    ("aligned", workloads::aligned),
    ("bursts", workloads::bursts),
];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if arguments.iter().any(|word| word == "--help") {
        let names = |all: &mut dyn Iterator<Item = &str>| all.collect::<Vec<_>>().join(", ");
        println!("workloads: {}", names(&mut WORKLOADS.iter().map(|&(name, _)| name)));
        println!("allocators: {}", names(&mut peers::PEERS.iter().map(|&(name, _)| name)));
        println!("rounds=N: how often each is run (5)");
        println!("actions=N max=N: of random, how many thousands, and which size alone");
        println!("region=N: MiB of memory (256)");
        return;
    }
    let rounds = arguments.iter().find_map(|word| word.strip_prefix("rounds="));
    let rounds: u64 = rounds.map_or(5, |number| number.parse().expect("rounds=N"));
    let named = |name: &str, all: &[&str]| {
        let any = arguments.iter().any(|word| all.contains(&word.as_str()));
        !any || arguments.iter().any(|word| word == name)
    };
    let all_workloads: Vec<_> = WORKLOADS.iter().map(|&(name, _)| name).collect();
    let all_peers: Vec<_> = peers::PEERS.iter().map(|&(name, _)| name).collect();
    let megabytes = arguments.iter().find_map(|word| word.strip_prefix("region="));
    let megabytes: usize = megabytes.map_or(256, |number| number.parse().expect("region=N"));
    let region = Region::new(megabytes << 20);
    for &(workload, run) in WORKLOADS.iter().filter(|(name, _)| named(name, &all_workloads)) {
        let chosen: Vec<_> =
            peers::PEERS.iter().filter(|(name, _)| named(name, &all_peers)).collect();
        let mut best: BTreeMap<(usize, usize), (&str, f64)> = BTreeMap::new();
        for round in 0..rounds {
            for (number, &&(_, make)) in chosen.iter().enumerate() {
                // An allocator that fails has no figures.
                let figures = catch_unwind(AssertUnwindSafe(|| {
                    run(&mut |region| make(region), &region, round)
                }))
                .unwrap_or_default();
                for (place, (name, figure)) in figures.into_iter().enumerate() {
                    let entry = best.entry((number, place)).or_insert((name, figure));
                    // Of times the least, of rates the most; of shares, which differ with the seed and not with
                    // the machine, the mean.
                    let less = name.ends_with("ns") || name.ends_with("ticks");
                    entry.1 = match name {
                        _ if name.starts_with('%') => {
                            entry.1 + (figure - entry.1) / (round + 1) as f64
                        }
                        _ if less => entry.1.min(figure),
                        _ => entry.1.max(figure),
                    };
                }
            }
        }
        let places: Vec<_> =
            best.iter().filter(|((n, _), _)| *n == 0).map(|(_, &(name, _))| name).collect();
        println!("\n{workload}");
        print!("{:24}", "");
        places.iter().for_each(|name| print!("{name:>16}"));
        println!();
        for (number, &&(name, _)) in chosen.iter().enumerate() {
            print!("{name:24}");
            for place in 0..places.len() {
                match best.get(&(number, place)) {
                    Some((_, figure)) => print!("{figure:>16.2}"),
                    None => print!("{:>16}", "fails"),
                }
            }
            println!();
        }
    }
}
