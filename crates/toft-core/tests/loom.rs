//! The protocol between a slab's owner and the threads that free into it, and that of the places of
//! free large blocks, in every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p toft-core --release --test loom`
//!
//! What runs here is the code of `remote/`, `slab/` and `large/` itself, over loom's
//! atomics.
#![cfg(loom)]

use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;
use toft_core::large::{Kept, Places, Spares, Trimmed};
use toft_core::region::{Partition, Site};
use toft_core::remote::{Inbox, Marked, announce, mark_remote};
use toft_core::slab::{Batch, Offered, PENDING, SizeClass, Slab, SlotIndex};
use toft_core::sync::{AtomicU8, AtomicU32, Ordering, User};

/// Two heaps, as far as others see them, and two slabs of two slots that are all live; the first
/// heap owns both.
struct World {
    heaps: [Inbox; 2],
    slabs: [Slab; 2],
    /// The batch of a thread that frees.
    batch: Batch,
    /// The first heap's state byte, as `thread/heaps.rs` keeps it.
    state: AtomicU8,
    /// Double frees that were reported.
    reported: AtomicU32,
}

const ORPHAN: u8 = 2;
const HELD: u8 = 3;

fn address(inbox: &Inbox) -> usize {
    (&raw const *inbox).expose_provenance()
}

impl World {
    fn new() -> Arc<World> {
        let world = Arc::new(World {
            heaps: [Inbox::new(), Inbox::new()],
            slabs: [Slab::default(), Slab::default()],
            batch: Batch::default(),
            state: AtomicU8::new(ORPHAN),
            reported: AtomicU32::new(0),
        });
        for (number, slab) in world.slabs.iter().enumerate() {
            let (partition, site) = (Partition::default(), Site::default());
            let class = SizeClass::new(0);
            slab.open_slots(0x10_0000 * (number + 1), class, 2, partition, site);
            slab.publish(address(&world.heaps[0]), 2);
            assert!(slab.refill(0, |_| {}));
            slab.hand_out(slab.claimed());
            slab.hand_out(slab.claimed());
            slab.unlist();
        }
        world
    }

    /// What free does with a slot of another thread's slab.
    fn free(&self, slab: usize, slot: usize) {
        let slab = &self.slabs[slab];
        let slot = SlotIndex::new(slot);
        if !slab.is_live(slot) {
            self.report_misuse();
            return;
        }
        match mark_remote(slab, slot) {
            Marked::Done => {}
            Marked::Twice => self.report_misuse(),
            Marked::Unannounced => announce(slab),
        }
    }

    fn report_misuse(&self) {
        self.reported.fetch_add(1, Relaxed);
    }

    /// What the holder of a heap does with its pending stack. Says which slabs were on it.
    fn drain(&self, heap: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        self.heaps[heap].drain(|slab| {
            seen.push(slab.base());
            slab.collect(|_| self.report_misuse());
        });
        seen
    }

    /// All threads are done: the holders drain again, and nothing may be left anywhere.
    fn settle(&self, live: usize) {
        for heap in 0..self.heaps.len() {
            // One drain may stop at a slab whose link it has met too early; the next goes on there.
            self.drain(heap);
            self.drain(heap);
            assert!(self.heaps[heap].is_empty(), "something is left on the stack");
        }
        for slab in &self.slabs {
            assert_eq!(slab.remote.count(), 0, "a bit was lost");
        }
        assert_eq!(self.slabs.iter().map(Slab::live_slots).sum::<usize>(), live, "a bit was lost");
    }
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Runs a model in every interleaving that can make a difference.
fn model(body: impl Fn() + Sync + Send + 'static) {
    model_with(None, body);
}

/// As `model`, with at most `preemptions` preemptions of a thread, where all of them take too long.
fn model_with(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    let runs = std::sync::atomic::AtomicUsize::new(0);
    let counted = Arc::new(runs);
    let counter = counted.clone();
    builder.check(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    let runs = counted.load(std::sync::atomic::Ordering::Relaxed);
    println!("{runs} interleavings");
    assert!(runs > 50, "{runs} interleavings say nothing");
}

/// Two threads free into one slab while its owner drains: both frees arrive.
#[test]
fn no_bit_is_lost() {
    model(|| {
        let world = World::new();
        let freers = [0, 1].map(|slot| {
            let world = world.clone();
            thread::spawn(move || world.free(0, slot))
        });
        world.drain(0);
        join(freers);
        world.settle(2);
        assert_eq!(world.reported.load(Relaxed), 0);
    });
}

/// One slot is freed by two threads: exactly one is told, or the owner is when it collects.
#[test]
fn double_free_is_seen() {
    model(|| {
        let world = World::new();
        let freers = [(); 2].map(|()| {
            let world = world.clone();
            thread::spawn(move || world.free(0, 0))
        });
        world.drain(0);
        join(freers);
        world.settle(3);
        assert_eq!(world.reported.load(Relaxed), 1, "a double free was not reported exactly once");
    });
}

/// Two threads free into two slabs, in opposite order, while the owner drains: no slab is on the
/// stack twice, and none is forgotten.
#[test]
fn pending_stack_holds_every_slab_once() {
    model_with(Some(5), || {
        let world = World::new();
        let freers = [[0, 1], [1, 0]].map(|slabs| {
            let world = world.clone();
            thread::spawn(move || {
                for slab in slabs {
                    world.free(slab, slabs[0]);
                }
            })
        });
        let mut seen = world.drain(0);
        seen.sort_unstable();
        seen.dedup();
        join(freers);
        let last = world.drain(0);
        assert!(last.len() < 2 || last[0] != last[1], "a slab was on the stack twice");
        assert!(!seen.is_empty() || last.len() == 2, "a slab was forgotten");
        world.settle(0);
        assert_eq!(world.reported.load(Relaxed), 0);
    });
}

/// What a thread in need of slabs does: holds an orphan, drains it, takes a slab over, lets go.
fn adopt(world: &World) -> bool {
    if world.state.compare_exchange(ORPHAN, HELD, AcqRel, Relaxed).is_err() {
        return false;
    }
    world.drain(0);
    let (from, to) = (address(&world.heaps[0]), address(&world.heaps[1]));
    let taken = world.slabs[0].change_owner(from, to);
    world.state.store(ORPHAN, Release);
    taken
}

/// A slab changes its owner while another thread frees into it, and a second thread wants the same
/// orphan: one holds it at a time, and the free arrives with the old owner or the new one.
#[test]
fn adoption() {
    model(|| {
        let world = World::new();
        let freer = {
            let world = world.clone();
            thread::spawn(move || world.free(0, 0))
        };
        let rival = {
            let world = world.clone();
            thread::spawn(move || {
                if world.state.compare_exchange(ORPHAN, HELD, AcqRel, Acquire).is_ok() {
                    world.drain(0);
                    world.state.store(ORPHAN, Release);
                }
            })
        };
        adopt(&world);
        freer.join().unwrap();
        rival.join().unwrap();
        world.settle(3);
        assert_eq!(world.reported.load(Relaxed), 0);
    });
}

/// The model must be able to see a mistake: an owner that clears PENDING after it has collected
/// loses the free that comes in between.
#[test]
#[should_panic(expected = "a bit was lost")]
fn clearing_pending_too_late_is_seen() {
    model(|| {
        let world = World::new();
        let freers = [0, 1].map(|slot| {
            let world = world.clone();
            thread::spawn(move || world.free(0, slot))
        });
        world.heaps[0].drain(|slab| {
            slab.set_owner_flag(PENDING);
            slab.collect(|_| {});
            slab.clear_owner_flag(PENDING);
        });
        join(freers);
        world.settle(2);
    });
}

/// The defect of a free that reads PENDING before it sets its bit.
#[test]
#[should_panic(expected = "a bit was lost")]
fn looking_before_marking_is_seen() {
    model(|| {
        let world = World::new();
        let first = {
            let world = world.clone();
            thread::spawn(move || world.free(0, 0))
        };
        let hasty = {
            let world = world.clone();
            thread::spawn(move || {
                let slab = &world.slabs[0];
                let pending = slab.set_owner_flag(0) & PENDING != 0;
                if mark_remote(slab, SlotIndex::new(1)) == Marked::Unannounced && !pending {
                    announce(slab);
                }
            })
        };
        world.drain(0);
        first.join().unwrap();
        hasty.join().unwrap();
        world.settle(2);
    });
}

/// The places of free large blocks, and what only the holder of each may touch.
struct Waiting {
    places: Places,
    blocks: [UnsafeCell<usize>; 3],
}

// SAFETY: loom itself reports two threads that touch a block at once.
unsafe impl Sync for Waiting {}
// SAFETY: as above.
unsafe impl Send for Waiting {}

impl Waiting {
    fn new() -> Arc<Waiting> {
        Arc::new(Waiting { places: Places::default(), blocks: [0; 3].map(UnsafeCell::new) })
    }

    fn put(&self, unit: usize) -> bool {
        self.places.put(unit, Partition::new(1), 2, unit << 16)
    }

    /// Takes the first block there is, and touches what only its holder may.
    fn take(&self) -> Option<usize> {
        let kept = self.places.all().find(|&kept| self.places.take(kept))?;
        let is_of = |partition, class| kept.is_of(Partition::new(partition), class);
        assert!(is_of(1, 2) && !is_of(2, 1) && !is_of(1, 3));
        assert_eq!(kept.resident(), kept.unit() << 16);
        // SAFETY: loom says when two threads touch it at once.
        self.blocks[kept.unit()].with_mut(|block| unsafe { *block += 1 });
        Some(kept.unit())
    }
}

/// Two threads take and put back: never is a block with both, and what one has written the other
/// sees.
#[test]
fn a_waiting_block_has_one_holder() {
    model(|| {
        let waiting = Waiting::new();
        assert!(waiting.put(0));
        let threads = [0, 1].map(|_| {
            let waiting = waiting.clone();
            thread::spawn(move || {
                let taken = waiting.take();
                taken.is_some_and(|unit| waiting.put(unit))
            })
        });
        let times = threads.map(|thread| usize::from(thread.join().unwrap())).iter().sum::<usize>();
        assert!(times > 0, "somebody must have had it");
        assert_eq!(waiting.take(), Some(0));
        // SAFETY: as above.
        waiting.blocks[0].with(|block| assert_eq!(unsafe { *block }, times + 1));
        assert_eq!(waiting.take(), None);
    });
}

/// While the last places in use become empty, and a search need not look so far any more, another
/// thread puts a block there.
#[test]
fn no_waiting_block_is_overlooked() {
    model(|| {
        let waiting = Waiting::new();
        assert!(waiting.put(0) && waiting.put(1));
        assert!(!waiting.put(2), "there are two places");
        let takers = waiting.places.all().collect::<Vec<Kept>>().into_iter().map(|kept| {
            let waiting = waiting.clone();
            thread::spawn(move || assert!(waiting.places.take(kept)))
        });
        let takers: Vec<_> = takers.collect();
        let put = waiting.put(2);
        for taker in takers {
            taker.join().unwrap();
        }
        let found: Vec<usize> = waiting.places.all().map(Kept::unit).collect();
        assert_eq!(found, if put { vec![2] } else { vec![] }, "overlooked");
    });
}

/// A live block that one thread trims while the program's thread changes its size and frees it.
struct Settled {
    spares: Spares,
    /// As `Block` keeps it.
    state: AtomicU32,
    pages: UnsafeCell<usize>,
    ends: AtomicU32,
}

// SAFETY: loom itself reports two threads that touch the pages at once.
unsafe impl Sync for Settled {}
// SAFETY: as above.
unsafe impl Send for Settled {}

impl Settled {
    const LIVE: u32 = 1;

    fn touch(&self) {
        // SAFETY: loom says when two threads touch them at once.
        self.pages.with_mut(|pages| unsafe { *pages += 1 });
    }

    fn take(&self) {
        let taken = self.state.compare_exchange(Self::LIVE, 2, SeqCst, Relaxed);
        assert!(taken.is_ok());
    }

    fn trim(&self, left: Trimmed) -> bool {
        let Some(unit) = self.spares.begin(1) else { return false };
        assert_eq!(unit, 0);
        let live = self.state.load(SeqCst) == Self::LIVE;
        if live {
            self.touch();
        }
        let trimmed = self.spares.end();
        if trimmed != Trimmed::Kept {
            assert_eq!(trimmed, left);
            self.touch();
            self.ends.fetch_add(1, Relaxed);
        }
        live
    }

    /// Returns whether the size was changed.
    fn resize(&self) -> bool {
        self.take();
        let trimmed = self.spares.is_trimmed(0);
        if !trimmed {
            self.touch();
        }
        self.state.store(Self::LIVE, Release);
        !trimmed
    }

    fn free(&self, for_ever: bool) {
        self.take();
        if !self.spares.leave(0, for_ever) {
            self.touch();
            self.ends.fetch_add(1, Relaxed);
        }
    }
}

/// Two threads trim one after the other or not at all, while the program's thread does what it
/// does. Only one of them touches the pages at a time, and the block ends once.
#[test]
fn a_block_is_trimmed_beside_its_program() {
    for (trimmers, for_ever) in [(1, false), (1, true), (2, false)] {
        let left = if for_ever { Trimmed::LeftForEver } else { Trimmed::Left };
        model(move || {
            let settled = Arc::new(Settled {
                spares: Spares::default(),
                state: AtomicU32::new(Settled::LIVE),
                pages: UnsafeCell::new(0),
                ends: AtomicU32::new(0),
            });
            assert!(settled.spares.note(0, 0) && !settled.spares.note(1, 0));
            let threads: Vec<_> = (0..trimmers)
                .map(|_| {
                    let settled = settled.clone();
                    thread::spawn(move || settled.trim(left))
                })
                .collect();
            let resized = trimmers == 1 && settled.resize();
            settled.free(for_ever);
            let trims = threads.into_iter().map(|thread| usize::from(thread.join().unwrap()));
            let touched = trims.sum::<usize>() + usize::from(resized) + 1;
            assert_eq!(settled.ends.load(Relaxed), 1);
            // SAFETY: as above.
            settled.pages.with(|pages| assert_eq!(unsafe { *pages }, touched));
            assert!(!settled.trim(left));
        });
    }
}

/// A shared heap has one user at a time, and each sees what the ones before it did. A thread that
/// ended in the middle is followed by one other thread.
#[test]
fn a_shared_heap_has_one_user() {
    for dead in [0, 7] {
        loom::model(move || {
            let shared = Arc::new((User::new(), UnsafeCell::new(0)));
            core::mem::forget((dead != 0).then(|| shared.0.take(dead)));
            let threads = [1, 2].map(|me| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let used = shared.0.take(me).or_else(|| shared.0.take_from(dead, me));
                    if used.is_some() {
                        // The model checker reports two of these at the same time.
                        shared.1.with_mut(|count| unsafe { *count += 1 });
                    }
                    u32::from(used.is_some())
                })
            });
            let uses: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert!(uses >= 1, "no thread could use it");
            let _last = shared.0.take(3).expect("all have left");
            shared.1.with(|count| assert_eq!(unsafe { *count }, uses));
        });
    }
}

/// What the thread of a batch does: takes the batch for the first slab, marks a slot, publishes.
fn free_by_batch(world: &World, slot: usize) {
    let (slab, batch) = (&world.slabs[0], &world.batch);
    let slot = SlotIndex::new(slot);
    if !slab.is_live(slot) {
        return world.report_misuse();
    }
    if batch.mark(slab, slot) == Offered::Twice {
        world.report_misuse();
    }
    if batch.publish(slab, |_| world.report_misuse()) && slab.set_owner_flag(0) & PENDING == 0 {
        announce(slab);
    }
    batch.release(slab);
}

/// One thread marks slot 0 and publishes it, and another frees slot `slot` at once, while the owner
/// drains. Then `live` slots are live, and `reported` double frees were reported.
fn mark_beside_a_free(slot: usize, live: usize, reported: u32) {
    model_with(Some(3), move || {
        let world = World::new();
        assert!(world.batch.take(&world.slabs[0]));
        let marker = {
            let world = world.clone();
            thread::spawn(move || free_by_batch(&world, 0))
        };
        let freer = {
            let world = world.clone();
            thread::spawn(move || world.free(0, slot))
        };
        world.drain(0);
        join([marker, freer]);
        world.settle(live);
        assert_eq!(world.reported.load(Relaxed), reported, "reported otherwise");
    });
}

/// Both frees arrive, and neither is taken for a double free.
#[test]
fn no_mark_is_lost() {
    mark_beside_a_free(1, 2, 0);
}

/// A thread with a batch and another one free the same slot: one of them finds out, or the owner
/// when it collects, and no two do.
#[test]
fn a_double_free_beside_a_batch_is_seen() {
    mark_beside_a_free(0, 3, 1);
}

/// A batch goes from one slab to another while a third thread looks whether a slot of the first was
/// freed: no mark of the second slab is taken for one of the first.
#[test]
fn marks_are_of_the_slab_that_names_the_batch() {
    model(|| {
        let world = World::new();
        assert!(world.batch.take(&world.slabs[0]));
        let marker = {
            let world = world.clone();
            thread::spawn(move || {
                world.batch.release(&world.slabs[0]);
                assert!(world.batch.take(&world.slabs[1]));
                let offered = world.batch.mark(&world.slabs[1], SlotIndex::new(0));
                assert_ne!(offered, Offered::Twice);
            })
        };
        let first = &world.slabs[0];
        for _ in 0..2 {
            assert!(!first.remote_frees().has(SlotIndex::new(0)), "a mark of another slab");
        }
        marker.join().unwrap();
        assert!(world.slabs[1].remote_frees().has(SlotIndex::new(0)));
    });
}
