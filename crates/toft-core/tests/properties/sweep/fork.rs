//! A fork finds another thread in the middle of a sweep.

use super::program::{HELD, LET_GO, Program, SIZES, mostly_free};
use crate::common::plain::with_slab;
use std::panic::{AssertUnwindSafe, catch_unwind};
use toft_core::slab::PENDING;

/// A sweep by a thread that ends at the barrier where the test says so; and then its process is the
/// child of a fork.
fn fork_amid_a_sweep(program: &Program) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let gone = catch_unwind(AssertUnwindSafe(|| program.sweep()));
    std::panic::set_hook(hook);
    assert!(gone.is_err());
    program.no_more();
    program.allocator.after_fork_in_child(program.owner);
}

#[test]
fn a_fork_in_the_middle_of_a_sweep_leaves_nothing_held() {
    for size in SIZES {
        for number in [0, HELD, LET_GO] {
            for remote in [false, true] {
                let (program, size, live, freed) = mostly_free(size, remote);
                // The owner has collected, so no thread would notify it of what is held.
                program.at(number, move |program| {
                    program.collect();
                    panic!("the thread is no more");
                });
                fork_amid_a_sweep(&program);
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

/// A fork finds another thread about to tell an owner of a slab: it has said so, and not yet done
/// it.
#[test]
fn a_fork_in_the_middle_of_an_announcement_loses_no_slab() {
    for size in SIZES {
        let (program, size, live, freed) = mostly_free(size, false);
        let all = live.clone();
        program.at(LET_GO, move |program| {
            for &address in &all {
                with_slab(&program.allocator, address, |slab, _| slab.set_owner_flag(PENDING));
            }
            panic!("the thread is no more");
        });
        fork_amid_a_sweep(&program);
        live.iter().for_each(|&address| program.free(program.other, address));
        program.check(&[], size);
        program.all_come_back(&[], size, freed + live.len());
    }
}
