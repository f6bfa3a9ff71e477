//! L3: sampled allocations with their stacks: `TOFT_SAMPLE`.
//!
//! ```text
//! a chosen block (watch/sampling.rs) --> walk.rs: its stack --> stacks: an entry for each, counted up
//!                                                           blocks: its address --> that entry, and what it stands for
//! its free, by its slot's state  --> blocks: taken out  --> stacks: counted up as freed
//! ```
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the two tables |
//! | `stack.rs` | the entry of a stack, counted up |
//! | `walk.rs` | a stack, by frame pointers |
//! | `weight.rs` | what a sampled block stands for |
//!
//! Both tables grow and have no capacity but that of their address space. What they have mapped is
//! bounded by the number of different stacks (512 bytes each) and by the most sampled blocks that
//! ever lived at a time (32 bytes each). Each counts at most about four times, as their levels
//! double. No lock: entries of stacks are never taken out and hold what any thread may add to. An
//! entry of a block belongs to the block's holder, and passes with it.
//!
//! Invariants:
//! - S1 an entry's frames are there before its depth is, and never change.
//! - S2 no stack has more freed than had, in samples, objects and bytes.

mod stack;
mod walk;
mod weight;

use crate::os::Os;
use crate::region::{Carve, Keyed, Levels};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed};
use core::mem::offset_of;
use stack::{Entry, Sum, TRUNCATED, key};

pub use walk::{Call, DEPTH, Trace};
pub use weight::{OBJECT_BITS, Weight};

/// A sampled block that lives. Written by who allocates it, and read by the one that frees it: the
/// program has passed it from one to the other.
#[repr(C)]
#[derive(Debug)]
struct Alive {
    /// Where it is.
    address: AtomicU64,
    /// Address of its stack's entry.
    stack: AtomicU64,
    objects: AtomicU64,
    bytes: AtomicU64,
}

// SAFETY: (1), (2) atomic numbers.
unsafe impl Keyed for Alive {
    fn key(&self) -> &AtomicU64 {
        &self.address
    }
}

/// Lives in the metadata tables, zero at first.
#[repr(C)]
#[derive(Debug)]
struct State {
    stacks: Carve,
    blocks: Carve,
    /// What there was no memory for. Any thread adds.
    missed: Sum,
}

/// Sampled allocations of one stack.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// Return addresses, the innermost first.
    pub frames: [usize; DEPTH],
    /// How many of them.
    pub depth: usize,
    /// Whether there is more that could not be had.
    pub truncated: bool,
    /// Samples, the blocks that they stand for with [`OBJECT_BITS`] bits behind the point, and the
    /// bytes of these.
    pub had: [u64; 3],
    /// What was freed, as in `had`.
    pub freed: [u64; 3],
}

/// Where stacks are found from outside the process, and where the fields of their entries lie.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct SamplesPlaces {
    pub entries: usize,
    pub mapped: usize,
    pub entry_bytes: usize,
    pub about: usize,
    /// Three numbers: samples, blocks, bytes.
    pub had: usize,
    pub freed: usize,
    pub frames: usize,
    /// Address of three such numbers.
    pub missed: usize,
}

/// The sampled allocations of a process.
#[derive(Debug)]
pub struct Samples {
    stacks: Levels<Entry>,
    blocks: Levels<Alive>,
    state: *const State,
}

// SAFETY: the pointer leads to atomics that live for ever.
unsafe impl Sync for Samples {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Samples {}

/// A block that was taken out of those that live: the address of its stack's entry, and what it
/// stands for.
#[derive(Clone, Copy, Debug)]
pub struct TakenOut {
    stack: u64,
    weight: Weight,
}

impl Samples {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Nothing is sampled.
    pub const fn none() -> Samples {
        Samples { stacks: Levels::none(), blocks: Levels::none(), state: core::ptr::null() }
    }

    /// Tables in the address space `window`.
    ///
    /// # Safety
    /// 1. `table` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `window` is address space for this object alone, and begins and ends with a page.
    pub unsafe fn new((start, end): (usize, usize), table: usize) -> Samples {
        // Blocks are at least as many as stacks, and much smaller.
        let middle = start + ((end - start) / 2).next_multiple_of(1 << 16).min(end - start);
        let (stacks_at, blocks_at) =
            (table + offset_of!(State, stacks), table + offset_of!(State, blocks));
        // SAFETY: (1), (2) the caller's: a part of either for each.
        let (stacks, blocks) = unsafe {
            (Levels::new((start, middle), stacks_at), Levels::new((middle, end), blocks_at))
        };
        Samples { stacks, blocks, state: core::ptr::with_exposed_provenance(table) }
    }

    /// Whether there are tables.
    pub fn is_on(&self) -> bool {
        !self.state.is_null()
    }

    fn state(&self) -> Option<&State> {
        // SAFETY: `new` duty 1, or null; all-zero is a `State`.
        unsafe { self.state.as_ref() }
    }

    /// A chosen block of `size` bytes was allocated at `address`, with that stack. By the thread
    /// that allocates it, before the program has it.
    pub fn had(&self, os: &impl Os, address: usize, weight: Weight, trace: &mut Trace) {
        let Some(state) = self.state() else { return };
        if self.counted(os, address, weight, trace).is_none() {
            state.missed.add(weight);
        }
    }

    /// So many chosen blocks, each of which stands for so much, were handed out without anybody
    /// being told.
    pub fn lost(&self, blocks: usize, weight: Weight) {
        if let Some(state) = self.state() {
            (0..blocks).for_each(|_| state.missed.add(weight));
        }
    }

    fn counted(
        &self,
        os: &impl Os,
        address: usize,
        weight: Weight,
        trace: &mut Trace,
    ) -> Option<()> {
        let known = self.stacks.find(key(trace)).is_some_and(|entry| entry.is_for(trace));
        if !known {
            trace.verify();
        }
        let entry = self.stacks.find_or_add(os, key(trace)).ok()?;
        if !entry.is_for(trace) {
            return None;
        }
        let alive = self.blocks.add(os, address as u64).ok()?;
        alive.stack.store((&raw const *entry).expose_provenance() as u64, Relaxed);
        alive.objects.store(weight.objects, Relaxed);
        alive.bytes.store(weight.bytes, Relaxed);
        entry.had.add(weight);
        Some(())
    }

    /// A block is freed of which that was said, or might have been. By the thread that frees it,
    /// before anybody can have the address again.
    pub fn freed(&self, address: usize) {
        self.count_freed(self.take_out(address));
    }

    /// Takes a block out before its address can be anybody else's: it is freed, which `count_freed`
    /// counts, or stays after all, and then `put_back` is told.
    pub fn take_out(&self, address: usize) -> Option<TakenOut> {
        let alive = self.blocks.find(address as u64)?;
        let stack = alive.stack.load(Relaxed);
        let weight =
            Weight { objects: alive.objects.load(Relaxed), bytes: alive.bytes.load(Relaxed) };
        self.blocks.leave(alive);
        Some(TakenOut { stack, weight })
    }

    /// What was taken out is freed.
    pub fn count_freed(&self, taken: Option<TakenOut>) {
        let Some(taken) = taken else { return };
        let entry: *const Entry = core::ptr::with_exposed_provenance(taken.stack as usize);
        // SAFETY: `counted` has put an entry's address there, in this thread or before the block
        // came to it; entries live for ever.
        if let Some(entry) = unsafe { entry.as_ref() } {
            entry.freed.add(taken.weight);
        }
    }

    /// What was taken out stays where it is. Where there is no memory for it any more it counts as
    /// freed.
    pub fn put_back(&self, os: &impl Os, address: usize, taken: Option<TakenOut>) {
        let Some(TakenOut { stack, weight }) = taken else { return };
        let Ok(alive) = self.blocks.add(os, address as u64) else { return self.count_freed(taken) };
        alive.stack.store(stack, Relaxed);
        alive.objects.store(weight.objects, Relaxed);
        alive.bytes.store(weight.bytes, Relaxed);
    }

    /// Every stack that there was a sample of.
    pub fn for_each(&self, mut each: impl FnMut(&Sampled)) {
        self.stacks.for_each(|entry| {
            let about = entry.about.load(Acquire);
            // What was freed first: what is had meanwhile makes no stack have less than none.
            let freed = entry.freed.read();
            let had = entry.had.read();
            let frames = entry.frames.each_ref().map(|frame| frame.load(Relaxed) as usize);
            let depth = (about as u32 as usize).min(DEPTH);
            if depth != 0 {
                each(&Sampled { frames, depth, truncated: about & TRUNCATED != 0, had, freed });
            }
        });
    }

    /// Samples, blocks and bytes that there was no memory for.
    pub fn missed(&self) -> [u64; 3] {
        self.state().map_or([0; 3], |state| state.missed.read())
    }

    /// Where stacks are found from outside the process.
    pub fn places(&self) -> SamplesPlaces {
        let (entries, mapped) = self.stacks.places();
        SamplesPlaces {
            entries,
            mapped,
            entry_bytes: size_of::<Entry>(),
            about: offset_of!(Entry, about),
            had: offset_of!(Entry, had),
            freed: offset_of!(Entry, freed),
            frames: offset_of!(Entry, frames),
            missed: self.state().map_or(0, |state| (&raw const state.missed).addr()),
        }
    }

    /// Bytes of metadata mapped for it.
    pub fn mapped_bytes(&self) -> usize {
        self.stacks.mapped_bytes() + self.blocks.mapped_bytes()
    }

    /// Verifies S2, while no thread is about it.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut result = Ok(());
        self.for_each(|stack| {
            if stack.had.iter().zip(stack.freed).any(|(&had, freed)| freed > had) {
                result = Err("S2: a stack has more freed than had");
            }
        });
        result
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub fn repair(&self, os: &impl Os) {
        self.stacks.repair(os);
        self.blocks.repair(os);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Machine};

    fn samples(bytes: usize) -> (Fake, Samples) {
        let fake = Fake::new(Machine::LARGE);
        let table = fake.address_space().start.next_multiple_of(1 << 40);
        fake.map(table, 4096).unwrap();
        let start = table + (1 << 30);
        // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
        let samples = unsafe { Samples::new((start, start + bytes), table) };
        (fake, samples)
    }

    fn all(samples: &Samples) -> std::vec::Vec<(usize, [u64; 3], [u64; 3])> {
        let mut seen = std::vec::Vec::new();
        samples.for_each(|stack| seen.push((stack.frames[0], stack.had, stack.freed)));
        seen.sort_unstable();
        seen
    }

    #[test]
    fn what_is_freed_is_subtracted_from_the_stack_that_had_it() {
        let (fake, samples) = samples(1 << 24);
        let weight = |bytes| Weight { objects: 3 << OBJECT_BITS, bytes };
        for block in 0..1000usize {
            let site = 0x1000 + block % 10;
            let bytes = 16 * (1 + block as u64 % 10);
            samples.had(&fake, 0x10_0000 + 16 * block, weight(bytes), &mut Trace::of_site(site));
        }
        let seen = all(&samples);
        assert_eq!(seen.len(), 10);
        for (number, (site, had, freed)) in seen.iter().enumerate() {
            let bytes = 1600 * (1 + number as u64);
            assert_eq!((*site, *had), (0x1000 + number, [100, 300 << OBJECT_BITS, bytes]));
            assert_eq!(*freed, [0; 3]);
        }
        assert_eq!(samples.check(), Ok(()));
        for block in 0..1000usize {
            samples.freed(0x10_0000 + 16 * block);
            // A second time says nothing, nor does what was never sampled.
            samples.freed(0x10_0000 + 16 * block);
            samples.freed(0x20_0000 + 16 * block);
        }
        for (_, had, freed) in all(&samples) {
            assert_eq!(had, freed);
        }
        assert_eq!((samples.check(), samples.missed()), (Ok(()), [0; 3]));
    }

    #[test]
    fn more_freed_than_had_is_found() {
        let (fake, samples) = samples(1 << 24);
        let weight = Weight { objects: 1, bytes: 16 };
        samples.had(&fake, 0x1000, weight, &mut Trace::of_site(7));
        let entry = samples.stacks.find(key(&Trace::of_site(7))).unwrap();
        (0..2).for_each(|_| entry.freed.add(weight));
        assert!(samples.check().unwrap_err().contains("S2"));
    }

    #[test]
    fn what_finds_no_memory_is_counted_as_missed() {
        let (fake, samples) = samples(0);
        let weight = Weight { objects: 5, bytes: 16 };
        samples.had(&fake, 0x1000, weight, &mut Trace::of_site(7));
        assert_eq!((samples.missed(), all(&samples)), ([1, 5, 16], std::vec![]));
        samples.freed(0x1000);
    }
}
