//! Threads that take turns, for the simulation of their caches ([`crate::lines`]).
//!
//! One thread runs at a time, until it has made one call or two and has passed the turn on. So the
//! accesses to memory have one order, in which valgrind prints them. Stores to a page at a fixed
//! address say where a call begins and ends, and of which thread it is. The program's own accesses,
//! to the blocks for example, are outside of the calls.

use super::prelude::*;
use super::replace::drain;
use crate::thunks::Thunks;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

pub const WORKLOAD: Workload = workload!("lines", run);

/// The most threads that can take turns.
pub const MOST_THREADS: usize = 64;

/// Blocks of a thread.
const LIVE: usize = 128;
/// Blocks of a burst.
const BURST: usize = 32;
/// Blocks of each size that a thread allocates at first. After as many, Toft serves the size from
/// slabs of the thread, and not from a shared heap.
const FIRST: usize = 40;

/// A step of a thread, stored for the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cue {
    /// A call begins, of the thread of this number.
    Call(usize),
    /// The call has ended.
    Return,
    /// The calls that follow count.
    Begin,
    /// No more calls count.
    End,
}

impl Cue {
    /// The address of the page for the stores. Valgrind maps nothing there itself.
    const PAGE: usize = 0x9_0000_0000;

    fn address(self) -> usize {
        Self::PAGE
            + match self {
                Self::Call(thread) => thread,
                Self::Return => MOST_THREADS,
                Self::Begin => MOST_THREADS + 1,
                Self::End => MOST_THREADS + 2,
            }
    }

    /// What a store to an address says, if anything.
    pub fn at(address: u64) -> Option<Self> {
        let offset = usize::try_from(address).ok()?.checked_sub(Self::PAGE)?;
        Some(match offset {
            0..MOST_THREADS => Self::Call(offset),
            MOST_THREADS => Self::Return,
            _ if offset == MOST_THREADS + 1 => Self::Begin,
            _ if offset == MOST_THREADS + 2 => Self::End,
            _ => return None,
        })
    }

    /// Maps the page, once for the life of the process.
    fn prepare() {
        static MAPPED: Once = Once::new();
        MAPPED.call_once(|| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let page = with_exposed_provenance_mut(Self::PAGE);
            // SAFETY: replaces no mapping.
            let mapped = unsafe { libc::mmap(page, 4096, libc::PROT_WRITE, flags, -1, 0) };
            assert_eq!(mapped, page, "the page of the simulation cannot be mapped");
            mapped.expose_provenance();
        });
    }

    /// Tells the simulation. [`Cue::prepare`] must have been called.
    #[inline(always)]
    fn give(self) {
        // SAFETY: within the page, of which nothing is ever read.
        unsafe { with_exposed_provenance_mut::<u8>(self.address()).write_volatile(1) };
    }
}

/// What a thread does in its turns.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Replaces one of its blocks; both calls count as one.
    Own,
    /// Frees the block that the thread before it has allocated, and allocates one for the next.
    Ring,
    /// Allocates blocks in some turns, and frees them in as many.
    Burst,
    /// As `Own`, with sizes up to 2 KB.
    Sizes,
    /// Allocates a block and keeps it, of sizes that no thread uses often.
    Draw,
    /// As `Own`, of such sizes.
    DrawOwn,
}

impl Shape {
    fn of(params: &Params) -> Self {
        let all = [Self::Own, Self::Ring, Self::Burst, Self::Sizes, Self::Draw, Self::DrawOwn];
        all[params.size("shape", 0)]
    }

    fn size(self, rng: &mut Rng) -> usize {
        match self {
            Self::Sizes => 16 + rng.below(2000),
            _ => 16 * (1 + rng.below(8)),
        }
    }

    /// The sizes of which every thread allocates some blocks at first.
    fn frequent(self) -> impl Iterator<Item = usize> {
        let (count, step) = match self {
            Self::Sizes => (32, 63),
            Self::Draw | Self::DrawOwn => (0, 0),
            _ => (8, 16),
        };
        (0..count).map(move |number| 16 + number * step)
    }
}

/// A workload's threads.
struct Crew<H> {
    heap: H,
    shape: Shape,
    code: Thunks,
    /// The turns of each thread before the calls count, and while they do.
    warm: usize,
    rounds: usize,
    seed: u64,
    /// A byte in a pipe is the turn of its thread.
    turns: Vec<(PipeReader, PipeWriter)>,
    /// The block that each thread will free, of `Ring`.
    ring: Vec<AtomicPtr<u8>>,
}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let threads = params.size("threads", MOST_THREADS as u64);
    assert!((1..=MOST_THREADS).contains(&threads), "1 to {MOST_THREADS} threads take turns");
    Cue::prepare();
    let crew = Crew {
        heap,
        shape: Shape::of(params),
        code: Thunks::new(1, heap.entry()),
        warm: params.size("warm", 200),
        rounds: params.size("rounds", 200),
        seed: params.get("seed", 1),
        turns: (0..threads).map(|_| pipe().expect("no pipes")).collect(),
        ring: (0..threads).map(|_| AtomicPtr::new(null_mut())).collect(),
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let crew = &crew;
        (0..threads).for_each(|thread| drop(scope.spawn(move || crew.work(thread))));
        crew.pass_to(0);
    });
    let seconds = start.elapsed().as_secs_f64();
    // SAFETY: null, or a live block that no thread knows any more.
    crew.ring.iter().for_each(|slot| unsafe { heap.free(slot.load(Relaxed)) });
    let turns = threads * (crew.warm + crew.rounds);
    let calls = if crew.shape == Shape::Ring { 2 * turns } else { turns };
    Outcome::timed(calls as u64, seconds)
}

impl<H: Heap> Crew<H> {
    fn pass_to(&self, thread: usize) {
        (&self.turns[thread].1).write_all(&[1]).expect("a turn was not passed on");
    }

    fn wait_for_turn(&self, thread: usize) {
        (&self.turns[thread].0).read_exact(&mut [0]).expect("a turn was not passed on");
    }

    /// What one thread does.
    fn work(&self, me: usize) {
        let mut rng = Rng::new(self.seed + me as u64);
        let rounds = self.warm + self.rounds;
        let mut blocks = Mapped::<*mut u8>::new(LIVE.max(rounds));
        for round in 0..rounds {
            self.wait_for_turn(me);
            if round == 0 {
                self.allocate_first();
            }
            if me == 0 && round == self.warm {
                Cue::Begin.give();
            }
            self.turn(me, round, &mut blocks, &mut rng);
            let next = (me + 1) % self.turns.len();
            if next == 0 && round + 1 == rounds {
                Cue::End.give();
            }
            self.pass_to(next);
        }
        drain(self.heap, &mut blocks);
    }

    fn allocate_first(&self) {
        for size in self.shape.frequent() {
            let mut blocks = [(); FIRST].map(|()| self.malloc(size));
            drain(self.heap, &mut blocks);
        }
    }

    fn turn(&self, me: usize, round: usize, blocks: &mut [*mut u8], rng: &mut Rng) {
        let size = self.shape.size(rng);
        match self.shape {
            Shape::Ring => {
                let old = self.ring[me].swap(null_mut(), Relaxed);
                // SAFETY: null, or a live block of the thread before, which has forgotten it.
                call(me, || unsafe { self.heap.free(old) });
                let new = touched(call(me, || self.malloc(size)), size);
                self.ring[(me + 1) % self.ring.len()].store(new, Relaxed);
            }
            Shape::Burst => {
                let slot = &mut blocks[round % BURST];
                if slot.is_null() {
                    *slot = touched(call(me, || self.malloc(size)), size);
                } else {
                    let old = std::mem::replace(slot, null_mut());
                    // SAFETY: the slot had a live block, and is empty now.
                    call(me, || unsafe { self.heap.free(old) });
                }
            }
            Shape::Draw => blocks[round] = touched(call(me, || self.malloc(size)), size),
            Shape::Own | Shape::Sizes | Shape::DrawOwn => {
                let slot = &mut blocks[rng.below(LIVE)];
                let old = *slot;
                let new = call(me, || {
                    // SAFETY: null, or a live block whose slot gets another at once.
                    unsafe { self.heap.free(old) };
                    self.malloc(size)
                });
                *slot = touched(new, size);
            }
        }
    }

    /// Allocates, at the one call site.
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut u8 {
        // SAFETY: `entry` is a function of a size and of this heap.
        unsafe { self.code.call(0, size, &raw const self.heap) }
    }
}

/// A call of the allocator, as the simulation sees it.
#[inline(always)]
fn call<R>(thread: usize, work: impl FnOnce() -> R) -> R {
    Cue::Call(thread).give();
    let result = work();
    Cue::Return.give();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::recorded;

    #[test]
    fn every_cue_is_found_at_its_address_and_none_elsewhere() {
        let all = [Cue::Call(0), Cue::Call(63), Cue::Return, Cue::Begin, Cue::End];
        for cue in all {
            assert_eq!(Cue::at(cue.address() as u64), Some(cue));
        }
        for other in [0, Cue::PAGE - 1, Cue::End.address() + 1] {
            assert_eq!(Cue::at(other as u64), None);
        }
    }

    #[test]
    fn each_shape_makes_its_calls_and_frees_its_blocks() {
        let words = "threads=3 warm=32 rounds=32 shape=";
        let allocations = |shape: usize| {
            let (heap, outcome) = recorded(run, &format!("{words}{shape}"));
            let first = Shape::of(&Params::of(&format!("shape={shape}"))).frequent().count();
            assert!(heap.most_live() > 0);
            (outcome.ops, heap.sizes().len() - 3 * FIRST * first)
        };
        assert_eq!(allocations(0), (192, 192));
        assert_eq!(allocations(1), (384, 192));
        assert_eq!(allocations(2), (192, 96));
        assert_eq!(allocations(3), (192, 192));
        assert_eq!(allocations(4), (192, 192));
        assert_eq!(allocations(5), (192, 192));
    }
}
