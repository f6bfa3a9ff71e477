//! Live data that is not used goes out to swap, and what is used does not.

use crate::common::program::Program;
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use toft_core::keeper::Which;
use toft_core::options::{Options, Reclaim};
use toft_core::os::fake::{Fault, PageState, Request};
use toft_core::path::Resized;

const OPTIONS: Options = Options { partitions: 4, reclaim: Reclaim::Off, ..Options::DEFAULT };

impl Program {
    fn take_many(&self, count: usize, size: usize, site: usize) -> Vec<usize> {
        (0..count).map(|n| self.take_filled(size, site, n as u8 | 1)).collect()
    }

    fn page_out(&self) -> usize {
        let before = self.fake.swapped_bytes();
        let bytes = self.allocator.cold_pages().page_out();
        assert_eq!(self.fake.swapped_bytes(), before + bytes, "what is said is not what went");
        assert_eq!(self.fake.descriptors(), 0, "a descriptor is left open");
        self.allocator.check().unwrap();
        bytes
    }

    fn assert_filled(&self, blocks: &[usize], size: usize) {
        for (n, &address) in blocks.iter().enumerate() {
            assert!(bytes_of(address, size).iter().all(|&byte| byte == n as u8 | 1), "block {n}");
        }
    }
}

/// Small, medium and large, each with a cold half and one that is used: 94 % of the cold one goes.
#[test]
fn cold_data_goes_and_hot_data_stays() {
    for (size, count) in [(48, 40_000), (1000, 4000), (9000, 400), (3 << 20, 4)] {
        let program = Program::with(OPTIONS);
        let cold = program.take_many(count, size, 1);
        let hot = program.take_many(count, size, 2);
        assert_eq!(program.page_out(), 0, "{size}: the first scan only takes note");
        let write = |fill: &dyn Fn(usize) -> u8| {
            for (n, &address) in hot.iter().enumerate() {
                bytes_of(address, size).iter_mut().step_by(2000).for_each(|byte| *byte = fill(n));
            }
        };
        write(&|_| 0);
        let went = program.page_out();
        let bytes = count * size;
        assert!(went >= bytes * 94 / 100, "{size}: {went} bytes of {bytes} have gone");
        assert!(went <= bytes + (1 << 20), "{size}: {went} bytes have gone, {bytes} were cold");
        write(&|n| n as u8 | 1);
        program.assert_filled(&cold, size);
        program.assert_filled(&hot, size);
    }
}

/// Blocks that come and go keep their slab in memory, written to or not; when they cease to, it
/// goes.
#[test]
fn slabs_that_are_drawn_from_stay() {
    let program = Program::with(Options { quarantine: 0, ..OPTIONS });
    // The last slab has 36 of them or more, and room for others.
    let blocks = program.take_many(100, 1000, 1);
    for round in 0..6 {
        // No thread writes to the rest of the last slab's pages.
        program.free(program.take_filled(1000, 1, 3));
        let gone = program.page_out();
        assert!(gone == 0 || round < 2, "{round}: {gone}");
    }
    assert!(program.page_out() > 25 * 1000);
    program.assert_filled(&blocks, 1000);
}

/// Of a large block the pages that are written to stay, and the others go.
#[test]
fn of_a_large_block_the_cold_pages_go() {
    const SIZE: usize = 8 << 20;
    let program = Program::with(OPTIONS);
    let block = program.take_filled(SIZE, 1, 1);
    program.page_out();
    for at in (0..SIZE / 2).step_by(8192) {
        bytes_of(block, SIZE)[at] = 2;
    }
    // Every second page of the first half.
    assert_eq!(program.page_out(), SIZE / 2 + SIZE / 4);
    for at in (0..SIZE / 2).step_by(8192) {
        bytes_of(block, SIZE)[at] = 1;
    }
    assert!(bytes_of(block, SIZE).iter().all(|&byte| byte == 1));
}

/// What is only read cannot be told from what is not used, but that it has come back can.
#[test]
fn what_is_read_goes_once_and_is_let_be() {
    const SIZE: usize = 4 << 20;
    let program = Program::with(OPTIONS);
    let block = program.take_filled(SIZE, 1, 5);
    assert_eq!((program.page_out(), program.page_out()), (0, SIZE));
    let mut scans = Vec::new();
    for _ in 0..4 {
        program.fake.touch(block..block + SIZE);
        scans.push((1..100).find(|_| program.page_out() != 0).unwrap());
    }
    assert_eq!(scans, [2, 4, 8, 16]);
    // The program no longer reads it: what is out stays out.
    assert_eq!(program.page_out(), 0);
    assert_eq!(program.fake.swapped_bytes(), SIZE);
}

/// A block that is freed and had again is a new one.
#[test]
fn what_is_allocated_anew_is_warm() {
    const SIZE: usize = 1 << 20;
    let program = Program::with(OPTIONS);
    for _ in 0..5 {
        let block = program.take_filled(SIZE, 1, 5);
        assert_eq!(program.page_out(), 0);
        program.free(block);
    }
    let block = program.take_filled(SIZE, 1, 5);
    assert_eq!((program.page_out(), program.page_out()), (0, SIZE));
    program.free(block);
}

/// Free memory does not go to swap.
#[test]
fn free_slots_do_not_go_out() {
    let program = Program::with(OPTIONS);
    let blocks = program.take_many(2000, 1000, 1);
    for chunk in blocks.chunks(100) {
        chunk[1..].iter().for_each(|&address| program.free(address));
    }
    let went: usize = (0..4).map(|_| program.page_out()).sum();
    assert!(went <= blocks.len() / 100 * 3 * 4096, "{went} bytes have gone");
    assert!(went >= blocks.len() / 100 * 1000);
}

/// Without swap nothing goes, and the kernel is asked all the same what to take first.
#[test]
fn without_swap_nothing_goes() {
    let program = Program::with(OPTIONS);
    program.fake.take_swap_away();
    let blocks = program.take_many(1000, 1000, 1);
    assert_eq!((program.page_out(), program.page_out()), (0, 0));
    assert!(program.fake.calls(Request::PageOut) > 0);
    program.assert_filled(&blocks, 1000);
}

/// Where writes cannot be noted, what is not allocated from is cold.
#[test]
fn without_notes_activity_alone_counts() {
    let program = Program::with(OPTIONS);
    program.fake.set_fault(Some(Fault::from(0).only(Request::Watch)));
    let blocks = program.take_many(1000, 1000, 1);
    program.page_out();
    assert!(program.page_out() >= 940_000);
    assert_eq!(program.fake.watches(), 1, "one is kept, although it is of no use");
    program.assert_filled(&blocks, 1000);
}

#[test]
fn a_kernel_that_does_not_tell_is_believed() {
    let program = Program::with(OPTIONS);
    program.take_many(1000, 1000, 1);
    program.page_out();
    program.fake.set_fault(Some(Fault::from(0).only(Request::Scan)));
    assert_eq!((program.page_out(), program.page_out()), (0, 0));
    program.fake.set_fault(Some(Fault::from(0).only(Request::PageOut)));
    assert_eq!((program.page_out(), program.page_out()), (0, 0));
    program.fake.set_fault(None);
    assert!(program.page_out() >= 940_000);
}

/// A program that closes all descriptors loses what was noted, and no more.
#[test]
fn a_closed_watch_is_opened_again() {
    let program = Program::with(OPTIONS);
    let blocks = program.take_many(1000, 1000, 1);
    program.page_out();
    program.fake.close_all();
    assert_eq!(program.fake.watches(), 1);
    assert_eq!(program.page_out(), 0, "nothing is known to be still");
    assert_eq!(program.fake.watches(), 2);
    assert!(program.page_out() >= 940_000);
    program.assert_filled(&blocks, 1000);
}

/// Growing a block is a use of it.
#[test]
fn what_grows_is_warm() {
    const MIB: usize = 1 << 20;
    let program = Program::with(OPTIONS);
    let block = program.take_filled(MIB, 1, 5);
    assert_eq!(program.page_out(), 0);
    let grown = program.allocator.resize(program.heap, block, MIB + 65536, code_address(1));
    assert!(matches!(grown, Resized::At(at) if at == block), "{grown:?}");
    assert_eq!(program.page_out(), 0);
    assert!(program.page_out() >= MIB);
}

/// What slabs share stays in memory, and what they do not share goes; compaction and forks find no
/// watch in their way. (The fake panics where what is shared is sent out or watched.)
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build shares no pages")]
fn what_is_shared_stays() {
    let program = Program::with(Options { compact: true, ..OPTIONS });
    let full = program.take_many(4000, 512, 2);
    let blocks = program.take_many(6000, 256, 1);
    let (kept, gone): (Vec<usize>, Vec<usize>) =
        blocks.iter().partition(|&&block| (block / 256).wrapping_mul(0x9E37_79B9) >> 7 & 15 == 0);
    gone.iter().for_each(|&block| program.free(block));
    assert!(program.allocator.compactor().compact(Which::Free).unwrap().bytes > 0);
    let shared = program.fake.shared_bytes();
    assert!(shared > 100 << 10);
    let large = program.take_filled(1 << 20, 3, 7);
    let went: usize = (0..3).map(|_| program.page_out()).sum();
    assert!(went >= 4000 * 512 / 100 * 94, "{went}");
    // Of the large block writes are noted as ever.
    bytes_of(large, 1 << 20).fill(7);
    assert_eq!((program.page_out(), program.fake.shared_bytes()), (0, shared));
    program.allocator.compactor().prepare_fork();
    assert_eq!(program.fake.shared_bytes(), 0);
    program.allocator.compactor().fork_is_done();
    assert!(program.allocator.compactor().compact(Which::Free).unwrap().bytes > 0);
    program.assert_filled(&full, 512);
    for (n, &block) in blocks.iter().enumerate().filter(|(_, block)| kept.contains(block)) {
        assert!(bytes_of(block, 256).iter().all(|&byte| byte == n as u8 | 1), "block {n}");
    }
}

/// Where there may be a filter no call is made that it may not know.
#[test]
fn under_a_filter_nothing_is_asked() {
    let program = Program::with(OPTIONS);
    program.take_many(1000, 1000, 1);
    program.page_out();
    let scans = program.fake.calls(Request::Scan);
    program.allocator.filter().about_to_install(&program.fake);
    assert_eq!((program.page_out(), program.page_out()), (0, 0));
    assert_eq!((program.fake.calls(Request::Scan), program.fake.pages_opened()), (scans, 1));
    program.allocator.filter().was_refused();
    assert!(program.page_out() >= 940_000);
}

/// Addresses of a slab that was unmapped may belong to other code: they are not watched, nor
/// scanned. (The fake panics.)
#[test]
fn holes_are_not_watched() {
    let program = Program::with(OPTIONS);
    let blocks = program.take_many(4000, 1000, 1);
    blocks.iter().skip(500).take(2500).for_each(|&block| program.free(block));
    // A slab that its thread keeps although it is empty.
    let last = program.take_filled(300, 2, 1);
    program.free(last);
    program.fake.set_fault(Some(Fault::from(0).only(Request::Map)));
    assert!(program.allocator.allocate(program.heap, 8 << 20, code_address(9)).is_none());
    program.fake.set_fault(None);
    assert!(blocks.iter().any(|&block| program.fake.page(block) == PageState::Free));
    assert_eq!(program.fake.page(last), PageState::Free);
    program.page_out();
    assert!(program.page_out() >= 1_400_000);
}

/// What is free is not scanned: an empty slab that is unowned, and a free large block.
#[test]
fn what_is_free_is_not_looked_at() {
    let program = Program::with(OPTIONS);
    let blocks = program.take_many(4000, 1000, 1);
    blocks.iter().for_each(|&block| program.free(block));
    program.page_out();
    let scans = program.fake.calls(Request::Scan);
    // A bin keeps the slab that it draws from.
    assert!(scans <= 4, "{scans} scans of 60 empty slabs");
    let program = Program::with(OPTIONS);
    program.free(program.take_filled(1 << 20, 2, 1));
    let kept = program.allocator.large().figures().kept_bytes();
    assert!(cfg!(feature = "secure-light") || kept != 0, "none is kept");
    program.page_out();
    let (scans, watched) = (program.fake.calls(Request::Scan), program.fake.calls(Request::Watch));
    assert_eq!((scans, watched), (0, 0));
}

/// A child that runs in its parent's memory must not look, nor one thread while another does.
#[test]
fn one_looks_at_a_time() {
    let program = Program::with(OPTIONS);
    let blocks = program.take_many(1000, 1000, 1);
    program.page_out();
    program.fake.set_process(2);
    assert_eq!((program.page_out(), program.fake.pages_opened()), (0, 1));
    program.fake.set_process(1);
    let (allocator, fake) = (std::sync::Arc::new(program.allocator), program.fake.clone());
    let inner = allocator.clone();
    program.fake.at_barrier(move || {
        assert_eq!((inner.cold_pages().page_out(), fake.pages_opened()), (0, 2));
        true
    });
    assert!(allocator.cold_pages().page_out() >= 940_000);
    program.fake.at_barrier(|| true);
    assert_eq!(program.fake.pages_opened(), 2);
    assert_eq!(blocks.len(), 1000);
}

/// The child of a fork scans with a separate descriptor, though a thread was looking when it was
/// made.
#[test]
fn the_child_of_a_fork_looks_anew() {
    let program = Program::with(OPTIONS);
    program.take_many(1000, 1000, 1);
    program.page_out();
    assert_eq!(program.fake.watches(), 1);
    let (allocator, fake) = (std::sync::Arc::new(program.allocator), program.fake.clone());
    let (child, heap) = (allocator.clone(), program.heap);
    let mut forked = false;
    program.fake.at_barrier(move || {
        if !core::mem::replace(&mut forked, true) {
            // From here on this is the child, and who was looking is not there.
            fake.at_barrier(|| true);
            fake.set_process(2);
            child.after_fork_in_child(heap);
            child.cold_pages().page_out();
            assert_eq!((fake.pages_opened(), fake.watches()), (3, 2));
        }
        true
    });
    allocator.cold_pages().page_out();
    assert_eq!(program.fake.watches(), 2);
}

/// A kernel that comes nowhere does not keep the caller for ever.
#[test]
fn scans_that_come_nowhere_end() {
    let program = Program::with(OPTIONS);
    program.take_many(1000, 1000, 1);
    program.fake.stop_scans();
    assert_eq!((program.page_out(), program.page_out()), (0, 0));
}

/// A filter that comes in the middle of a scan ends it. The descriptor stays: to close it is a call
/// as well.
#[test]
fn a_filter_that_comes_meanwhile_ends_the_scan() {
    let program = Program::with(OPTIONS);
    program.take_many(1000, 1000, 1);
    program.page_out();
    let scans = program.fake.calls(Request::Scan);
    let (allocator, fake) = (std::sync::Arc::new(program.allocator), program.fake.clone());
    let inner = allocator.clone();
    program.fake.at_barrier(move || {
        if !inner.filter().is_installed() {
            inner.filter().about_to_install(&fake);
        }
        true
    });
    assert_eq!(allocator.cold_pages().page_out(), 0);
    assert_eq!((program.fake.calls(Request::Scan), program.fake.descriptors()), (scans, 1));
    assert_eq!(program.fake.calls(Request::PageOut), 0);
}

/// What a scan has found out of a block that was freed meanwhile is forgotten.
#[test]
#[cfg_attr(feature = "secure-light", ignore = "the secure build keeps no freed large pages")]
fn a_block_that_was_freed_meanwhile_is_not_marked() {
    let program = Program::with(OPTIONS);
    let live = program.take_filled(4 << 20, 1, 1);
    let block = program.take_filled(1 << 20, 1, 1);
    program.page_out();
    let large = program.allocator.large();
    let with = |body: &mut dyn FnMut(&toft_core::large::Block)| {
        large.units().for_each(|each| {
            if large.placement().address(each) == block {
                body(each);
            }
        });
    };
    let mut idleness = 0;
    with(&mut |block| idleness = block.idleness());
    assert!(idleness != 0);
    program.free(block);
    let mut seen = false;
    with(&mut |block| {
        let before = block.idleness();
        block.set_idleness(idleness, 5);
        assert_eq!(block.idleness(), before);
        seen = true;
    });
    assert!(seen, "it is not kept");
    program.free(live);
}
