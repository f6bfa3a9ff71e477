//! Memory that has been idle is returned to the OS: pages of free slots beside live ones, and slabs
//! in the pool; with no call taking long, and nothing that is in use.

use crate::common::plain::{fill_short_slabs, with_slab};
use crate::common::program::Program;
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use toft_core::options::{Options, Reclaim};
use toft_core::os::fake::{Fault, Request};
use toft_core::report::Call;

const OPTIONS: Options =
    Options { partitions: 4, reclaim: Reclaim::Calls, decay: 100, ..Options::DEFAULT };
/// The decay time in ticks.
const DECAY: u32 = 4;
const SITE: usize = 3;

impl Program {
    /// Lets time pass, and goes through slow paths that have nothing to do with the rest.
    fn pass(&self, looks: usize) {
        for _ in 0..looks {
            self.fake.pass(DECAY);
            for _ in 0..20 {
                let other = code_address(SITE + 1);
                let block = self.allocator.allocate(self.heap, 100_000, other).unwrap();
                self.allocator.free(self.heap, block, Call::Free);
                self.allocator.maintenance().maintain(self.heap, &self.heap.enter().unwrap());
            }
        }
    }

    /// Lets time pass, and returns how many times pages were given back.
    fn discards_of_passes(&self) -> u64 {
        let before = self.fake.calls(Request::Discard);
        self.pass(3);
        self.fake.calls(Request::Discard) - before
    }

    fn resident(&self) -> usize {
        self.fake.resident_bytes()
    }
}

#[test]
fn pages_of_free_slots_go_back_beside_live_ones() {
    // In the secure build the passes' own blocks wait, and idle ones give their pages.
    let other = Program::with(OPTIONS);
    other.pass(3);
    let of_passes = other.discards_of_passes();
    for size in [200, 1024, 3000, 10_000, 49_152] {
        let program = Program::with(OPTIONS);
        let total = 4 << 20;
        let blocks: Vec<usize> =
            (0..total / size).map(|n| program.take_filled(size, SITE, n as u8)).collect();
        // One block in a hundred stays, or one in forty where slabs have few.
        let each = if size > 8000 { 40 } else { 100 };
        let stays = |n: usize| n % each == 1;
        for (n, &address) in blocks.iter().enumerate().filter(|&(n, _)| !stays(n)) {
            program.free(address);
            assert!(!stays(n));
        }
        let before = program.resident();
        program.pass(3);
        program.allocator.check().unwrap();
        let gone = before - program.resident();
        assert!(gone > total / 2, "{size}: {gone} of {total}");
        for (n, &address) in blocks.iter().enumerate().filter(|&(n, _)| stays(n)) {
            assert!(bytes_of(address, size).iter().all(|&byte| byte == n as u8), "{size}: {n}");
        }
        // What is tidy is left alone, and what comes back is zero where calloc asks.
        assert_eq!(program.discards_of_passes(), of_passes);
        for _ in 0..blocks.len() / 2 {
            let site = code_address(SITE);
            let address = program.allocator.allocate_zeroed(program.heap, size, site).unwrap();
            assert!(bytes_of(address, size).iter().all(|&byte| byte == 0), "{size}");
            bytes_of(address, size).fill(0xFF);
        }
        program.allocator.check().unwrap();
    }
}

/// A child of a fork that ends soon has not scanned its slabs, whose descriptors it would copy.
#[test]
fn a_child_scans_a_whole_period_after_the_fork() {
    for forks in [false, true] {
        let program = Program::with(Options { quarantine: 0, ..OPTIONS });
        let take = |n| program.take_filled(1000, SITE, n as u8);
        let blocks: Vec<usize> = (0..2000).map(take).collect();
        for (_, &address) in blocks.iter().enumerate().filter(|&(n, _)| n % 40 != 0) {
            program.free(address);
        }
        let given = || {
            let before = program.fake.calls(Request::Discard);
            program.allocator.maintenance().maintain(program.heap, &program.heap.enter().unwrap());
            program.fake.calls(Request::Discard) - before
        };
        // A scan gives back what was idle at the scan before.
        program.fake.pass(DECAY);
        given();
        program.fake.pass(DECAY);
        if forks {
            program.allocator.after_fork_in_child(program.heap);
            // The pool may give back an empty slab.
            let at_once = given();
            program.fake.pass(DECAY - 1);
            let before = at_once + given();
            assert!(before <= 1, "{at_once} at once, {before} before the period is over");
            program.fake.pass(1);
        }
        assert!(given() > 10, "forks: {forks}");
        program.allocator.check().unwrap();
    }
}

/// Slabs that malloc draws from keep their pages for as long as it does.
#[test]
fn pages_in_use_stay() {
    let program = Program::with(Options { quarantine: 0, ..OPTIONS });
    fill_short_slabs(1000, || program.take_filled(1000, SITE, 1));
    // Fewer than a slab has, with or without guard pages.
    let blocks: Vec<usize> = (0..40).map(|_| program.take_filled(1000, SITE, 1)).collect();
    for &address in &blocks[1..] {
        program.free(address);
    }
    let calls = program.fake.calls(Request::Discard);
    for _ in 0..10 {
        program.free(program.take_filled(1000, SITE, 2));
        program.pass(1);
    }
    assert_eq!(program.fake.calls(Request::Discard), calls, "the slab was in use");
    program.pass(3);
    assert!(program.fake.calls(Request::Discard) > calls, "the slab was idle");
}

#[test]
fn empty_slabs_keep_their_pages_for_a_while() {
    let program = Program::with(OPTIONS);
    let total = 32 << 20;
    let blocks: Vec<usize> =
        (0..total / 1024).map(|_| program.take_filled(1024, SITE, 1)).collect();
    for &address in &blocks {
        program.free(address);
    }
    let full = program.resident();
    // Not yet old: the first look makes them so.
    program.fake.pass(DECAY);
    program.allocator.maintenance().maintain(program.heap, &program.heap.enter().unwrap());
    assert!(full.saturating_sub(program.resident()) < 1 << 20);
    program.fake.pass(DECAY);
    let mut last = program.resident();
    let mut pieces = 0;
    while last > full - total * 9 / 10 {
        program.allocator.maintenance().maintain(program.heap, &program.heap.enter().unwrap());
        let now = program.resident();
        assert!(now < last, "{now} bytes are left after {pieces} pieces");
        assert!(last - now <= 9 << 20, "one call gives {} MB back", (last - now) >> 20);
        pieces += 1;
        last = now;
    }
    assert!(pieces > 3);
    program.allocator.check().unwrap();
    // They serve again.
    let again: Vec<usize> = (0..total / 1024).map(|_| program.take_filled(1024, SITE, 3)).collect();
    assert!(again.iter().filter(|address| blocks.contains(address)).count() > again.len() * 9 / 10);
    program.allocator.check().unwrap();
}

/// Free large blocks go in the period after the next, in pieces; one that was freed just now does
/// not.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn large_blocks_keep_their_pages_for_a_while() {
    const MIB: usize = 1 << 20;
    let program = Program::with(OPTIONS);
    let blocks: Vec<usize> = (0..40).map(|_| program.take_filled(MIB, SITE, 1)).collect();
    for &address in &blocks[1..20] {
        program.free(address);
    }
    let full = program.resident();
    let pass = || {
        program.fake.pass(DECAY);
        program.free(program.take_filled(MIB, SITE, 2));
        program.allocator.check().unwrap();
    };
    pass();
    assert!(full.saturating_sub(program.resident()) < MIB);
    pass();
    let first = full - program.resident();
    assert!((14 * MIB..=18 * MIB).contains(&first), "{} MB in the first piece", first >> 20);
    // The block that is in use all the time has its pages still, and the rest goes.
    program.free(program.take_filled(MIB, SITE, 2));
    let rest = full - program.resident();
    assert!((17 * MIB..=19 * MIB).contains(&rest), "{} MB in all", rest >> 20);
    for &address in &blocks[20..] {
        assert!(bytes_of(address, MIB).iter().all(|&byte| byte == 1));
    }
}

/// What the system does not take back does not count as zero.
#[test]
fn pages_that_the_system_refuses_are_not_zero() {
    let program = Program::with(OPTIONS);
    let blocks: Vec<usize> = (0..100).map(|_| program.take_filled(3000, SITE, 7)).collect();
    for &address in &blocks[..90] {
        program.free(address);
    }
    program.fake.set_fault(Some(Fault::from(0).only(Request::Discard)));
    program.pass(3);
    assert!(program.fake.failed() > 0);
    program.fake.set_fault(None);
    for _ in 0..90 {
        let site = code_address(SITE);
        let address = program.allocator.allocate_zeroed(program.heap, 3000, site).unwrap();
        assert!(bytes_of(address, 3000).iter().all(|&byte| byte == 0));
    }
}

/// A claim that is given back with the pages of its slots leaves a bin that works.
#[test]
fn an_idle_claim_is_given_up() {
    let program = Program::with(OPTIONS);
    let block = program.take_filled(2000, SITE, 1);
    let claimed = || with_slab(&program.allocator, block, |slab, _| slab.claimed());
    for _ in 0..3 {
        program.free(program.take_filled(2000, SITE, 2));
    }
    assert_ne!(claimed(), 0);
    program.pass(3);
    assert_eq!(claimed(), 0);
    let blocks: Vec<usize> = (0..50).map(|_| program.take_filled(2000, SITE, 3)).collect();
    assert!(!blocks.contains(&block) && bytes_of(block, 2000).iter().all(|&byte| byte == 1));
    program.allocator.check().unwrap();
}
