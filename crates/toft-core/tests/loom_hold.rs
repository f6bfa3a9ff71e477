//! Slots that the reclaimer holds while their owner allocates and frees, and another thread frees,
//! in every interleaving that can make a difference.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p toft-core --release --test loom_hold`
//!
//! What runs here is the code of `slab/`, `remote/` and `sync/reentrancy.rs` itself, over loom's
//! atomics. What the kernel does is played. The barrier that every thread passes is a fence here,
//! and one at the owner's reentrancy guard (`sync::light_barrier`), which promises less. What is in
//! a slot's memory is always seen as it is, because pages that the kernel takes away are gone for
//! all processors before its call returns.
#![cfg(loom)]

use Ordering::{Relaxed, SeqCst};
use loom::thread;
use std::sync::Arc;
use toft_core::region::{Partition, Site};
use toft_core::remote::{Inbox, Marked, announce, mark_remote};
use toft_core::slab::{Groups, Put, SizeClass, Slab, SlotIndex, SlotState, Spent};
use toft_core::sync::{AtomicU32, AtomicU64, Busy, Ordering, fence};

/// A slot is a page.
const PAGE: usize = 2048;
const BASE: usize = 0x10_0000;
const SLOTS: usize = 2;

/// What the reclaimer leaves out, to show that it is seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    NoBarrier,
    GuardNotAsked,
    NotSettled,
    NotNotified,
}

/// What is in a slot's memory: always the latest, and it orders nothing else.
struct Memory(AtomicU64);

impl Memory {
    fn read(&self) -> u64 {
        self.0.fetch_or(0, Relaxed)
    }

    fn write(&self, word: u64) {
        self.0.swap(word, Relaxed);
    }
}

/// A heap's inbox and reentrancy guard, its one slab of two slots, and what is in their memory.
struct World {
    inbox: Inbox,
    busy: Busy,
    slab: Slab,
    memory: [Memory; SLOTS],
    /// Double frees that were reported.
    reported: AtomicU32,
}

impl World {
    /// The slots `live` are the program's; the others were freed by the owner, and may be other
    /// than zero.
    fn new(live: &[usize]) -> Arc<World> {
        let world = Arc::new(World {
            inbox: Inbox::new(),
            busy: Busy::new(),
            slab: Slab::default(),
            memory: [7; SLOTS].map(|word| Memory(AtomicU64::new(word))),
            reported: AtomicU32::new(0),
        });
        let slab = &world.slab;
        let (partition, site) = (Partition::default(), Site::default());
        slab.open_slots(BASE, SizeClass::of(PAGE).unwrap(), SLOTS, partition, site);
        slab.publish((&raw const world.inbox).expose_provenance(), SLOTS);
        slab.relist();
        assert!(slab.refill(0, |_| {}) && slab.claimed() == 3);
        slab.hand_out(slab.claimed());
        slab.hand_out(slab.claimed());
        for slot in (0..SLOTS).filter(|slot| !live.contains(slot)) {
            world.put(slot);
        }
        slab.unclaim();
        world
    }

    /// What malloc does where one slab is all that its bin has: hands out a slot, if one is to be
    /// had. Says which.
    fn allocate(&self) -> Option<usize> {
        let slab = &self.slab;
        if slab.claimed() == 0 {
            let _guard = self.busy.enter().unwrap();
            let Some(address) = slab.refill_and_take(Groups::All, |_| {}) else {
                // `Bins::advance`: what has no slot to give leaves the list.
                if slab.is_listed() {
                    slab.unlist();
                }
                return None;
            };
            return Some(self.taken((address - BASE) / PAGE));
        }
        let slot = slab.claimed().trailing_zeros() as usize;
        slab.hand_out(slab.claimed());
        Some(self.taken(slot))
    }

    /// calloc believes what the slab says of the slot's memory.
    fn taken(&self, slot: usize) -> usize {
        if self.slab.handed_out_zero(BASE + slot * PAGE) {
            assert_eq!(self.memory[slot].read(), 0, "not zero");
        }
        slot
    }

    /// The program writes to a block and finds it again as it was, whatever happens meanwhile.
    fn use_block(&self, slot: usize, number: u64) {
        self.memory[slot].write(number);
        // Another thread may go on here.
        assert!(self.slab.is_live(SlotIndex::new(slot)), "a live block is free");
        assert_eq!(self.memory[slot].read(), number, "a live block's pages went");
    }

    /// Free, by the owner.
    fn put(&self, slot: usize) {
        let (slab, slot) = (&self.slab, SlotIndex::new(slot));
        match slab.put(slot) {
            Put::NotLive => self.report_misuse(),
            Put::Done => {
                if slab.is_listed()
                    && let Some(_guard) = self.busy.enter()
                {
                    slab.claim_freed(slot, || {});
                }
            }
            Put::Spent => {
                let _guard = self.busy.enter().unwrap();
                self.follow(slab.credit_spent(false));
            }
        }
    }

    /// `Heap::collect`: what comes of credit that is spent. The slab is its bin's current one,
    /// which stays although it may be empty.
    fn follow(&self, spent: Spent) {
        if spent != Spent::Nothing && !self.slab.is_listed() {
            self.slab.relist();
        }
    }

    /// Free, by another thread.
    fn free(&self, slot: usize) {
        let slot = SlotIndex::new(slot);
        if !self.slab.is_live(slot) {
            return self.report_misuse();
        }
        match mark_remote(&self.slab, slot) {
            Marked::Done => {}
            Marked::Twice => self.report_misuse(),
            Marked::Unannounced => announce(&self.slab),
        }
    }

    fn report_misuse(&self) {
        self.reported.fetch_add(1, Relaxed);
    }

    /// What the owner does with what others have freed.
    fn collect(&self) {
        let _guard = self.busy.enter().unwrap();
        self.inbox.drain(|slab| self.follow(slab.collect(|_| self.report_misuse()).1));
    }

    /// `Os::barrier`.
    fn barrier(&self, planted: Planted) {
        if planted != Planted::NoBarrier {
            fence(SeqCst);
        }
    }

    /// A sweep, of this slab: `Sweeper::sweep` and `Allocator::give_back`.
    fn sweep(&self, planted: Planted) {
        let slab = &self.slab;
        if !slab.pinning().hold(PAGE) {
            return;
        }
        self.barrier(planted);
        let quiet = !self.busy.is_taken() || planted == Planted::GuardNotAsked;
        if planted != Planted::NotSettled {
            slab.pinning().settle(quiet);
        }
        slab.pinning().held_pages(PAGE, |start, bytes| {
            let first = (start - BASE) / PAGE;
            for memory in self.memory.iter().skip(first).take(bytes / PAGE) {
                memory.write(0);
            }
        });
        if slab.pinning().finish(PAGE, true).is_some() {
            self.report_misuse();
        }
        self.barrier(planted);
        let busy = self.busy.is_taken();
        if slab.pinning().is_overlooked(busy) && planted != Planted::NotNotified {
            announce(slab);
        }
        slab.pinning().leave();
    }

    /// All threads are done: the owner collects what it was notified of, and then it must have
    /// every slot that is not `live`, and each once.
    fn settle(&self, live: usize) {
        self.collect();
        self.collect();
        self.slab.check().unwrap();
        assert_eq!(self.slab.remote.count(), 0, "a remote free was lost");
        assert_eq!(self.slab.live_slots(), live, "a slot was lost");
        assert_eq!(self.reported.load(Relaxed), 0, "a correct free was taken for a bad one");
        assert!(
            live == SLOTS || self.slab.is_listed(),
            "the owner does not know that there is room"
        );
        let mut got = 0;
        while let Some(slot) = self.allocate() {
            self.use_block(slot, 3);
            got += 1;
        }
        assert_eq!(got + live, SLOTS, "a slot was lost");
        assert!(self.slab.all_slots().all(|slot| self.slab.state(slot) == SlotState::Live));
    }
}

/// Runs a model with at most `preemptions` preemptions of a thread.
fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    let runs = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = runs.clone();
    builder.check(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
    println!("{runs} interleavings");
    assert!(runs > 50, "{runs} interleavings say nothing");
}

/// Malloc and free against a sweep: what malloc gets no other thread has, and it stays; what calloc
/// takes for zero is.
#[test]
fn what_malloc_hands_out_is_not_discarded() {
    model(2, || {
        let world = World::new(&[]);
        let sweeper = world.clone();
        let sweep = thread::spawn(move || sweeper.sweep(Planted::Nothing));
        let slot = world.allocate();
        if let Some(slot) = slot {
            world.use_block(slot, 1);
            world.put(slot);
        }
        sweep.join().unwrap();
        world.settle(0);
    });
}

/// A slot that another thread frees, which the sweep takes from under the owner's eyes or the owner
/// collects: no free is lost, and none is taken for a second one.
#[test]
fn a_remote_free_survives_a_sweep() {
    model(2, || {
        let world = World::new(&[0, 1]);
        let (sweeper, freer) = (world.clone(), world.clone());
        let sweep = thread::spawn(move || sweeper.sweep(Planted::Nothing));
        let free = thread::spawn(move || freer.free(0));
        world.use_block(1, 5);
        world.collect();
        free.join().unwrap();
        sweep.join().unwrap();
        world.use_block(1, 6);
        world.settle(1);
    });
}

/// The owner looks for a slot while a sweep is at them. Where all are held it finds none, takes the
/// slab off its list, and is notified; where it was first, what it gets is not discarded.
fn owner_looks_meanwhile(planted: Planted) {
    model(3, move || {
        let world = World::new(&[]);
        let sweeper = world.clone();
        let sweep = thread::spawn(move || sweeper.sweep(planted));
        let slot = world.allocate();
        if let Some(slot) = slot {
            world.use_block(slot, 1);
        }
        sweep.join().unwrap();
        world.settle(usize::from(slot.is_some()));
    });
}

#[test]
fn the_owner_gets_what_is_not_held_or_is_notified() {
    owner_looks_meanwhile(Planted::Nothing);
}

/// What the sweep must not leave out, each left out: another symptom for each.
#[test]
#[should_panic(expected = "a live block's pages went")]
fn no_barrier_is_seen() {
    owner_looks_meanwhile(Planted::NoBarrier);
}

#[test]
#[should_panic(expected = "a live block's pages went")]
fn not_asking_the_guard_is_seen() {
    owner_looks_meanwhile(Planted::GuardNotAsked);
}

#[test]
#[should_panic(expected = "a live block's pages went")]
fn not_settling_is_seen() {
    owner_looks_meanwhile(Planted::NotSettled);
}

#[test]
#[should_panic(expected = "I6")]
fn not_notifying_the_owner_is_seen() {
    owner_looks_meanwhile(Planted::NotNotified);
}
