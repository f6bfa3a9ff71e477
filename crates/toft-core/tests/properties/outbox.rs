//! Frees of other threads' slots are gathered and published together (`remote/outbox.rs`).

use crate::common::plain::{AT_ONCE, birth, fill_short_slabs, two_heaps, with_slab};
use crate::common::world::code_address;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::options::Options;
use toft_core::os::fake::Fake;
use toft_core::remote::{announce, mark_remote};
use toft_core::report::Call;
use toft_core::slab::{BATCHED, Put, SlotState};
use toft_core::stats::snapshot;
use toft_core::thread::Heap;

const SIZE: usize = 48;
/// The frees in a slab that a thread publishes before it has a batch.
const SINGLE: usize = 4;
const WARN: Options = Options { warn_only: true, ..AT_ONCE };

fn take(allocator: &Allocator<Fake>, heap: &Heap, size: usize) -> usize {
    allocator.allocate(heap, size, code_address(1)).expect("there is memory")
}

/// The first `count` blocks of `heap` in one slab.
fn in_one_slab(allocator: &Allocator<Fake>, heap: &Heap, count: usize, size: usize) -> Vec<usize> {
    let blocks: Vec<usize> = (0..count).map(|_| take(allocator, heap, size)).collect();
    let slab = |block| with_slab(allocator, block, |slab, _| slab.base());
    assert!(blocks.iter().all(|&block| slab(block) == slab(blocks[0])));
    blocks
}

fn free(allocator: &Allocator<Fake>, heap: &Heap, block: usize) {
    allocator.free(heap, block, Call::Free);
}

/// The number of slots of a block's slab that were published, and all that others have freed.
fn remote(allocator: &Allocator<Fake>, block: usize) -> (usize, usize) {
    with_slab(allocator, block, |slab, _| (slab.remote.count(), slab.remote_frees().count()))
}

fn announce_slab(allocator: &Allocator<Fake>, block: usize) {
    with_slab(allocator, block, |slab, _| announce(slab));
}

fn is_batched(allocator: &Allocator<Fake>, block: usize) -> bool {
    with_slab(allocator, block, |slab, _| slab.set_owner_flag(0) & BATCHED != 0)
}

/// The owner collects, as a call that needs a new slab does. Returns the number of the blocks that
/// are free then. `size` is one that the owner has not allocated yet.
fn collected(allocator: &Allocator<Fake>, owner: &Heap, blocks: &[usize], size: usize) -> usize {
    take(allocator, owner, size);
    let is_free = |block: &&usize| {
        with_slab(allocator, **block, |slab, slot| slab.state(slot)) == SlotState::Free
    };
    blocks.iter().filter(is_free).count()
}

/// The first frees in a slab are published at once. Those that follow are published together: when
/// they are 64, or have 8 KiB.
#[test]
fn frees_are_published_together() {
    for (size, together) in [(SIZE, 64), (1000, 8), (2000, 4)] {
        let (_, allocator, owner, other) = two_heaps(AT_ONCE);
        fill_short_slabs(size, || take(&allocator, owner, size));
        let blocks = in_one_slab(&allocator, owner, SINGLE + together, size);
        for (number, &block) in blocks.iter().enumerate() {
            free(&allocator, other, block);
            let all = 1 + number;
            let published = if all < blocks.len() { all.min(SINGLE) } else { all };
            assert_eq!(remote(&allocator, block), (published, all), "{size}");
            assert_eq!(is_batched(&allocator, block), all > SINGLE);
            assert_eq!(snapshot(&allocator).remote_pending, all);
            allocator.check().unwrap();
        }
        allocator.publish_frees(other);
        assert!(!is_batched(&allocator, blocks[0]));
        assert_eq!(collected(&allocator, owner, &blocks, 3000), blocks.len(), "{size}");
        allocator.check().unwrap();
    }
}

/// Slots of more than 2 KiB are published one by one.
#[test]
fn larger_slots_do_not_wait() {
    let (_, allocator, owner, other) = two_heaps(AT_ONCE);
    let blocks = in_one_slab(&allocator, owner, 8, 4000);
    for (number, &block) in blocks.iter().enumerate() {
        free(&allocator, other, block);
        assert_eq!(remote(&allocator, block), (1 + number, 1 + number));
    }
}

/// What waits in all outboxes of a thread has less than 8 KiB in each of 16 slabs.
#[test]
fn what_waits_is_bounded() {
    let (_, allocator, owner, other) = two_heaps(AT_ONCE);
    let sizes = [16, 40, 100, 200, 400, 800, 1000, 1500, 2000];
    let blocks: Vec<usize> = (0..40_000)
        .map(|number| take(&allocator, owner, sizes[number / 16 % sizes.len()]))
        .collect();
    let mut most = 0;
    for (number, block) in blocks.into_iter().enumerate() {
        free(&allocator, other, block);
        if number.is_multiple_of(97) {
            let mut waits = 0;
            allocator.for_each_slab(|slab| {
                let frees = slab.remote_frees().count() - slab.remote.count();
                waits += frees * slab.size();
            });
            most = most.max(waits);
        }
    }
    assert!(most > 8 << 10 && most <= 16 * (8 << 10), "{most} bytes");
    allocator.check().unwrap();
}

/// A slot that waits is freed again: by the same thread, a third one, or the owner. Named at the
/// second free, once, and the slot is free once.
#[test]
fn a_second_free_is_named_while_the_first_waits() {
    for who in 0..3 {
        let (fake, allocator, owner, other) = two_heaps(WARN);
        let third = birth(&allocator);
        let blocks = in_one_slab(&allocator, owner, 20, SIZE);
        blocks.iter().for_each(|&block| free(&allocator, other, block));
        assert_eq!(remote(&allocator, blocks[0]), (SINGLE, 20));
        free(&allocator, [other, third, owner][who], blocks[7]);
        let reports = fake.take_reports();
        assert_eq!(reports.len(), 1, "{who}: {reports:?}");
        assert!(reports[0].contains("double free"), "{reports:?}");
        allocator.check().unwrap();
        allocator.publish_frees(other);
        assert_eq!(collected(&allocator, owner, &blocks, 3000), blocks.len());
        assert_eq!(fake.take_reports(), [] as [String; 0]);
        allocator.check().unwrap();
    }
}

/// The owner frees a slot at the same moment as another thread marks it: the owner has seen no
/// mark, and the other a live slot. The owner does not hand the slot out while the mark waits, and
/// names the double free when it collects.
#[test]
fn a_slot_that_is_marked_and_free_is_not_handed_out() {
    let (fake, allocator, owner, other) = two_heaps(WARN);
    let blocks = in_one_slab(&allocator, owner, 20, SIZE);
    blocks.iter().for_each(|&block| free(&allocator, other, block));
    // From here on only the mark says that the slot was freed.
    assert_eq!(collected(&allocator, owner, &blocks, 4000), SINGLE);
    let put = with_slab(&allocator, blocks[7], |slab, slot| slab.put(slot));
    assert_ne!(put, Put::NotLive);
    assert!((0..1000).all(|_| take(&allocator, owner, SIZE) != blocks[7]));
    allocator.publish_frees(other);
    collected(&allocator, owner, &blocks, 3000);
    let reports = fake.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("double free"), "{reports:?}");
}

/// Two threads free a slot at the same moment, and neither sees the other: one marks it, and one
/// sets the remote bit. Named by the one that publishes later, or by the owner that collects
/// before.
#[test]
fn a_mark_beside_a_remote_bit_is_named() {
    for collects in [false, true] {
        let (fake, allocator, owner, other) = two_heaps(WARN);
        let blocks = in_one_slab(&allocator, owner, 20, SIZE);
        blocks.iter().for_each(|&block| free(&allocator, other, block));
        with_slab(&allocator, blocks[7], |slab, slot| assert!(slab.remote.set(slot)));
        if collects {
            announce_slab(&allocator, blocks[7]);
            assert_eq!(collected(&allocator, owner, &blocks, 3000), SINGLE, "those published");
        } else {
            allocator.publish_frees(other);
        }
        let reports = fake.take_reports();
        assert_eq!(reports.len(), 1, "{collects}: {reports:?}");
        assert!(reports[0].contains("double free"), "{reports:?}");
        allocator.publish_frees(other);
        assert_eq!(collected(&allocator, owner, &blocks, 4000), blocks.len());
        assert_eq!(fake.take_reports(), [] as [String; 0]);
        allocator.check().unwrap();
    }
}

/// Two threads free different slots of one slab: one has the batch, and the other publishes each.
#[test]
fn one_thread_at_a_time_has_a_batch_of_a_slab() {
    let (fake, allocator, owner, other) = two_heaps(AT_ONCE);
    let third = birth(&allocator);
    let blocks = in_one_slab(&allocator, owner, 40, SIZE);
    for (number, &block) in blocks.iter().enumerate() {
        free(&allocator, [other, third][number % 2], block);
    }
    // One of 20 has the batch from its fifth on.
    assert_eq!(remote(&allocator, blocks[0]), (20 + SINGLE, 40));
    allocator.check().unwrap();
    allocator.publish_frees(other);
    assert_eq!(collected(&allocator, owner, &blocks, 3000), blocks.len());
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}

/// A signal handler that interrupts a change of the heap publishes at once.
#[test]
fn a_handler_publishes_at_once() {
    let (_, allocator, owner, other) = two_heaps(AT_ONCE);
    let blocks = in_one_slab(&allocator, owner, 20, SIZE);
    blocks[..10].iter().for_each(|&block| free(&allocator, other, block));
    let guard = other.enter();
    blocks[10..].iter().for_each(|&block| free(&allocator, other, block));
    drop(guard);
    assert_eq!(remote(&allocator, blocks[0]), (SINGLE + 10, 20));
}

/// A thread frees and then does nothing. The second sweep that finds its outbox unchanged publishes
/// it, so the slab is empty for its owner. A purge does so at once, but not while the thread is in
/// the middle of a change.
#[test]
fn sweeps_publish_what_a_quiet_thread_has_left() {
    for which in [Which::Idle, Which::Free] {
        for busy in [false, true] {
            let (_, allocator, owner, other) = two_heaps(AT_ONCE);
            let blocks = in_one_slab(&allocator, owner, 20, SIZE);
            blocks.iter().for_each(|&block| free(&allocator, other, block));
            let sweep = || allocator.sweeper().sweep(which).expect("no other thread sweeps");
            let guard = busy.then(|| other.enter().unwrap());
            if which == Which::Idle {
                sweep();
                assert_eq!(remote(&allocator, blocks[0]), (SINGLE, 20));
            }
            sweep();
            assert_eq!(remote(&allocator, blocks[0]).0, if busy { SINGLE } else { 20 });
            assert_eq!(is_batched(&allocator, blocks[0]), busy);
            drop(guard);
            sweep();
            allocator.check().unwrap();
            assert_eq!(collected(&allocator, owner, &blocks, 3000), blocks.len());
            // The outbox is open again.
            let blocks = in_one_slab(&allocator, owner, 8, 200);
            blocks.iter().for_each(|&block| free(&allocator, other, block));
            assert!(is_batched(&allocator, blocks[0]));
        }
    }
}

/// The system has no more memory: what quiet threads have freed and not published serves the
/// request.
#[test]
fn what_waits_serves_a_request_that_the_system_refuses() {
    let (fake, allocator, owner, other) = two_heaps(AT_ONCE);
    let blocks = in_one_slab(&allocator, owner, 20, SIZE);
    fake.set_limit(fake.mapped_bytes());
    while allocator.allocate(owner, SIZE, code_address(1)).is_some() {}
    blocks.iter().for_each(|&block| free(&allocator, other, block));
    assert_eq!(remote(&allocator, blocks[0]), (SINGLE, 20));
    let again = (0..20).filter_map(|_| allocator.allocate(owner, SIZE, code_address(1)));
    assert_eq!(again.collect::<BTreeSet<_>>(), blocks.iter().copied().collect());
    assert_eq!(allocator.allocate(owner, SIZE, code_address(1)), None);
    allocator.check().unwrap();
}

/// While the reclaimer publishes what a thread has left, that thread's frees are published at once.
#[test]
fn a_closed_outbox_takes_nothing() {
    let (fake, allocator, owner, other) = two_heaps(AT_ONCE);
    let blocks = in_one_slab(&allocator, owner, 20, SIZE);
    let last = blocks[19];
    blocks[..19].iter().for_each(|&block| free(&allocator, other, block));
    let allocator = Arc::new(allocator);
    let (inside, once) = (Arc::clone(&allocator), AtomicBool::new(true));
    fake.at_barrier(move || {
        if once.swap(false, Relaxed) {
            free(&inside, other, last);
            assert_eq!(remote(&inside, last), (SINGLE + 1, 20));
        }
        true
    });
    allocator.sweeper().sweep(Which::Free).unwrap();
    fake.at_barrier(|| true);
    assert_eq!(remote(&allocator, last), (20, 20));
    assert_eq!(collected(&allocator, owner, &blocks, 3000), blocks.len());
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}

/// In the child of a fork, what other threads have left is published; so is what the reclaimer was
/// publishing.
#[test]
fn a_child_gets_what_waited() {
    for is_mine in [false, true] {
        let (fake, allocator, owner, other) = two_heaps(AT_ONCE);
        let blocks = in_one_slab(&allocator, owner, 20, SIZE);
        blocks.iter().for_each(|&block| free(&allocator, other, block));
        let mine = if is_mine { other } else { owner };
        allocator.after_fork_in_child(mine);
        allocator.check().unwrap();
        if is_mine {
            assert_eq!(remote(&allocator, blocks[0]), (SINGLE, 20), "the thread is there");
            allocator.publish_frees(other);
        }
        let owner = if is_mine { birth(&allocator) } else { owner };
        assert_eq!(collected(&allocator, owner, &blocks, 3000), blocks.len(), "{is_mine}");
        assert_eq!(fake.take_reports(), [] as [String; 0]);
        allocator.check().unwrap();
    }
}

/// A slot whose mark is being published is no double free for a thread that stopped there.
#[test]
fn a_child_takes_a_half_published_mark_for_one_free() {
    let (fake, allocator, owner, other) = two_heaps(WARN);
    let blocks = in_one_slab(&allocator, owner, 20, SIZE);
    blocks.iter().for_each(|&block| free(&allocator, other, block));
    // The thread has set the bits of the group, and has not cleared the marks.
    with_slab(&allocator, blocks[0], |slab, _| {
        for slot in slab.all_slots().take(20) {
            slab.remote.set(slot);
        }
    });
    announce_slab(&allocator, blocks[0]);
    allocator.after_fork_in_child(owner);
    assert_eq!(collected(&allocator, owner, &blocks, 3000), blocks.len());
    assert_eq!(fake.take_reports(), [] as [String; 0]);
    allocator.check().unwrap();
}

/// A thread frees much in one slab, and then at random in others: the batch of the first goes, so
/// that the frees of its owner are short again.
#[test]
fn a_batch_that_is_rarely_used_is_released() {
    let (_, allocator, owner, other) = two_heaps(AT_ONCE);
    let blocks = in_one_slab(&allocator, owner, 20, SIZE);
    blocks.iter().for_each(|&block| free(&allocator, other, block));
    let others: Vec<usize> =
        (0..600).map(|number| take(&allocator, owner, 64 + 16 * (number % 60))).collect();
    assert!(is_batched(&allocator, blocks[0]));
    others.into_iter().for_each(|block| free(&allocator, other, block));
    assert!(!is_batched(&allocator, blocks[0]));
    let (published, all) = remote(&allocator, blocks[0]);
    assert_eq!((published, all), (all, 20 - SINGLE), "the owner has collected the first");
    allocator.check().unwrap();
}

/// The batch that a new slab gets is the oldest, whose marks are published then.
#[test]
fn a_batch_for_a_new_slab_publishes_the_oldest() {
    let (_, allocator, owner, other) = two_heaps(AT_ONCE);
    let mut slabs = BTreeSet::new();
    let mut blocks = Vec::new();
    for size in (1..).map(|number| number * 16) {
        let of_slab = in_one_slab(&allocator, owner, 12, size);
        if slabs.insert(with_slab(&allocator, of_slab[0], |slab, _| slab.base())) {
            blocks.push(of_slab);
        }
        if blocks.len() == 17 {
            break;
        }
    }
    for (number, of_slab) in blocks.iter().enumerate() {
        of_slab.iter().for_each(|&block| free(&allocator, other, block));
        assert!(is_batched(&allocator, of_slab[0]), "{number}");
        assert_eq!(is_batched(&allocator, blocks[0][0]), number < 16, "{number}");
    }
    assert_eq!(remote(&allocator, blocks[0][0]), (12, 12));
    allocator.check().unwrap();
    // The slab can have a batch again.
    let more = in_one_slab(&allocator, owner, 12, 16);
    more.iter().for_each(|&block| free(&allocator, other, block));
    assert!(is_batched(&allocator, more[0]));
    with_slab(&allocator, more[0], |slab, slot| {
        assert_eq!(mark_remote(slab, slot), toft_core::remote::Marked::Twice);
    });
}
