//! Every system call fails, each in its turn: never a panic, never a wrong answer, and when the
//! failure is over everything goes on.
//!
//! A script is run once to count its calls, and then once for each of them.

mod common;

use common::ops::{Op, random_bytes};
use common::world::World;
use toft::options::Options;
use toft::os::fake::{Fake, Fault, Machine, Request};
use toft::os::{Error, Os};

const OPTIONS: Options = Options { partitions: 4, large_keep: 1 << 20, ..Options::DEFAULT };

/// A script that uses every tier, several threads, and all kinds of system calls.
fn script(seed: u64) -> Vec<Op> {
    Op::decode_all(&random_bytes(seed, 400))
}

/// Runs two thirds of a script under a fault, and the rest after it. Says how many calls there were
/// while the fault was in force, and how many of them failed.
fn run(machine: Machine, script: &[Op], fault: Fault) -> (u64, u64) {
    let fake = Fake::new(machine);
    fake.set_fault(Some(fault));
    let (under, after) = script.split_at(script.len() * 2 / 3);
    let started = World::new(fake.clone(), OPTIONS);
    let began = started.is_ok();
    let mut world = started.unwrap_or_else(|_| {
        // Nothing to work with: then the start itself must be possible later.
        fake.set_fault(None);
        World::new(fake.clone(), OPTIONS).expect("a start after a failed one")
    });
    world.thoroughness = 16;
    world.undisturbed = false;
    if began {
        world.must_succeed = false;
        world.run(under);
    }
    let calls = (fake.all_calls(), fake.failed());
    fake.set_fault(None);
    // A place in the metadata that somebody else has is lost for good, and with it what would have
    // been described there.
    world.must_succeed =
        !fake.foreign().is_some_and(|address| is_metadata(machine, &fake, address));
    world.run(after);
    world.finish();
    calls
}

/// Whether an address lies in the upper of the allocator's two windows.
fn is_metadata(machine: Machine, fake: &Fake, address: usize) -> bool {
    address >= fake.address_space().start + machine.address_space / 64 * 45
}

/// Runs the script once for each call, with the fault that `fault` makes of the call's number.
fn every_call(machine: Machine, script: &[Op], fault: impl Fn(u64) -> Fault) {
    let (calls, failed) = run(machine, script, Fault::at(u64::MAX));
    assert!(calls > 80 && failed == 0, "{calls} calls are too few to say anything");
    let mut struck = 0;
    for number in 0..calls {
        println!("call {number} of {calls}");
        struck += u64::from(run(machine, script, fault(number)).1 != 0);
    }
    assert!(struck > calls / 3, "only {struck} of {calls} faults have struck");
}

#[test]
fn one_call_fails_for_want_of_memory() {
    every_call(Machine::LARGE, &script(1), Fault::at);
}

#[test]
fn all_calls_fail_from_one_on() {
    every_call(Machine::LARGE, &script(2), Fault::from);
}

#[test]
fn one_call_fails_on_a_small_machine() {
    let machine = Machine { address_space: 1 << 38, guards: false, ..Machine::LARGE };
    every_call(machine, &script(3), Fault::at);
}

#[test]
fn all_calls_of_one_kind_fail() {
    for seed in 10..20 {
        for kind in Request::ALL {
            run(Machine::LARGE, &script(seed), Fault::from(0).only(kind));
            run(Machine::LARGE, &script(seed), Fault::from(20).only(kind));
            run(Machine::LARGE, &script(seed), Fault::from(20).only(kind).with(Error::Unsupported));
        }
    }
}

/// Something foreign lies where the allocator wants to grow.
#[test]
fn a_foreign_mapping_is_in_the_way_of_every_mapping() {
    every_call(Machine::LARGE, &script(4), |number| Fault::at(number).foreign());
}

/// Memory is asked for where there is none, the empty slabs are to be given back, and not even that
/// succeeds: what is in their pages must not be taken for fresh.
#[test]
fn pages_that_cannot_be_given_back_do_not_count_as_zero() {
    for fault in [Fault::from(0), Fault::from(0).only(Request::Map)] {
        let fake = Fake::new(Machine::LARGE);
        let mut world = World::new(fake.clone(), OPTIONS).unwrap();
        world.undisturbed = false;
        let (who, site) = (0, 3);
        for size in [100, 2000, 10_000, 100_000] {
            world.step(Op::Burst { who, size, site, count: 4 });
        }
        // The shadow has filled them from end to end.
        world.finish();
        fake.set_fault(Some(fault));
        world.must_succeed = false;
        world.step(Op::Malloc { who, size: 4 << 20, site });
        assert_eq!(world.refused, 1);
        fake.set_fault(None);
        world.must_succeed = true;
        for size in [100, 2000, 10_000, 100_000] {
            for _ in 0..8 {
                world.step(Op::Calloc { who, size, site });
            }
        }
        world.finish();
    }
}
