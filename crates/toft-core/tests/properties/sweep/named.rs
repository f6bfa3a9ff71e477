//! Misuse of slots that a sweep holds is named as any other.

use super::program::{HELD, LET_GO, ONE_EACH, Program, WARN, free_most, some_slabs};
use crate::common::plain::{birth, fill_short_slabs, filling, with_slab};
use std::sync::Mutex;
use toft_core::remote::{Marked, announce, mark_remote};
use toft_core::slab::SlotState;

/// One in the middle that was freed, on a page without a live one.
fn freed_amid(blocks: &[usize], live: &[usize]) -> usize {
    let mut half = blocks[blocks.len() / 2..].iter();
    *half.find(|block| live.iter().all(|live| live.abs_diff(**block) > 16 << 10)).unwrap()
}

/// A thread that had found a slot live frees it a second time just after the reclaimer has taken
/// note of the first free: named, once, whether its owner looks before the slot is let go of or
/// not.
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
                    let guard = program.owner.enter().unwrap();
                    let named = Mutex::new(0);
                    program.owner.collect(&guard, |_, _| *named.lock().unwrap() += 1, |_| {});
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

/// A slot is freed a second time while it is held, or after its page went: named once, whichever
/// thread does it.
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

/// A slot that was never handed out is held with its neighbours: a free of it is named for what it
/// is.
#[test]
fn a_held_slot_that_was_never_handed_out_is_named_so() {
    let program = Program::new(WARN);
    fill_short_slabs(2048, || program.filled(program.owner, 2048));
    let blocks: Vec<usize> = (0..8).map(|_| program.filled(program.owner, 2048)).collect();
    // The first is claimed at once, what follows is not.
    blocks[4..].iter().for_each(|&address| program.free(program.owner, address));
    let never = blocks[0] + 50 * 2048;
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
