//! An arena in parts, each with a separate lock: the contract of `GlobalAlloc`, and where memory
//! comes from when the own part has none.

use crate::common::contract::{conforms, layout, threads_free_each_others_blocks};
use crate::common::words::{is_full_of, memory};
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use toft_arena::shape::Shape;
use toft_arena::{Anywhere, Checked, Fast, Shared, Spin, Spread, Striped};

/// Every caller begins with the first stripe.
struct First;

impl Spread for First {
    fn here() -> usize {
        0
    }
}

fn striped<S: Shape<Space = Anywhere>, H: Spread>(size: usize) -> Striped<S, Spin, 4, H> {
    let start = memory(size);
    // SAFETY: the memory is never used by anybody else.
    unsafe {
        start.write_bytes(0xEE, size);
        Striped::new(start, size, [const { Spin::new() }; 4])
    }
}

fn is_clean<S: Shape<Space = Anywhere>, H: Spread>(striped: &Striped<S, Spin, 4, H>) {
    for stripe in striped.stripes() {
        stripe.settle().unwrap();
    }
    striped.check().unwrap();
    let survey = striped.survey();
    assert_eq!((survey.live_blocks, survey.free_blocks), (0, survey.spans));
    let faults = |stripe: &Shared<S, _, _>| stripe.look(|arena| arena.heap().faults().0).unwrap();
    assert_eq!(striped.stripes().map(faults).sum::<u64>(), 0);
}

#[test]
fn stripes_keep_the_contract() {
    let all = striped::<Checked, First>(4 << 20);
    conforms(&all);
    is_clean(&all);
    let all = striped::<Fast, toft_arena::ByStack>(4 << 20);
    conforms(&all);
    is_clean(&all);
}

thread_local!(static HOME: Cell<usize> = const { Cell::new(0) });

/// Every caller begins with the stripe of `HOME`.
struct Chosen;

impl Spread for Chosen {
    fn here() -> usize {
        HOME.get()
    }
}

/// Blocks of this layout until there is no memory.
fn fill<H: Spread>(all: &Striped<Checked, Spin, 4, H>, layout: Layout) -> Vec<NonNull<u8>> {
    std::iter::from_fn(|| all.allocate(layout).ok()).collect()
}

#[test]
fn one_stripe_may_have_all_of_the_memory() {
    let all = striped::<Checked, First>(256 << 10);
    let small = layout(1000, 8);
    let blocks = fill(&all, small);
    assert!(blocks.len() > 255, "{}", blocks.len());
    let full: Vec<_> = all.stripes().map(|one| one.survey().unwrap().live_blocks).collect();
    assert_eq!(full, [blocks.len(), 0, 0, 0]);
    // They are in one span but for where the memory ends and begins again.
    assert!(all.survey().spans <= 2, "{:?}", all.survey());
    // SAFETY: freed once.
    blocks.into_iter().for_each(|block| unsafe { all.deallocate_sized(block, small) });
    is_clean(&all);
}

#[test]
fn what_one_stripe_has_no_room_for_another_has() {
    let all = striped::<Checked, Chosen>(256 << 10);
    let small = layout(1000, 8);
    let mut blocks: Vec<_> = (0..120).map(|_| all.allocate(small).unwrap()).collect();
    HOME.set(1);
    blocks.extend(fill(&all, small));
    let full: Vec<_> = all.stripes().map(|one| one.survey().unwrap().live_blocks).collect();
    assert!(full[0] >= 120 && full[1] > 100 && blocks.len() > 250, "{full:?}");
    // A block that does not fit where it is moves to another stripe, with its bytes.
    let (last, first) = (blocks[200], blocks[0]);
    // SAFETY: all are live, of this layout, and freed once.
    unsafe {
        blocks[1..9].iter().for_each(|&block| all.deallocate_sized(block, small));
        last.as_ptr().write_bytes(7, 1000);
        let moved = all.reallocate(last, small, 5000).unwrap();
        assert!(moved > first && moved < blocks[10]);
        assert!(is_full_of(7, moved, 1000));
        all.deallocate(moved);
        let left = blocks[9..200].iter().chain(&blocks[201..]);
        left.for_each(|&block| all.deallocate(block));
        all.deallocate_sized(first, small);
    }
    is_clean(&all);
}

/// A request that no stripe has the memory for, but all of them together, is met, unless a block is
/// in the way.
#[test]
fn what_stripes_do_not_need_any_more_is_given_back() {
    let (small, large) = (layout(1000, 8), layout(200_000, 8));
    for kept in [None, Some(128)] {
        HOME.set(0);
        let all = striped::<Checked, Chosen>(256 << 10);
        let mut blocks: Vec<_> = (0..120).map(|_| all.allocate(small).unwrap()).collect();
        HOME.set(1);
        blocks.extend(fill(&all, small));
        blocks.sort_unstable();
        let live = kept.map(|place| blocks[place]);
        for block in blocks.into_iter().filter(|&block| Some(block) != live) {
            // SAFETY: freed once.
            unsafe { all.deallocate(block) };
        }
        HOME.set(2);
        let met = all.allocate(large);
        assert_eq!(met.is_ok(), kept.is_none());
        all.check().unwrap();
        // What was given back for nothing is there for the next.
        let other = all.allocate(layout(100_000, 8));
        assert_eq!(other.is_ok(), kept.is_some());
        let survey = all.survey();
        assert_eq!(survey.live_blocks, if kept.is_some() { 2 } else { 1 });
        for block in [met.ok(), other.ok(), live].into_iter().flatten() {
            // SAFETY: freed once.
            unsafe { all.deallocate(block) };
        }
        is_clean(&all);
    }
}

/// Threads with separate stripes, of which each needs more than its share now and then.
#[test]
fn parts_go_from_thread_to_thread_while_all_of_them_work() {
    let all = striped::<Checked, Chosen>(1 << 20);
    let met: usize = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let all = &all;
            move || {
                HOME.set(thread);
                let (mut live, mut met) = (Vec::<(NonNull<u8>, usize)>::new(), 0);
                for turn in 0..3000_usize {
                    let size = if turn % 300 < 10 { 150_000 } else { 500 + turn * 37 % 9000 };
                    if let Ok(block) = all.allocate(layout(size, 8)) {
                        met += usize::from(size == 150_000);
                        // SAFETY: the block has that many bytes.
                        unsafe { block.as_ptr().write_bytes(thread as u8, size) };
                        live.push((block, size));
                    }
                    while live.len() > 12 || (turn % 300 == 299 && !live.is_empty()) {
                        let (block, size) = live.swap_remove(turn % live.len());
                        // SAFETY: a live block of that many bytes, freed once.
                        unsafe {
                            assert!(is_full_of(thread as u8, block, size));
                            all.deallocate(block);
                        }
                    }
                }
                assert!(live.is_empty());
                met
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(met > 20, "{met} large blocks");
    is_clean(&all);
}

#[test]
fn a_stripe_that_is_held_is_passed_over() {
    let all = striped::<Checked, First>(256 << 10);
    let first = all.allocate(layout(100, 8)).unwrap();
    let stripe = all.stripes().next().unwrap();
    let elsewhere = stripe.look(|_| all.allocate(layout(100, 8)).unwrap()).unwrap();
    let apart = elsewhere.addr().get() - first.addr().get();
    assert!((60 << 10..70 << 10).contains(&apart), "{apart}");
    // SAFETY: freed once, by whomever.
    unsafe { all.deallocate(elsewhere) };
    // Its twin.
    let near = all.allocate(layout(100, 8)).unwrap();
    assert!(near.addr().get() - first.addr().get() < 1000);
    // SAFETY: freed once.
    unsafe {
        all.deallocate(near);
        all.deallocate(first);
    }
    is_clean(&all);
}

/// A thread that finds its home taken again and again moves to the next stripe, and stays there.
#[test]
fn who_meets_others_at_home_moves() {
    let all = striped::<Checked, First>(256 << 10);
    let small = layout(100, 8);
    let part = |block: NonNull<u8>, start: usize| (block.addr().get() - start) >> 16;
    let first = all.allocate(small).unwrap();
    let start = first.addr().get() & !63;
    let home = all.stripes().next().unwrap();
    for meeting in 1..=8 {
        let block = home.look(|_| all.allocate(small).unwrap()).unwrap();
        assert_eq!(part(block, start), 1);
        // SAFETY: freed once.
        unsafe { all.deallocate(block) };
        let alone = all.allocate(small).unwrap();
        assert_eq!(part(alone, start), usize::from(meeting == 8), "after {meeting} meetings");
        // SAFETY: freed once.
        unsafe { all.deallocate(alone) };
    }
    // SAFETY: freed once.
    unsafe { all.deallocate(first) };
    is_clean(&all);
}

#[test]
fn threads_free_each_others_blocks_of_stripes() {
    let all = striped::<Checked, toft_arena::ByStack>(4 << 20);
    threads_free_each_others_blocks(&all, 4);
    is_clean(&all);
}
