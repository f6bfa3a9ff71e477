//! The whole core over the fake operating system, against a shadow model.
//!
//! `cargo test -p toft-core --features fake-os --test properties model`; `PROPTEST_CASES` sets how
//! many scripts are drawn for each property.

use crate::cases::cases;
use crate::common::ops::{OP_BYTES, Op, THREADS};
use crate::common::world::World;
use proptest::collection::vec;
use proptest::prelude::*;
use toft_core::options::Options;
use toft_core::os::fake::{Fake, Machine};

/// Scripts of operations.
fn scripts(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; OP_BYTES]>().prop_map(Op::decode), 1..longest)
}

fn options() -> impl Strategy<Value = Options> {
    let partitions = prop_oneof![Just(1), Just(2), Just(8), Just(64)];
    partitions.prop_map(|partitions| Options { partitions, ..Options::DEFAULT })
}

fn run(machine: Machine, options: Options, script: &[Op]) -> World {
    let fake = Fake::new(machine);
    let mut world = World::new(fake, options).expect("there is memory for the tables");
    world.run(script);
    world.finish();
    world
}

// Few enough cases for every run of the tests; the environment asks for more. A failure is cut
// short for a while only, and its seed is printed, not kept in a file.
proptest! {
    #![proptest_config(cases(256))]

    /// Overlap, alignment, contents, zeroing, usable sizes, law 1, exact reports.
    #[test]
    fn every_answer_is_right(seed: u64, options in options(), script in scripts(120)) {
        run(Machine { seed, ..Machine::LARGE }, options, &script);
    }

    /// As the test above, where plots are small and share granules, and with other pages.
    #[test]
    fn every_answer_is_right_on_other_machines(
        seed: u64,
        options in options(),
        script in scripts(100),
        page_shift in 12u32..17,
        space_shift in 33u32..44,
        guards: bool,
    ) {
        let machine = Machine {
            address_space: 1 << space_shift,
            page_size: 1 << page_shift,
            seed,
            guards,
        };
        run(machine, options, &script);
    }

    /// Where memory is short, a request may not be met, but nothing else may go wrong; when there
    /// is memory again, every request is met.
    #[test]
    fn a_limit_refuses_and_nothing_more(
        seed: u64,
        options in options(),
        before in scripts(40),
        short in scripts(100),
        after in scripts(40),
        room in 0usize..4 << 20,
    ) {
        let fake = Fake::new(Machine { seed, ..Machine::LARGE });
        let mut world = World::new(fake.clone(), options).unwrap();
        world.run(&before);
        fake.set_limit(fake.mapped_bytes() + room);
        world.must_succeed = false;
        world.undisturbed = false;
        world.run(&short);
        fake.set_limit(usize::MAX);
        world.must_succeed = true;
        world.run(&after);
        world.finish();
    }
}

/// A request that no system could meet makes everybody give back what was mapped ahead of need. In
/// a small address space that must not be lost.
#[test]
fn what_is_refused_once_costs_no_other_request() {
    for space_shift in 33..38 {
        for seed in 0..8 {
            let options = Options { partitions: 64, ..Options::DEFAULT };
            let machine = Machine { address_space: 1 << space_shift, seed, ..Machine::LARGE };
            let (who, site) = (0, 5);
            let mut script = vec![];
            for round in 0..6 {
                script.push(Op::Burst { who, size: 67_776, site, count: 56 });
                script.push(Op::Malloc { who, size: 1 << 47, site });
                script.push(Op::Malloc { who, size: 1024 + round, site });
                script.push(Op::Malloc { who, size: 100, site });
            }
            run(machine, options, &script);
        }
    }
}

/// From a script that was drawn: while a handler that has interrupted a change gives memory back,
/// that thread ends, and another that has no heap borrows the one that was left. It was refused
/// memory.
#[test]
fn a_thread_that_ends_in_the_middle_of_a_change_costs_no_other_a_request() {
    let (who, site) = (0, 0);
    // How much of it falls into the barrier depends on where that is.
    for before in 0..24 {
        let mut script = vec![Op::Malloc { who, size: 0, site }; before];
        script.extend([Op::Birth, Op::Interrupt { who: 1 }, Op::Trim, Op::Exit { who: 1 }]);
        script.push(Op::Malloc { who: THREADS, size: 256, site });
        script.extend([Op::Birth, Op::Malloc { who: 1, size: 256, site }]);
        run(Machine::LARGE, Options::DEFAULT, &script);
    }
}

/// A zero-size block becomes a large one where there is no memory for the table of the others. It
/// takes no pages of a free block.
#[test]
fn a_zero_size_block_takes_over_no_pages() {
    let malloc = |size| Op::Malloc { who: 0, size, site: 0 };
    let fake = Fake::new(Machine { seed: 0, ..Machine::LARGE });
    let options = Options { partitions: 1, ..Options::DEFAULT };
    let mut world = World::new(fake.clone(), options).unwrap();
    let sizes = [0, 0, 0, 0, 0, 1 << 20, 1025, 0, 0];
    world.run(&sizes.map(malloc));
    world.run(&[Op::Burst { who: 0, size: 178, site: 0, count: 14 }, malloc(0)]);
    fake.set_limit(fake.mapped_bytes() + 25_419);
    world.must_succeed = false;
    world.undisturbed = false;
    world.run(&[
        malloc(133_120),
        Op::FreeMany { who: 0, which: 11_008, count: 18 },
        Op::Aligned { who: 0, size: 0, align: 8192, site: 0 },
    ]);
    fake.set_limit(usize::MAX);
    world.must_succeed = true;
    world.run(&[malloc(0)]);
    world.finish();
}
