//! What the owner and other threads do while slots of theirs are held, or are looked at.

use super::program::{
    ALMOST, HELD, LET_GO, ONE_EACH, OPTIONS, Program, SITE, SIZES, free_most, mostly_free,
    some_slabs,
};
use crate::common::plain::{birth, filling, with_slab};
use crate::common::world::code_address;
use std::sync::{Arc, Mutex};
use toft_core::keeper::Which;
use toft_core::os::fake::{Fault, Request};
use toft_core::path::Resized;
use toft_core::report::Call;
use toft_core::stats::snapshot;

/// The owner allocates at a barrier: it claims slots, and takes and drops its reentrancy guard.
#[test]
fn an_owner_that_claims_at_the_barrier_is_seen() {
    for size in SIZES {
        for number in [0, HELD, LET_GO] {
            let (program, size, mut live, freed) = mostly_free(size, false);
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

/// A slab whose free slots are all held leaves its list: it is on one again when they are let go
/// of.
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
                    let reserved = slab
                        .all_slots()
                        .filter(|&slot| slab.reserved().is_never_handed_out(slot))
                        .count();
                    (slab.is_listed(), (slab.slots() - live - reserved) * 4 >= slab.slots())
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
            program.allocator.sweeper().purge(Some(program.owner));
            program.check(&[], size);
            program.all_come_back(&[], size, blocks.len());
        }
    }
}

/// Blocks that others free while their neighbours are held, and blocks that are freed while the
/// slots that others have freed before are held.
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
        let (program, size, live, freed) = mostly_free(size, false);
        let (stays, goes) = live.split_at(live.len() / 2);
        let (stay, go) = (stays.to_vec(), goes.to_vec());
        program.at(HELD, move |program| {
            for (number, &address) in stay.iter().enumerate() {
                let heap = if number % 2 == 0 { program.owner } else { program.other };
                let usable = program.allocator.requests().usable_size(address, Call::UsableSize);
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

/// Another thread may not take a slab out of an ended thread's heap while slots of it are held, nor
/// does the end of the thread, or the heap's next thread, lose anything.
#[test]
fn a_heap_changes_hands_while_slots_are_held() {
    for size in SIZES {
        for (number, adopted) in [(HELD, false), (HELD, true), (LET_GO, false), (LET_GO, true)] {
            let (program, size, mut live, freed) = mostly_free(size, false);
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
            assert_eq!(program.allocator.sweeper().sweep(Which::Free), None);
        }
        program.allocator.sweeper().purge(Some(program.other));
    });
    program.sweep();
    program.no_more();
    program.check(&live, ALMOST);
    program.all_come_back(&live, ALMOST, freed);
}

/// An owner that is in the middle of something when slots have been let go of may still act on what
/// it saw before: the reclaimer notifies it. One that is not is left alone.
#[test]
fn an_owner_that_may_have_overlooked_something_is_notified() {
    for busy in [false, true] {
        let program = Program::new(OPTIONS);
        let blocks = some_slabs(&program, ALMOST);
        let (live, _) = free_most(&program, program.owner, &blocks, 256);
        let guard = Arc::new(Mutex::new(None));
        let taken = guard.clone();
        program.at(LET_GO, move |program| {
            if busy {
                *taken.lock().unwrap() = program.owner.enter();
            }
        });
        program.sweep();
        program.no_more();
        let guard = guard.lock().unwrap().take().or_else(|| program.owner.enter()).unwrap();
        let notified = program.owner.collect(&guard, |_, _| panic!("a double free"), |_| {});
        assert_eq!(notified, busy);
        drop(guard);
        program.check(&live, ALMOST);
    }
}
