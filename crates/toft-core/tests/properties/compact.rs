//! Compaction over the fake system: what shares pages with what, that no slot's memory is used
//! twice, and that everything comes apart again. The fake panics where memory that is shared is
//! discarded, moved or unmapped; `check` verifies I8 and G1 to G3.

use crate::common::ops::{Op, random_bytes};
use crate::common::plain::{allocator, birth, one_heap, two_heaps, with_slab};
use crate::common::shadow::bytes_of;
use crate::common::world::{World, code_address};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::options::Options;
use toft_core::os::Error;
use toft_core::os::fake::{Fake, Fault, Machine, Request};
use toft_core::reclaim::Status;
use toft_core::report::Call;
use toft_core::slab::SlotState;
use toft_core::thread::Heap;

const OPTIONS: Options = Options { partitions: 4, compact: true, ..Options::DEFAULT };

/// Blocks, and what is in them.
struct Blocks(BTreeMap<usize, (usize, u8)>);

impl Blocks {
    /// `count` blocks, of which each heap has its part.
    fn new(allocator: &Allocator<Fake>, heaps: &[&Heap], size: usize, count: usize) -> Blocks {
        let mut blocks = Blocks(BTreeMap::new());
        for number in 0..count {
            blocks.add(allocator, heaps[number * heaps.len() / count], size);
        }
        blocks
    }

    fn add(&mut self, allocator: &Allocator<Fake>, heap: &Heap, size: usize) {
        let address = if self.0.len().is_multiple_of(2) {
            allocator.allocate(heap, size, code_address(3)).unwrap()
        } else {
            let address = allocator.allocate_zeroed(heap, size, code_address(3)).unwrap();
            assert!(bytes_of(address, size).iter().all(|&byte| byte == 0), "calloc: not zero");
            address
        };
        let value = (self.0.len() % 255) as u8 + 1;
        bytes_of(address, size).fill(value);
        assert!(self.0.insert(address, (size, value)).is_none());
    }

    /// Keeps one of `of`, more or less at random; the rest is freed through `heap`.
    fn thin(&mut self, allocator: &Allocator<Fake>, heap: &Heap, of: usize) -> Vec<usize> {
        let mut number = 7u64;
        let mut gone = Vec::new();
        self.0.retain(|&address, _| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let stays = ((number >> 33) as usize).is_multiple_of(of);
            if !stays {
                allocator.free(heap, address, Call::Free);
                gone.push(address);
            }
            stays
        });
        allocator.publish_frees(heap);
        gone
    }

    fn verify(&self) {
        for (&address, &(size, value)) in &self.0 {
            let same = bytes_of(address, size).iter().all(|&byte| byte == value);
            assert!(same, "the {size}-byte block at {address:#x} has changed");
        }
    }

    fn free_all(self, allocator: &Allocator<Fake>, heap: &Heap) {
        self.verify();
        for &address in self.0.keys() {
            allocator.free(heap, address, Call::Free);
        }
        allocator.publish_frees(heap);
    }
}

fn compact(allocator: &Allocator<Fake>) -> usize {
    let done = allocator.compactor().compact(Which::Free).expect("no other thread sweeps");
    allocator.check().unwrap();
    done.bytes
}

/// What a thread has freed in slabs of others, and has not published, is free when the program
/// compacts: nothing of it keeps a page shared.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn frees_that_are_not_published_yet_count_when_a_program_compacts() {
    let (fake, allocator, owner, other) = two_heaps(OPTIONS);
    let mut blocks = Blocks::new(&allocator, &[owner], 256, 4000);
    blocks.thin(&allocator, owner, 10);
    allocator.heaps.orphan(owner);
    allocator.compactor().compact_now(other);
    assert_ne!(fake.shared_bytes(), 0);
    blocks.verify();
    blocks.0.keys().for_each(|&address| allocator.free(other, address, Call::Free));
    for _ in 0..3 {
        allocator.compactor().compact_now(other);
        allocator.check().unwrap();
    }
    assert_eq!(fake.shared_bytes(), 0);
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn sparse_slabs_share_and_part() {
    for size in [16, 48, 64, 200, 256, 768, 1024, 1500, 3000] {
        let (fake, allocator, mine, other) = two_heaps(OPTIONS);
        let mut blocks = Blocks::new(&allocator, &[mine, other], size, 6000);
        assert_eq!(compact(&allocator), 0, "what is full shares nothing");
        blocks.thin(&allocator, mine, 12);
        let saved = compact(&allocator);
        assert!(saved > 100 << 10 || size == 16 && saved != 0, "{saved} bytes at {size}");
        assert!(fake.shared_bytes() > saved);
        let shared = allocator.compactor().shared();
        assert!(shared.groups > 0 && shared.units >= 2 * shared.groups - 1, "{shared:?}");
        assert_eq!(shared.status, Status::Done);
        blocks.verify();

        // What is free is used again, by both, and nothing that is there is touched.
        for number in 0..3000 {
            blocks.add(&allocator, if number % 2 == 0 { mine } else { other }, size);
        }
        blocks.verify();
        allocator.check().unwrap();
        for round in 0..4 {
            blocks.thin(&allocator, if round % 2 == 0 { mine } else { other }, 3);
            compact(&allocator);
            blocks.verify();
            for _ in 0..500 {
                blocks.add(&allocator, other, size);
            }
            blocks.verify();
        }
        blocks.free_all(&allocator, mine);
        allocator.sweeper().purge(Some(other));
        compact(&allocator);
        allocator.compactor().compact_now(mine);
        allocator.heaps.orphan(other);
        allocator.compactor().compact_now(mine);
        assert_eq!(fake.shared_bytes(), 0, "{size}");
        assert_eq!(allocator.compactor().shared().units, 0);
        allocator.check().unwrap();
        assert_eq!(fake.take_reports(), [] as [String; 0]);
    }
}

#[test]
fn without_the_option_nothing_is_shared() {
    let (fake, allocator, heap) = one_heap(Options { compact: false, ..OPTIONS });
    let mut blocks = Blocks::new(&allocator, &[heap], 256, 6000);
    blocks.thin(&allocator, heap, 12);
    assert_eq!(compact(&allocator), 0);
    assert_eq!((allocator.compactor().compact_now(heap), fake.shared_bytes()), (0, 0));
    assert_eq!(fake.calls(Request::BeginSharing), 0);
    blocks.verify();
}

/// What others have freed and a sleeping owner has not collected is as free as anything.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn an_owner_that_sleeps_is_no_obstacle() {
    let (_fake, allocator, mine, asleep) = two_heaps(OPTIONS);
    let mut blocks = Blocks::new(&allocator, &[asleep], 256, 6000);
    blocks.thin(&allocator, mine, 12);
    assert!(compact(&allocator) > 700 << 10);
    blocks.verify();
    let mut allocations = 0;
    allocator.for_each_slab(|slab| allocations += slab.allocations());
    assert_eq!(allocations, 6000, "no free is forgotten");
    let live = || toft_core::stats::snapshot(&allocator).live_blocks;
    assert_eq!(live(), blocks.0.len());
    let before = toft_core::stats::snapshot(&allocator).live_blocks;
    // It wakes, collects, and goes on.
    for _ in 0..6000 {
        blocks.add(&allocator, asleep, 256);
    }
    assert_eq!(live(), before + 6000);
    allocator.check().unwrap();
    blocks.verify();
}

/// Only what has lain idle from one pass to the next is compacted by the way.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn what_is_busy_is_left_alone() {
    let (_fake, allocator, heap) = one_heap(OPTIONS);
    let mut blocks = Blocks::new(&allocator, &[heap], 256, 6000);
    blocks.thin(&allocator, heap, 12);
    let first = allocator.compactor().compact(Which::Idle).unwrap();
    assert_eq!((first.bytes, first.more), (0, true));
    let gone = blocks.thin(&allocator, heap, 2);
    assert!(gone.len() > 100);
    let second = allocator.compactor().compact(Which::Idle).unwrap();
    assert!(second.more, "a free has come");
    let third = allocator.compactor().compact(Which::Idle).unwrap();
    assert!(second.bytes + third.bytes != 0 && !third.more);
    blocks.verify();
}

/// An owner that is in the middle of something, or claims while others look, keeps what is its.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn what_an_owner_is_changing_is_let_go_of() {
    for busy in [false, true] {
        let (fake, allocator, mine, other) = two_heaps(OPTIONS);
        let mut blocks = Blocks::new(&allocator, &[other], 256, 6000);
        blocks.thin(&allocator, mine, 12);
        let passed = std::sync::Arc::new(AtomicBool::new(false));
        let at_barrier = passed.clone();
        fake.at_barrier(move || {
            // The first is before anything is held; at the second the owner takes its guard.
            if busy && let Some(guard) = other.enter() {
                core::mem::forget(guard);
            }
            at_barrier.store(true, SeqCst);
            true
        });
        let saved = compact(&allocator);
        assert!(passed.load(SeqCst));
        assert_eq!(saved == 0, busy, "{saved}");
        blocks.verify();
    }
}

/// Frees and allocations of other threads, between the moments in which slots are held.
#[test]
fn others_go_on_meanwhile() {
    let (fake, allocator) = allocator(OPTIONS);
    let allocator: &'static Allocator<Fake> = Box::leak(Box::new(allocator));
    let (mine, other) = (birth(allocator), birth(allocator));
    let mut blocks = Blocks::new(allocator, &[other], 256, 6000);
    blocks.thin(allocator, other, 8);
    let blocks = std::sync::Arc::new(Mutex::new(blocks));
    let at_barrier = blocks.clone();
    fake.at_barrier(move || {
        let mut blocks = at_barrier.lock().unwrap();
        let address = *blocks.0.keys().nth(100).unwrap();
        blocks.0.remove(&address);
        allocator.free(other, address, Call::Free);
        let address = *blocks.0.keys().nth(200).unwrap();
        blocks.0.remove(&address);
        allocator.free(mine, address, Call::Free);
        for _ in 0..20 {
            blocks.add(allocator, other, 256);
        }
        true
    });
    for _ in 0..30 {
        allocator.compactor().compact(Which::Free).unwrap();
        blocks.lock().unwrap().verify();
    }
    allocator.check().unwrap();
    let taken = core::mem::take(&mut blocks.lock().unwrap().0);
    fake.at_barrier(|| true);
    Blocks(taken).free_all(allocator, mine);
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}

/// Frees that took effect while a slot was lent count for nothing then. When the slab has all of
/// its memory again, its owner looks, and gives it back where nothing is in it: no free comes any
/// more that could tell.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn an_owner_learns_that_what_it_has_again_is_empty() {
    let (fake, allocator, mine, other) = two_heaps(OPTIONS);
    let mut blocks = Blocks::new(&allocator, &[mine], 256, 6000);
    let mut sizes = [1000, 2000, 3000].into_iter();
    // What finds no slab collects.
    let mut collect =
        || assert!(allocator.allocate(mine, sizes.next().unwrap(), code_address(3)).is_some());
    // On their lists, and few enough for the others' frees to be taken note of by the pass alone.
    blocks.thin(&allocator, mine, 2);
    blocks.thin(&allocator, other, 12);
    assert!(compact(&allocator) != 0);
    collect();
    blocks.free_all(&allocator, other);
    collect();
    compact(&allocator);
    assert_eq!(allocator.compactor().shared().units, 0);
    // The system is short of memory: what is found empty goes.
    fake.set_limit(fake.mapped_bytes());
    assert_eq!(allocator.allocate(other, 8 << 20, code_address(3)), None);
    fake.set_limit(usize::MAX);
    collect();
    let mut empty = 0;
    allocator.for_each_slab(|slab| {
        // The short slabs have shared with none, and were kept when they became empty.
        let is_long = slab.size() < 1000 && slab.slots() == slab.class().slots();
        empty += usize::from(mine.owns(slab) && is_long && slab.is_empty());
    });
    assert!(empty <= 1, "{empty} slabs are kept beside the one that malloc draws from");
    allocator.check().unwrap();
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn a_freed_address_whose_memory_is_lent_is_named() {
    let (fake, allocator, heap) = one_heap(Options { warn_only: true, ..OPTIONS });
    let mut blocks = Blocks::new(&allocator, &[heap], 256, 6000);
    let gone = blocks.thin(&allocator, heap, 12);
    assert!(compact(&allocator) != 0);
    let lent = |slab: &toft_core::slab::Slab, slot| slab.units().is_lent(slot);
    let address = *gone.iter().find(|&&at| with_slab(&allocator, at, lent)).unwrap();
    let state = with_slab(&allocator, address, |slab, slot| slab.state(slot));
    assert_eq!(state, SlotState::Free);
    let other = birth(&allocator);
    for heap in [heap, other] {
        allocator.free(heap, address, Call::Free);
        let reports = fake.take_reports();
        assert!(reports.len() == 1 && reports[0].contains("already free"), "{reports:?}");
    }
    assert_eq!(allocator.requests().usable_size(address, Call::UsableSize), None);
    allocator.check().unwrap();
    blocks.verify();
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn a_fork_makes_everything_private() {
    let (fake, allocator, mine, other) = two_heaps(OPTIONS);
    let mut blocks = Blocks::new(&allocator, &[mine, other], 768, 6000);
    blocks.thin(&allocator, mine, 12);
    assert!(compact(&allocator) != 0);
    allocator.compactor().prepare_fork();
    assert_eq!((fake.shared_bytes(), allocator.compactor().shared().units), (0, 0));
    allocator.check().unwrap();
    blocks.verify();
    assert_eq!((compact(&allocator), fake.shared_bytes()), (0, 0), "not before the fork is done");
    // The parent.
    allocator.compactor().fork_is_done();
    assert!(compact(&allocator) != 0);
    blocks.verify();
    // Another fork; the child, in which it can be done again.
    allocator.compactor().prepare_fork();
    allocator.after_fork_in_child(mine);
    blocks.verify();
    assert!(compact(&allocator) != 0);
    for _ in 0..3000 {
        blocks.add(&allocator, mine, 768);
    }
    blocks.free_all(&allocator, mine);
    allocator.check().unwrap();
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
#[should_panic(expected = "cannot be made private")]
fn a_fork_that_cannot_make_everything_private_does_not_happen() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let mut blocks = Blocks::new(&allocator, &[heap], 768, 6000);
    blocks.thin(&allocator, heap, 12);
    assert!(compact(&allocator) != 0);
    fake.set_fault(Some(Fault::at(3).only(Request::Unshare)));
    allocator.compactor().prepare_fork();
}

/// Each call that compaction makes fails in its turn, and all from one on: what is there stays, and
/// later it works.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn the_system_may_refuse_anything() {
    let kinds = [Request::BeginSharing, Request::Share, Request::ShareWith, Request::Renew];
    for kind in kinds.into_iter().chain([Request::EmptyStore]) {
        for (number, all) in [(0, false), (5, false), (0, true), (3, true)] {
            let (fake, allocator, heap) = one_heap(OPTIONS);
            let mut blocks = Blocks::new(&allocator, &[heap], 500, 6000);
            blocks.thin(&allocator, heap, 6);
            let fault = if all { Fault::from(number) } else { Fault::at(number) };
            fake.set_fault(Some(fault.only(kind).with(Error::Unsupported)));
            for _ in 0..3 {
                compact(&allocator);
                blocks.verify();
                blocks.thin(&allocator, heap, 3);
            }
            if kind == Request::BeginSharing && all && number == 0 {
                assert_eq!(allocator.compactor().shared().status, Status::CannotStopWriters);
                assert_eq!(fake.shared_bytes(), 0);
            }
            assert!(fake.failed() != 0 || kind == Request::EmptyStore || number != 0, "{kind:?}");
            fake.set_fault(None);
            compact(&allocator);
            blocks.verify();
            for _ in 0..2000 {
                blocks.add(&allocator, heap, 500);
            }
            blocks.free_all(&allocator, heap);
            allocator.compactor().compact_now(heap);
            assert_eq!(fake.shared_bytes(), 0);
            allocator.check().unwrap();
        }
    }
}

/// Without barriers there is no compaction.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn without_barriers_nothing_is_shared() {
    let (fake, allocator, heap) = one_heap(OPTIONS);
    let mut blocks = Blocks::new(&allocator, &[heap], 256, 6000);
    blocks.thin(&allocator, heap, 12);
    fake.at_barrier(|| false);
    assert_eq!(compact(&allocator), 0);
    assert_eq!(allocator.compactor().shared().status, Status::NoBarrier);
    assert_eq!(fake.shared_bytes(), 0);
}

/// Everything that a program can do, with compaction in between, against the shadow.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn random_programs_notice_nothing() {
    let mut shared = 0;
    for seed in 0..12 {
        let fake = Fake::new(Machine::LARGE);
        let options = Options { partitions: 2, ..OPTIONS };
        let mut world = World::new(fake.clone(), options).unwrap();
        world.thoroughness = 64;
        for (number, &op) in Op::decode_all(&random_bytes(seed, 1500)).iter().enumerate() {
            world.step(op);
            if number % 40 == 0 {
                let size = [32, 64, 200, 512, 1000, 2000][number / 40 % 6];
                world.step(Op::Burst { who: number % 3, size, site: 1, count: 200 });
                world.step(Op::FreeMany { who: number % 2, which: number, count: 150 });
                world.step(Op::Trim);
                world.step(Op::FreeMany { who: number % 3, which: 0, count: 20 });
                world.step(Op::Trim);
                shared += fake.shared_bytes();
            }
        }
        world.finish();
    }
    assert!(shared > 10 << 20, "{shared} bytes are too few to say anything");
}
