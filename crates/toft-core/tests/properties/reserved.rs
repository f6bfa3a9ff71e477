//! The reserved slots of the secure build, over the fake operating system: where they are, that
//! they are never handed out, and when a write there is seen.

use crate::common::plain::{birth, slot, with_slab};
use crate::common::program::Program;
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use std::collections::BTreeSet;
use toft_core::keeper::Which;
use toft_core::options::Options;
use toft_core::os::fake::PageState;
use toft_core::path::Resized;
use toft_core::policy::{RESERVED_LEAST, RESERVED_SHARE, RESERVED_SIZE_MOST};
use toft_core::report::Call;
use toft_core::slab::{SizeClass, Slab};
use toft_core::thread::Heap;

const SITE: usize = 3;
const PAGE: usize = 4096;

fn options() -> Options {
    Options { partitions: 1, warn_only: true, ..Options::DEFAULT }
}

/// A reserved slot that is armed, by its address, and the blocks beside it.
#[derive(Clone, Copy)]
struct Place {
    address: usize,
    before: usize,
}

impl Program {
    /// So many blocks that a slab and more is full.
    fn fill(&self, size: usize) -> Vec<usize> {
        (0..600).map(|_| self.take(size, SITE)).collect()
    }

    fn reserved(&self, address: usize) -> Vec<usize> {
        with_slab(&self.allocator, address, |slab, _| {
            slab.reserved().all().map(|slot| slab.slot_address(slot)).collect()
        })
    }

    /// An armed slot of the slab of a block, with a live block before it.
    fn place(&self, blocks: &[usize], size: usize) -> Place {
        let live: BTreeSet<usize> = blocks.iter().copied().collect();
        let bytes = SizeClass::of(size + 1).unwrap().size();
        let places = blocks.iter().flat_map(|&block| self.reserved(block));
        let mut places = places.map(|address| Place { address, before: address - bytes });
        let armed = |place: &Place| {
            live.contains(&place.before)
                && with_slab(&self.allocator, place.address, |slab, slot| {
                    slab.reserved().is_armed(slot)
                })
        };
        places.find(armed).expect("some reserved slot has a block before it")
    }

    fn one_report(&self, call: &str, place: Place, byte: usize) {
        let reports = self.fake.take_reports();
        let words = format!(
            "toft: wild write: {call}({:#x}): byte {byte} of this reserved ",
            place.address
        );
        assert!(reports.len() == 1 && reports[0].starts_with(&words), "{words}: {reports:?}");
        assert!(reports[0].contains("-byte slot, which nobody has, was overwritten ("));
    }

    fn silent(&self) {
        assert_eq!(self.fake.take_reports(), [] as [String; 0]);
        self.allocator.check().unwrap();
    }
}

fn write(address: usize) {
    bytes_of(address, 1)[0] ^= 0x20;
}

/// One of 128 and one at least, never handed out; no slab of few slots or large ones has any.
#[test]
fn so_many_are_reserved_and_nobody_gets_them() {
    let program = Program::with(options());
    for class in SizeClass::all() {
        let size = class.size() - 1;
        let blocks = program.fill(size.min(100_000));
        let all: BTreeSet<usize> = blocks.iter().copied().collect();
        let slabs: Vec<_> = blocks
            .iter()
            .map(|&block| {
                with_slab(&program.allocator, block, |slab, _| {
                    let left = |&slot: &_| !slab.reserved().is_never_handed_out(slot);
                    (slab.base(), slab.all_slots().filter(left).count())
                })
            })
            .collect();
        for (&block, (_, left)) in blocks.iter().zip(slabs) {
            let reserved = program.reserved(block);
            let slots = left + reserved.len();
            let wanted = if slots < RESERVED_LEAST || class.size() > RESERVED_SIZE_MOST {
                0
            } else {
                slots.div_ceil(RESERVED_SHARE)
            };
            assert_eq!(reserved.len(), wanted, "{class:?}");
            assert!(reserved.iter().all(|place| !all.contains(place)), "{class:?}");
        }
        // What was never handed out is named as that.
        if let Some(&place) = program.reserved(blocks[0]).first() {
            program.free(place);
            let reports = program.fake.take_reports();
            assert!(reports.len() == 1 && reports[0].contains("never handed out ("), "{reports:?}");
        }
        blocks.iter().for_each(|&block| program.free(block));
        program.silent();
    }
}

/// Each byte, at the free of the block before it, and at the free of the one behind, by any thread.
#[test]
fn a_write_is_seen_when_a_neighbour_is_freed() {
    for (size, step) in [(15, 1), (63, 3), (500, 97), (3000, 1023)] {
        let bytes = SizeClass::of(size + 1).unwrap().size();
        for (number, byte) in (0..bytes).step_by(step).chain([bytes - 1]).enumerate() {
            let program = Program::with(options());
            let blocks = program.fill(size);
            let place = program.place(&blocks, size);
            let behind = place.address + bytes;
            let other = if blocks.contains(&behind) { behind } else { place.before };
            let neighbour = [place.before, other][number % 2];
            let heap = [program.heap, birth(&program.allocator)][number / 2 % 2];
            write(place.address + byte);
            program.allocator.free(heap, neighbour, Call::Free);
            program.one_report("free", place, byte);
            program.silent();
        }
    }
}

#[test]
#[cfg_attr(not(feature = "secure"), ignore = "small blocks do not wait in the light build")]
fn a_write_is_seen_when_a_neighbour_leaves_the_quarantine() {
    let program = Program::with(options());
    let blocks = program.fill(100);
    let place = program.place(&blocks, 100);
    program.free(place.before);
    program.silent();
    write(place.address + 7);
    program.allocator.sweeper().purge(Some(program.heap));
    program.one_report("free", place, 7);
    program.silent();
}

/// As the test above, in the usual way: others are freed until it leaves.
#[test]
#[cfg_attr(not(feature = "secure"), ignore = "small blocks do not wait in the light build")]
fn a_write_is_seen_when_a_neighbour_leaves_for_others() {
    let program = Program::with(options());
    let blocks = program.fill(100);
    let place = program.place(&blocks, 100);
    let others = |frees| (0..frees).for_each(|_| program.free(program.take(100, SITE)));
    others(300);
    program.free(place.before);
    others(100);
    program.silent();
    write(place.address + 7);
    others(5000);
    program.one_report("free", place, 7);
    program.silent();
}

#[test]
fn a_write_is_seen_when_the_slab_becomes_empty() {
    let program = Program::with(options());
    let blocks = program.fill(100);
    let place = program.place(&blocks, 100);
    let beside = |block: &&usize| block.abs_diff(place.address) <= 256;
    blocks.iter().filter(beside).for_each(|&block| program.free(block));
    program.allocator.sweeper().purge(Some(program.heap));
    program.silent();
    let Some(byte) = armed(&program, place).then_some(40) else {
        panic!("the slot lost its pattern while blocks of its slab were live")
    };
    write(place.address + byte);
    blocks.iter().filter(|block| !beside(block)).for_each(|&block| program.free(block));
    program.allocator.sweeper().purge(Some(program.heap));
    program.one_report_any(place, byte);
}

fn armed(program: &Program, place: Place) -> bool {
    with_slab(&program.allocator, place.address, |slab: &Slab, slot| slab.reserved().is_armed(slot))
}

impl Program {
    fn one_report_any(&self, place: Place, byte: usize) {
        let reports = self.fake.take_reports();
        let words = format!("({:#x}): byte {byte} of this reserved ", place.address);
        assert!(reports.len() == 1 && reports[0].contains(&words), "{words}: {reports:?}");
    }
}

#[test]
fn a_write_is_seen_on_demand() {
    let program = Program::with(options());
    let blocks = program.fill(100);
    let place = program.place(&blocks, 100);
    let other = birth(&program.allocator);
    for heap in [other, program.heap] {
        assert!(program.allocator.verifier().verify(heap));
        program.silent();
        write(place.address + 30);
        assert!(!program.allocator.verifier().verify(heap));
        program.one_report("verify", place, 30);
        if core::ptr::eq(heap, other) {
            // Only its owner may write there.
            assert!(!program.allocator.verifier().verify(heap));
            program.one_report("verify", place, 30);
            write(place.address + 30);
        }
        // It is whole again, or written again.
        assert!(program.allocator.verifier().verify(heap));
        program.silent();
    }
}

impl Program {
    /// All blocks of a size were freed, and their slabs are unowned: a reserved slot of one of
    /// these that is armed.
    fn pooled_place(&self, size: usize) -> Place {
        let blocks = self.fill(size);
        let places: BTreeSet<usize> = blocks.iter().flat_map(|&b| self.reserved(b)).collect();
        blocks.iter().for_each(|&block| self.free(block));
        self.allocator.quarantines().release_quarantine(self.heap);
        let pooled = |&&place: &&usize| {
            with_slab(&self.allocator, place, |slab, slot| {
                !slab.has_owner() && slab.reserved().is_armed(slot)
            })
        };
        let address = *places.iter().find(pooled).expect("a slab is nobody's");
        Place { address, before: 0 }
    }
}

/// While a slab is unowned it is compared with nothing. The thread that takes it checks it, also
/// where its pages were to go meanwhile.
#[test]
fn a_write_to_a_pooled_slab_is_seen_when_it_is_taken() {
    for (written, trimmed) in [(true, false), (true, true), (false, true), (false, false)] {
        let program = Program::with(options());
        let place = program.pooled_place(100);
        program.silent();
        if written {
            write(place.address + 9);
        }
        if trimmed {
            program.allocator.sweeper().purge(Some(program.heap));
        }
        program.silent();
        let there = program.fake.page(place.address) == PageState::Mapped
            && bytes_of(place.address, 64).iter().any(|&byte| byte != 0);
        assert_eq!(there, written || !trimmed);
        program.fill(100);
        if written {
            program.one_report("malloc", place, 9);
        }
        program.silent();
    }
}

#[test]
fn a_write_to_a_pooled_slab_is_seen_on_demand() {
    let program = Program::with(options());
    let place = program.pooled_place(100);
    assert!(program.allocator.verifier().verify(program.heap));
    write(place.address + 9);
    assert!(!program.allocator.verifier().verify(program.heap));
    program.one_report("verify", place, 9);
}

impl Program {
    /// All blocks of a slab were freed but for one, on another page than a reserved slot that is
    /// armed.
    fn place_among_free(&self) -> Place {
        let blocks = self.fill(60);
        let place = self.place(&blocks, 60);
        let page = place.address / PAGE;
        let mine = |&&block: &&usize| block >> 16 == place.address >> 16;
        let far = |&&block: &&usize| (block / PAGE).abs_diff(page) > 1;
        let left = blocks.iter().filter(mine).find(far);
        blocks.iter().filter(mine).filter(|&block| Some(block) != left).for_each(|&b| self.free(b));
        self.allocator.quarantines().release_quarantine(self.heap);
        place
    }
}

/// What was written there is seen before its pages go, by their owner or by the reclaimer; and
/// never when nothing was.
#[test]
fn a_write_is_seen_before_pages_go() {
    for (by_owner, written) in [(true, true), (false, true), (true, false), (false, false)] {
        let program = Program::with(options());
        let place = program.place_among_free();
        program.silent();
        if written {
            write(place.address + 5);
        }
        if by_owner {
            program.allocator.sweeper().purge(Some(program.heap));
        } else {
            program.allocator.sweeper().sweep(Which::Free).expect("no other thread sweeps");
        }
        if written {
            program.one_report("verify", place, 5);
        }
        program.silent();
        assert!(!armed(&program, place), "its page is still there");
    }
}

/// Pages go all the same where everything around is free.
#[test]
fn pages_of_reserved_slots_go_and_come_back() {
    let program = Program::with(options());
    let place = program.place_among_free();
    let page = place.address / PAGE;
    program.allocator.sweeper().purge(Some(program.heap));
    program.silent();
    assert!(!armed(&program, place), "its page is still there");
    assert!(bytes_of(place.address, 64).iter().all(|&byte| byte == 0));
    // It is armed again when malloc comes by.
    let again = program.fill(60);
    assert!(again.iter().any(|&block| block / PAGE == page), "nothing was taken from that page");
    assert!(armed(&program, place));
    write(place.address + 63);
    program.allocator.verifier().verify(program.heap);
    program.one_report("verify", place, 63);
}

/// On demand, canaries of live blocks and what is free are looked at as well, whosever they are.
#[test]
#[cfg_attr(not(feature = "secure"), ignore = "the light build does not clear what is freed")]
fn canaries_and_free_slots_are_seen_on_demand() {
    let program = Program::with(options());
    let other = birth(&program.allocator);
    for size in [1, 15, 100, 1000, 5000, 60_000] {
        let (block, freed, left) =
            (program.take(size, SITE), program.take(size, SITE), program.take(size, SITE));
        program.free(left);
        program.allocator.sweeper().purge(Some(program.heap));
        program.free(freed);
        let verify = |heap: &Heap, finds: Option<&str>| {
            assert_eq!(program.allocator.verifier().verify(heap), finds.is_none(), "{size}");
            let reports = program.fake.take_reports();
            let as_it_must_be = match finds {
                None => reports.is_empty(),
                Some(words) => reports.len() == 1 && reports[0].starts_with(words),
            };
            assert!(as_it_must_be, "{finds:?}: {reports:?}");
        };
        for heap in [program.heap, other] {
            verify(heap, None);
            for place in [0, 7.min(slot(size) - size - 1), slot(size) - size - 1] {
                let byte = &mut bytes_of(block + size + place, 1)[0];
                // A slack whose last byte is zero is not armed.
                let mask = if *byte == 0x5A { 1 } else { 0x5A };
                *byte ^= mask;
                let words = format!(
                    "toft: heap overflow: verify({block:#x}): byte {place} behind this {size}-byte block"
                );
                verify(heap, Some(&words));
                *byte ^= mask;
            }
            // One that waits, and one that is free.
            for stale in [freed, left] {
                for place in [0, size / 2, size - 1] {
                    bytes_of(stale + place, 1)[0] = 1;
                    let words =
                        format!("toft: write after free: verify({stale:#x}): byte {place} of");
                    verify(heap, Some(&words));
                    bytes_of(stale + place, 1)[0] = 0;
                }
            }
        }
        let to = program.allocator.resize(program.heap, block, size + 1, code_address(SITE));
        assert!(matches!(to, Resized::At(_)));
        verify(program.heap, None);
        verify(other, None);
    }
}
