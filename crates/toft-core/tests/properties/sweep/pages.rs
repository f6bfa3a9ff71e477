//! Which pages a sweep gives back, and which stay.

use super::program::{
    ALMOST, HELD, LET_GO, ONE_EACH, OPTIONS, Program, SIZES, free_most, mostly_free, some_claimed,
    some_slabs,
};
use crate::common::plain::{birth, fill_short_slabs, filling, with_slab};
use toft_core::keeper::Which;
use toft_core::options::{Options, Reclaim};
use toft_core::os::fake::{Fault, Request};
use toft_core::stats::snapshot;

#[test]
fn pages_of_a_sleeping_thread_go() {
    for size in SIZES {
        for purge in [false, true] {
            let (program, size, live, freed) = mostly_free(size, false);
            let before = program.resident();
            let said = if purge {
                program.allocator.sweeper().purge(Some(program.other))
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

/// While the system refuses memory no slot of a running thread is held, even for a moment: its
/// malloc may have nothing else. The thread gives its pages back itself.
#[test]
fn under_pressure_running_threads_give_back_their_own_pages() {
    for pressure in [false, true] {
        let (program, size, live, freed) = mostly_free(1024, false);
        let idle = || program.allocator.sweeper().sweep(Which::Idle).unwrap().bytes;
        if pressure {
            program.allocator.pressure().refused();
        }
        let (first, before) = (idle(), program.resident());
        let swept = first + idle();
        assert_eq!(swept == 0, pressure, "{swept}");
        if pressure {
            // Its next slow paths.
            for _ in 0..3 {
                program.fake.pass(1000);
                let guard = program.owner.enter().unwrap();
                program.allocator.maintenance().maintain(program.owner, &guard);
            }
            let gone = before - program.resident();
            assert!(gone * 2 > freed * size, "{gone} of {} bytes", freed * size);
        }
        program.check(&live, size);
    }
}

/// A running thread may be about to take what it has claimed, so those pages stay. They go with a
/// purge by the thread itself, and when the thread has exited.
#[test]
fn what_a_thread_has_claimed_stays_while_it_runs() {
    for size in [1024, 2000, 3000, 10_240] {
        for exits in [false, true] {
            let program = Program::new(OPTIONS);
            let size = filling(size);
            let (live, free) = some_claimed(&program, size);
            let claim = || with_slab(&program.allocator, live[0], |slab, _| slab.claimed());
            let claimed = claim();
            program.sweep();
            let before = program.resident();
            let swept = program.sweep();
            assert_eq!((swept.bytes, swept.more, claim()), (0, false, claimed), "{size}");
            assert_eq!(program.resident(), before, "{size}");
            if exits {
                program.allocator.heaps.orphan(program.owner);
                program.sweep();
            } else {
                program.allocator.sweeper().purge(Some(program.owner));
            }
            assert!(program.resident() < before && claim() == 0, "{size}: {exits}");
            program.check(&live, size);
            if exits {
                assert!(core::ptr::eq(birth(&program.allocator), program.owner));
            }
            program.all_come_back(&live, size, free);
        }
    }
}

/// Whatever the owner is in the middle of: nothing of its slabs goes, and later all of it does.
#[test]
fn nothing_goes_of_a_thread_that_is_in_the_middle_of_something() {
    for size in SIZES {
        let (program, size, live, freed) = mostly_free(size, false);
        let before = program.resident();
        let guard = program.owner.enter().unwrap();
        program.sweep();
        let swept = program.sweep();
        assert!(program.resident() >= before, "{size}");
        assert!(swept.more, "{size}: there is something to come back for");
        drop(guard);
        program.check(&live, size);
        program.sweep();
        program.check(&live, size);
        let gone = before - program.resident();
        assert!(gone * 2 > freed * size, "{size}: {gone} of {} bytes", freed * size);
        program.all_come_back(&live, size, freed);
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
        let (program, size, live, freed) = mostly_free(size, false);
        program.fake.at_barrier(|| false);
        let before = program.resident();
        program.allocator.sweeper().purge(Some(program.other));
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
    program.allocator.sweeper().purge(Some(program.owner));
    assert!(program.resident() < before / 2, "the caller's own");
    program.allocator.check().unwrap();
}

/// Barriers that are there at first and not later: nothing is held for ever.
#[test]
fn a_barrier_that_fails_later_lets_everything_go() {
    for size in SIZES {
        for fails in [HELD, LET_GO] {
            let (program, size, live, freed) = mostly_free(size, false);
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
            let (program, size, live, freed) = mostly_free(size, remote);
            program.fake.set_fault(Some(Fault::from(0)));
            let swept = program.sweep();
            assert!(program.fake.failed() > 0 && swept.bytes == 0, "{size}");
            program.fake.set_fault(None);
            program.check(&live, size);
            program.all_come_back(&live, size, freed);
        }
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
        program.allocator.maintenance().maintain(program.other, &program.other.enter().unwrap());
    }
    program.allocator.sweeper().purge(Some(program.owner));
    assert_eq!(program.allocator.kept_slab_bytes(), 0);
    program.allocator.sweeper().sweep(Which::Idle).unwrap();
    program.check(&[], 1024);
}

/// What is used between two sweeps keeps its pages; what was idle between two gives them back.
#[test]
fn what_is_in_use_keeps_its_pages() {
    // Blocks of several groups of a slab, because what is claimed stays.
    for (size, count) in [(256, 150), (512, 80)] {
        let (program, size) = (Program::new(OPTIONS), filling(size));
        let mut live = fill_short_slabs(size, || program.filled(program.owner, size));
        let blocks: Vec<usize> = (0..count).map(|_| program.filled(program.owner, size)).collect();
        live.push(blocks[0]);
        for &address in &blocks[1..] {
            program.free(program.owner, address);
        }
        let idle = || program.allocator.sweeper().sweep(Which::Idle).unwrap();
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
        program.check(&live, size);
    }
}
