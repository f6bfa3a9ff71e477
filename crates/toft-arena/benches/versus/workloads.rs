//! The workloads, from their descriptions.

use super::Figures;
use super::peers::{Peer, Region};
use std::alloc::Layout;
use std::time::{Duration, Instant};

/// How long a workload of fixed work may take.
const PATIENCE: Duration = Duration::from_secs(3);

pub type Make<'a> = &'a mut dyn FnMut(&Region) -> Box<dyn Peer>;

/// A generator of which each round has its own seed.
pub struct Rng(u64);

impl Rng {
    pub fn new(round: u64) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 ^ (round + 1).wrapping_mul(0xD134_2543_DE82_EF95))
    }
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    /// From `low` up to and without `high`.
    #[inline]
    fn within(&mut self, low: usize, high: usize) -> usize {
        low + ((u128::from(self.next()) * (high - low) as u128) >> 64) as usize
    }
    /// `least` in three of four draws, then four times rarer with each doubling.
    #[inline]
    fn align(&mut self, least: usize) -> usize {
        least << (((self.next() >> 48) as u16).trailing_zeros() / 2)
    }
}

#[derive(Clone, Copy)]
pub struct Live(*mut u8, Layout);

pub fn clear(peer: &mut dyn Peer, live: &mut Vec<Live>) {
    for Live(block, layout) in live.drain(..) {
        peer.free(block, layout);
    }
}

fn touch(block: *mut u8, size: usize) {
    // SAFETY: a live block of that many bytes, which are not none.
    unsafe {
        block.write_volatile(1);
        block.add(size - 1).write_volatile(1);
    }
}

/// A number from the command line: `name=N`.
fn number(name: &str, default: u64) -> u64 {
    let named = |word: String| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    std::env::args().find_map(named).unwrap_or(default)
}

/// Three allocations, three frees and one resizing of seven actions, around 300 live blocks; sizes
/// from 4 up to a bound that is drawn up to a maximum. Millions a second for each maximum; then the
/// same of Talloc's: one third each, sizes of 100 to 1000, resized to 100 to 10 000.
pub fn random_actions(make: Make, region: &Region, round: u64) -> Figures {
    let mut figures = Vec::new();
    let only = number("max", 0) as usize;
    for (name, max) in MAXIMA.into_iter().filter(|&(_, max)| only == 0 || only == max) {
        let mut peer = make(&region.first(128 << 20));
        let (mut live, mut rng) = (Vec::new(), Rng::new(round));
        figures.push((name, talcs_actions(&mut *peer, &mut live, &mut rng, max)));
    }
    if only != 0 {
        return figures;
    }
    let mut peer = make(&region.first(128 << 20));
    let (mut live, mut rng) = (Vec::new(), Rng::new(round));
    let mut size = |rng: &mut Rng| rng.within(100, 1001);
    figures.push((
        "Talloc's",
        actions(&mut *peer, &mut live, &mut rng, &mut size, 10_000, [1, 1, 1], 0),
    ));
    figures
}

/// The largest sizes, with their names.
pub const MAXIMA: [(&str, usize); 5] =
    [("200", 200), ("1000", 1000), ("3000", 3000), ("10000", 10_000), ("30000", 30_000)];

/// The actions of talc's benchmark with sizes up to a maximum; millions a second.
pub fn talcs_actions(peer: &mut dyn Peer, live: &mut Vec<Live>, rng: &mut Rng, max: usize) -> f64 {
    let mut size = move |rng: &mut Rng| {
        let bound = rng.within(16, max);
        rng.within(4, bound)
    };
    actions(peer, live, rng, &mut size, 3 * max, [3, 3, 1], 300)
}

fn actions(
    peer: &mut dyn Peer,
    live: &mut Vec<Live>,
    rng: &mut Rng,
    size: &mut dyn FnMut(&mut Rng) -> usize,
    resize_to: usize,
    odds: [usize; 3],
    around: usize,
) -> f64 {
    let least = if around == 0 { 100 } else { 1 };
    let mut allocate = |peer: &mut dyn Peer, live: &mut Vec<Live>, rng: &mut Rng| {
        let layout = Layout::from_size_align(size(rng), rng.align(8)).unwrap();
        let block = peer.allocate(layout);
        if block.is_null() {
            return 0;
        }
        touch(block, layout.size());
        live.push(Live(block, layout));
        1
    };
    for _ in 0..around {
        allocate(peer, live, rng);
    }
    let (mut done, start) = (0_u64, Instant::now());
    for _ in 0..number("actions", 2000) {
        for _ in 0..1000 {
            let action = rng.within(0, odds.iter().sum());
            if action < odds[0] {
                done += allocate(peer, live, rng);
            } else if !live.is_empty() && action < odds[0] + odds[1] {
                let Live(block, layout) = live.swap_remove(rng.within(0, live.len()));
                peer.free(block, layout);
                done += 1;
            } else if !live.is_empty() {
                let which = rng.within(0, live.len());
                let Live(block, layout) = live[which];
                let new = Layout::from_size_align(rng.within(least, resize_to), layout.align());
                let new = new.unwrap();
                let block = peer.resize(block, layout, new.size());
                if !block.is_null() {
                    touch(block, new.size());
                    live[which] = Live(block, new);
                    done += 1;
                }
            }
        }
    }
    let rate = done as f64 / start.elapsed().as_secs_f64() / 1e6;
    clear(peer, live);
    rate
}

/// Blocks of 10 000 to 300 000 bytes until there is no memory; a pause of 3 ms; all are freed;
/// again. Thousands of blocks a second, the pauses counted in, and how many a filling holds.
pub fn heap_exhaustion(make: Make, region: &Region, round: u64) -> Figures {
    let mut peer = make(region);
    let (mut live, mut rng) = (Vec::new(), Rng::new(round));
    let (mut done, mut used, mut fillings, start) = (0_u64, 0, 0, Instant::now());
    while start.elapsed() < Duration::from_millis(300) {
        for _ in 0..10 {
            let layout = Layout::from_size_align(rng.within(10_000, 300_001), rng.align(4));
            let layout = layout.unwrap();
            let block = peer.allocate(layout);
            if block.is_null() {
                used += live.iter().map(|Live(_, layout)| layout.size()).sum::<usize>();
                fillings += 1;
                std::thread::sleep(Duration::from_millis(3));
                clear(&mut *peer, &mut live);
            } else {
                live.push(Live(block, layout));
                done += 1;
            }
        }
    }
    let rate = done as f64 / start.elapsed().as_secs_f64() / 1e3;
    clear(&mut *peer, &mut live);
    vec![("k/s", rate), ("% used", 100.0 * used as f64 / fillings as f64 / region.size as f64)]
}

/// Five allocations, one free and four resizings of ten, up to 10 000 and 100 000 bytes, until one
/// fails. The share of the memory that is in use then, in percent, in a new heap each time.
pub fn efficiency(make: Make, region: &Region, round: u64) -> Figures {
    const TIMES: usize = 6;
    let (mut sum, mut rng) = (0.0, Rng::new(round));
    let region = region.first(128 << 20);
    for _ in 0..TIMES {
        let mut peer = make(&region);
        sum += filling(&mut *peer, &region, &mut rng);
    }
    vec![("% used", sum / TIMES as f64)]
}

/// As `efficiency`, of one heap that is filled and cleared again and again: the first filling, and
/// the mean of all others.
pub fn refills(make: Make, region: &Region, round: u64) -> Figures {
    let (mut rng, region) = (Rng::new(round), region.first(128 << 20));
    let mut peer = make(&region);
    let first = filling(&mut *peer, &region, &mut rng);
    let (mut sum, mut times, start) = (0.0, 0, Instant::now());
    while times < number("fills", 299) && start.elapsed() < 10 * PATIENCE {
        sum += filling(&mut *peer, &region, &mut rng);
        times += 1;
    }
    vec![("% first", first), ("% later", sum / times as f64)]
}

/// Fills a heap until a request fails, and clears it; the share that was in use.
fn filling(peer: &mut dyn Peer, region: &Region, rng: &mut Rng) -> f64 {
    let (mut live, mut used) = (Vec::<Live>::new(), 0);
    loop {
        match rng.within(0, 10) {
            0..5 => {
                let bound = rng.within(16, 10_000);
                let layout = Layout::from_size_align(rng.within(4, bound), rng.align(8));
                let layout = layout.unwrap();
                let block = peer.allocate(layout);
                if block.is_null() {
                    break;
                }
                used += layout.size();
                live.push(Live(block, layout));
            }
            5 if !live.is_empty() => {
                let Live(block, layout) = live.swap_remove(rng.within(0, live.len()));
                used -= layout.size();
                peer.free(block, layout);
            }
            6..10 if !live.is_empty() => {
                let which = rng.within(0, live.len());
                let Live(block, layout) = live[which];
                let new = Layout::from_size_align(rng.within(1, 100_000), layout.align());
                let new = new.unwrap();
                let block = peer.resize(block, layout, new.size());
                if block.is_null() {
                    break;
                }
                used = used - layout.size() + new.size();
                live[which] = Live(block, new);
            }
            _ => {}
        }
    }
    clear(peer, &mut live);
    100.0 * used as f64 / region.size as f64
}

/// The memory that random actions reach into, in percent of the most that is live at once, for each
/// maximum of sizes.
pub fn spans(make: Make, region: &Region, round: u64) -> Figures {
    const NAMES: [&str; 5] = ["% 200", "% 1000", "% 3000", "% 10000", "% 30000"];
    let mut figures = Vec::new();
    for (name, (_, max)) in NAMES.into_iter().zip(MAXIMA) {
        let region = region.first(128 << 20);
        let mut peer = Reach { peer: make(&region), end: 0, live: 0, most: 0 };
        talcs_actions(&mut peer, &mut Vec::new(), &mut Rng::new(round), max);
        let span = peer.end - region.start.addr();
        figures.push((name, 100.0 * span as f64 / peer.most as f64));
    }
    figures
}

/// The random actions in memory of 115 and 130 % of the most that is live at once: how many
/// succeed, millions a second, for each maximum of sizes.
pub fn bounded(make: Make, region: &Region, round: u64) -> Figures {
    const NAMES: [[&str; 2]; 5] = [
        ["200: 115 %", "130 %"],
        ["1000: 115 %", "130 %"],
        ["3000: 115 %", "130 %"],
        ["10000: 115 %", "130 %"],
        ["30000: 115 %", "130 %"],
    ];
    let mut figures = Vec::new();
    for (names, (_, max)) in NAMES.into_iter().zip(MAXIMA) {
        let region = region.first(128 << 20);
        let mut peer = Reach { peer: make(&region), end: 0, live: 0, most: 0 };
        talcs_actions(&mut peer, &mut Vec::new(), &mut Rng::new(round), max);
        for (name, percent) in names.into_iter().zip([115, 130]) {
            let mut peer = make(&region.first(peer.most / 100 * percent));
            let rate = talcs_actions(&mut *peer, &mut Vec::new(), &mut Rng::new(round), max);
            figures.push((name, rate));
        }
    }
    figures
}

/// An allocator, how far its blocks reach, and how many bytes of them are live.
struct Reach {
    peer: Box<dyn Peer>,
    end: usize,
    live: usize,
    most: usize,
}

impl Reach {
    fn had(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        if !block.is_null() {
            self.end = self.end.max(block.addr() + size);
            self.live += size;
            self.most = self.most.max(self.live);
        }
        block
    }
}

impl Peer for Reach {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        let block = self.peer.allocate(layout);
        self.had(block, layout.size())
    }
    fn free(&mut self, block: *mut u8, layout: Layout) {
        self.live -= layout.size();
        self.peer.free(block, layout);
    }
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let new = self.peer.resize(block, layout, size);
        if !new.is_null() {
            self.live -= layout.size();
        }
        self.had(new, size)
    }
}

#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every such processor has it.
    unsafe {
        let mut core = 0;
        std::arch::x86_64::__rdtscp(&raw mut core)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Sizes of 64 to 65 535; with one chance in ten after an attempt seven blocks are freed, so the
/// heap fills and stays full. Ticks of single calls: median, seventh octile, mean; the mean of
/// those before the first that fails; and the same of frees.
pub fn octiles(make: Make, region: &Region, round: u64) -> Figures {
    let mut peer = make(region);
    let (mut live, mut rng) = (Vec::<Live>::new(), Rng::new(round));
    let (mut takes, mut frees) = (Vec::new(), Vec::new());
    let (mut before_failure, start) = (None, Instant::now());
    for attempt in 0..number("attempts", 300) * 1000 {
        // What looks through lists has fewer samples.
        if attempt % 1000 == 0 && start.elapsed() > PATIENCE {
            break;
        }
        let layout = Layout::from_size_align(rng.within(64, 65_536), rng.align(8)).unwrap();
        let before = ticks();
        let block = peer.allocate(layout);
        takes.push(ticks() - before);
        if block.is_null() {
            before_failure.get_or_insert(takes.len() - 1);
        } else {
            live.push(Live(block, layout));
        }
        if live.len() > 10 && rng.within(0, 10) == 0 {
            for _ in 0..7 {
                let Live(block, layout) = live.swap_remove(rng.within(0, live.len()));
                let before = ticks();
                peer.free(block, layout);
                frees.push(ticks() - before);
            }
        }
    }
    clear(&mut *peer, &mut live);
    let of = |all: &mut Vec<u64>| {
        all.sort_unstable();
        let at = |part: usize| all[all.len() / 8 * part] as f64;
        (at(4), at(7), all.iter().sum::<u64>() as f64 / all.len() as f64)
    };
    let early = &takes[..before_failure.unwrap_or(takes.len())];
    let early = early.iter().sum::<u64>() as f64 / early.len() as f64;
    let (median, seventh, mean) = of(&mut takes);
    let (free_median, _, free_mean) = of(&mut frees);
    vec![
        ("median ticks", median),
        ("octile 7 ticks", seventh),
        ("mean ticks", mean),
        ("early mean ticks", early),
        ("free med ticks", free_median),
        ("free mean ticks", free_mean),
    ]
}

/// 16 384 blocks of 1 byte at 4096, and of 4096 bytes at 1: nanoseconds for each, all freed in the
/// order in which they came; and again, where the first round has left holes.
pub fn aligned(make: Make, region: &Region, _: u64) -> Figures {
    let mut figures = Vec::new();
    for (names, layout) in [
        (["1 at 4096 ns", "again ns"], Layout::from_size_align(1, 4096).unwrap()),
        (["4096 at 1 ns", "again ns"], Layout::from_size_align(4096, 1).unwrap()),
    ] {
        let mut peer = make(region);
        let mut live = Vec::with_capacity(16_384);
        for name in names {
            let start = Instant::now();
            for number in 0..16_384 {
                assert!(number % 1024 != 0 || start.elapsed() < PATIENCE, "too slow");
                let block = peer.allocate(layout);
                assert!(!block.is_null(), "the region is too small");
                live.push(Live(block, layout));
            }
            // Every second one, so that the second round meets holes.
            if name != "again ns" {
                let mut kept = Vec::new();
                for (number, one) in live.drain(..).enumerate() {
                    if number % 2 == 0 { peer.free(one.0, one.1) } else { kept.push(one) }
                }
                live = kept;
            }
            figures.push((name, start.elapsed().as_nanos() as f64 / 16_384.0));
        }
        clear(&mut *peer, &mut live);
    }
    figures
}
