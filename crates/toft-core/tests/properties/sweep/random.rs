//! Whatever other threads do, in whatever order.

use crate::cases::cases;
use crate::common::ops::{OP_BYTES, Op, THREADS};
use crate::common::world::World;
use proptest::collection::vec;
use proptest::prelude::*;
use toft_core::options::Options;
use toft_core::os::fake::{Fake, Machine};

proptest! {
    #![proptest_config(cases(256))]

    /// Whatever other threads do at the barriers, and forks: every answer is right, nothing is
    /// lost.
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
    let burst = (0..THREADS, size, 0..3usize, 20..120usize)
        .prop_map(|(who, size, site, count)| Op::Burst { who, size, site, count });
    let free = (0..THREADS, any::<u16>(), 10..100usize)
        .prop_map(|(who, which, count)| Op::FreeMany { who, which: which.into(), count });
    let calloc = (0..THREADS, prop::sample::select(&[2000usize, 5000, 20_000]), 0..3usize)
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
