//! Sweeps: one thread gives back pages of all threads' slabs, whatever those are doing. What other
//! threads do meanwhile is played at the barriers: one before anything, and for each batch of slabs one
//! while slots are held and one when they are not any more.

mod common;
use common::ops::{OP_BYTES, Op, SEATS};
use common::plain::{allocator, birth, filling, slot, with_slab};
use common::shadow::bytes_of;
use common::world::{World, code_address};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use toft::Allocator;
use toft::entry::{Call, Resized, Swept, Which};
use toft::options::{Options, Reclaim};
use toft::os::fake::{Fake, Fault, Machine, Moment, Request};
use toft::policy::SLACK_MIN;
use toft::remote::{Marked, announce, mark_remote};
use toft::slab::{PENDING, SlotState};
use toft::stats::snapshot;
use toft::thread::Heap;

// What is freed is free at once, in the hardened build, too.
const OPTIONS: Options = Options { partitions: 4, quarantine: 0, ..Options::DEFAULT };
const WARN: Options = Options { warn_only: true, ..OPTIONS };
const SITE: usize = 3;
/// The barrier that is passed while slots of the first batch are held, and the next one.
const HELD: usize = 1;
const LET_GO: usize = 2;

/// Two threads: one that sleeps, or does what a test says at a barrier, and one that sweeps.
#[derive(Clone)]
struct Program {
    fake: Fake,
    allocator: Arc<Allocator<Fake>>,
    owner: &'static Heap,
    other: &'static Heap,
}

impl Program {
    fn new(options: Options) -> Program {
        let (fake, allocator) = allocator(options);
        let (owner, other) = (birth(&allocator), birth(&allocator));
        let program = Program { fake, allocator: Arc::new(allocator), owner, other };
        // What it needs itself is resident from here on.
        program.allocator.purge(Some(program.other));
        program.sweep();
        program
    }

    fn take(&self, heap: &Heap, size: usize) -> usize {
        self.allocator.allocate(heap, size, code_address(SITE)).unwrap()
    }

    /// A block that is filled with its address.
    fn filled(&self, heap: &Heap, size: usize) -> usize {
        let address = self.take(heap, size);
        bytes_of(address, size).fill(mark(address));
        address
    }

    fn free(&self, heap: &Heap, address: usize) {
        self.allocator.free(heap, address, Call::Free);
    }

    fn sweep(&self) -> Swept {
        self.allocator.sweep(Which::Free).expect("nobody else sweeps")
    }

    fn resident(&self) -> usize {
        self.fake.resident_bytes()
    }

    /// Holds the allocator to its invariants, to the figures, and to the contents of what is live.
    fn check(&self, live: &[usize], size: usize) {
        if let Err(violation) = self.allocator.check() {
            panic!("{size}: {violation:?}");
        }
        for &address in live {
            let same = bytes_of(address, size).iter().all(|&byte| byte == mark(address));
            assert!(same, "{size}: the block at {address:#x} has changed");
        }
        let figures = snapshot(&self.allocator);
        let bytes = live.len() * slot(size);
        assert_eq!((figures.live_blocks, figures.live_bytes()), (live.len(), bytes), "{size}");
    }

    /// At the barrier with this number, counted from the next sweep on, and at no other.
    fn at(&self, number: usize, mut act: impl FnMut(&Program) + Send + 'static) {
        let (mut seen, program) = (0, self.clone());
        self.fake.at_barrier(move || {
            if seen == number {
                act(&program);
            }
            seen += 1;
            true
        });
    }

    /// The owner collects what others have freed.
    fn collect(&self) {
        let seat = self.owner.sit().unwrap();
        self.owner.collect(&seat, |_, _| panic!("a double free"), |_| {});
    }

    fn no_more(&self) {
        self.fake.at_barrier(|| true);
    }

    /// Nothing is held, and whatever is free can be had again: so many blocks without a new slab.
    fn all_come_back(&self, live: &[usize], size: usize, count: usize) {
        // The last few that others have freed into a full slab would have to wait for more of them.
        self.collect();
        let slabs = snapshot(&self.allocator).slabs;
        let known: BTreeSet<usize> = live.iter().copied().collect();
        let mut all = live.to_vec();
        for number in 0..count {
            let site = code_address(SITE);
            let address = self.allocator.allocate_zeroed(self.owner, size, site).unwrap();
            assert!(!known.contains(&address), "{size}: {address:#x} is live already");
            assert!(bytes_of(address, size).iter().all(|&byte| byte == 0), "{size}: {number}");
            bytes_of(address, size).fill(mark(address));
            all.push(address);
        }
        assert_eq!(snapshot(&self.allocator).slabs, slabs, "{size}: slots are lost");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        self.check(&all, size);
        assert_eq!(self.fake.take_reports(), [] as [String; 0]);
    }
}

/// Never zero.
fn mark(address: usize) -> u8 {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1
}

/// A request that fills half a page.
const ALMOST: usize = 2048 - SLACK_MIN;
const SIZES: [usize; 7] = [48, 200, 1024, 2000, 3000, 10_240, 49_152];

/// So many blocks of a size that they fill some slabs, of the owner's; all are filled.
fn some_slabs(program: &Program, size: usize) -> Vec<usize> {
    let size = filling(size);
    (0..6 * slots_of(size)).map(|_| program.filled(program.owner, size)).collect()
}

/// Frees all but each `stays`th, or the first of each slab; says what is live and how many went.
fn free_most(
    program: &Program,
    heap: &Heap,
    blocks: &[usize],
    stays: usize,
) -> (Vec<usize>, usize) {
    let (mut live, mut freed) = (Vec::new(), 0);
    let mut slabs = BTreeSet::new();
    for (number, &address) in blocks.iter().enumerate() {
        let stays_here = match stays {
            ONE_EACH => slabs.insert(with_slab(&program.allocator, address, |slab, _| slab.base())),
            _ => number % stays == stays / 2,
        };
        if stays_here {
            live.push(address);
        } else {
            program.free(heap, address);
            freed += 1;
        }
    }
    (live, freed)
}

/// Of those that stay: one in each slab, so that none is empty.
const ONE_EACH: usize = 0;

/// Slots of the slab of a block that somebody may have.
fn slots_beside(program: &Program, address: usize) -> usize {
    with_slab(&program.allocator, address, |slab, _| {
        (0..slab.slots()).filter(|&slot| !slab.is_nobodys_slot(slot)).count()
    })
}

/// One in the middle that was freed, on a page without a live one.
fn freed_amid(blocks: &[usize], live: &[usize]) -> usize {
    let mut half = blocks[blocks.len() / 2..].iter();
    *half.find(|block| live.iter().all(|live| live.abs_diff(**block) > 16 << 10)).unwrap()
}

fn slots_of(size: usize) -> usize {
    let slot = slot(size);
    (if slot <= 1024 { 64 << 10 } else { 512 << 10 } / slot).min(256)
}

#[test]
fn pages_of_a_sleeping_thread_go() {
    for size in SIZES {
        for purge in [false, true] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            let (live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
            let before = program.resident();
            let said = if purge {
                program.allocator.purge(Some(program.other))
            } else {
                program.sweep().bytes
            };
            program.check(&live, size);
            let gone = before - program.resident();
            assert!(gone * 2 > freed * size, "{size}: {gone} of {} bytes", freed * size);
            assert!(said >= gone, "{size}: {said} bytes were given back, and {gone} went");
            // What is clean is left alone.
            let calls = program.fake.calls(Request::Discard);
            program.sweep();
            assert_eq!(program.fake.calls(Request::Discard), calls, "{size}");
            program.all_come_back(&live, size, freed);
        }
    }
}

#[test]
fn pages_of_what_others_have_freed_go_while_the_owner_sleeps() {
    for size in SIZES {
        let program = Program::new(OPTIONS);
        let size = filling(size);
        let blocks = some_slabs(&program, size);
        let (live, freed) = free_most(&program, program.other, &blocks, ONE_EACH);
        let pending = snapshot(&program.allocator).remote_pending;
        assert_eq!(pending, freed);
        let before = program.resident();
        program.sweep();
        program.check(&live, size);
        let gone = before - program.resident();
        assert!(gone * 2 > freed * size, "{size}: {gone} of {} bytes", freed * size);
        assert_eq!(snapshot(&program.allocator).remote_pending, pending);
        program.all_come_back(&live, size, freed);
        let figures = snapshot(&program.allocator);
        assert_eq!(figures.remote_pending, 0, "the owner has collected");
        assert_eq!(figures.allocations as usize, blocks.len() + freed);
    }
}

/// A slab of which nearly all is free, and some of that claimed by the owner. Says which blocks are live.
fn some_claimed(program: &Program, size: usize) -> Vec<usize> {
    let mut blocks = vec![program.filled(program.owner, size)];
    let rest = slots_beside(program, blocks[0]) - 1;
    blocks.extend((0..rest).map(|_| program.filled(program.owner, size)));
    let last = blocks[blocks.len() - 1];
    for &address in blocks.iter().filter(|&&address| address != last) {
        // The fake knows a write by what it changes.
        bytes_of(address, size).fill(!mark(address));
        program.free(program.owner, address);
    }
    // The claim in hand is used up, and the next one is made.
    let mut live = vec![last];
    while with_slab(&program.allocator, last, |slab, _| slab.claimed()).count_ones() < 3 {
        live.push(program.filled(program.owner, size));
    }
    live
}

/// What a sleeping thread has claimed is free, and it cannot be asked.
#[test]
fn pages_of_what_a_sleeping_thread_has_claimed_go() {
    for size in [1024, 2000, 3000, 10_240] {
        let program = Program::new(OPTIONS);
        let size = filling(size);
        let live = some_claimed(&program, size);
        let claim = || with_slab(&program.allocator, live[0], |slab, _| slab.claimed());
        let claimed = claim();
        let before = program.resident();
        let swept = program.sweep();
        let gone = before - program.resident();
        // All but the pages that live blocks share.
        let rest = slots_beside(&program, live[0]) - live.len();
        let all = rest * size;
        // And, in the hardened build, those that walls share with slots.
        let shared = live.len() + 2 + slots_of(size) - slots_beside(&program, live[0]);
        assert!(gone + shared * 4096 >= all, "{size}: {gone} of {all} bytes");
        assert_eq!((swept.bytes, claim()), (gone, claimed), "{size}");
        program.check(&live, size);
        program.all_come_back(&live, size, rest);
    }
}

/// The owner hands out what it has claimed, and writes to it, before the pages are looked at or after.
#[test]
fn what_is_handed_out_while_its_pages_go_stays() {
    for moment in [Moment::Freed, Moment::Looked] {
        for size in [1024, 2000, 3000, 10_240] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let mut live = some_claimed(&program, size);
            let got = Arc::new(Mutex::new(Vec::new()));
            let (more, thread) = (got.clone(), program.clone());
            program.fake.while_unused_go(move |now| {
                for _ in (0..2).filter(|_| now == moment) {
                    more.lock().unwrap().push(thread.filled(thread.owner, size));
                }
            });
            let before = program.resident();
            program.sweep();
            program.fake.while_unused_go(|_| {});
            assert!(got.lock().unwrap().len() >= 2, "{size}: {moment:?}: nothing was about to go");
            live.extend(got.lock().unwrap().iter());
            assert!(program.resident() < before, "{size}: {moment:?}");
            program.check(&live, size);
            let rest = slots_beside(&program, live[0]) - live.len();
            program.all_come_back(&live, size, rest);
        }
    }
}

/// The system refuses: all stays as it was, and is tried again.
#[test]
fn what_is_claimed_stays_where_the_system_refuses() {
    for which in [Which::Free, Which::Idle] {
        let program = Program::new(OPTIONS);
        let live = some_claimed(&program, ALMOST);
        program.fake.set_fault(Some(Fault::from(0).only(Request::DiscardUnused)));
        program.sweep();
        let before = program.resident();
        program.sweep();
        assert_eq!(program.resident(), before);
        program.check(&live, ALMOST);
        program.fake.set_fault(None);
        program.allocator.sweep(which).unwrap();
        assert!(program.resident() < before, "{which:?}");
        program.check(&live, ALMOST);
    }
}

/// Whatever the owner is in the middle of: nothing of its slabs goes, and later all of it does.
#[test]
fn nothing_goes_of_a_thread_that_is_in_the_middle_of_something() {
    for size in SIZES {
        let program = Program::new(OPTIONS);
        let size = filling(size);
        let blocks = some_slabs(&program, size);
        let (live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
        let before = program.resident();
        let seat = program.owner.sit().unwrap();
        program.sweep();
        let swept = program.sweep();
        assert!(program.resident() >= before, "{size}");
        assert!(swept.more, "{size}: there is something to come back for");
        drop(seat);
        program.check(&live, size);
        program.sweep();
        program.check(&live, size);
        let gone = before - program.resident();
        assert!(gone * 2 > freed * size, "{size}: {gone} of {} bytes", freed * size);
        program.all_come_back(&live, size, freed);
    }
}

/// The same, where the owner sits down or gets up between the barriers, and has claimed something.
#[test]
fn an_owner_that_claims_at_the_barrier_is_seen() {
    for size in SIZES {
        for number in [0, HELD, LET_GO] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            let (mut live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
            let got = Arc::new(Mutex::new(Vec::new()));
            let more = got.clone();
            program.at(number, move |program| {
                for _ in 0..freed / 2 {
                    more.lock().unwrap().push(program.filled(program.owner, size));
                }
            });
            program.sweep();
            program.no_more();
            live.extend(got.lock().unwrap().iter());
            program.check(&live, size);
            program.sweep();
            program.check(&live, size);
            program.all_come_back(&live, size, freed.saturating_sub(freed / 2));
        }
    }
}

/// A slab whose free slots are all held leaves its list: it is on one again when they are let go of.
#[test]
fn a_slab_that_looks_full_while_it_is_held_comes_back() {
    for size in SIZES {
        // Many are free, or few: then it is not for the list, but its credit must say so.
        for stays in [ONE_EACH, 2] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            let mut live = Vec::new();
            // Runs of free slots, which have whole pages.
            let run = 2 * (4096 / size).max(1);
            for (number, &address) in blocks.iter().enumerate() {
                if stays == 2 && number % (8 * run) >= run {
                    live.push(address);
                } else {
                    program.free(program.owner, address);
                }
            }
            let got = Arc::new(Mutex::new(Vec::new()));
            let more = got.clone();
            program.at(HELD, move |program| {
                // All that is not held, and then a new slab.
                let slabs = snapshot(&program.allocator).slabs;
                while snapshot(&program.allocator).slabs == slabs {
                    more.lock().unwrap().push(program.filled(program.owner, size));
                }
            });
            program.sweep();
            program.no_more();
            live.extend(got.lock().unwrap().iter());
            // The owner is told, and looks when it next collects.
            live.push(program.filled(program.owner, size));
            program.collect();
            program.check(&live, size);
            let slabs = snapshot(&program.allocator).slabs;
            let listed = |address: usize| {
                with_slab(&program.allocator, address, |slab, _| {
                    let live = slab.live_slots();
                    let nobodys =
                        (0..slab.slots()).filter(|&slot| slab.is_nobodys_slot(slot)).count();
                    (slab.is_listed(), (slab.slots() - live - nobodys) * 4 >= slab.slots())
                })
            };
            for &address in &live {
                let (is_listed, has_room) = listed(address);
                assert!(is_listed || !has_room, "{size}: room, and on no list");
            }
            // Whatever comes, the figures add up at the end.
            for &address in &live {
                program.free(program.owner, address);
            }
            program.check(&[], size);
            assert!(slabs >= 6);
        }
    }
}

/// The owner frees everything while slots are held: the slab may not go to the pool meanwhile.
#[test]
fn a_slab_that_becomes_empty_while_it_is_held_stays() {
    for size in SIZES {
        for (number, pressure) in [(HELD, false), (LET_GO, false), (HELD, true), (LET_GO, true)] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            if pressure {
                program.fake.set_fault(Some(Fault::from(0).only(Request::Map)));
                assert_eq!(program.allocator.allocate(program.owner, 4 << 20, 1), None);
                program.fake.set_fault(None);
            }
            let (live, _) = free_most(&program, program.owner, &blocks, ONE_EACH);
            let rest = live.clone();
            program.at(number, move |program| {
                rest.iter().for_each(|&address| program.free(program.owner, address));
                // Where memory is short, a large request gives back all that is empty.
                if pressure {
                    program.fake.set_fault(Some(Fault::from(0).only(Request::Map)));
                    assert_eq!(program.allocator.allocate(program.owner, 4 << 20, 1), None);
                    program.fake.set_fault(None);
                }
            });
            program.sweep();
            program.no_more();
            program.check(&[], size);
            program.allocator.purge(Some(program.owner));
            program.check(&[], size);
            program.all_come_back(&[], size, blocks.len());
        }
    }
}

/// Blocks that others free while their neighbours are held, and blocks that are freed while the slots
/// that others have freed before are held.
#[test]
fn frees_by_others_while_slots_are_held_are_not_lost() {
    for size in SIZES {
        for (number, collects) in
            [HELD, LET_GO].into_iter().zip([true, false]).chain([(HELD, false)])
        {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            let (most, rest) = blocks.split_at(blocks.len() * 3 / 4);
            most.iter().for_each(|&address| program.free(program.other, address));
            let freed: Vec<usize> = rest.iter().copied().step_by(2).collect();
            let live: Vec<usize> = rest.iter().copied().skip(1).step_by(2).collect();
            let now = freed.clone();
            program.at(number, move |program| {
                if collects {
                    program.collect();
                }
                now.iter().for_each(|&address| program.free(program.other, address));
            });
            program.sweep();
            program.no_more();
            program.check(&live, size);
            program.sweep();
            program.check(&live, size);
            program.all_come_back(&live, size, most.len() + freed.len());
        }
    }
}

/// What was free and what went on being used around it: realloc, usable sizes, frees of neighbours.
#[test]
fn neighbours_of_held_slots_are_as_they_were() {
    for size in SIZES {
        let program = Program::new(OPTIONS);
        let size = filling(size);
        let blocks = some_slabs(&program, size);
        let (live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
        let (stays, goes) = live.split_at(live.len() / 2);
        let (stay, go) = (stays.to_vec(), goes.to_vec());
        program.at(HELD, move |program| {
            for (number, &address) in stay.iter().enumerate() {
                let heap = if number % 2 == 0 { program.owner } else { program.other };
                let usable = program.allocator.usable_size(address, Call::UsableSize);
                assert_eq!(usable, Some(size));
                let site = code_address(SITE);
                let answer = program.allocator.resize(heap, address, size, site);
                assert!(matches!(answer, Resized::At(to) if to == address));
            }
            for (number, &address) in go.iter().enumerate() {
                let heap = if number % 2 == 0 { program.owner } else { program.other };
                program.free(heap, address);
            }
        });
        program.sweep();
        program.no_more();
        program.check(stays, size);
        program.sweep();
        program.check(stays, size);
        program.all_come_back(stays, size, freed + goes.len());
    }
}

/// What is freed while a sweep is under way is found by the next one.
#[test]
fn what_is_freed_during_a_sweep_goes_with_the_next() {
    for size in SIZES {
        for (number, remote) in [(HELD, false), (LET_GO, false), (HELD, true), (LET_GO, true)] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            // In every slab some are free, with pages.
            let run = 2 * (4096 / size).max(1);
            let goes = |n: &usize| n % (4 * run) < run;
            for n in (0..blocks.len()).filter(goes) {
                program.free(program.owner, blocks[n]);
            }
            let later: Vec<usize> =
                (0..blocks.len()).filter(|n| !goes(n)).map(|n| blocks[n]).collect();
            let bytes = blocks.len() * size;
            let before = program.resident();
            program.at(number, move |program| {
                let heap = if remote { program.other } else { program.owner };
                later.iter().for_each(|&address| program.free(heap, address));
            });
            program.sweep();
            program.no_more();
            program.check(&[], size);
            program.sweep();
            let gone = before - program.resident();
            // A claim stays, of the slab that malloc draws from.
            assert!(gone * 4 > bytes * 3, "{size} {number} {remote}: {gone} of {bytes} bytes");
            program.check(&[], size);
        }
    }
}

/// A system without barriers: slabs of running threads keep their pages, and those of threads that
/// have ended, and of the caller, do not.
#[test]
fn without_barriers_only_what_nobody_runs_goes() {
    for size in SIZES {
        let program = Program::new(OPTIONS);
        let size = filling(size);
        let blocks = some_slabs(&program, size);
        let (live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
        program.fake.at_barrier(|| false);
        let before = program.resident();
        program.allocator.purge(Some(program.other));
        assert!(program.resident() >= before, "{size}: a running thread's");
        program.check(&live, size);
        program.allocator.heaps.orphan(program.owner);
        program.sweep();
        program.check(&live, size);
        let gone = before - program.resident();
        assert!(gone * 2 > freed * size, "{size}: {gone} of {} bytes", freed * size);
        let again = birth(&program.allocator);
        assert!(core::ptr::eq(again, program.owner));
        program.all_come_back(&live, size, freed);
    }
    let program = Program::new(OPTIONS);
    let blocks = some_slabs(&program, ALMOST);
    free_most(&program, program.owner, &blocks, 100);
    program.fake.at_barrier(|| false);
    let before = program.resident();
    program.allocator.purge(Some(program.owner));
    assert!(program.resident() < before / 2, "the caller's own");
    program.allocator.check().unwrap();
}

/// Barriers that are there at first and not later: nothing is held for ever.
#[test]
fn a_barrier_that_fails_later_lets_everything_go() {
    for size in SIZES {
        for fails in [HELD, LET_GO] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            let (live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
            let mut seen = 0;
            program.fake.at_barrier(move || {
                seen += 1;
                seen != fails + 1
            });
            let before = program.resident();
            program.sweep();
            assert_eq!(program.resident() < before, fails == LET_GO, "{size}");
            program.no_more();
            program.check(&live, size);
            program.all_come_back(&live, size, freed);
        }
    }
}

/// What the system does not take back does not count as zero.
#[test]
fn refused_pages_are_not_zero() {
    for remote in [false, true] {
        for size in SIZES {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            let heap = if remote { program.other } else { program.owner };
            let (live, freed) = free_most(&program, heap, &blocks, ONE_EACH);
            program.fake.set_fault(Some(Fault::from(0)));
            let swept = program.sweep();
            assert!(program.fake.failed() > 0 && swept.bytes == 0, "{size}");
            program.fake.set_fault(None);
            program.check(&live, size);
            program.all_come_back(&live, size, freed);
        }
    }
}

/// Another thread may not take a slab out of an ended thread's heap while slots of it are held, nor
/// does the end of the thread, or the heap's next thread, lose anything.
#[test]
fn a_heap_changes_hands_while_slots_are_held() {
    for size in SIZES {
        for (number, adopted) in [(HELD, false), (HELD, true), (LET_GO, false), (LET_GO, true)] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let blocks = some_slabs(&program, size);
            let (mut live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
            let got = Arc::new(Mutex::new(Vec::new()));
            let more = got.clone();
            program.at(number, move |program| {
                program.allocator.heaps.orphan(program.owner);
                let heap = if adopted { birth(&program.allocator) } else { program.other };
                assert_eq!(core::ptr::eq(heap, program.owner), adopted);
                for _ in 0..freed / 2 {
                    more.lock().unwrap().push(program.filled(heap, size));
                }
            });
            program.sweep();
            program.no_more();
            live.extend(got.lock().unwrap().iter());
            program.check(&live, size);
            program.sweep();
            program.check(&live, size);
            for &address in &live {
                program.free(program.other, address);
            }
            program.check(&[], size);
        }
    }
}

/// Sweeps by two threads at a time: the second does nothing, and waits for no longer than it must.
#[test]
fn one_thread_at_a_time_sweeps() {
    let program = Program::new(OPTIONS);
    let blocks = some_slabs(&program, ALMOST);
    let (live, freed) = free_most(&program, program.owner, &blocks, 100);
    program.at(HELD, |program| {
        for _ in 0..3 {
            assert_eq!(program.allocator.sweep(Which::Free), None);
        }
        program.allocator.purge(Some(program.other));
    });
    program.sweep();
    program.no_more();
    program.check(&live, ALMOST);
    program.all_come_back(&live, ALMOST, freed);
}

/// A fork finds another thread in the middle of a sweep.
#[test]
fn a_fork_in_the_middle_of_a_sweep_leaves_nothing_held() {
    for size in SIZES {
        for number in [0, HELD, LET_GO] {
            for remote in [false, true] {
                let program = Program::new(OPTIONS);
                let size = filling(size);
                let blocks = some_slabs(&program, size);
                let heap = if remote { program.other } else { program.owner };
                let (live, freed) = free_most(&program, heap, &blocks, ONE_EACH);
                // The owner has collected, so that nobody would tell it of what is held.
                program.at(number, move |program| {
                    program.collect();
                    panic!("the thread is no more");
                });
                let hook = std::panic::take_hook();
                std::panic::set_hook(Box::new(|_| {}));
                let gone = catch_unwind(AssertUnwindSafe(|| program.sweep()));
                std::panic::set_hook(hook);
                assert!(gone.is_err());
                program.no_more();
                program.allocator.after_fork_in_child(program.owner);
                program.check(&live, size);
                let before = program.resident();
                program.sweep();
                let sizes = if number == LET_GO { 0 } else { freed * size / 2 };
                assert!(before - program.resident() >= sizes, "{size}: the next sweep works");
                program.check(&live, size);
                program.all_come_back(&live, size, freed);
            }
        }
    }
}

/// An owner that is in the middle of something when slots have been let go of may still act on what it
/// saw before: it is told to look again. One that is not is left alone.
#[test]
fn an_owner_that_may_have_overlooked_something_is_told() {
    for busy in [false, true] {
        let program = Program::new(OPTIONS);
        let blocks = some_slabs(&program, ALMOST);
        let (live, _) = free_most(&program, program.owner, &blocks, 256);
        let seat = Arc::new(Mutex::new(None));
        let taken = seat.clone();
        program.at(LET_GO, move |program| {
            if busy {
                *taken.lock().unwrap() = program.owner.sit();
            }
        });
        program.sweep();
        program.no_more();
        let seat = seat.lock().unwrap().take().or_else(|| program.owner.sit()).unwrap();
        let told = program.owner.collect(&seat, |_, _| panic!("a double free"), |_| {});
        assert_eq!(told, busy);
        drop(seat);
        program.check(&live, ALMOST);
    }
}

/// A fork finds another thread about to tell an owner of a slab: it has said so, and not yet done it.
#[test]
fn a_fork_in_the_middle_of_an_announcement_loses_no_slab() {
    for size in SIZES {
        let program = Program::new(OPTIONS);
        let size = filling(size);
        let blocks = some_slabs(&program, size);
        let (live, freed) = free_most(&program, program.owner, &blocks, ONE_EACH);
        let all = live.clone();
        program.at(LET_GO, move |program| {
            for &address in &all {
                with_slab(&program.allocator, address, |slab, _| slab.set_owner_flag(PENDING));
            }
            panic!("the thread is no more");
        });
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let gone = catch_unwind(AssertUnwindSafe(|| program.sweep()));
        std::panic::set_hook(hook);
        assert!(gone.is_err());
        program.no_more();
        program.allocator.after_fork_in_child(program.owner);
        live.iter().for_each(|&address| program.free(program.other, address));
        program.check(&[], size);
        program.all_come_back(&[], size, freed + live.len());
    }
}

/// A thread that had found a slot live frees it a second time just after the reclaimer has taken note of
/// the first free: named, once, whether its owner looks before the slot is let go of or not.
#[test]
fn a_slot_freed_twice_in_a_race_with_a_sweep_is_named() {
    for size in [1024, 2048, 10_240].map(filling) {
        for collects in [false, true] {
            let program = Program::new(WARN);
            let blocks = some_slabs(&program, size);
            let (live, freed) = free_most(&program, program.other, &blocks, ONE_EACH);
            let twice = freed_amid(&blocks, &live);
            program.at(HELD, move |program| {
                with_slab(&program.allocator, twice, |slab, slot| {
                    if mark_remote(slab, slot) == Marked::Unannounced {
                        announce(slab);
                    }
                });
                if collects {
                    let seat = program.owner.sit().unwrap();
                    let named = Mutex::new(0);
                    program.owner.collect(&seat, |_, _| *named.lock().unwrap() += 1, |_| {});
                    assert_eq!(*named.lock().unwrap(), 1);
                }
            });
            program.sweep();
            program.no_more();
            let reports = program.fake.take_reports();
            assert_eq!(reports.len(), usize::from(!collects), "{size}: {reports:?}");
            assert!(reports.iter().all(|line| line.contains("double free")));
            program.check(&live, size);
            program.all_come_back(&live, size, freed);
        }
    }
}

/// A slot is freed a second time while it is held, or after its page went: named, whoever does it, once.
#[test]
fn double_frees_of_held_slots_are_named() {
    for size in [1024, 2048, 10_240].map(filling) {
        for number in [HELD, LET_GO] {
            for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)] {
                let program = Program::new(WARN);
                let third = birth(&program.allocator);
                let heap = move |program: &Program, who| [program.owner, program.other, third][who];
                let blocks = some_slabs(&program, size);
                let (live, freed) = free_most(&program, heap(&program, first), &blocks, ONE_EACH);
                let twice = freed_amid(&blocks, &live);
                let is_free = |program: &Program| {
                    with_slab(&program.allocator, twice, |slab, slot| slab.state(slot))
                };
                assert_ne!(is_free(&program), SlotState::Live);
                program.at(number, move |program| program.free(heap(program, second), twice));
                program.sweep();
                program.no_more();
                let words = format!("this {size}-byte block is already free");
                let named = |reports: Vec<String>| {
                    let named = |line: &&String| line.contains(&words);
                    (reports.len(), reports.iter().filter(named).count())
                };
                assert_eq!(named(program.fake.take_reports()), (1, 1), "{size} {first} {second}");
                // And when its page has gone.
                program.free(heap(&program, second), twice);
                assert_eq!(named(program.fake.take_reports()), (1, 1), "{size} {first} {second}");
                program.check(&live, size);
                program.all_come_back(&live, size, freed);
            }
        }
    }
}

/// A slot that was never handed out is held with its neighbours: a free of it is named for what it is.
#[test]
fn a_held_slot_that_was_never_handed_out_is_named_so() {
    let program = Program::new(WARN);
    let blocks: Vec<usize> = (0..8).map(|_| program.filled(program.owner, 2048)).collect();
    // The first is claimed at once, what follows is not.
    blocks[4..].iter().for_each(|&address| program.free(program.owner, address));
    let never = blocks[0] + 100 * 2048;
    program.at(HELD, move |program| {
        program.free(program.owner, never);
        program.free(program.other, never);
    });
    program.sweep();
    program.no_more();
    let reports = program.fake.take_reports();
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(|line| line.contains("never handed out")), "{reports:?}");
}

proptest! {
    #![proptest_config(config())]

    /// Whatever other threads do at the barriers, and forks: every answer is right, nothing is lost.
    #[test]
    fn sweeps_amid_everything(seed: u64, partitions in 0u32..3, script in scripts(160)) {
        let fake = Fake::new(Machine { seed, ..Machine::LARGE });
        let options = Options { partitions: 1 << partitions, ..Options::DEFAULT };
        let mut world = World::new(fake, options).unwrap();
        world.run(&script);
        world.finish();
    }
}

/// Scripts with many sweeps, and sizes that repeat, so that slabs fill and pages are free.
fn scripts(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    let any_op = any::<[u8; OP_BYTES]>().prop_map(Op::decode);
    let size = prop::sample::select(&[64usize, 500, 1024, 2000, 5000, 20_000]);
    let burst = (0..SEATS, size, 0..3usize, 20..120usize)
        .prop_map(|(who, size, site, count)| Op::Burst { who, size, site, count });
    let free = (0..SEATS, any::<u16>(), 10..100usize)
        .prop_map(|(who, which, count)| Op::FreeMany { who, which: which.into(), count });
    let calloc = (0..SEATS, prop::sample::select(&[2000usize, 5000, 20_000]), 0..3usize)
        .prop_map(|(who, size, site)| Op::Calloc { who, size, site });
    let op = prop_oneof![
        4 => any_op,
        2 => Just(Op::Trim),
        3 => burst,
        4 => free,
        2 => calloc,
    ];
    vec(op, 1..longest)
}

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(256),
        max_shrink_time: 15_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What was kept goes by another way before all of it has grown old: a sweep ends even so.
#[test]
fn a_sweep_ends_where_nothing_is_kept_any_more() {
    let program = Program::new(Options { reclaim: Reclaim::Calls, ..OPTIONS });
    let blocks: Vec<usize> =
        (0..(24 << 20) / 1024).map(|_| program.filled(program.owner, 1024)).collect();
    blocks.iter().for_each(|&address| program.free(program.owner, address));
    assert!(program.allocator.kept_slab_bytes() > 16 << 20);
    // The first look makes them old, the next ones give some of them back, a piece at a time.
    let before = program.allocator.kept_slab_bytes();
    while program.allocator.kept_slab_bytes() == before {
        program.fake.pass(100);
        program.allocator.tend(program.other, &program.other.sit().unwrap());
    }
    program.allocator.purge(Some(program.owner));
    assert_eq!(program.allocator.kept_slab_bytes(), 0);
    program.allocator.sweep(Which::Idle).unwrap();
    program.check(&[], 1024);
}

/// What is used between two sweeps keeps its pages; what was idle between two gives them back.
#[test]
fn what_is_in_use_keeps_its_pages() {
    for size in [1024, 2048] {
        let program = Program::new(OPTIONS);
        let blocks: Vec<usize> = (0..64).map(|_| program.filled(program.owner, size)).collect();
        for &address in &blocks[1..] {
            program.free(program.owner, address);
        }
        let idle = || program.allocator.sweep(Which::Idle).unwrap();
        let calls = program.fake.calls(Request::Discard);
        for _ in 0..10 {
            let swept = idle();
            assert!(swept.more, "it is in use: there may be more later");
            program.free(program.owner, program.filled(program.owner, size));
        }
        assert_eq!(program.fake.calls(Request::Discard), calls, "{size}: in use");
        idle();
        let before = program.resident();
        let swept = idle();
        assert!(program.resident() < before && swept.bytes != 0, "{size}: idle");
        assert!(!idle().more, "{size}: nothing is left to do");
        program.check(&blocks[..1], size);
    }
}
