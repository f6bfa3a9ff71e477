//! The tables: descriptors of slabs and of large blocks, and heaps. Descriptors are found by what
//! is mapped and has pages, not by the allocator's own lists, so that nothing is missed that is
//! just being moved from one to another.

use toft_core::os::filter::Words;
use toft_core::stats::Root;

use crate::bytes::{u32_at, u64_at};
use crate::memory::{read_u32, read_u64};
use crate::{Error, Mapping, Memory, Run};

/// Bytes of descriptors that are read at a time.
const PIECE: u64 = 1 << 20;
/// The most heaps that are believed.
const HEAPS_MOST: u64 = 1 << 20;

/// The tables of a process.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Where everything lies.
    pub root: Root,
}

/// A slab's descriptor, as it was when it was read.
#[derive(Clone, Copy, Debug)]
pub struct Slab<'a> {
    root: &'a Root,
    bytes: &'a [u8],
    /// Address of the descriptor.
    at: u64,
    /// Address of slot 0.
    pub base: u64,
    /// Bytes of address space.
    pub span: u64,
    /// Bytes in a slot.
    pub size: u64,
    /// Number of slots.
    pub slots: usize,
    /// Whether it is of the small tier.
    pub small: bool,
}

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The program has it.
    Live,
    /// A thread that does not own it has freed it, and its owner has not collected it yet.
    Remote,
    /// The next that malloc hands out, or soon after.
    Claimed,
    /// Free, and another slab has its memory: what the kernel counts here it counts there as well.
    Lent,
    /// Freed, and kept in a quarantine: of the secure build only.
    Quarantined,
    /// Never handed out, so that a write there is noticed: of the secure build only.
    Reserved,
    /// Free.
    Free,
}

impl<'a> Slab<'a> {
    /// Returns the slab whose descriptor is at `at`, or `None` if there is none there. Returns an
    /// error if the descriptor makes no sense.
    fn of(root: &'a Root, bytes: &'a [u8], at: u64) -> Option<Result<Slab<'a>, ()>> {
        let mut slab = Slab { root, bytes, at, base: 0, span: 0, size: 0, slots: 0, small: false };
        let slots = slab.word(root.slab_slots);
        if slots == 0 {
            return None;
        }
        let size = u64::from(slab.half(root.slab_size));
        let most = (root.slab_bytes - root.slab_states)
            .min(64 * ((root.slab_bytes - root.slab_remote) / 8));
        let bytes_of_slots = slots.checked_mul(size).filter(|&bytes| bytes <= root.slab_most);
        let base = slab.word(root.slab_base);
        let is_first = base
            .checked_sub(root.data)
            .is_some_and(|offset| offset < root.span && offset.is_multiple_of(root.page_size));
        let Some(bytes_of_slots) = bytes_of_slots.filter(|_| size > 0 && slots <= most && is_first)
        else {
            return Some(Err(()));
        };
        slab.base = base;
        slab.span = bytes_of_slots.next_multiple_of(root.page_size);
        slab.size = size;
        slab.small = size <= root.small_most;
        slab.slots = slots as usize;
        Some(Ok(slab))
    }

    fn word(&self, offset: u64) -> u64 {
        u64_at(self.bytes, offset as usize)
    }

    fn half(&self, offset: u64) -> u32 {
        u32_at(self.bytes, offset as usize)
    }

    /// The first call site that drew from it.
    pub fn site(&self) -> u64 {
        self.word(self.root.slab_site)
    }

    /// Its partition.
    pub fn partition(&self) -> u32 {
        self.half(self.root.slab_partition)
    }

    /// Address of the heap that owns it; zero for none.
    pub fn owner(&self) -> u64 {
        self.word(self.root.slab_owner) & !self.root.owner_flag
    }

    /// What a slot is doing.
    pub fn slot(&self, slot: usize) -> Slot {
        let state = self.bytes.get(self.root.slab_states as usize + slot).copied().unwrap_or(0);
        let bit = |word: u64| word >> (slot % 64) & 1 != 0;
        // States that this reader has never heard of are of slots that the program does not have.
        let live = u64::from(state) & !self.root.slot_sampled == self.root.slot_live;
        let quarantined =
            self.root.slot_quarantined != 0 && u64::from(state) == self.root.slot_quarantined;
        if live || quarantined {
            let remote = self.word(self.root.slab_remote + 8 * (slot as u64 / 64));
            match (bit(remote), live) {
                (true, _) => return Slot::Remote,
                (false, true) => return Slot::Live,
                (false, false) => {}
            }
        }
        if self.claimed_group() == Some(slot as u64 / 64) && bit(self.word(self.root.slab_claim)) {
            return Slot::Claimed;
        }
        let lent = self.root.slot_lent;
        match lent != 0 && u64::from(state) & lent == lent {
            _ if quarantined => Slot::Quarantined,
            // The build with a quarantine does not compact: it marks by these bits what it never
            // hands out.
            true if self.root.slot_quarantined != 0 => Slot::Reserved,
            true => Slot::Lent,
            false => Slot::Free,
        }
    }

    /// Blocks that were ever handed out here: those that were freed, and those that were not. Of a
    /// slab at which its owner is just then it is near that, and never less than what is live.
    pub fn allocations(&self) -> u64 {
        let root = self.root;
        let spent = self.half(root.slab_credit_start).wrapping_sub(self.half(root.slab_credit));
        let frees = self.word(root.slab_frees).wrapping_add(self.word(root.slab_absorbed));
        let states = root.slab_states as usize;
        let states = self.bytes.get(states..states + self.slots).unwrap_or(&[]);
        let has = |state: &u8, bits: u64| bits != 0 && u64::from(*state) & bits == bits;
        let held = states.iter().filter(|state| {
            has(state, root.slot_taken)
                && !has(state, root.slot_held)
                && !has(state, root.slot_lent)
        });
        frees.wrapping_add(spent.into()).wrapping_add(held.count() as u64)
    }

    fn claimed_group(&self) -> Option<u64> {
        let states = self.at + self.root.slab_states;
        Some(self.word(self.root.slab_claim_states).checked_sub(states)? / 64)
    }

    /// Slots that the program has.
    pub fn live(&self) -> u64 {
        let bits = [self.root.slot_live, self.root.slot_sampled].map(u8::try_from);
        let [Ok(live), Ok(sampled)] = bits else { return 0 };
        let live = |state: u8| state & !sampled == live;
        let states = self.root.slab_states as usize;
        let states = self.bytes.get(states..states + self.slots).unwrap_or(&[]);
        let mut count = 0;
        for (group, states) in states.chunks(64).enumerate() {
            // In most groups no other thread has freed anything, and counting bytes that are alike
            // is quick.
            match self.word(self.root.slab_remote + 8 * group as u64) {
                0 => count += states.iter().filter(|&&state| live(state)).count(),
                freed => {
                    let kept = |bit: usize| freed >> bit & 1 == 0;
                    count += (0..).zip(states).filter(|&(bit, &s)| live(s) && kept(bit)).count();
                }
            }
        }
        count as u64
    }
}

/// A large block's descriptor, as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins.
    pub base: u64,
    /// Whether the program has it.
    pub live: bool,
    /// Bytes that the program may use.
    pub usable: u64,
    /// Bytes mapped.
    pub mapped: u64,
    /// Bytes of address space.
    pub extent: u64,
    /// Its partition.
    pub partition: u32,
    /// Where it was allocated.
    pub site: u64,
}

impl Block {
    /// Returns true if its numbers of bytes can be true.
    fn fits(&self) -> bool {
        self.usable <= self.extent && self.mapped <= self.extent
    }
}

/// A heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapOf {
    /// Whether a running thread has it.
    pub live: bool,
    /// Whether threads share it.
    pub shared: bool,
    /// Address of that thread's control block.
    pub thread_block: u64,
}

/// What makes no sense, or has changed while it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Descriptors that were read.
    pub read: u64,
    /// Those that were another when they were read again.
    pub changed: u64,
    /// Those that make no sense.
    pub senseless: u64,
}

impl Tables {
    /// Hands every slab to `each`, with the pages of its address space: all that lie between its
    /// neighbours' and maybe more. Each descriptor is read before its pages are asked for and again
    /// after.
    pub fn for_each_slab(
        &self,
        memory: &impl Memory,
        mappings: &[Mapping],
        mut each: impl FnMut(&Slab<'_>, &[Run]),
    ) -> Result<Doubts, Error> {
        let root = &self.root;
        let mut doubts = Doubts::default();
        let step = root.slab_bytes;
        for (start, stop) in self.slab_descriptors(memory, mappings)? {
            let (before, after) =
                (&mut vec![0; (stop - start) as usize], &mut vec![0; (stop - start) as usize]);
            let got = self.descriptors(memory, start, before);
            let pages = pages_of(memory, self.slabs(&before[..got], start))?;
            let got = self.descriptors(memory, start, after);
            let slabs = after[..got].chunks_exact(step as usize);
            for (i, (new, old)) in slabs.zip(before.chunks_exact(step as usize)).enumerate() {
                let at = start + i as u64 * step;
                match Slab::of(root, new, at) {
                    None => continue,
                    Some(Ok(slab)) => each(&slab, &pages),
                    Some(Err(())) => doubts.senseless += 1,
                }
                doubts.read += 1;
                doubts.changed += u64::from(new != old);
            }
        }
        Ok(doubts)
    }

    /// Hands every slab to `each`, read once and without its pages: that is several times faster,
    /// but does not count changes during the read.
    pub fn for_each_descriptor(
        &self,
        memory: &impl Memory,
        mappings: &[Mapping],
        mut each: impl FnMut(&Slab<'_>),
    ) -> Result<Doubts, Error> {
        let root = &self.root;
        let step = root.slab_bytes;
        let mut doubts = Doubts::default();
        let mut buffer = vec![0; PIECE as usize];
        for (start, stop) in self.slab_descriptors(memory, mappings)? {
            let piece = &mut buffer[..(stop - start) as usize];
            let got = self.descriptors(memory, start, piece);
            for (i, bytes) in buffer[..got].chunks_exact(step as usize).enumerate() {
                let at = start + i as u64 * step;
                match Slab::of(root, bytes, at) {
                    None => continue,
                    Some(Ok(slab)) => each(&slab),
                    Some(Err(())) => doubts.senseless += 1,
                }
                doubts.read += 1;
            }
        }
        Ok(doubts)
    }

    /// Reads descriptors from `start` on. What a thread has freed and not published yet is added to
    /// what other threads have freed.
    fn descriptors(&self, memory: &impl Memory, start: u64, into: &mut [u8]) -> usize {
        let root = &self.root;
        let got = memory.read(start, into);
        let step = root.slab_bytes;
        for (number, slab) in into[..got].chunks_exact_mut(step as usize).enumerate() {
            let batch = u64_at(slab, root.slab_batch as usize);
            if root.slab_batch == 0 || batch == 0 {
                continue;
            }
            let at = start + number as u64 * step;
            if read_u64(memory, batch.saturating_add(root.batch_slab)) != Some(at) {
                continue;
            }
            let groups = u64_at(slab, root.slab_slots as usize).div_ceil(64);
            let most = (root.slab_bytes - root.slab_remote) / 8;
            for group in 0..groups.min(most) {
                let marks = batch.saturating_add(root.batch_marks + 8 * group);
                let place = (root.slab_remote + 8 * group) as usize;
                let freed = u64_at(slab, place) | read_u64(memory, marks).unwrap_or(0);
                slab[place..place + 8].copy_from_slice(&freed.to_le_bytes());
            }
        }
        got
    }

    /// The sensible slabs among descriptors that were read from `start` on.
    fn slabs<'a>(&'a self, bytes: &'a [u8], start: u64) -> impl Iterator<Item = Slab<'a>> {
        let step = self.root.slab_bytes;
        let at = (0..).map(move |number| start + number * step);
        let each = at.zip(bytes.chunks_exact(step as usize));
        each.filter_map(|(at, bytes)| Slab::of(&self.root, bytes, at)?.ok())
    }

    /// The addresses of the descriptors of slabs, piece by piece.
    fn slab_descriptors(
        &self,
        memory: &impl Memory,
        mappings: &[Mapping],
    ) -> Result<Vec<(u64, u64)>, Error> {
        let root = &self.root;
        let mut all = pieces(memory, mappings, root.slabs, root.page_map)?;
        let end = root.more_slabs + root.more_slabs_span;
        all.extend(pieces(memory, mappings, root.more_slabs, end)?);
        Ok(all)
    }

    /// All large blocks: first those of the window, in order.
    pub fn blocks(
        &self,
        memory: &impl Memory,
        mappings: &[Mapping],
    ) -> Result<(Vec<Block>, Doubts), Error> {
        let root = &self.root;
        let (base, step) = (root.data + root.span, root.block_bytes);
        let mut doubts = Doubts::default();
        let mut blocks = Vec::new();
        // The descriptors of higher units are at lower addresses.
        let (end, units) = (root.large_blocks_end, root.large_span / root.unit);
        let begin = end.saturating_sub(units * step).max(root.metadata) & !(root.page_size - 1);
        let pieces = pieces(memory, mappings, begin, end.min(root.tables))?;
        for (start, stop) in pieces.into_iter().rev() {
            let mut bytes = vec![0; (stop - start) as usize];
            let got = memory.read(start, &mut bytes);
            let descriptors = bytes[..got].chunks_exact(step as usize);
            for (i, descriptor) in descriptors.enumerate().rev() {
                let unit = (end - start) / step - 1 - i as u64;
                if unit >= units {
                    continue;
                }
                let Some(block) = self.block(descriptor, base + unit * root.unit) else {
                    continue;
                };
                doubts.read += 1;
                let room = root.large_span - unit * root.unit;
                let apart =
                    blocks.last().is_none_or(|last: &Block| last.base + last.extent <= block.base);
                if block.fits() && apart && block.extent <= room {
                    blocks.push(block);
                } else {
                    doubts.senseless += 1;
                }
            }
        }
        for descriptor in self.outside_descriptors(memory) {
            let base = u64_at(&descriptor, root.outside_at as usize);
            let Some(block) = self.block(&descriptor, base) else { continue };
            doubts.read += 1;
            if block.fits() && block.base.checked_add(block.extent).is_some() {
                blocks.push(block);
            } else {
                doubts.senseless += 1;
            }
        }
        Ok((blocks, doubts))
    }

    /// Returns what a large block's descriptor says, or `None` if no block begins at `base`.
    fn block(&self, descriptor: &[u8], base: u64) -> Option<Block> {
        let root = &self.root;
        let word = |offset: u64| u64_at(descriptor, offset as usize);
        let state = u64::from(word(root.block_state) as u32);
        (state != root.block_none).then(|| Block {
            base,
            live: state == root.block_live,
            usable: word(root.block_usable),
            mapped: word(root.block_mapped),
            extent: word(root.block_extent),
            partition: word(root.block_partition) as u32,
            site: word(root.block_site),
        })
    }

    /// Returns the descriptors of large blocks outside the window.
    fn outside_descriptors(&self, memory: &impl Memory) -> Vec<Vec<u8>> {
        let root = &self.root;
        let entries = (0..root.outside_chunks).filter(|_| root.outside != 0);
        let chunks = entries.map_while(|n| read_u64(memory, root.outside + n * 8));
        let mut all = Vec::new();
        for chunk in chunks.take_while(|&chunk| chunk != 0) {
            let mut bytes = vec![0; root.outside_chunk_bytes as usize];
            let got = memory.read(chunk, &mut bytes);
            let whole = bytes[..got].chunks_exact(root.outside_bytes as usize);
            all.extend(whole.map(<[u8]>::to_vec));
        }
        all
    }

    /// All heaps, by number.
    pub fn heaps(&self, memory: &impl Memory) -> Vec<HeapOf> {
        let root = &self.root;
        let Some(count) = read_u32(memory, root.heap_count) else { return Vec::new() };
        let count = u64::from(count).min(HEAPS_MOST);
        let count = count.min((root.end - root.heaps) / root.heap_stride);
        let mut states = vec![0; count as usize];
        let first = count.min(root.heap_first_states) as usize;
        let mut got = memory.read(root.heap_states, &mut states[..first]);
        if got == first {
            let others = root.heap_other_states.saturating_add(first as u64);
            got += memory.read(others, &mut states[first..]);
        }
        let heap = |(number, state): (u64, &u8)| {
            let place = match number {
                0 => root.first_heap,
                _ => root.heaps + number * root.heap_stride,
            };
            let at = place + root.heap_thread_block;
            let thread_block = read_u64(memory, at).unwrap_or(0);
            let state = u64::from(*state);
            HeapOf {
                live: state == root.heap_live,
                shared: state == root.heap_shared,
                thread_block,
            }
        };
        (0..).zip(&states[..got]).map(heap).collect()
    }

    /// Returns what the process knows about filters of system calls (seccomp), as in a container.
    pub fn filter(&self, memory: &impl Memory) -> Result<Words, Error> {
        let root = &self.root;
        let words = [
            root.filter_installed,
            root.filter_watched,
            root.filter_inherited,
            root.filter_probe,
            root.filter_safe,
            root.filter_works,
        ];
        let mut values = [0; 6];
        for (value, at) in values.iter_mut().zip(words) {
            let word = read_u32(memory, root.filter.saturating_add(at));
            *value = word.ok_or_else(|| memory.unread("the filters cannot be read"))?;
        }
        Ok(Words::of(values))
    }

    /// The number of the heap at an address that a slab names as its owner.
    pub fn heap_number(&self, owner: u64) -> Option<usize> {
        if owner == self.root.first_heap {
            return Some(0);
        }
        let offset = owner.checked_sub(self.root.heaps)?;
        let number = offset / self.root.heap_stride;
        (owner < self.root.end && offset % self.root.heap_stride == 0).then_some(number as usize)
    }
}

/// The pages of slabs, in order. Adjacent slabs are asked for at once.
fn pages_of<'a>(
    memory: &impl Memory,
    slabs: impl Iterator<Item = Slab<'a>>,
) -> Result<Vec<Run>, Error> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for slab in slabs {
        match ranges.last_mut() {
            Some((_, end)) if *end == slab.base => *end += slab.span,
            _ => ranges.push((slab.base, slab.base + slab.span)),
        }
    }
    ranges.sort_unstable();
    let mut pages = Vec::new();
    for (start, end) in ranges {
        pages.extend(memory.pages(start, end)?);
    }
    Ok(pages)
}

/// What has pages between two addresses, in pieces that begin and end with pages.
fn pieces(
    memory: &impl Memory,
    mappings: &[Mapping],
    start: u64,
    end: u64,
) -> Result<Vec<(u64, u64)>, Error> {
    let mut pieces = Vec::new();
    for mapping in mappings {
        let Some((from, to)) = mapping.within(start, end) else { continue };
        for run in memory.pages(from, to)? {
            let mut at = run.start.max(from);
            while at < run.end.min(to) {
                let stop = run.end.min(to).min(at + PIECE);
                pieces.push((at, stop));
                at = stop;
            }
        }
    }
    Ok(pieces)
}
