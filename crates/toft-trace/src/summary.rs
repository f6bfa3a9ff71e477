//! What a trace amounts to.

use crate::event::Action;
use crate::read::Trace;
use std::collections::{BTreeMap, HashMap};

/// The figures of a trace. Lifetimes are counted in events, since a trace knows no time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Allocations, resizes and frees.
    pub events: u64,
    /// Blocks that were had.
    pub allocations: u64,
    /// Of them, those that were to be zero.
    pub zeroed: u64,
    /// Of them, those with an alignment.
    pub aligned: u64,
    /// Blocks that were given back.
    pub frees: u64,
    /// Of them, those that another thread had allocated.
    pub frees_by_others: u64,
    /// Blocks that were resized.
    pub resizes: u64,
    /// Events about objects that the trace does not know, or does not know any more.
    pub strays: u64,
    /// Allocations and resizes of call sites that the recorder had no number for.
    pub siteless: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes that were asked for, resizes included.
    pub bytes: u64,
    /// The most bytes that were live.
    pub peak_bytes: u64,
    /// The most blocks that were live.
    pub peak_blocks: u64,
    /// Bytes that were never given back.
    pub left_bytes: u64,
    /// Blocks that were never given back.
    pub left_blocks: u64,
    /// Allocations by size. The key is the largest size of the class: 0, 16, 32, 64 and so on.
    pub sizes: BTreeMap<u64, u64>,
    /// Blocks by the number of events that they lived for: the key is 10, 100, 1000 and so on, and
    /// counts those that lived shorter than that.
    pub lifetimes: BTreeMap<u64, u64>,
    /// The call sites, those with the most allocations first.
    pub sites: Vec<Site>,
}

/// What came from one call site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The return address; 0 when it is not known.
    pub address: u64,
    /// `module+0x1234`, or the address when the trace does not say whose it was.
    pub name: String,
    /// Allocations.
    pub allocations: u64,
    /// Bytes of them.
    pub bytes: u64,
}

struct Live {
    size: u64,
    thread: usize,
}

impl Summary {
    /// Goes through all events in the order of the process.
    #[must_use]
    pub fn of(trace: &Trace) -> Summary {
        let mut order: Vec<(u64, usize, Action)> = Vec::new();
        for (index, thread) in trace.threads.iter().enumerate() {
            order.extend(thread.events.iter().map(|event| (event.sequence, index, event.action)));
        }
        order.sort_by_key(|&(sequence, ..)| sequence);
        let mut all = Summary { threads: trace.threads.len() as u64, ..Summary::default() };
        let mut live: HashMap<u64, Live> = HashMap::new();
        let mut live_bytes = 0u64;
        let mut sites: HashMap<u32, (u64, u64)> = HashMap::new();
        for (sequence, thread, action) in order {
            match action {
                Action::Allocate { size, align, site, zeroed } => {
                    all.allocations += 1;
                    all.siteless += u64::from(site == 0);
                    all.zeroed += u64::from(zeroed);
                    all.aligned += u64::from(align > 1);
                    all.bytes = all.bytes.saturating_add(size);
                    *all.sizes.entry(size_class(size)).or_default() += 1;
                    let of_site = sites.entry(site).or_default();
                    *of_site = (of_site.0 + 1, of_site.1.saturating_add(size));
                    live_bytes = live_bytes.saturating_add(size);
                    live.insert(sequence, Live { size, thread });
                }
                Action::Free { object } => {
                    all.frees += 1;
                    match live.remove(&object) {
                        Some(block) => {
                            live_bytes = live_bytes.saturating_sub(block.size);
                            all.frees_by_others += u64::from(block.thread != thread);
                            *all.lifetimes.entry(life_class(sequence - object)).or_default() += 1;
                        }
                        None => all.strays += 1,
                    }
                }
                Action::Resize { object, size, site } => {
                    all.resizes += 1;
                    all.siteless += u64::from(site == 0);
                    all.bytes = all.bytes.saturating_add(size);
                    match live.get_mut(&object) {
                        Some(block) => {
                            live_bytes = live_bytes.saturating_sub(block.size).saturating_add(size);
                            block.size = size;
                        }
                        None => all.strays += 1,
                    }
                }
                Action::Site { .. } | Action::Start | Action::End => {}
            }
            all.peak_bytes = all.peak_bytes.max(live_bytes);
            all.peak_blocks = all.peak_blocks.max(live.len() as u64);
        }
        all.events = all.allocations + all.frees + all.resizes;
        all.left_blocks = live.len() as u64;
        all.left_bytes = live_bytes;
        all.sites = named(trace, &sites);
        all
    }
}

fn size_class(size: u64) -> u64 {
    match size {
        0 => 0,
        size => size.max(16).checked_next_power_of_two().unwrap_or(u64::MAX),
    }
}

fn life_class(events: u64) -> u64 {
    let mut class = 10u64;
    while class <= events {
        class = class.saturating_mul(10);
        if class == u64::MAX {
            break;
        }
    }
    class
}

fn named(trace: &Trace, sites: &HashMap<u32, (u64, u64)>) -> Vec<Site> {
    let mut list: Vec<Site> = sites
        .iter()
        .map(|(number, &(allocations, bytes))| {
            let address = trace.sites.get(number).copied().unwrap_or(0);
            Site { address, name: place(&trace.maps, address), allocations, bytes }
        })
        .collect();
    list.sort_by(|a, b| b.allocations.cmp(&a.allocations).then(a.address.cmp(&b.address)));
    list
}

/// The file that was mapped at an address, and where in the file.
fn place(maps: &str, address: u64) -> String {
    let found = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        if !(start..end).contains(&address) {
            return None;
        }
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        let file = words.nth(2)?.rsplit('/').next()?;
        Some(format!("{file}+{:#x}", offset.wrapping_add(address - start)))
    });
    found.unwrap_or_else(|| match address {
        0 => "unknown".into(),
        address => format!("{address:#x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;

    #[test]
    fn figures_follow_the_order_of_the_process_over_threads() {
        let mut writer = Writer::new(Vec::new(), 1).unwrap();
        let mut event = |thread, action| writer.event(thread, action).unwrap();
        event(0, Action::Site { site: 1, address: 0x5010 });
        let take = |size, align, zeroed| Action::Allocate { size, align, site: 1, zeroed };
        let a = event(0, take(100, 1, false));
        let b = event(1, take(17, 64, true));
        event(1, Action::Resize { object: a, size: 1000, site: 0 });
        event(1, Action::Free { object: a });
        event(0, take(0, 1, false));
        event(0, Action::Free { object: a });
        event(1, Action::Free { object: b });
        writer.maps("5000-6000 r-xp 00002000 08:01 7   /usr/lib/libx.so\n").unwrap();
        let all = Summary::of(&Trace::read(&writer.finish().unwrap()).unwrap());
        assert_eq!((all.events, all.allocations, all.frees, all.resizes), (7, 3, 3, 1));
        assert_eq!((all.strays, all.frees_by_others, all.zeroed, all.aligned), (1, 1, 1, 1));
        assert_eq!((all.bytes, all.peak_bytes, all.peak_blocks), (1117, 1017, 2));
        assert_eq!((all.left_blocks, all.left_bytes, all.threads), (1, 0, 2));
        assert_eq!(all.sizes, BTreeMap::from([(0, 1), (32, 1), (128, 1)]));
        assert_eq!(all.lifetimes, BTreeMap::from([(10, 2)]));
        assert_eq!(all.sites.len(), 1);
        assert_eq!((all.sites[0].name.as_str(), all.sites[0].bytes), ("libx.so+0x2010", 117));
    }

    #[test]
    fn classes_at_their_borders() {
        assert_eq!([0, 1, 16, 17, 1024, u64::MAX].map(size_class), [0, 16, 16, 32, 1024, u64::MAX]);
        assert_eq!([1, 9, 10, 99, 100].map(life_class), [10, 10, 100, 100, 1000]);
        assert_eq!(life_class(u64::MAX), u64::MAX);
    }

    #[test]
    fn an_address_in_no_mapping_stands_for_itself() {
        assert_eq!(place("", 0x77), "0x77");
        assert_eq!(place("nonsense\n1-", 0), "unknown");
    }
}
