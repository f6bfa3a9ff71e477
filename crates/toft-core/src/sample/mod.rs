//! L3: sampled allocations with their stacks: `TOFT_SAMPLE`.
//!
//! ```text
//! a chosen block (watch/sampling.rs)
//!     --> walk.rs: its stack, with python/: the functions of a Python program
//!     --> named: their names, copied once
//!     --> stacks: an entry for each stack, counted up
//!     --> blocks: the block's address --> that entry, and the block's weight
//! its free, by its slot's state --> blocks: taken out --> stacks: counted up as freed
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the three tables |
//! | `stack.rs` | the entry of a stack, with its sums |
//! | `walk.rs` | a stack, by frame pointers |
//! | `named.rs` | the entry of a function that an interpreter runs |
//! | `python/` | the functions of a Python program on a stack |
//! | `words.rs` | words that may not be there |
//! | `weight.rs` | the number of blocks that a sampled block stands for |
//!
//! The tables grow, and only their address space limits them. They need 512 bytes for each
//! different stack and for each named frame, and 32 bytes for each sampled block, at the highest
//! number of live ones. A table maps up to about four times as much, because its levels double.
//!
//! There is no lock. Entries of stacks and named frames are never removed, and any thread may add
//! to the sums of a stack. An entry of a block belongs to the thread that has the block, and passes
//! on with it.
//!
//! Invariants:
//! - S1 an entry's frames are there before its depth is, and never change.
//! - S2 no stack has more freed than had, in samples, objects and bytes.

mod named;
mod python;
mod stack;
mod walk;
mod weight;
mod words;

use crate::os::Memory;
use crate::region::{Carve, Keyed, Levels};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed};
use core::mem::offset_of;
use python::{Found, Python};
use stack::{Entry, Sum, TRUNCATED, key};
use walk::is_named;

pub use named::{NamedFrame, Names};
pub use walk::{Call, DEPTH, NAMED, REACH, Trace};
pub use weight::{OBJECT_BITS, Weight};
pub(crate) use words::Words;

/// A sampled block that is live. The allocating thread writes this entry, and the freeing thread
/// reads it. The program has passed the block from one to the other.
#[repr(C)]
#[derive(Debug)]
struct Alive {
    /// The address of the block.
    address: AtomicU64,
    /// The address of its stack's entry.
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
    named: Carve,
    /// The samples that there was no memory for. Any thread adds.
    missed: Sum,
    python: Found,
}

/// The sampled allocations of one stack.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// Return addresses, the innermost first, and [`NAMED`] frames.
    pub frames: [usize; DEPTH],
    /// The number of frames.
    pub depth: usize,
    /// True if the stack has more frames.
    pub truncated: bool,
    /// The number of samples, of the blocks that they stand for (with [`OBJECT_BITS`] fraction
    /// bits), and of the bytes of these blocks.
    pub had: [u64; 3],
    /// These numbers for freed blocks.
    pub freed: [u64; 3],
}

/// The addresses of the stacks for a reader outside the process, and the offsets in an entry.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct SamplesPlaces {
    pub entries: usize,
    pub mapped: usize,
    pub entry_bytes: usize,
    pub about: usize,
    /// Three numbers: samples, blocks and bytes.
    pub had: usize,
    pub freed: usize,
    pub frames: usize,
    /// The address of three such numbers.
    pub missed: usize,
    /// In a named frame, the line, 32 bits, and the names of the function and of the file.
    pub named_line: usize,
    pub named_function: usize,
    pub named_file: usize,
    pub named_bytes: usize,
}

/// The sampled allocations of a process.
#[derive(Debug)]
pub struct Samples {
    stacks: Levels<Entry>,
    blocks: Levels<Alive>,
    named: Levels<NamedFrame>,
    state: *const State,
}

// SAFETY: the pointer leads to atomics that live for ever.
unsafe impl Sync for Samples {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Samples {}

/// A block that was taken out of the live ones: the address of its stack's entry, and its weight.
#[derive(Clone, Copy, Debug)]
pub struct TakenOut {
    stack: u64,
    weight: Weight,
}

impl Samples {
    /// The number of zeroed bytes that `new` needs for its tables.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns an object that samples nothing.
    pub const fn none() -> Samples {
        Samples {
            stacks: Levels::none(),
            blocks: Levels::none(),
            named: Levels::none(),
            state: core::ptr::null(),
        }
    }

    /// Returns tables in the address space from `start` to `end`.
    ///
    /// # Safety
    /// 1. `table` is the address of `TABLE_BYTES` zero bytes that live for ever and belong to this
    ///    object alone.
    /// 2. `start..end` is address space for this object alone, and begins and ends with a page.
    pub unsafe fn new((start, end): (usize, usize), table: usize) -> Samples {
        // There are at least as many blocks as stacks, and their entries are much smaller.
        let part = |parts: usize| {
            start + ((end - start) / 4 * parts).next_multiple_of(1 << 16).min(end - start)
        };
        let [stacks, blocks, named] = [(start, part(2)), (part(2), part(3)), (part(3), end)];
        // SAFETY: (1), (2) the caller's duties; each table gets a part.
        let (stacks, blocks, named) = unsafe {
            (
                Levels::new(stacks, table + offset_of!(State, stacks)),
                Levels::new(blocks, table + offset_of!(State, blocks)),
                Levels::new(named, table + offset_of!(State, named)),
            )
        };
        let state = core::ptr::with_exposed_provenance(table);
        Samples { stacks, blocks, named, state }
    }

    /// Finds an interpreter in this process, so that stacks have the functions that it runs. Makes
    /// unusual system calls: the caller holds a permit.
    pub fn find_interpreter(&self) {
        if let Some(state) = self.state() {
            state.python.search();
        }
    }

    /// Adds the functions that an interpreter runs in the calling thread to its stack. Makes
    /// unusual system calls: the caller holds a permit.
    #[inline]
    pub fn add_interpreted(&self, os: &impl Memory, trace: &mut Trace) {
        let Some(found) = self.state().map(|state| &state.python) else { return };
        if let Some(python) = found.get().or_else(|| found.search_again()) {
            self.add_python(os, &python, trace);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_python(&self, os: &impl Memory, python: &Python, trace: &mut Trace) {
        let (mut frames, mut depth) = ([0; DEPTH], 0);
        let whole = python.walk(|words, code| {
            let entry = self.named.find_or_add(Some(os), code.key).ok()?;
            if !entry.is_filled() {
                entry.fill(&python.names(words, code)?);
            }
            *frames.get_mut(depth)? = NAMED | (&raw const *entry).expose_provenance();
            depth += 1;
            Some(())
        });
        if depth != 0 {
            trace.insert(python.run(), frames.get(..depth).unwrap_or(&[]), whole);
        }
    }

    /// Returns the names of a named frame; `None` if the frame is a return address.
    pub fn names(&self, frame: usize) -> Option<Names> {
        if !is_named(frame) {
            return None;
        }
        self.named.at(frame & !NAMED).map(NamedFrame::names)
    }

    /// Returns true if there are tables.
    pub fn is_on(&self) -> bool {
        !self.state.is_null()
    }

    fn state(&self) -> Option<&State> {
        // SAFETY: `new` duty 1, or null; all-zero is a `State`.
        unsafe { self.state.as_ref() }
    }

    /// Counts a chosen block that was allocated at `address`, with its weight and its stack. Called
    /// by the allocating thread, before the program has the block.
    pub fn had(&self, os: &impl Memory, address: usize, weight: Weight, trace: &mut Trace) {
        let Some(state) = self.state() else { return };
        if self.counted(os, address, weight, trace).is_none() {
            state.missed.add(weight);
        }
    }

    /// Counts chosen blocks of the same weight that were handed out without being sampled.
    pub fn lost(&self, blocks: usize, weight: Weight) {
        if let Some(state) = self.state() {
            (0..blocks).for_each(|_| state.missed.add(weight));
        }
    }

    fn counted(
        &self,
        os: &impl Memory,
        address: usize,
        weight: Weight,
        trace: &mut Trace,
    ) -> Option<()> {
        let known = self.stacks.find(key(trace)).is_some_and(|entry| entry.is_for(trace));
        if !known {
            trace.verify();
        }
        let entry = self.stacks.find_or_add(Some(os), key(trace)).ok()?;
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

    /// Counts the free of a block that may have been sampled. Called by the freeing thread, before
    /// any thread can have the address again.
    pub fn freed(&self, address: usize) {
        self.count_freed(self.take_out(address));
    }

    /// Takes a block out of the live ones, before another block can have its address. Then either
    /// the block is freed, and `count_freed` is called, or it stays, and `put_back` is called.
    pub fn take_out(&self, address: usize) -> Option<TakenOut> {
        let alive = self.blocks.find(address as u64)?;
        let stack = alive.stack.load(Relaxed);
        let weight =
            Weight { objects: alive.objects.load(Relaxed), bytes: alive.bytes.load(Relaxed) };
        self.blocks.leave(alive);
        Some(TakenOut { stack, weight })
    }

    /// Counts the free of a block that was taken out.
    pub fn count_freed(&self, taken: Option<TakenOut>) {
        let Some(taken) = taken else { return };
        let entry: *const Entry = core::ptr::with_exposed_provenance(taken.stack as usize);
        // SAFETY: `counted` stored the address of an entry, in this thread or before the block was
        // passed to it; entries live for ever.
        if let Some(entry) = unsafe { entry.as_ref() } {
            entry.freed.add(taken.weight);
        }
    }

    /// Puts back a block that was taken out and stays. Counts it as freed if there is no memory for
    /// it.
    pub fn put_back(&self, os: &impl Memory, address: usize, taken: Option<TakenOut>) {
        let Some(TakenOut { stack, weight }) = taken else { return };
        let Ok(alive) = self.blocks.add(os, address as u64) else { return self.count_freed(taken) };
        alive.stack.store(stack, Relaxed);
        alive.objects.store(weight.objects, Relaxed);
        alive.bytes.store(weight.bytes, Relaxed);
    }

    /// Passes every stack that has samples to `each`.
    pub fn for_each(&self, mut each: impl FnMut(&Sampled)) {
        self.stacks.for_each(|entry| {
            let about = entry.about.load(Acquire);
            // `freed` is read first, so that it is never more than `had`.
            let freed = entry.freed.read();
            let had = entry.had.read();
            let frames = entry.frames.each_ref().map(|frame| frame.load(Relaxed) as usize);
            let depth = (about as u32 as usize).min(DEPTH);
            if depth != 0 {
                each(&Sampled { frames, depth, truncated: about & TRUNCATED != 0, had, freed });
            }
        });
    }

    /// Returns the samples, blocks and bytes that could not be recorded.
    pub fn missed(&self) -> [u64; 3] {
        self.state().map_or([0; 3], |state| state.missed.read())
    }

    /// Returns where stacks are found from outside the process.
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
            named_line: offset_of!(NamedFrame, about),
            named_function: offset_of!(NamedFrame, text),
            named_file: offset_of!(NamedFrame, text) + NamedFrame::FILE,
            named_bytes: size_of::<NamedFrame>(),
        }
    }

    /// Returns the number of bytes of metadata mapped for the tables.
    pub fn mapped_bytes(&self) -> usize {
        self.stacks.mapped_bytes() + self.blocks.mapped_bytes() + self.named.mapped_bytes()
    }

    /// Verifies S2. No other thread may be changing the tables.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut result = Ok(());
        self.for_each(|stack| {
            if stack.had.iter().zip(stack.freed).any(|(&had, freed)| freed > had) {
                result = Err("S2: a stack has more freed than had");
            }
        });
        result
    }

    /// Completes, in the child of a fork, the mapping that a thread of the parent had begun.
    pub fn repair(&self, os: &impl Memory) {
        self.stacks.repair(os);
        self.blocks.repair(os);
        self.named.repair(os);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Machine};
    use crate::region::Site;

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
            let site = Site::at(0x1000 + block % 10);
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
            // A second free does nothing, nor does the free of a block that was never sampled.
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
        samples.had(&fake, 0x1000, weight, &mut Trace::of_site(Site::at(7)));
        let entry = samples.stacks.find(key(&Trace::of_site(Site::at(7)))).unwrap();
        (0..2).for_each(|_| entry.freed.add(weight));
        assert!(samples.check().unwrap_err().contains("S2"));
    }

    #[test]
    fn what_finds_no_memory_is_counted_as_missed() {
        let (fake, samples) = samples(0);
        let weight = Weight { objects: 5, bytes: 16 };
        samples.had(&fake, 0x1000, weight, &mut Trace::of_site(Site::at(7)));
        assert_eq!((samples.missed(), all(&samples)), ([1, 5, 16], std::vec![]));
        samples.freed(0x1000);
    }
}
