//! Random calls of several threads against a shadow heap, for every choice of parameters.
#![cfg(not(loom))]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::mpsc;
use toft_ar_malloc::{Allocator, Locks, Settings, Thread};

/// A call, by a thread of the given number.
#[derive(Clone, Debug)]
enum Call {
    Allocate {
        thread: usize,
        size: usize,
    },
    /// Frees the live block of this position, counted modulo their number.
    Free {
        thread: usize,
        which: usize,
    },
    /// The thread exits, and a new one takes its place.
    Exit {
        thread: usize,
    },
}

const THREADS: usize = 3;

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let size = prop_oneof![4 => 0usize..=64, 3 => 0usize..=1024, 1 => 1025usize..3000];
    let call = prop_oneof![
        10 => (0..THREADS, size).prop_map(|(thread, size)| Call::Allocate { thread, size }),
        9 => (0..THREADS, any::<usize>()).prop_map(|(thread, which)| Call::Free { thread, which }),
        1 => (0..THREADS).prop_map(|thread| Call::Exit { thread }),
    ];
    prop::collection::vec(call, 1..400)
}

fn settings() -> impl Strategy<Value = Settings> {
    (1usize..=16, prop::sample::select(&Locks::ALL[..]), any::<bool>())
        .prop_map(|(arenas, locks, cache)| Settings { arenas, locks, cache, stats: false })
}

fn fill(address: usize, size: usize, byte: u8) {
    // SAFETY: the block is live, has this size, and no thread but this one uses it.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(byte, size) };
}

/// Returns true if each byte of a block is still what `fill` wrote.
fn holds(address: usize, size: usize, byte: u8) -> bool {
    let start = std::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: the block is live, was filled, and no thread but this one uses it.
    unsafe { std::slice::from_raw_parts(start, size) }.iter().all(|&found| found == byte)
}

/// The blocks that the program has, by address, with their size and content.
#[derive(Default)]
struct Shadow(BTreeMap<usize, (usize, u8)>);

impl Shadow {
    fn add(&mut self, address: usize, size: usize, usable: usize) {
        assert!(address.is_multiple_of(16) && usable >= size && usable < size.max(1) + 16);
        let before = self.0.range(..=address).next_back();
        assert!(before.is_none_or(|(&at, &(size, _))| at + size.max(1) <= address));
        let after = self.0.range(address..).next();
        assert!(after.is_none_or(|(&at, _)| address + usable <= at));
        let byte = (self.0.len() as u8) ^ (address >> 4) as u8;
        fill(address, size, byte);
        self.0.insert(address, (size, byte));
    }

    fn take(&mut self, which: usize) -> Option<usize> {
        let address = *self.0.keys().nth(which % self.0.len().max(1))?;
        let (size, byte) = self.0.remove(&address)?;
        assert!(holds(address, size, byte), "the block at {address:#x} was changed");
        Some(address)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn blocks_are_apart_keep_their_content_and_are_never_lost(
        settings in settings(), calls in calls()
    ) {
        let allocator: &'static Allocator = Box::leak(Box::new(Allocator::new()));
        allocator.start(settings);
        let mut threads = [(); THREADS].map(|()| allocator.enter().unwrap());
        let mut shadow = Shadow::default();
        let mut passed = 0;
        for call in calls {
            match call {
                Call::Allocate { thread, size } => match allocator.allocate(threads[thread], size) {
                    0 => {
                        prop_assert!(size > 1024);
                        passed += 1;
                    }
                    address => {
                        prop_assert!(size <= 1024 && allocator.owns(address));
                        shadow.add(address, size, allocator.usable(address));
                    }
                },
                Call::Free { thread, which } => {
                    if let Some(address) = shadow.take(which) {
                        allocator.free(threads[thread], address);
                    }
                }
                Call::Exit { thread } => {
                    allocator.leave(threads[thread]);
                    threads[thread] = allocator.enter().unwrap();
                }
            }
        }
        let report = allocator.report();
        prop_assert_eq!((report.lost(), report.sums.passed), (0, passed));
        prop_assert_eq!(report.census.live, shadow.0.len());
        let calls = report.sums.allocated + report.sums.freed;
        match (settings.locks, settings.cache) {
            (Locks::None, _) => prop_assert_eq!(report.sums.locks, 0),
            (_, false) => prop_assert_eq!(report.sums.locks, calls),
            (_, true) => prop_assert!(report.sums.cache_hits <= report.sums.allocated),
        }
        prop_assert_eq!(report.sums.contended, 0);
        while let Some(address) = shadow.take(0) {
            allocator.free(threads[0], address);
        }
        threads.iter().for_each(|thread| allocator.leave(thread));
        let report = allocator.report();
        prop_assert_eq!((report.lost(), report.census.live, report.census.cached), (0, 0, 0));
    }
}

/// Runs `work` on a thread with a record, as a process does.
fn on_thread(allocator: &'static Allocator, work: impl FnOnce(&'static Thread)) {
    let thread = allocator.enter().unwrap();
    work(thread);
    allocator.leave(thread);
}

/// Each thread allocates, passes its blocks to the next in a ring, and frees what it gets.
#[test]
fn threads_that_hand_blocks_to_each_other_lose_none() {
    const ROUNDS: usize = 3000;
    for locks in Locks::ALL {
        for (cache, arenas) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
            let allocator: &'static Allocator = Box::leak(Box::new(Allocator::new()));
            allocator.start(Settings { arenas, locks, cache, stats: false });
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..4).map(|_| mpsc::channel::<(usize, usize)>()).unzip();
            std::thread::scope(|scope| {
                for (number, receiver) in receivers.into_iter().enumerate() {
                    let sender = senders[(number + 1) % 4].clone();
                    scope.spawn(move || {
                        on_thread(allocator, |thread| {
                            for round in 0..ROUNDS {
                                let size = (round * 37 + number * 11) % 1025;
                                let address = allocator.allocate(thread, size);
                                fill(address, size, round as u8);
                                sender.send((address, size)).unwrap();
                                let (address, size) = receiver.recv().unwrap();
                                assert!(holds(address, size, round as u8));
                                allocator.free(thread, address);
                            }
                        });
                    });
                }
            });
            let report = allocator.report();
            assert_eq!((report.lost(), report.census.live), (0, 0), "{locks:?} {cache}");
            assert_eq!(report.sums.freed, 4 * ROUNDS);
            // The next in the ring is another heap's thread, unless all share one arena. Blocks
            // that a cache holds go round, and some return to their heap's thread.
            match (locks, cache, arenas) {
                (Locks::None, false, _) => assert_eq!(report.sums.transfers, report.sums.freed),
                (Locks::None, true, _) => assert_ne!(report.sums.transfers, 0),
                (_, _, 1) => assert_eq!(report.sums.transfers, 0),
                _ => assert!(report.sums.transfers >= 2 * ROUNDS, "{locks:?} {report:?}"),
            }
        }
    }
}

/// What one thread allocated and another freed serves the first again, in the same slabs.
#[test]
fn freed_blocks_are_used_again() {
    for (locks, cache) in Locks::ALL.into_iter().flat_map(|locks| [(locks, false), (locks, true)]) {
        let allocator: &'static Allocator = Box::leak(Box::new(Allocator::new()));
        allocator.start(Settings { arenas: 2, locks, cache, stats: false });
        let threads = [(); 2].map(|()| allocator.enter().unwrap());
        let mut slots = 0;
        for round in 0..6 {
            // Some slabs of 64 KiB.
            let blocks = [(); 3000].map(|()| allocator.allocate(threads[0], 100));
            blocks.into_iter().for_each(|block| allocator.free(threads[round % 2], block));
            let now = allocator.report().census.slots;
            // What the other thread's cache holds may take one slab more.
            assert!(slots == 0 || now <= slots + 650, "{locks:?} {cache} {now} {slots}");
            slots = slots.max(now);
        }
        assert!(slots < 3000 + 3 * 650, "{locks:?} {cache}: {slots}");
    }
}

/// More frees in a row than a cache holds, of blocks of both threads.
#[test]
fn a_full_cache_gives_its_older_half_back_to_the_owners() {
    for locks in Locks::ALL {
        let allocator: &'static Allocator = Box::leak(Box::new(Allocator::new()));
        allocator.start(Settings { arenas: 2, locks, cache: true, stats: false });
        let threads = [(); 2].map(|()| allocator.enter().unwrap());
        let blocks: Vec<usize> =
            (0..200).map(|at| allocator.allocate(threads[at / 5 % 2], 100)).collect();
        for (at, block) in blocks.into_iter().enumerate() {
            allocator.free(threads[at / 7 % 2], block);
            assert_eq!(allocator.report().lost(), 0, "{locks:?} {at}");
        }
        assert!((1..=32).contains(&allocator.report().census.cached), "{locks:?}");
    }
}

/// The census finds a block that vanished: without this, `lost` could be zero always.
#[test]
fn a_lost_block_is_counted() {
    let allocator: &'static Allocator = Box::leak(Box::new(Allocator::new()));
    allocator.start(Settings::ARTICLE);
    let thread = allocator.enter().unwrap();
    let address = allocator.allocate(thread, 100);
    assert_eq!((allocator.report().lost(), allocator.report().census.live), (0, 1));
    thread.counts.freed.add_one();
    assert_eq!(allocator.report().lost(), 1);
    allocator.free(thread, address);
    assert_eq!(allocator.report().census.live, 0);
}
