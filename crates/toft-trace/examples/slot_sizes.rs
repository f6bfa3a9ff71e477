//! What slots as large as each call site needs would save of a recorded program, where it has most:
//! the figures of decision 0035. `cargo run --release -p toft-trace --example slot_sizes --
//! TRACE...`
//!
//! A call site's blocks of one class are in slots of the class's size. If all that it ever asks for
//! is smaller, separate slabs could have smaller slots. That is what is *saved*. Of it goes, for
//! each such pair of site and class, what a slab that is shared less has unfilled: a descriptor of
//! 512 bytes, and half a page, or half a slot where that is larger. Pairs that lose by it keep the
//! class's slots.

use std::collections::HashMap;
use std::error::Error;
use toft_core::slab::SizeClass;
use toft_trace::{Action, Trace};

/// Bytes that a slot's size may be a multiple of.
const STEP: u64 = 16;
const DESCRIPTOR: u64 = 512;
const PAGE: u64 = 4096;

/// A call site's blocks of one class.
#[derive(Clone, Copy, Default)]
struct Pair {
    live: u64,
    live_bytes: u64,
    /// The largest size of all that it ever had.
    largest: u64,
    /// What was live where the whole program had most.
    at_peak: (u64, u64),
}

#[derive(Default)]
struct Replay {
    pairs: HashMap<(u32, usize), Pair>,
    blocks: HashMap<u64, (u64, u32)>,
    large: u64,
    slots: u64,
    peak: u64,
    large_at_peak: u64,
    /// Pairs that have changed since the last peak.
    changed: Vec<(u32, usize)>,
}

impl Replay {
    fn add(&mut self, size: u64, site: u32, more: bool) {
        let count = |n: u64, by: u64| if more { n + by } else { n - by };
        let Some(class) = SizeClass::of(size as usize) else {
            self.large = count(self.large, size.next_multiple_of(PAGE));
            return;
        };
        self.slots = count(self.slots, class.size() as u64);
        let pair = self.pairs.entry((site, class.index())).or_default();
        pair.live = count(pair.live, 1);
        pair.live_bytes = count(pair.live_bytes, size);
        pair.largest = pair.largest.max(size);
        self.changed.push((site, class.index()));
    }

    fn look(&mut self) {
        // A percent is exact enough, and saves going over all of them each time that it grows.
        if self.slots + self.large <= self.peak + self.peak / 100 {
            return;
        }
        (self.peak, self.large_at_peak) = (self.slots + self.large, self.large);
        for key in self.changed.drain(..) {
            if let Some(pair) = self.pairs.get_mut(&key) {
                pair.at_peak = (pair.live, pair.live_bytes);
            }
        }
    }
}

fn replay(trace: &Trace) -> Replay {
    let mut order: Vec<_> = trace.threads.iter().flat_map(|thread| &thread.events).collect();
    order.sort_by_key(|event| event.sequence);
    let mut all = Replay::default();
    for event in order {
        match event.action {
            Action::Allocate { size, site, .. } => {
                all.blocks.insert(event.sequence, (size, site));
                all.add(size, site, true);
                all.look();
            }
            Action::Free { object } => {
                if let Some((size, site)) = all.blocks.remove(&object) {
                    all.add(size, site, false);
                }
            }
            Action::Resize { object, size, site } => {
                if let Some((old, owner)) = all.blocks.insert(object, (size, site)) {
                    all.add(old, owner, false);
                    all.add(size, site, true);
                    all.look();
                }
            }
            Action::Site { .. } | Action::Start | Action::End => {}
        }
    }
    all
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "| trace | peak KB | of it large | asked for, of slots | slots | saved | lost again | net |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for name in std::env::args_os().skip(1) {
        let trace = Trace::read(&std::fs::read(&name)?)?;
        let all = replay(&trace);
        let (mut asked, mut slots, mut saved, mut lost) = (0, 0, 0, 0);
        for ((_, class), pair) in &all.pairs {
            let (count, bytes) = pair.at_peak;
            let slot = SizeClass::size_of(*class) as u64;
            asked += bytes;
            slots += count * slot;
            let own = pair.largest.next_multiple_of(STEP).max(STEP);
            let (gain, cost) = (count * (slot - own), DESCRIPTOR + slot.max(PAGE) / 2);
            if gain > cost {
                saved += gain;
                lost += cost;
            }
        }
        let percent = |part: u64| 100.0 * part as f64 / all.peak.max(1) as f64;
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {:.1} % |",
            std::path::Path::new(&name).file_stem().unwrap_or_default().display(),
            all.peak >> 10,
            all.large_at_peak >> 10,
            asked >> 10,
            slots >> 10,
            saved >> 10,
            lost >> 10,
            percent(saved - lost)
        );
    }
    Ok(())
}
