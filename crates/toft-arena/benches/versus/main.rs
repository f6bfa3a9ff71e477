//! The arena against other allocators for memory that the program hands over, on the benchmarks of
//! Talloc and talc. `cargo bench -p toft-arena --features all -- --help` says what may be chosen,
//! and `cargo xtask experiment arena` runs all and writes docs/experiments/arena.md.
//!
//! | file | what |
//! |---|---|
//! | `adapters.rs` | the allocators behind one trait, without a lock |
//! | `peers.rs` | each over one region of memory |
//! | `workloads.rs` | the workloads of one thread, from their descriptions |
//! | `threads.rs` | several threads on one allocator |
//!
//! Allocators take turns. Of times the best round counts, of rates too; of shares, which differ
//! with the seed and not with the machine, the mean.

mod adapters;
mod peers;
#[cfg(feature = "lock_api")]
mod threads;
mod workloads;

use peers::{Peer, Region};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What one workload says of one peer: names and figures.
pub type Figures = Vec<(&'static str, f64)>;

type Run = fn(&mut dyn FnMut(&Region) -> Box<dyn Peer>, &Region, u64) -> Figures;

const WORKLOADS: &[(&str, Run)] = &[
    ("random", workloads::random_actions),
    ("exhaustion", workloads::heap_exhaustion),
    ("efficiency", workloads::efficiency),
    ("refills", workloads::refills),
    ("spans", workloads::spans),
    ("octiles", workloads::octiles),
    ("aligned", workloads::aligned),
    ("bursts", workloads::bursts),
];

/// Those of several threads, which need the feature `lock_api`.
const THREADS: &[(&str, u64)] = &[("threads-1", 1), ("threads-2", 2), ("threads-4", 4)];

/// All rounds of each figure of each allocator.
type Table = BTreeMap<(usize, usize), (&'static str, Vec<f64>)>;

/// Of what is less better, the least; of rates the most; of shares the mean.
fn best(name: &str, rounds: &[f64]) -> f64 {
    if name.starts_with('%') {
        rounds.iter().sum::<f64>() / rounds.len() as f64
    } else if name.ends_with("ns") || name.ends_with("ticks") {
        rounds.iter().copied().fold(f64::INFINITY, f64::min)
    } else {
        rounds.iter().copied().fold(0.0, f64::max)
    }
}

fn show(workload: &str, names: &[&str], table: &Table) -> Value {
    let places: Vec<_> =
        table.iter().filter(|((n, _), _)| *n == 0).map(|(_, (name, _))| *name).collect();
    println!("\n{workload}");
    print!("{:24}", "");
    places.iter().for_each(|name| print!("{name:>16}"));
    println!();
    let mut all = Map::new();
    for (number, name) in names.iter().enumerate() {
        print!("{name:24}");
        let mut row = Map::new();
        for place in 0..places.len() {
            match table.get(&(number, place)) {
                Some((figure, rounds)) => {
                    print!("{:>16.2}", best(figure, rounds));
                    let seen = json!({ "best": best(figure, rounds), "rounds": rounds });
                    row.insert((*figure).into(), seen);
                }
                None => print!("{:>16}", "fails"),
            }
        }
        println!();
        all.insert((*name).into(), row.into());
    }
    all.into()
}

fn rounds_of(
    workload: &str,
    names: &[&str],
    rounds: u64,
    mut run: impl FnMut(&str, u64) -> Figures,
) -> Value {
    let mut table = Table::new();
    for round in 0..rounds {
        for (number, name) in names.iter().enumerate() {
            // An allocator that fails, or takes too long for fixed work, has no figures.
            let figures = catch_unwind(AssertUnwindSafe(|| run(name, round))).unwrap_or_default();
            for (place, (name, figure)) in figures.into_iter().enumerate() {
                table.entry((number, place)).or_insert((name, Vec::new())).1.push(figure);
            }
        }
    }
    show(workload, names, &table)
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let text = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
    let number = |name: &str, default: u64| {
        text(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}N")))
    };
    let all_peers: Vec<_> = peers::PEERS.iter().map(|&(name, _)| name).collect();
    let all_workloads: Vec<_> = WORKLOADS.iter().map(|&(name, _)| name).collect();
    let all_threads: Vec<_> = THREADS.iter().map(|&(name, _)| name).collect();
    if arguments.iter().any(|word| word == "--help") {
        println!("workloads: {}, {}", all_workloads.join(", "), all_threads.join(", "));
        println!("allocators: {}", all_peers.join(", "));
        println!("rounds=N: how often each is run (5)");
        println!("actions=N max=N: of random, how many thousands, and which size alone");
        println!("fills=N: of refills, how often the heap is filled again (299)");
        println!("region=N: MiB of memory (256)");
        println!("json=FILE: all figures of all rounds");
        return;
    }
    let rounds = number("rounds=", 5);
    let named = |name: &str, all: &[&str]| {
        let any = arguments.iter().any(|word| all.contains(&word.as_str()));
        !any || arguments.iter().any(|word| word == name)
    };
    let both = [&all_workloads[..], &all_threads].concat();
    let region = Region::new((number("region=", 256) as usize) << 20);
    let mut figures = Map::new();
    let chosen: Vec<_> = all_peers.iter().copied().filter(|name| named(name, &all_peers)).collect();
    for &(workload, run) in WORKLOADS.iter().filter(|(name, _)| named(name, &both)) {
        let value = rounds_of(workload, &chosen, rounds, |name, round| {
            let (_, make) = peers::PEERS.iter().find(|(known, _)| *known == name).unwrap();
            run(&mut |region| make(region), &region, round)
        });
        figures.insert(workload.into(), value);
    }
    #[cfg(feature = "lock_api")]
    for &(workload, count) in THREADS.iter().filter(|(name, _)| named(name, &both)) {
        let chosen: Vec<_> = threads::NAMES
            .iter()
            .copied()
            .filter(|name| {
                let own = name.strip_prefix("striped ").unwrap_or(name);
                chosen.contains(&own)
            })
            .collect();
        let value = rounds_of(workload, &chosen, rounds, |name, round| {
            threads::random(name, &region, round, count)
        });
        figures.insert(workload.into(), value);
    }
    if let Some(path) = text("json=") {
        let text = serde_json::to_string(&Value::from(figures)).unwrap();
        std::fs::write(path, text + "\n").unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
