//! `TOFT_LIMIT`: what may be resident stays within it, what is not resident does not count, and who
//! gives something back can have it again.

use crate::cases::cases;
use crate::common::ops::{OP_BYTES, Op};
use crate::common::plain::{birth, filling};
use crate::common::shadow::bytes_of;
use crate::common::world::{World, code_address};
use proptest::collection::vec;
use proptest::prelude::*;
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::options::{LimitTo, Options};
use toft_core::os::fake::{Fake, Machine};
use toft_core::path::Resized;
use toft_core::policy::SECURE;
use toft_core::report::Call;
use toft_core::slab::{MEDIUM_MAX, SizeClass};
use toft_core::thread::Heap;

const MIB: usize = 1 << 20;
/// Metadata is counted, but never refused: descriptors of large blocks come 64 KiB at a time, those
/// of slabs two pages at most for each partition, a heap for each thread.
const METADATA: usize = 512 << 10;

fn limited(partitions: usize, bytes: usize) -> Options {
    Options { partitions, limit: LimitTo::Bytes(bytes), ..Options::DEFAULT }
}

/// As `limited`, where nothing waits in a quarantine.
fn limited_at_once(partitions: usize, bytes: usize) -> Options {
    Options { quarantine: 0, ..limited(partitions, bytes) }
}

struct Program {
    fake: Fake,
    allocator: Allocator<Fake>,
    heap: &'static Heap,
    limit: usize,
    /// Resident bytes of tables that do not count, before anything was allocated.
    begin: usize,
}

impl Program {
    fn new(partitions: usize, limit: usize) -> Program {
        Program::with(limited(partitions, limit), limit)
    }

    fn with(options: Options, limit: usize) -> Program {
        let fake = Fake::new(Machine::LARGE);
        let allocator = Allocator::new(fake.clone(), options, false).unwrap();
        // There is no filter: other threads' slabs can be reached.
        allocator.filter().watch();
        let heap = birth(&allocator);
        let begin = fake.resident_bytes();
        Program { fake, allocator, heap, limit, begin }
    }

    /// A block that was written to.
    fn take(&self, size: usize, site: usize) -> Option<usize> {
        let address = self.allocator.allocate(self.heap, size, code_address(site))?;
        bytes_of(address, size).fill(7);
        Some(address)
    }

    fn free(&self, address: usize) {
        self.allocator.free(self.heap, address, Call::Free);
    }

    /// As many blocks as there are.
    fn exhaust(&self, size: usize, site: usize) -> Vec<usize> {
        let blocks: Vec<usize> = std::iter::from_fn(|| self.take(size, site)).collect();
        self.hold();
        blocks
    }

    /// Holds the allocator to its limit.
    fn hold(&self) {
        self.hold_but_for(0);
    }

    /// Holds the allocator to its limit. `uncounted` bytes more may be resident than are counted.
    fn hold_but_for(&self, uncounted: usize) {
        self.allocator.check().unwrap();
        let counted = self.allocator.counted_bytes();
        assert!(counted <= self.limit + METADATA, "{counted} of {}", self.limit);
        let resident = self.fake.resident_bytes() - self.begin;
        let most = counted + METADATA + uncounted;
        assert!(resident <= most, "{resident} resident, {counted} counted");
    }
}

#[test]
fn memory_of_every_size_ends_at_the_limit_and_comes_again() {
    for size in [filling(16), 100, 1000, 1500, 5000, 60_000, filling(131_072), 140_000, 3 * MIB] {
        let program = Program::with(limited_at_once(4, 16 * MIB), 16 * MIB);
        let blocks = program.exhaust(size, 3);
        // All but the metadata and the last slab or block.
        let had = blocks.len() * size;
        let lost = METADATA + 2 * size.max(512 << 10) + 16 * MIB / 5;
        assert!(had + lost > program.limit, "{size}: {had}");
        for half in [0, 1] {
            blocks.iter().skip(half).step_by(2).for_each(|&address| program.free(address));
        }
        let again = program.exhaust(size, 3);
        assert!(again.len() + 2 >= blocks.len(), "{size}: {} of {}", again.len(), blocks.len());
        again.iter().for_each(|&address| program.free(address));
        // Another size can have it, too, wherever memory is idle.
        let other = if size > 2000 { 700 } else { 40_000 };
        let others = program.exhaust(other, 5);
        assert!(others.len() * other * 10 > had * 7, "{size}: {} of {had}", others.len() * other);
    }
}

/// Requests more than is left, in the middle of a sweep: in a call that has interrupted the thread
/// that sweeps, or in another thread. Returns how often the request waits for the sweep.
fn waits_within_a_sweep(interrupts: bool) -> u64 {
    let program: &'static Program = Box::leak(Box::new(Program::new(4, 16 * MIB)));
    assert!(!program.exhaust(140_000, 3).is_empty());
    let heap = birth(&program.allocator);
    let before = program.fake.waits();
    program.fake.at_barrier(move || {
        let request = || program.allocator.allocate(heap, 3 * MIB, code_address(5));
        let block = if interrupts {
            request()
        } else {
            std::thread::scope(|scope| scope.spawn(request).join().unwrap())
        };
        assert_eq!(block, None);
        true
    });
    program.allocator.sweeper().sweep(Which::Free).unwrap();
    program.fake.at_barrier(|| true);
    program.fake.waits() - before
}

/// A memory hook or a signal handler would wait for the thread that it runs on.
#[test]
fn a_refused_request_waits_for_other_threads_only() {
    assert_eq!(waits_within_a_sweep(true), 0);
    assert_ne!(waits_within_a_sweep(false), 0);
}

#[test]
fn what_was_freed_beside_live_blocks_serves_other_sizes() {
    let program = Program::new(4, 16 * MIB);
    let blocks = program.exhaust(500, 3);
    for (number, &address) in blocks.iter().enumerate() {
        if number % 64 != 0 {
            program.free(address);
        }
    }
    let others = program.exhaust(28_000, 5);
    assert!(others.len() * 28_000 > 10 * MIB, "{}", others.len() * 28_000);
    for &address in blocks.iter().step_by(64) {
        assert!(bytes_of(address, 500).iter().all(|&byte| byte == 7));
    }
}

#[test]
fn slots_that_nobody_has_touched_do_not_count_until_they_are_used() {
    // The default build has more and shorter slabs.
    let (partitions, sites, sizes_end, limit) =
        if SECURE { (4, 12, 40_000, 16 * MIB) } else { (64, 64, 4097, 3 * MIB) };
    let program = Program::new(partitions, limit);
    let sizes: Vec<usize> = SizeClass::all()
        .map(SizeClass::size)
        .filter(|size| (1025..sizes_end).contains(size))
        .map(filling)
        .collect();
    // Of each slab a claim is touched.
    let mut slabs = 0;
    for site in 0..sites {
        for &size in &sizes {
            slabs += usize::from(program.take(size, site).is_some());
        }
    }
    assert_eq!(slabs, sites * sizes.len());
    let mut bytes = 0;
    program.allocator.for_each_slab(|slab| bytes += slab.slots() * slab.size());
    assert!(bytes > 2 * program.limit, "{bytes} bytes of slabs");
    program.hold();
    let (_, counts) = program.allocator.memory_limit().limit_figures();
    assert!(counts > 0);
    // What does not count now counts when malloc draws from it: nowhere is it overlooked.
    let mut live = 0;
    for round in 0.. {
        let before = live;
        for site in 0..sites {
            for &size in &sizes {
                live += program.take(size, site).map_or(0, |_| size);
            }
        }
        if round % 8 == 0 {
            program.hold();
        }
        if live == before {
            break;
        }
    }
    program.hold();
    // The secure builds had 7 to 9 of 16 MiB.
    assert!(live > program.limit / 3, "{live}");
    assert!(program.allocator.memory_limit().limit_figures().0 > 0);
}

#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn kept_blocks_go_before_a_request_is_refused() {
    let program = Program::new(4, 16 * MIB);
    let blocks = [(); 2].map(|()| program.take(6 * MIB, 3).unwrap());
    program.free(blocks[0]);
    assert!(program.allocator.large().figures().kept_bytes() >= 5 * MIB);
    assert!(program.exhaust(1000, 3).len() * 1000 > 6 * MIB);
    assert_eq!(program.allocator.large().figures().kept_bytes(), 0);
}

#[test]
fn a_block_that_cannot_grow_stays_and_one_that_shrinks_always_can() {
    let program = Program::new(4, 16 * MIB);
    for (size, less) in [(4 * MIB, 200_000), (100_000, 3000), (1000, 100)] {
        let block = program.take(size, 3).unwrap();
        let rest = program.exhaust(60_000, 4);
        let rest_small = program.exhaust(16, 4);
        for more in [15 * MIB, 5 * MIB, 1 << 40, isize::MAX as usize] {
            let got = program.allocator.resize(program.heap, block, more, code_address(3));
            assert_eq!(got, Resized::NoMemory);
            assert!(bytes_of(block, size).iter().all(|&byte| byte == 7));
        }
        let Resized::At(now) = program.allocator.resize(program.heap, block, less, code_address(3))
        else {
            panic!("{size}: smaller must be possible")
        };
        assert!(bytes_of(now, less).iter().all(|&byte| byte == 7));
        program.hold();
        rest.iter().chain(&rest_small).chain([&now]).for_each(|&address| program.free(address));
        let Resized::At(now) = program.allocator.resize(
            program.heap,
            program.take(size, 3).unwrap(),
            10 * MIB,
            code_address(3),
        ) else {
            panic!("{size}: there is room now")
        };
        program.hold();
        program.free(now);
    }
}

#[test]
fn a_large_block_counts_in_full_touched_or_not() {
    let program = Program::new(4, 16 * MIB);
    let heap = program.heap;
    assert_eq!(program.allocator.allocate_zeroed(heap, 17 * MIB, code_address(1)), None);
    let block = program.allocator.allocate_zeroed(heap, 15 * MIB, code_address(1)).unwrap();
    assert_eq!(program.allocator.allocate(heap, 2 * MIB, code_address(1)), None);
    program.free(block);
    assert!(program.allocator.allocate(heap, 15 * MIB, code_address(2)).is_some());
}

#[test]
fn without_a_limit_nothing_is_refused_and_nothing_is_counted() {
    let fake = Fake::new(Machine::LARGE);
    let allocator = Allocator::new(fake, Options::DEFAULT, false).unwrap();
    let heap = birth(&allocator);
    for size in [1000, 60_000, 3 * MIB] {
        for _ in 0..64 * MIB / size {
            assert!(allocator.allocate(heap, size, code_address(1)).is_some());
        }
    }
    assert_eq!(allocator.memory_limit().limit_figures(), (0, 0));
    allocator.for_each_slab(|slab| assert!(slab.is_awake()));
}

#[test]
fn a_share_is_of_what_there_is() {
    let fake = Fake::new(Machine::LARGE);
    fake.set_memory(20 * MIB);
    let options = Options { limit: LimitTo::Percent(80), ..limited(4, 1) };
    let allocator = Allocator::new(fake, options, false).unwrap();
    let heap = birth(&allocator);
    assert!(allocator.allocate(heap, 17 * MIB, code_address(1)).is_none());
    assert!(allocator.allocate(heap, 15 * MIB, code_address(1)).is_some());
}

#[test]
fn the_first_refusal_is_reported_unless_reports_are_silenced() {
    let program = Program::new(4, 8 * MIB);
    assert!(program.take(9 * MIB, 1).is_none() && program.take(9 * MIB, 1).is_none());
    let [line] = &program.fake.take_reports()[..] else { panic!("one line is expected") };
    assert!(line.starts_with("toft: TOFT_LIMIT refused a block of 9437184 bytes: "), "{line}");
    assert!(line.contains(" of 8388608 bytes are in use; "), "{line}");

    let program = Program::new(4, 8 * MIB);
    program.exhaust(1000, 1);
    let reports = program.fake.take_reports();
    assert!(reports.len() == 1 && reports[0].contains(" bytes, which needs a slab of "));

    let options = Options { in_silence: true, ..limited(4, 8 * MIB) };
    let program = Program::with(options, 8 * MIB);
    assert!(program.take(9 * MIB, 1).is_none());
    assert!(program.fake.take_reports().is_empty());
}

/// What an owner is in the middle of claiming, and what it has claimed, counts.
#[test]
fn what_is_claimed_while_slabs_are_counted_counts() {
    let program = Program::new(1, 64 * MIB);
    let other = birth(&program.allocator);
    let take = || program.allocator.allocate(other, 4096, code_address(1)).unwrap();
    let first = take();
    let before = program.allocator.counted_bytes();
    // The other thread has taken its guard when the barrier is passed.
    let guard = other.enter().unwrap();
    program.allocator.memory_limit().count_exactly(program.heap);
    assert_eq!(program.allocator.counted_bytes(), before, "its owner is busy");
    drop(guard);
    program.allocator.memory_limit().count_exactly(program.heap);
    let after = program.allocator.counted_bytes();
    assert!(after < before - (192 << 10), "{before} {after}");
    program.allocator.check().unwrap();
    // The owner goes on, and all of it counts again.
    for _ in 0..64 {
        bytes_of(take(), 4096).fill(1);
    }
    assert!(program.allocator.counted_bytes() >= before);
    program.allocator.free(other, first, Call::Free);
    program.hold();
}

/// What a thread has freed, and not used since, another gets, whether the first still runs, has
/// ended, or was not the one that freed it.
#[test]
fn what_lies_idle_in_one_thread_serves_another() {
    for (ended, by_another) in [(false, false), (false, true), (true, false), (true, true)] {
        let program = Program::new(4, 16 * MIB);
        let other = birth(&program.allocator);
        let blocks: Vec<usize> = std::iter::from_fn(|| {
            let address = program.allocator.allocate(other, 500, code_address(1))?;
            bytes_of(address, 500).fill(1);
            Some(address)
        })
        .collect();
        program.hold();
        for (number, &address) in blocks.iter().enumerate() {
            if number % 64 != 0 {
                let by = if by_another { program.heap } else { other };
                program.allocator.free(by, address, Call::Free);
            }
        }
        if ended {
            program.allocator.heaps.orphan(other);
        }
        let large = program.take(11 * MIB, 5);
        assert!(large.is_some(), "ended {ended}, freed by another {by_another}");
        program.hold();
    }
}

/// Under a filter of system calls there are no barriers: running threads' slabs cannot be reached,
/// but those of threads that have ended.
#[test]
fn what_an_ended_thread_has_left_serves_another_under_a_filter() {
    for ended in [false, true] {
        let program = Program::new(4, 16 * MIB);
        program.allocator.filter().about_to_install(&program.fake);
        let other = birth(&program.allocator);
        let blocks: Vec<usize> =
            std::iter::from_fn(|| program.allocator.allocate(other, 500, code_address(1)))
                .collect();
        for (number, &address) in blocks.iter().enumerate() {
            if number % 64 != 0 {
                program.allocator.free(other, address, Call::Free);
            }
        }
        if ended {
            program.allocator.heaps.orphan(other);
        }
        assert_eq!(program.take(11 * MIB, 5).is_some(), ended);
        program.hold();
    }
}

/// What others have freed into a thread's slabs is collected before that thread is refused.
#[test]
fn what_others_have_freed_serves_the_owner() {
    let program = Program::new(4, 16 * MIB);
    let other = birth(&program.allocator);
    let blocks = program.exhaust(500, 1);
    for (number, &address) in blocks.iter().enumerate() {
        if number % 64 != 0 {
            program.allocator.free(other, address, Call::Free);
        }
    }
    assert!(program.take(11 * MIB, 5).is_some());
    program.hold();
}

/// To refuse again costs nothing where nothing has happened, and never is more refused than must
/// be.
#[test]
fn what_has_been_counted_is_counted_again_when_something_is_freed_there() {
    let program = Program::with(limited_at_once(4, 16 * MIB), 16 * MIB);
    let blocks = program.exhaust(1000, 3);
    let uncounted = || {
        let mut slabs = 0;
        program
            .allocator
            .for_each_slab(|slab| slabs += usize::from(!slab.limit_count().is_counted()));
        slabs
    };
    assert_eq!(program.take(60_000, 7), None);
    assert_eq!(uncounted(), 0);
    program.free(blocks[500]);
    assert_eq!(uncounted(), 1);
    assert_eq!(program.take(60_000, 7), None);
    assert_eq!(uncounted(), 0);
    // A slab that is drawn from again is counted again.
    assert!(program.take(1000, 3).is_some());
    program.free(program.take(1000, 3).unwrap_or(blocks[501]));
    assert!(uncounted() != 0);
    blocks.iter().skip(600).for_each(|&address| program.free(address));
    assert!(program.take(60_000, 7).is_some());
    program.hold();
}

/// What a free large block keeps, and what is after a live one, counts.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn large_blocks_count_with_what_lies_behind_them() {
    let program = Program::new(1, 64 * MIB);
    let before = program.allocator.counted_bytes();
    let block = program.take(16 * MIB, 1).unwrap();
    let more = program.allocator.counted_bytes() - before;
    assert_eq!(more, 16 * MIB, "its descriptor was there at the start");
    let less = 15 * MIB;
    let resized = program.allocator.resize(program.heap, block, less, code_address(1));
    assert_eq!(resized, Resized::At(block));
    assert_eq!(program.allocator.counted_bytes() - before, more, "cut off is too little");
    let other = program.take(4 * MIB, 1).unwrap();
    program.free(other);
    let kept = program.allocator.large().figures().kept_bytes();
    assert!(kept != 0);
    let counted = program.allocator.counted_bytes() - before - more;
    assert!(counted >= kept && counted <= kept + METADATA, "{counted} for {kept}");
}

#[test]
fn threads_at_the_limit_stay_within_it() {
    const THREADS: usize = 4;
    let program = Program::new(4, 24 * MIB);
    let births: Vec<&'static Heap> = (0..THREADS).map(|_| birth(&program.allocator)).collect();
    for round in 0..3 {
        let barrier = std::sync::Barrier::new(THREADS);
        // Bytes that are counted, and resident, when all have been refused. Compared when no thread
        // waits for another.
        let full = std::sync::Mutex::new((0, 0));
        std::thread::scope(|scope| {
            for (number, &heap) in births.iter().enumerate() {
                let (program, barrier, full) = (&program, &barrier, &full);
                scope.spawn(move || {
                    let size = [200, 9000, 150_000, 50_000][(number + round) % 4];
                    let mut blocks = Vec::new();
                    let site = code_address(number);
                    while let Some(address) = program.allocator.allocate(heap, size, site) {
                        bytes_of(address, size).fill(number as u8);
                        blocks.push(address);
                    }
                    // No thread frees before all threads have been refused.
                    if barrier.wait().is_leader() {
                        let counted = program.allocator.counted_bytes();
                        *full.lock().unwrap() =
                            (counted, program.fake.resident_bytes() - program.begin);
                    }
                    barrier.wait();
                    for &address in &blocks {
                        assert!(bytes_of(address, size).iter().all(|&byte| byte == number as u8));
                        program.allocator.free(heap, address, Call::Free);
                    }
                });
            }
        });
        let (counted, resident) = *full.lock().unwrap();
        // The last medium slab of each thread may have been counted as untouched while the thread
        // began to draw from it.
        let uncounted = THREADS * (512 << 10);
        let most = program.limit + METADATA + uncounted;
        assert!(
            counted <= program.limit + METADATA && resident <= most,
            "{counted} and {resident} of {most}"
        );
        program.hold_but_for(uncounted);
    }
}

fn scripts() -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; OP_BYTES]>().prop_map(Op::decode), 1..160)
}

/// A limit that leaves something beside heaps and descriptors, which are larger in the secure
/// build.
const LEAST: usize = if SECURE { 10 * MIB } else { 6 * MIB };

proptest! {
    #![proptest_config(cases(128))]

    /// Under any script the count stays within the limit, what is resident within the count, and
    /// when all is freed nearly all can be had again.
    #[test]
    fn whatever_a_program_does(
        seed: u64,
        partitions in prop_oneof![Just(1usize), Just(8), Just(64)],
        limit in prop_oneof![Just(LEAST), Just(12 * MIB), Just(40 * MIB)],
        compact: bool,
        script in scripts(),
    ) {
        let fake = Fake::new(Machine { seed, ..Machine::LARGE });
        let mut world = World::new(fake.clone(), Options { compact, ..limited(partitions, limit) }).unwrap();
        world.must_succeed = false;
        // A check of everything reads pages that were never used. These would count as resident.
        world.thoroughness = usize::MAX;
        let begin = fake.resident_bytes();
        // Heaps and descriptors are counted but not asked about, and a slab may end within a page.
        let hold = |world: &World| {
            let counted = world.allocator.counted_bytes();
            let mut tails = 0;
            world.allocator.for_each_slab(|slab| tails += usize::from(slab.size() % 256 != 0) * 4096);
            let metadata = world.allocator.mapped_bytes().1 + 2 * MIB;
            assert!(counted <= limit + metadata, "{counted} of {limit}");
            let resident = fake.resident_bytes() - begin;
            assert!(resident <= counted + tails + MIB, "{resident} resident, {counted} counted");
        };
        for piece in script.chunks(10) {
            for &op in piece {
                world.step(op);
            }
            hold(&world);
        }
        world.free_all();
        hold(&world);
        world.finish();
        let heap = birth(&world.allocator);
        let half = (limit - world.allocator.heaps.mapped_bytes()) / 2;
        let block = world.allocator.allocate(heap, half, code_address(1));
        assert!(block.is_some(), "half of what heaps leave of the limit can be had");
        assert!(half > MEDIUM_MAX);
    }
}
