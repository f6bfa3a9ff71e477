//! Every way to use an arena through a shared reference keeps the contract of `GlobalAlloc`; and
//! locks exclude. An arena in parts is in `stripes.rs`.

use crate::common::contract::{conforms, layout};
use crate::common::words::{is_full_of, once};
use std::alloc::Layout;
use std::cell::Cell;
use std::mem::MaybeUninit;
use toft_arena::shape::{Packed, Shape, Standard};
use toft_arena::source::{Array, Manual, Once, Source};
use toft_arena::{
    Anywhere, Checked, Exclusive, Fast, Heap, Interrupts, NoInterrupts, NoMemory, OneThread,
    Shared, SpanError, Spin, Ticket, Unlocked,
};

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
    clean::<Fast, _, _>(&Shared::new(Anywhere, once(1 << 20), unsafe { Unlocked::new() }));
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
    // SAFETY: there are no handlers; the flag is true if there could be.
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
        assert!(is_full_of(7, grown, 20_000));
        shared.deallocate(rest);
    }
    shared.check().unwrap().unwrap();
}

/// Two that add to one number without any other order between them; and what `try_hold` says
/// meanwhile.
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

toft_arena::array!(
    /// For the tests below.
    Memory,
    64 << 10
);
toft_arena::array!(Other, 64 << 10);

/// An array belongs to the first arena that requests memory. A second one gets none, and the arena
/// of another array does.
#[test]
fn an_array_serves_one_arena() {
    static FIRST: Shared<Packed, Once<Memory>, Spin> =
        Shared::new(Anywhere, Once::array(), Spin::new());
    static SECOND: Shared<Fast, Once<Memory>, Spin> =
        Shared::new(Anywhere, Once::array(), Spin::new());
    static THIRD: Shared<Fast, Once<Other>, Spin> =
        Shared::new(Anywhere, Once::array(), Spin::new());
    let block = FIRST.allocate(layout(60 << 10, 8)).unwrap();
    let memory = Memory::bytes();
    let start = std::ptr::from_ref(memory).addr();
    assert!((start..start + size_of_val(memory)).contains(&block.as_ptr().addr()));
    assert_eq!(SECOND.allocate(layout(8, 8)), Err(NoMemory));
    THIRD.allocate(layout(60 << 10, 8)).unwrap();
    assert_eq!(FIRST.allocate(layout(60 << 10, 8)), Err(NoMemory));
    // SAFETY: freed once.
    unsafe { FIRST.deallocate(block) };
    FIRST.check().unwrap().unwrap();
}

/// Memory that is claimed through a shared reference serves, and a lock that its caller has says
/// so.
#[test]
fn a_shared_arena_claims_memory() {
    let leaked = |size| &mut *Box::leak(vec![MaybeUninit::<u8>::uninit(); size].into_boxed_slice());
    let shared = Shared::<Fast, _, _>::new(Anywhere, Manual, OneThread::new());
    assert_eq!(shared.allocate(layout(100, 8)), Err(NoMemory));
    assert_eq!(shared.claim(leaked(8)), Err(SpanError::TooSmall));
    shared.claim(leaked(4096)).unwrap();
    shared.claim(leaked(8192)).unwrap();
    assert_eq!(shared.look(|arena| arena.heap().spans().count()), Some(2));
    shared.allocate(layout(8000, 8)).unwrap();
    assert!(format!("{shared:?}").contains("live_blocks: 1"));
    let inside = shared.look(|_| shared.claim(leaked(4096)));
    assert_eq!(inside, Some(Err(SpanError::Locked)));
    shared.check().unwrap().unwrap();
}
