//! System calls fail, each in its turn: never a panic, never a wrong answer, and when the failure
//! is over everything goes on.
//!
//! A script is run once to count its calls, and then once for every third of them. The secure
//! builds, which take 3 times as long, take every sixth.

use crate::common::ops::{Op, random_bytes};
use crate::common::world::World;
use toft_core::options::{Options, Reclaim};
use toft_core::os::fake::{Fake, Fault, Machine, Request};
use toft_core::os::{Error, Memory};
use toft_core::policy::SECURE;

const OPTIONS: Options = Options { partitions: 4, ..Options::DEFAULT };

/// Distance between the calls, and between the scripts, that are taken.
const STRIDE: usize = if SECURE { 6 } else { 3 };

/// The number of steps of a script, at most, that are made after a call has failed, and then while
/// calls succeed.
const MORE: usize = 100;

/// A script that uses blocks of every kind, several threads, and all kinds of system calls.
fn script(seed: u64) -> Vec<Op> {
    Op::decode_all(&random_bytes(seed, 300))
}

/// Runs two thirds of a script under a fault, and the rest after it. Returns the number of calls
/// (of a kind) while the fault was in force, and how many of them failed.
fn run(machine: Machine, script: &[Op], kind: Option<Request>, fault: Fault) -> (u64, u64) {
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
        world.run_beyond(|| fake.failed() > 0, MORE, under);
    }
    let calls = (kind.map_or(fake.all_calls(), |kind| fake.calls(kind)), fake.failed());
    fake.set_fault(None);
    // A place in the metadata that other code has is lost for good, and with it what would have
    // been described there.
    world.must_succeed =
        !fake.foreign().is_some_and(|address| is_metadata(machine, &fake, address));
    world.run(&after[..after.len().min(MORE)]);
    world.finish();
    calls
}

/// Whether an address is in the upper of the allocator's two windows.
fn is_metadata(machine: Machine, fake: &Fake, address: usize) -> bool {
    address >= fake.address_space().start + machine.address_space / 64 * 45
}

/// Runs the script once for each call (of a kind), with the fault that `fault` makes of the call's
/// number.
fn every_call(
    machine: Machine,
    script: &[Op],
    kind: Option<Request>,
    fault: impl Fn(u64) -> Fault,
) {
    let (calls, failed) = run(machine, script, kind, Fault::at(u64::MAX));
    assert!(calls > 80 && failed == 0, "{calls} calls are too few to say anything");
    let mut struck = 0;
    for number in (0..calls).step_by(STRIDE) {
        println!("call {number} of {calls}");
        struck += u64::from(run(machine, script, kind, fault(number)).1 != 0);
    }
    assert!(struck > calls / 3 / STRIDE as u64, "only {struck} of {calls} faults have struck");
}

#[test]
fn one_call_fails_for_want_of_memory() {
    every_call(Machine::LARGE, &script(1), None, Fault::at);
}

#[test]
fn all_calls_fail_from_one_on() {
    every_call(Machine::LARGE, &script(2), None, Fault::from);
}

#[test]
fn one_call_fails_on_a_small_machine() {
    let machine = Machine { address_space: 1 << 38, guards: false, ..Machine::LARGE };
    every_call(machine, &script(3), None, Fault::at);
}

/// Runs scripts under a fault of each kind of call.
fn all_calls_of_each_kind(fault: impl Fn(Request) -> Fault) {
    for seed in (10..16).step_by(STRIDE) {
        for kind in Request::ALL {
            run(Machine::LARGE, &script(seed), None, fault(kind));
        }
    }
}

// Three tests, so that they run at the same time.
#[test]
fn all_calls_of_one_kind_fail_from_the_start() {
    all_calls_of_each_kind(|kind| Fault::from(0).only(kind));
}

#[test]
fn all_calls_of_one_kind_fail_from_one_on() {
    all_calls_of_each_kind(|kind| Fault::from(20).only(kind));
}

#[test]
fn all_calls_of_one_kind_are_unsupported_from_one_on() {
    all_calls_of_each_kind(|kind| Fault::from(20).only(kind).with(Error::Unsupported));
}

/// Something foreign lies where the allocator wants to grow.
#[test]
fn a_foreign_mapping_is_in_the_way_of_every_mapping() {
    let map = Some(Request::Map);
    // Few calls of a program with enough memory map: it takes more of them. In the secure builds
    // each slab is mapped.
    let script = Op::decode_all(&random_bytes(4, if SECURE { 1200 } else { 2400 }));
    every_call(Machine::LARGE, &script, map, |number| Fault::at(number).foreign());
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

/// Large blocks of several call sites and sizes, while one kind of call always fails. Requests are
/// met all the same, contents stay, zeroed memory is zero, and the invariants hold after every
/// step. What is kept is bounded, unless it is giving back itself that fails.
#[test]
fn large_blocks_do_without_calls_that_fail() {
    for reclaim in [Reclaim::Off, Reclaim::Calls] {
        let options = Options { reclaim, ..OPTIONS };
        for kind in [Request::Discard, Request::Relocate, Request::Extend, Request::Unmap] {
            large_blocks_do_without(kind, options);
        }
    }
}

/// Allocates, resizes and frees large blocks while one kind of call always fails.
fn large_blocks_do_without(kind: Request, options: Options) {
    for error in [Error::NoMemory, Error::Occupied, Error::Unsupported] {
        let fake = Fake::new(Machine::LARGE);
        let mut world = World::new(fake.clone(), options).unwrap();
        world.thoroughness = 16;
        world.undisturbed = false;
        fake.set_fault(Some(Fault::from(0).only(kind).with(error)));
        for step in 0..240 {
            let size = (140 << 10) + (step * 7919 % 97) * (30 << 10);
            let (who, which, site) = (0, step * 13, step * 5 % 7);
            world.step(match step % 6 {
                0..=2 => Op::Malloc { who, size, site },
                3 => Op::Calloc { who, size, site },
                4 => Op::Realloc { who, which, size, site },
                _ => Op::Free { who, which },
            });
            if step > 60 {
                world.step(Op::Free { who, which: which + 1 });
            }
            world.allocator.check().unwrap();
            let large = world.allocator.large().figures();
            let (live, kept) = (large.live_bytes(), large.kept_bytes());
            let bound = match options.reclaim {
                _ if kind == Request::Unmap => 2 * large.peak_bytes(),
                // Where calls give back, it is as much as was live a moment ago.
                Reclaim::Calls => large.peak_bytes() / 4 * 5,
                _ => live,
            };
            assert!(kept <= bound + (1 << 20), "{kind:?}: {kept} kept, {live} live");
        }
        // The secure build unmaps what is freed, and discards nothing but where it cannot.
        let asked = !(SECURE && kind == Request::Discard);
        assert!(fake.failed() > 0 || !asked, "{kind:?} was never asked for");
        assert_eq!(world.refused, 0, "{kind:?}");
        fake.set_fault(None);
        world.finish();
        world.step(Op::Trim);
        let kept = world.allocator.large().figures().kept_bytes();
        assert_eq!(kept, 0, "{kind:?}: what could not be given back is, when it can be");
    }
}
