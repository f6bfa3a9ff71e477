//! The arena against talc and rlsf, on the benchmarks of Talloc and talc. `cargo bench -p
//! toft-arena --features all -- --help` says what may be chosen.
//!
//! | file | what |
//! |---|---|
//! | `peers.rs` | the allocators, each over one region of memory, without a lock |
//! | `workloads.rs` | the workloads of one thread, from their descriptions |
//! | `threads.rs` | several threads on one allocator |
//!
//! Allocators take turns. Of times the best round counts, of rates too; of shares, which differ
//! with the seed and not with the machine, the mean.

mod peers;
#[cfg(feature = "lock_api")]
mod threads;
mod workloads;

use peers::{Peer, Region};
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
    ("bounded", workloads::bounded),
    ("octiles", workloads::octiles),
    ("aligned", workloads::aligned),
];

/// Those of several threads, which need the feature `lock_api`.
const THREADS: &[(&str, u64)] = &[("threads-1", 1), ("threads-2", 2), ("threads-4", 4)];

/// The peer by which rates of these workloads are also divided.
const BASE: &str = "talc";
const DIVIDED: &[&str] = &["random", "bounded", "threads-1", "threads-2", "threads-4"];

/// The name of each figure of an allocator, and all of its rounds.
type Rounds = Vec<(&'static str, Vec<f64>)>;

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

/// Three figures that say something.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A table as the page has it: a row for each allocator, a column for each figure.
fn table(workload: &str, all: &[(&str, Rounds)]) -> String {
    let longest = all.iter().max_by_key(|(_, rounds)| rounds.len());
    let columns: Vec<_> = longest.iter().flat_map(|(_, all)| all).map(|(name, _)| *name).collect();
    let base = all.iter().find(|(name, _)| *name == BASE && DIVIDED.contains(&workload));
    let row = |(name, own): &(&str, Rounds)| {
        let cell = |place: usize| {
            let Some((figure, rounds)) = own.get(place) else { return "fails".to_owned() };
            let value = best(figure, rounds);
            match base.filter(|(base, _)| base != name).and_then(|(_, base)| base.get(place)) {
                Some((_, base)) => format!("{} ({:.2})", short(value), value / best(figure, base)),
                None => short(value),
            }
        };
        let cells: Vec<_> = (0..columns.len()).map(cell).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    let rule = "---|".repeat(columns.len() + 1);
    let rows: String = all.iter().map(row).collect();
    format!("|  | {} |\n|{rule}\n{rows}", columns.join(" | "))
}

/// Measures a workload, and prints its table.
fn measure(
    workload: &str,
    names: &[&'static str],
    rounds: u64,
    mut run: impl FnMut(&str, u64) -> Figures,
) {
    let mut all: Vec<_> = names.iter().map(|name| (*name, Rounds::new())).collect();
    for round in 0..rounds {
        for (name, own) in &mut all {
            // An allocator that fails, or takes too long for fixed work, has no figures.
            let figures = catch_unwind(AssertUnwindSafe(|| run(name, round))).unwrap_or_default();
            for (place, (figure, value)) in figures.into_iter().enumerate() {
                if own.len() == place {
                    own.push((figure, Vec::new()));
                }
                own[place].1.push(value);
            }
        }
    }
    println!("\n{workload}\n{}", table(workload, &all));
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
        return;
    }
    let rounds = number("rounds=", 5);
    let named = |name: &str, all: &[&str]| {
        let any = arguments.iter().any(|word| all.contains(&word.as_str()));
        !any || arguments.iter().any(|word| word == name)
    };
    let both = [&all_workloads[..], &all_threads].concat();
    let region = Region::new((number("region=", 256) as usize) << 20);
    let chosen: Vec<_> = all_peers.iter().copied().filter(|name| named(name, &all_peers)).collect();
    for &(workload, run) in WORKLOADS.iter().filter(|(name, _)| named(name, &both)) {
        measure(workload, &chosen, rounds, |name, round| {
            let (_, make) = peers::PEERS.iter().find(|(known, _)| *known == name).unwrap();
            run(&mut |region| make(region), &region, round)
        });
    }
    #[cfg(feature = "lock_api")]
    for &(workload, count) in THREADS.iter().filter(|(name, _)| named(name, &both)) {
        let own = |name: &&str| chosen.contains(&name.strip_prefix("striped ").unwrap_or(name));
        let chosen: Vec<_> = threads::NAMES.iter().copied().filter(own).collect();
        measure(workload, &chosen, rounds, |name, round| {
            threads::random(name, &region, round, count)
        });
    }
}
