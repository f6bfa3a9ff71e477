//! The lock, the cache and the remote frees, in every order in which threads can run.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p toft-ar-malloc --features loom --release --test loom`
//!
//! What runs here is the code of the allocator itself, over loom's atomics.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use std::sync::Arc;
use toft_ar_malloc::cache::Shelf;
use toft_ar_malloc::class::Class;
use toft_ar_malloc::heap::Heap;
use toft_ar_malloc::lock::Lock;
use toft_ar_malloc::slab::{Census, From, NotInUse, Slab, SlotIndex};

/// Every order in which threads are switched at most `switches` times where they need not be.
fn bounded(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// What a lock guards. Loom fails the test if two threads use the cell at the same time, or if one
/// uses it without the order that the lock makes.
struct Guarded {
    lock: Lock,
    value: UnsafeCell<usize>,
}

impl Guarded {
    fn add_one(&self) {
        let _held = self.lock.take();
        // SAFETY: the lock is held.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

#[test]
fn a_lock_keeps_threads_apart_and_wakes_each() {
    bounded(2, || {
        let guarded = Arc::new(Guarded { lock: Lock::new(), value: UnsafeCell::new(0) });
        // Two others: one may sleep while the third takes the lock from the holder.
        let others = [(); 2].map(|()| {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.add_one())
        });
        guarded.add_one();
        others.into_iter().for_each(|other| other.join().unwrap());
        guarded.value.with(|value| assert_eq!(unsafe { *value }, 3));
    });
}

/// One heap with a slab of a few slots, and what the program wrote to each of them.
struct World {
    heap: Heap,
    lock: Lock,
    slab: &'static Slab,
    blocks: Vec<UnsafeCell<usize>>,
    reported: AtomicUsize,
}

impl World {
    fn new(slots: u16) -> Arc<World> {
        let world = World {
            heap: Heap::new(),
            lock: Lock::new(),
            slab: Slab::model(slots),
            blocks: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
            reported: AtomicUsize::new(0),
        };
        world.heap.list(world.slab);
        Arc::new(world)
    }

    /// The position of a slot, by its address. Slots of the model are one class apart.
    fn position(&self, address: usize) -> usize {
        let slots = (0..self.blocks.len()).map(|slot| self.slab.address(at(slot)));
        slots.into_iter().position(|slot| slot == address).unwrap()
    }

    /// The program uses a block. Loom fails the test if another thread has it, too.
    fn write(&self, address: usize, value: usize) {
        // SAFETY: the calling thread has the block.
        self.blocks[self.position(address)].with_mut(|block| unsafe { *block = value });
    }

    /// Takes a block as `Allocator::allocate` does with a lock and a cache.
    fn allocate(&self, shelf: &Shelf) -> Option<usize> {
        if let Some(block) = shelf.pop() {
            self.slab.change(at(self.position(block)), From::Cache, From::Program).unwrap();
            return Some(block);
        }
        let _held = self.lock.take();
        let (slab, slot) = self.heap.take(self.slab.class, From::Program)?;
        Some(slab.address(slot))
    }

    /// Frees a block as `Allocator::free` does with a lock and a cache.
    fn free(&self, shelf: &Shelf, block: usize) {
        self.slab.change(at(self.position(block)), From::Program, From::Cache).unwrap();
        if !shelf.push(block) {
            self.flush(shelf, 1);
            assert!(shelf.push(block));
        }
    }

    fn flush(&self, shelf: &Shelf, count: usize) {
        let _held = self.lock.take();
        shelf.take_oldest(count, |block| {
            self.heap.give(self.slab, at(self.position(block)), From::Cache).unwrap();
        });
    }
}

/// The slot at a position: `Slab` gives none away but by its own functions.
fn at(position: usize) -> SlotIndex {
    SlotIndex::model(position as u16)
}

#[test]
fn a_block_is_one_threads_at_a_time_through_cache_and_lock() {
    bounded(2, || {
        let world = World::new(2);
        let work = |world: &World, number: usize| {
            let shelf = Shelf::new();
            for round in 0..2 {
                let block = world.allocate(&shelf).unwrap();
                world.write(block, number + round);
                world.free(&shelf, block);
                // A thread that exits, between two calls.
                world.flush(&shelf, 2);
            }
        };
        let other = thread::spawn({
            let world = world.clone();
            move || work(&world, 10)
        });
        work(&world, 20);
        other.join().unwrap();
        let census = world.slab.census();
        assert_eq!(census, Census { slots: 2, free: 2, ..Census::default() });
    });
}

#[test]
fn a_block_that_another_thread_frees_into_its_cache_comes_back_in_order() {
    loom::model(|| {
        let world = World::new(1);
        let shelf = Shelf::new();
        let block = world.allocate(&shelf).unwrap();
        world.write(block, 1);
        let other = thread::spawn({
            let world = world.clone();
            move || {
                let shelf = Shelf::new();
                world.write(block, 2);
                world.free(&shelf, block);
                world.flush(&shelf, 1);
            }
        });
        // The only slot: this thread has it after the other thread's flush, or not at all.
        if let Some(block) = world.allocate(&shelf) {
            world.write(block, 3);
        }
        other.join().unwrap();
    });
}

#[test]
fn remote_frees_are_collected_once_each() {
    bounded(3, || {
        let world = World::new(2);
        let class = Class::of(1).unwrap();
        let blocks = [(); 2].map(|()| world.heap.take(class, From::Program).unwrap().1);
        let others = blocks.map(|slot| {
            let world = world.clone();
            thread::spawn(move || {
                world.write(world.slab.address(slot), 1);
                world.heap.give_remote(world.slab, slot, From::Program).unwrap();
            })
        });
        // The owner, which may be in time for one, both or none.
        let mut had = 0;
        world.heap.collect();
        while let Some((slab, slot)) = world.heap.take(class, From::Program) {
            world.write(slab.address(slot), 2);
            had += 1;
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        world.heap.collect();
        while let Some((slab, slot)) = world.heap.take(class, From::Program) {
            world.write(slab.address(slot), 3);
            had += 1;
        }
        assert_eq!(had, 2);
    });
}

#[test]
fn of_two_threads_that_free_one_block_one_is_told() {
    loom::model(|| {
        let world = World::new(1);
        let (_, slot) = world.heap.take(Class::of(1).unwrap(), From::Program).unwrap();
        let free = move |world: &World| {
            let freed = world.heap.give_remote(world.slab, slot, From::Program);
            if freed == Err(NotInUse) {
                world.reported.fetch_add(1, Relaxed);
            }
        };
        let other = thread::spawn({
            let world = world.clone();
            move || free(&world)
        });
        free(&world);
        other.join().unwrap();
        assert_eq!(world.reported.load(Relaxed), 1);
    });
}
