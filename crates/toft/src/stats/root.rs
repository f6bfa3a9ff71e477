//! Where everything lies, for those who look from outside: `toft rss`, core files, debuggers.
//!
//! ```text
//! toft_root (exported; begins with MAGIC) --> Root --> windows, descriptors, heaps, and where the
//!                                                      fields of each descriptor lie
//! ```
//!
//! No code runs in the process that is looked at. A reader finds the [`Anchor`], follows it to the
//! [`Root`], and reads what is mapped of the descriptors: it needs none of this crate's types,
//! because the root says where their fields are. What words mean, and which there are, is
//! [`VERSION`].
//!
//! The root has no secret that decides what comes next (the keys of plots and sites are not here);
//! the addresses that it has are in this library's data in any case.

use crate::allocator::Allocator;
use crate::large::Block;
use crate::os::Os;
use crate::os::filter::Words;
use crate::reclaim::Control;
use crate::sample::OBJECT_BITS;
use crate::slab::{FLAGS, MEDIUM, SMALL, Slab, Tier};
use crate::thread::{Heap, HeapState};
use core::mem::offset_of;

/// What an [`Anchor`] begins with.
pub const MAGIC: [u8; 16] = *b"toft_root\0\xf1\x9c\x8e\xd3\xa7\xb5";
/// Changes when a word of the root changes its meaning, is taken away or comes in between; words
/// that are added at the end change `words` only.
pub const VERSION: u64 = 1;

/// What is found first.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Anchor {
    /// [`MAGIC`].
    pub magic: [u8; 16],
    /// [`VERSION`].
    pub version: u64,
    /// Number of words in the root.
    pub words: u64,
    /// This anchor's own address, which distinguishes it from a copy.
    pub this: *const Anchor,
    /// The root.
    pub root: *mut Root,
    /// The library's version, ended by zeros.
    pub library: [u8; 16],
}

// SAFETY: never changes; the code that follows `root` answers for that.
unsafe impl Sync for Anchor {}

impl Anchor {
    /// The anchor at `this` of the root at `root`.
    pub const fn new(this: *const Anchor, root: *mut Root) -> Anchor {
        let mut library = [0; 16];
        let version = crate::VERSION.as_bytes();
        let mut i = 0;
        while i < version.len() && i + 1 < library.len() {
            library[i] = version[i];
            i += 1;
        }
        let words = (size_of::<Root>() / size_of::<u64>()) as u64;
        Anchor { magic: MAGIC, version: VERSION, words, this, root, library }
    }

    /// The root, by a load that no compiler leaves out.
    pub fn root(&self) -> *mut Root {
        // SAFETY: a field of a reference.
        unsafe { (&raw const self.root).read_volatile() }
    }
}

macro_rules! root {
    ($($(#[$doc:meta])* $word:ident,)*) => {
        /// Where everything lies: numbers only, so that any reader can take them.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Root { $($(#[$doc])* pub $word: u64,)* }

        impl Root {
            /// The words' names, in order.
            pub const NAMES: &[&str] = &[$(stringify!($word)),*];
            /// Before there is anything.
            pub const NONE: Root = Root { $($word: 0),* };

            /// The root that `words` make; `None` if there are too few.
            pub fn from_words(mut words: impl Iterator<Item = u64>) -> Option<Root> {
                Some(Root { $($word: words.next()?,)* })
            }
        }
    };
}

root! {
    /// Not zero once the rest is filled in.
    ready,
    /// Bytes in a page.
    page_size,
    /// Number of partitions.
    partitions,
    /// First address of the data window: small slabs, then large blocks, then medium slabs.
    data,
    /// Bytes in each of its slab tiers.
    span,
    /// Bytes in its large tier.
    large_span,
    /// First address of the metadata window: tables first.
    tables,
    /// First address of the small slabs' descriptors, the one of the slab at `data` first.
    small_slabs,
    /// First address of the medium slabs' descriptors.
    medium_slabs,
    /// First address of the large blocks' descriptors, one for each unit.
    large_blocks,
    /// First address of the heaps.
    heaps,
    /// The end of the metadata window.
    end,
    /// Bytes in a small slab.
    small_slab,
    /// Bytes in a medium slab.
    medium_slab,
    /// Bytes in a unit of the large tier.
    unit,
    /// Bytes from one heap to the next.
    heap_stride,
    /// Address of the heaps' states, a byte each.
    heap_states,
    /// The state of a heap that a thread has.
    heap_live,
    /// Address of the number of heaps, 32 bits.
    heap_count,
    /// In a heap: address of its thread's control block.
    heap_thread_block,
    /// Bytes in a slab's descriptor; the words to `slab_states` are offsets in it.
    slab_bytes,
    /// Address of the owning heap, and flags; 64 bits.
    slab_owner,
    /// Number of slots, 64 bits; zero where there is no slab.
    slab_slots,
    /// Address of slot 0, 64 bits.
    slab_base,
    /// The first call site, 64 bits.
    slab_site,
    /// Bytes in a slot, 32 bits.
    slab_size,
    /// The partition, 32 bits.
    slab_partition,
    /// The claimed slots of one group of 64, a bit each.
    slab_claim,
    /// Address of the claimed group's states, 64 bits.
    slab_claim_states,
    /// A bit for each slot that another thread has freed, 64 to a word.
    slab_remote,
    /// A byte for each slot.
    slab_states,
    /// The state of a slot that the program has; with its bit in `slab_remote` set it is freed.
    slot_live,
    /// The flags in `slab_owner`.
    owner_flag,
    /// Bytes in a large block's descriptor; the words to `block_site` are offsets in it.
    block_bytes,
    /// What the block is doing, 32 bits.
    block_state,
    /// The partition, 32 bits.
    block_partition,
    /// Bytes that the program may use, 64 bits.
    block_usable,
    /// Bytes mapped, 64 bits.
    block_mapped,
    /// Bytes of address space, 64 bits.
    block_extent,
    /// Where it was allocated, 64 bits.
    block_site,
    /// The state of a descriptor that is of no block.
    block_none,
    /// The state of a block that the program has.
    block_live,
    /// Address of what can be asked of the reclaimer's thread; the words behind are offsets from
    /// it.
    control,
    /// What the thread sleeps on, 32 bits: not zero when it is to look again.
    control_word,
    /// The thread's number, 32 bits; zero where there is none.
    control_thread,
    /// Purges asked for, 64 bits.
    control_asked,
    /// Purges done, 64 bits: what `asked` was when the last began.
    control_answered,
    /// Bytes of address space of which the last one discarded the pages, resident or not, 64 bits.
    control_given,
    /// The bits that are set in the state of a slot of which another slab has the memory; in a
    /// build with a quarantine of one that is never handed out, since that build does not compact.
    slot_lent,
    /// Address of the table of call sites, each with a separate partition or one that it shares;
    /// zero where sites are hashed. An entry of which the first 64 bits are zero is unowned.
    sites,
    /// Bytes in an entry.
    site_bytes,
    /// Address of the number of bytes of the table that are mapped, 64 bits.
    sites_mapped,
    /// Low bits of an entry's first 64 that are the partition; those above are the site's low bits.
    site_partition_bits,
    /// The first partition that one site has alone; those before are shared, and 0 is unowned.
    site_first_own,
    /// From here on what stands for a partition is none: the site is one of a wrapper, of which the
    /// callers count.
    site_first_code,
    /// Bits that may be set in `slot_live`: the slot was reported to a probe.
    slot_told,
    /// In a slab's descriptor: frees that its credit has not counted, 64 bits.
    slab_frees,
    /// Frees by other threads that took effect without its owner, 64 bits.
    slab_absorbed,
    /// What the credit was set to, 32 bits.
    slab_credit_start,
    /// And what is left of it, 32 bits: what is not is frees, too.
    slab_credit,
    /// The bit that is set in the state of a slot that is not free, and in those of what is held or
    /// lent.
    slot_taken,
    /// The bits that are set in the state of a slot that the reclaimer holds to give pages back,
    /// and free all the same.
    slot_held,
    /// Address of what each call site has had in large blocks; an entry of which the first 64 bits
    /// are zero is unowned.
    tally,
    /// Bytes of an entry.
    tally_bytes,
    /// Address of the number of bytes of entries that are mapped, 64 bits.
    tally_mapped,
    /// In an entry: the site, 64 bits.
    tally_site,
    /// Blocks, 64 bits.
    tally_blocks,
    /// Their bytes, 64 bits.
    tally_allocated,
    /// Low bits of an entry's first 64 that are the partition plus one.
    tally_partition_bits,
    /// Address of the number of blocks, and then of their bytes, that could not be counted.
    tally_missed,
    /// The state of a slot that was freed and waits in a quarantine; zero in a build that has none.
    slot_quarantined,
    /// Address of the stacks of sampled allocations; zero where none are kept. An entry of which
    /// the first 64 bits are zero is unowned.
    samples,
    /// Bytes of an entry.
    sample_bytes,
    /// Address of the number of bytes of entries that are mapped, 64 bits.
    samples_mapped,
    /// In an entry: how many frames it has, 32 bits, and then not zero where there are more that
    /// could not be had.
    sample_about,
    /// Samples, the blocks that they stand for, and the bytes of these: three times 64 bits.
    sample_had,
    /// What was freed of those.
    sample_freed,
    /// Return addresses, 64 bits each, to the end of the entry.
    sample_frames,
    /// Bits behind the point of numbers of blocks.
    sample_object_bits,
    /// Bytes from one chosen byte to the next, on average.
    sample_interval,
    /// Address of three numbers: samples, blocks and bytes for which there was no memory.
    samples_missed,
    /// Address of what is known about filters of system calls (seccomp).
    filter,
    /// In that: filters that the process has installed, 32 bits.
    filter_installed,
    /// Not zero if each installation is reported, 32 bits.
    filter_watched,
    /// Whether the process was started under one: 0 not looked up, 1 no, 2 yes; 32 bits.
    filter_inherited,
    /// What is found out of that one: 2 once it is, 32 bits.
    filter_probe,
    /// Then a bit for each row of `os::seccomp::Calls` that neither kills nor lies, 32 bits.
    filter_safe,
    /// And for each that does what it should, 32 bits.
    filter_works,
    /// The state of a heap that threads share.
    heap_shared,
}

impl Root {
    /// The root of an allocator.
    pub fn of<O: Os>(allocator: &Allocator<O>) -> Root {
        let layout = allocator.layout();
        let heaps = allocator.heaps.places();
        let sites = allocator.sites.places();
        let tally = allocator.large().tally().places();
        let filter = Words::OFFSETS;
        let samples = allocator.samples().places();
        let (slab, block) = (Slab::FIELDS, Block::FIELDS);
        Root {
            ready: 1,
            page_size: allocator.os().page_size() as u64,
            partitions: allocator.options().partitions as u64,
            data: layout.windows.data as u64,
            span: layout.windows.span as u64,
            large_span: layout.windows.large_span as u64,
            tables: layout.tables as u64,
            small_slabs: layout.small_slabs as u64,
            medium_slabs: layout.medium_slabs as u64,
            large_blocks: layout.large_blocks as u64,
            heaps: layout.heaps as u64,
            end: layout.end as u64,
            small_slab: Tier::of(SMALL).slab_bytes() as u64,
            medium_slab: Tier::of(MEDIUM).slab_bytes() as u64,
            unit: crate::large::UNIT as u64,
            heap_stride: heaps.stride as u64,
            heap_states: heaps.states as u64,
            heap_live: HeapState::Live as u64,
            heap_count: heaps.count as u64,
            heap_thread_block: Heap::THREAD_BLOCK as u64,
            slab_bytes: slab.bytes as u64,
            slab_owner: slab.owner as u64,
            slab_slots: slab.slots as u64,
            slab_base: slab.base as u64,
            slab_site: slab.site as u64,
            slab_size: slab.size as u64,
            slab_partition: slab.partition as u64,
            slab_claim: slab.claim as u64,
            slab_claim_states: slab.claim_states as u64,
            slab_remote: slab.remote as u64,
            slab_states: slab.states as u64,
            slot_live: u64::from(slab.live),
            owner_flag: FLAGS as u64,
            block_bytes: block.size as u64,
            block_state: block.state as u64,
            block_partition: block.partition as u64,
            block_usable: block.bytes as u64,
            block_mapped: block.mapped as u64,
            block_extent: block.extent as u64,
            block_site: block.site as u64,
            block_none: u64::from(block.none),
            block_live: u64::from(block.live),
            control: (&raw const *allocator.control()).expose_provenance() as u64,
            control_word: offset_of!(Control, word) as u64,
            control_thread: offset_of!(Control, thread) as u64,
            control_asked: offset_of!(Control, asked) as u64,
            control_answered: offset_of!(Control, answered) as u64,
            control_given: offset_of!(Control, given) as u64,
            slot_lent: u64::from(slab.lent),
            sites: sites.entries as u64,
            site_bytes: sites.entry_bytes as u64,
            sites_mapped: sites.mapped as u64,
            site_partition_bits: u64::from(sites.number_bits),
            site_first_own: sites.first_own as u64,
            site_first_code: sites.first_code as u64,
            slot_told: u64::from(slab.told),
            slab_frees: slab.frees as u64,
            slab_absorbed: slab.absorbed as u64,
            slab_credit_start: slab.credit_start as u64,
            slab_credit: slab.credit as u64,
            slot_taken: u64::from(slab.taken),
            slot_held: u64::from(slab.held),
            tally: tally.entries as u64,
            tally_bytes: tally.entry_bytes as u64,
            tally_mapped: tally.mapped as u64,
            tally_site: tally.site as u64,
            tally_blocks: tally.blocks as u64,
            tally_allocated: tally.bytes as u64,
            tally_partition_bits: u64::from(tally.partition_bits),
            tally_missed: tally.missed as u64,
            slot_quarantined: u64::from(slab.quarantined),
            samples: samples.entries as u64,
            sample_bytes: samples.entry_bytes as u64,
            samples_mapped: samples.mapped as u64,
            sample_about: samples.about as u64,
            sample_had: samples.had as u64,
            sample_freed: samples.freed as u64,
            sample_frames: samples.frames as u64,
            sample_object_bits: u64::from(OBJECT_BITS),
            sample_interval: allocator.options().interval() as u64,
            samples_missed: samples.missed as u64,
            filter: (&raw const *allocator.filter()).expose_provenance() as u64,
            filter_installed: filter[0] as u64,
            filter_watched: filter[1] as u64,
            filter_inherited: filter[2] as u64,
            filter_probe: filter[3] as u64,
            filter_safe: filter[4] as u64,
            filter_works: filter[5] as u64,
            heap_shared: HeapState::Shared as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_in_order_and_too_few_are_refused() {
        let count = Root::NAMES.len();
        assert_eq!(size_of::<Root>(), count * 8);
        let root = Root::from_words(0..count as u64).unwrap();
        assert_eq!((root.ready, root.page_size, root.heap_shared), (0, 1, count as u64 - 1));
        assert_eq!(Root::from_words(0..count as u64 - 1), None);
        assert_eq!(Root::from_words(core::iter::repeat_n(0, count)), Some(Root::NONE));
    }
}
