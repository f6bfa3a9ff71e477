//! Every way to use an arena through a shared reference keeps the contract of `GlobalAlloc`.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use toft_arena::source::{Manual, Once, Source};
use toft_arena::{
    Anywhere, Checked, Exclusive, Heap, Interrupts, NoInterrupts, NoMemory, OneThread, Packed,
    Shape, Shared, Spin, Spread, Standard, Striped, Swift, Ticket, Unlocked,
};

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn once(size: usize) -> Once {
    let memory = Box::leak(vec![0xEE_u8; size].into_boxed_slice());
    // SAFETY: the memory is never used by anybody else.
    unsafe { Once::new(memory.as_mut_ptr(), size) }
}

/// What every global allocator does.
fn conforms(allocator: &impl GlobalAlloc) {
    // SAFETY: blocks are used within their layout, and freed once with it.
    unsafe {
        let mut live = Vec::new();
        for turn in 0..200_usize {
            let layout = layout(1 + turn * 29 % 900, 1 << (turn % 9));
            let block = if turn % 2 == 0 {
                allocator.alloc(layout)
            } else {
                allocator.alloc_zeroed(layout)
            };
            assert!(!block.is_null() && block.addr() % layout.align() == 0);
            let bytes = std::slice::from_raw_parts_mut(block, layout.size());
            assert!(turn % 2 == 0 || bytes.iter().all(|&byte| byte == 0));
            bytes.fill(turn as u8);
            live.push((block, layout, turn as u8));
            if turn % 3 == 0 {
                let (block, layout, byte) = live.swap_remove(turn / 3 % live.len());
                let new_size = 1 + turn * 311 % 9000;
                let new = allocator.realloc(block, layout, new_size);
                assert!(!new.is_null() && new.addr() % layout.align() == 0);
                let kept = std::slice::from_raw_parts(new, layout.size().min(new_size));
                assert!(kept.iter().all(|&own| own == byte));
                new.write_bytes(byte, new_size);
                live.push((new, self::layout(new_size, layout.align()), byte));
            }
            if turn % 4 == 0 {
                let (block, layout, byte) = live.swap_remove(turn % live.len());
                let bytes = std::slice::from_raw_parts(block, layout.size());
                assert!(bytes.iter().all(|&own| own == byte));
                allocator.dealloc(block, layout);
            }
        }
        // A request that cannot be met, and a block that stays what it was.
        assert!(allocator.alloc(layout(isize::MAX as usize / 2, 8)).is_null());
        let (block, old, byte) = live[0];
        assert!(allocator.realloc(block, old, isize::MAX as usize / 2).is_null());
        assert!((0..old.size()).all(|place| block.add(place).read() == byte));
        for (block, layout, _) in live {
            allocator.dealloc(block, layout);
        }
    }
}

fn clean<S: Shape, F: Source<S>, L: Exclusive>(shared: &Shared<S, F, L>) {
    conforms(shared);
    shared.settle().unwrap();
    shared.look(|arena| {
        arena.heap().check().unwrap();
        let survey = arena.heap().survey();
        assert_eq!((survey.live_blocks, survey.free_blocks, arena.heap().faults().0), (0, 1, 0));
    });
}

#[test]
fn every_lock_and_shape_keeps_the_contract() {
    clean::<Packed, _, _>(&Shared::new(Anywhere, once(1 << 20), OneThread::new()));
    clean::<Standard, _, _>(&Shared::new(Anywhere, once(1 << 20), Spin::new()));
    clean::<Checked, _, _>(&Shared::new(Anywhere, once(1 << 20), Spin::new()));
    clean::<Packed, _, _>(&Shared::new(Anywhere, once(1 << 20), Ticket::new()));
    // SAFETY: one thread.
    clean::<Swift, _, _>(&Shared::new(Anywhere, once(1 << 20), unsafe { Unlocked::new() }));
    #[cfg(feature = "std")]
    clean::<Packed, _, _>(&Shared::new(Anywhere, once(1 << 20), toft_arena::StdLock::new()));
    #[cfg(feature = "lock_api")]
    clean::<Packed, _, _>(&Shared::new(
        Anywhere,
        once(1 << 20),
        toft_arena::LockApi::<spin::Mutex<()>>::new(),
    ));
}

/// An interrupt handler that uses the arena while the interrupted code does would wait for ever.
#[test]
fn interrupts_are_off_while_the_lock_is_held_and_then_as_they_were() {
    thread_local!(static ON: Cell<bool> = const { Cell::new(true) });
    struct Fake;
    // SAFETY: there are no handlers; the flag says whether there could be.
    unsafe impl Interrupts for Fake {
        type State = bool;
        fn disable() -> bool {
            ON.replace(false)
        }
        fn restore(state: bool) {
            ON.set(state);
        }
    }
    let lock = NoInterrupts::<Fake, _>::new(Spin::new());
    let shared: Shared<Packed, _, _> = Shared::new(Anywhere, once(1 << 20), lock);
    assert_eq!(shared.look(|_| ON.get()), Some(false));
    assert!(ON.get());
    ON.set(false);
    shared.look(|_| assert!(!ON.get()));
    assert!(!ON.get(), "they were off before");
    ON.set(true);
    clean(&shared);
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shared.look(|_| panic!())));
    assert!(ON.get(), "a panic left them off");
    assert_eq!(shared.look(|_| 7), Some(7), "a panic left the lock held");
}

/// A source that uses the arena that asks it: an error, and no second reference to the arena.
#[test]
fn a_source_that_comes_back_is_refused() {
    thread_local!(static ARENA: Cell<Option<&'static Shared<Packed, Back, OneThread>>> = const { Cell::new(None) });
    struct Back;
    // SAFETY: it leaves the heap as it is.
    unsafe impl Source<Packed> for Back {
        unsafe fn more(&mut self, _: &mut Heap<Packed>, layout: Layout) -> Result<(), NoMemory> {
            let arena = ARENA.get().unwrap();
            assert_eq!(arena.allocate(layout), Err(NoMemory));
            Ok(())
        }
    }
    let arena = Box::leak(Box::new(Shared::new(Anywhere, Back, OneThread::new())));
    ARENA.set(Some(arena));
    assert_eq!(arena.allocate(layout(1, 1)), Err(NoMemory));
}

/// A wrong pointer is noted and has no other effect, also where a large block would be copied.
#[test]
fn a_fault_has_no_effect_through_a_shared_reference() {
    let shared: Shared<Checked, _, _> = Shared::new(Anywhere, once(1 << 20), OneThread::new());
    let block = shared.allocate(layout(50_000, 8)).unwrap();
    // SAFETY: the second free of a block is what is tested.
    unsafe {
        shared.deallocate(block);
        let before = shared.survey();
        shared.deallocate(block);
        shared.deallocate_sized(block, layout(50_000, 8));
        assert_eq!(shared.reallocate(block, layout(50_000, 8), 60_000), Err(NoMemory));
        assert_eq!(shared.reallocate(block, layout(500, 8), 600), Err(NoMemory));
        assert_eq!(shared.survey(), before);
    }
    assert!(shared.look(|arena| arena.heap().faults().0).unwrap() >= 4);
}

#[cfg(feature = "allocator-api2")]
#[test]
fn collections_of_an_arena() {
    use allocator_api2::vec::Vec;
    let shared: Shared<Packed, _, _> = Shared::new(Anywhere, once(1 << 20), OneThread::new());
    {
        let mut numbers = Vec::new_in(&shared);
        let mut nothings = Vec::new_in(&shared);
        for number in 0..10_000_u64 {
            numbers.push(number);
            nothings.push(());
        }
        assert!(numbers.iter().copied().eq(0..10_000) && nothings.len() == 10_000);
        numbers.truncate(10);
        numbers.shrink_to_fit();
        assert_eq!(shared.look(|arena| arena.heap().survey().live_blocks), Some(1));
    }
    assert_eq!(shared.look(|arena| arena.heap().survey().live_blocks), Some(0));
}

/// Without a source: memory by hand.
#[test]
fn memory_is_claimed_by_hand() {
    let mut shared: Shared<Packed, Manual, Spin> = Shared::new(Anywhere, Manual, Spin::new());
    assert_eq!(shared.allocate(layout(1, 1)), Err(NoMemory));
    let memory = Box::leak(vec![0_u8; 4096].into_boxed_slice());
    // SAFETY: the memory is never used by anybody else.
    unsafe { shared.get_mut().heap_mut().claim(memory.as_mut_ptr(), 4096) }.unwrap();
    assert!(shared.allocate(layout(1, 1)).is_ok());
    assert!(format!("{shared:?}").contains("live_blocks: 1"));
}

/// A large block that there is no room beside grows into what is free below it.
#[test]
fn a_large_block_grows_downwards_where_there_is_no_other_room() {
    let shared: Shared<Packed, _, _> = Shared::new(Anywhere, once(64 << 10), OneThread::new());
    let below = shared.allocate(layout(20_000, 8)).unwrap();
    let block = shared.allocate(layout(20_000, 8)).unwrap();
    let rest = shared.allocate(layout(24_000, 8)).unwrap();
    // SAFETY: live blocks; only what is returned is used.
    unsafe {
        block.as_ptr().write_bytes(7, 20_000);
        shared.deallocate(below);
        let grown = shared.reallocate(block, layout(20_000, 8), 38_000).unwrap();
        assert_eq!(grown, below);
        assert!((0..20_000).all(|place| grown.add(place).read() == 7));
        shared.deallocate(rest);
    }
    shared.check().unwrap().unwrap();
}

/// Every caller begins with the first stripe.
struct First;

impl Spread for First {
    fn here() -> usize {
        0
    }
}

fn striped<S: Shape<Space = Anywhere>, H: Spread>(size: usize) -> Striped<S, Spin, 4, H> {
    let memory = Box::leak(vec![0xEE_u8; size].into_boxed_slice());
    // SAFETY: the memory is never used by anybody else.
    unsafe { Striped::new(memory.as_mut_ptr(), size, [const { Spin::new() }; 4]) }
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
    let all = striped::<Swift, toft_arena::ByStack>(4 << 20);
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
fn fill<H: Spread>(
    all: &Striped<Checked, Spin, 4, H>,
    layout: Layout,
) -> Vec<std::ptr::NonNull<u8>> {
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
    // They lie in one span but for where the memory ends and begins again.
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
        assert!((0..1000).all(|place| moved.add(place).read() == 7));
        all.deallocate(moved);
        let left = blocks[9..200].iter().chain(&blocks[201..]);
        left.for_each(|&block| all.deallocate(block));
        all.deallocate_sized(first, small);
    }
    is_clean(&all);
}

/// A request that no stripe has the memory for, but all of them together, is met; unless something lies in the way.
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

/// Threads with stripes of their own, of which each needs more than its share now and then.
#[test]
fn parts_go_from_thread_to_thread_while_all_of_them_work() {
    let all = striped::<Checked, Chosen>(1 << 20);
    let met: usize = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let all = &all;
            move || {
                HOME.set(thread);
                let (mut live, mut met) = (Vec::<(std::ptr::NonNull<u8>, usize)>::new(), 0);
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
                            let bytes = std::slice::from_raw_parts(block.as_ptr(), size);
                            assert!(bytes.iter().all(|&byte| usize::from(byte) == thread));
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

/// Whoever finds its home taken again and again moves to the next stripe, and stays there.
#[test]
fn who_meets_others_at_home_moves() {
    let all = striped::<Checked, First>(256 << 10);
    let small = layout(100, 8);
    let part = |block: std::ptr::NonNull<u8>, start: usize| (block.addr().get() - start) >> 16;
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
    let (sender, receiver) = std::sync::mpsc::channel::<(usize, u8)>();
    let receiver = std::sync::Mutex::new(receiver);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (all, sender, receiver) = (&all, sender.clone(), &receiver);
            scope.spawn(move || {
                for turn in 0..2000_usize {
                    let size = 16 + turn * 37 % 700;
                    let block = all.allocate(layout(size, 8)).unwrap();
                    // SAFETY: the block has that many bytes, and is whoever's receives it.
                    unsafe { block.as_ptr().write_bytes(thread, 16) };
                    sender.send((block.as_ptr().expose_provenance(), thread)).unwrap();
                    let other = receiver.lock().unwrap().recv().unwrap();
                    let block = std::ptr::with_exposed_provenance_mut::<u8>(other.0);
                    // SAFETY: as above.
                    unsafe {
                        assert!((0..16).all(|place| block.add(place).read() == other.1));
                        all.deallocate(std::ptr::NonNull::new(block).unwrap());
                    }
                }
            });
        }
    });
    is_clean(&all);
}

/// Two that add to one number without any other order between them; and what `try_hold` says meanwhile.
fn excludes(lock: &(impl Exclusive + Sync)) {
    struct Number(std::cell::UnsafeCell<u64>);
    // SAFETY: used under the lock.
    unsafe impl Sync for Number {}
    let number = Number(std::cell::UnsafeCell::new(0));
    let add = |tries: bool| {
        let number = &number;
        move || {
            // SAFETY: under the lock.
            let add = || unsafe {
                let seen = *number.0.get();
                // Here the other would come in, if it could, also where there is one processor.
                if seen % 64 == 0 {
                    std::thread::yield_now();
                }
                *number.0.get() = seen + 1;
            };
            for _ in 0..20_000 {
                if !tries || lock.try_hold(add).is_none() {
                    lock.hold(add);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(add(false));
        scope.spawn(add(true));
    });
    assert_eq!(lock.hold(|| lock.try_hold(|| ())), Some(None));
    assert_eq!(lock.try_hold(|| ()), Some(()));
    assert_eq!(number.0.into_inner(), 40_000);
}

#[test]
fn locks_let_in_one_at_a_time() {
    excludes(&Spin::new());
    excludes(&Ticket::new());
    #[cfg(feature = "std")]
    excludes(&toft_arena::StdLock::new());
    #[cfg(feature = "lock_api")]
    excludes(&toft_arena::LockApi::<spin::Mutex<()>>::new());
}
