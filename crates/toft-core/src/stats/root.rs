//! The places of everything, for readers outside the process: `toft rss`, core files, debuggers.
//!
//! ```text
//! toft_root (exported; begins with MAGIC) --> Root --> windows, descriptors, heaps, and where the
//!                                                      fields of each descriptor lie
//! ```
//!
//! No code of this library runs in the process that is read. A reader finds the [`Anchor`], follows
//! it to the [`Root`], and reads the mapped descriptors. It needs no types of this crate, because
//! the root has the offsets of their fields. [`VERSION`] defines the words of the root and their
//! meaning.
//!
//! The root contains no secret that decides future addresses: it has no keys of plots or sites. Its
//! addresses are in this library's data in any case.

use crate::allocator::Allocator;
use crate::large::Block;
use crate::os::Os;
use crate::os::filter::Words;
use crate::reclaim::Control;
use crate::sample::{NAMED, OBJECT_BITS};
use crate::slab::{FLAGS, SMALL_MAX, SPAN_MAX, SlabFields};
use crate::thread::{Heap, HeapState};
use core::mem::offset_of;

/// The first bytes of an [`Anchor`].
pub const MAGIC: [u8; 16] = *b"toft_root\0\xf1\x9c\x8e\xd3\xa7\xb5";
/// The version of the root's format. It changes when a word changes its meaning, is removed, or is
/// inserted. Words that are added at the end change only `words`.
pub const VERSION: u64 = 7;

/// The object that a reader searches for.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Anchor {
    /// [`MAGIC`].
    pub magic: [u8; 16],
    /// [`VERSION`].
    pub version: u64,
    /// The number of words in the root.
    pub words: u64,
    /// The address of this anchor, which distinguishes it from a copy.
    pub this: *const Anchor,
    /// The root.
    pub root: *mut Root,
    /// The version of the library, padded with zeros.
    pub library: [u8; 16],
}

// SAFETY: never changes. The code that follows `root` is responsible for that access.
unsafe impl Sync for Anchor {}

impl Anchor {
    /// Returns the anchor at `this` of the root at `root`.
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

    /// Returns the root, by a load that no compiler removes.
    pub fn root(&self) -> *mut Root {
        // SAFETY: a field of a reference.
        unsafe { (&raw const self.root).read_volatile() }
    }
}

macro_rules! root {
    (
        of($allocator:ident) { $($places:tt)* }
        $($(#[$doc:meta])* $word:ident: $value:expr,)*
    ) => {
        /// The places of everything: only numbers, so that any reader can use them.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Root { $($(#[$doc])* pub $word: u64,)* }

        impl Root {
            /// The names of the words, in order.
            pub const NAMES: &[&str] = &[$(stringify!($word)),*];
            /// The root before the allocator starts.
            pub const NONE: Root = Root { $($word: 0),* };

            /// Returns the root that `words` make, or `None` if there are too few.
            pub fn from_words(mut words: impl Iterator<Item = u64>) -> Option<Root> {
                Some(Root { $($word: words.next()?,)* })
            }

            /// Returns the root of an allocator.
            pub fn of<O: Os>($allocator: &Allocator<O>) -> Root {
                $($places)*
                Root { $($word: $value as u64,)* }
            }
        }
    };
}

root! {
    of(allocator) {
        let layout = allocator.layout();
        let heaps = allocator.heaps.places();
        let sites = allocator.sites.places();
        let tally = allocator.large().tally().places();
        let filter = Words::OFFSETS;
        let samples = allocator.samples().places();
        let (slab, block) = (SlabFields::NOW, Block::FIELDS);
        let outside = allocator.large().units().outside_fields().unwrap_or_default();
    }
    /// Not zero after the other words are filled in.
    ready: 1,
    /// The number of bytes in a page.
    page_size: allocator.os().page_size(),
    /// The number of partitions.
    partitions: allocator.options().partitions,
    /// The first address of the data window: slabs, then large blocks.
    data: layout.windows.data,
    /// The number of bytes for slabs.
    span: layout.windows.span,
    /// The number of bytes of its large tier.
    large_span: layout.windows.large_span,
    /// The first address of the metadata window.
    metadata: layout.windows.metadata(),
    /// The first address of the tables. Descriptors of large blocks end there.
    tables: layout.tables,
    /// The address of the first heap, which is after the tables.
    first_heap: heaps.first,
    /// The first address of the slabs' first descriptors, in the order of demand. They end at the
    /// page map. Each says where its slab is.
    slabs: layout.slabs,
    /// The first address of the page map.
    page_map: layout.page_map,
    /// The first address of the slabs' other descriptors.
    more_slabs: layout.more_slabs,
    /// The number of bytes of address space for them.
    more_slabs_span: layout.more_slabs_span,
    /// The end of the descriptor of the large tier's first unit. Those of the others are below it,
    /// one for each unit, in the order of falling addresses.
    large_blocks_end: allocator.large().units().descriptors_end(),
    /// The first address of the heaps by number. The place of the first is not used.
    heaps: layout.heaps,
    /// The end of the metadata window.
    end: layout.end,
    /// The most bytes of a slab.
    slab_most: SPAN_MAX,
    /// The most bytes of a small slot.
    small_most: SMALL_MAX,
    /// The number of bytes in a unit of the large tier.
    unit: crate::large::UNIT,
    /// The number of bytes from one heap to the next.
    heap_stride: heaps.stride,
    /// The address of the first heaps' states, one byte each.
    heap_states: heaps.states,
    /// The number of those heaps.
    heap_first_states: heaps.first_states,
    /// The address at which the states of all heaps would begin if those of the first were not
    /// apart from the others.
    heap_other_states: heaps.other_states,
    /// The state of a heap that a thread uses.
    heap_live: HeapState::Live,
    /// The address of the number of heaps, 32 bits.
    heap_count: heaps.count,
    /// In a heap, the address of its thread's control block.
    heap_thread_block: Heap::THREAD_BLOCK,
    /// The number of bytes in a slab's descriptor. The words to `slab_states` are offsets in it.
    slab_bytes: slab.bytes,
    /// The address of the owning heap, and flags; 64 bits.
    slab_owner: slab.owner,
    /// The number of slots, 64 bits; zero if there is no slab.
    slab_slots: slab.slots,
    /// The address of slot 0, 64 bits.
    slab_base: slab.base,
    /// The first call site, 64 bits.
    slab_site: slab.site,
    /// The number of bytes in a slot, 32 bits.
    slab_size: slab.size,
    /// The partition, 32 bits.
    slab_partition: slab.partition,
    /// The claimed slots of one group of 64 slots, one bit each.
    slab_claim: slab.claim,
    /// The address of the claimed group's states, 64 bits.
    slab_claim_states: slab.claim_states,
    /// One bit for each slot that another thread has freed, 64 bits to a word.
    slab_remote: slab.remote,
    /// The states of the slots, one byte each.
    slab_states: slab.states,
    /// The state of a live slot. The slot is freed if its bit in `slab_remote` is set.
    slot_live: slab.live,
    /// The flag bits in `slab_owner`.
    owner_flag: FLAGS,
    /// The number of bytes in a large block's descriptor. The words to `block_site` are offsets in
    /// it.
    block_bytes: block.size,
    /// The state of the block, 32 bits.
    block_state: block.state,
    /// The partition, 32 bits.
    block_partition: block.partition,
    /// The number of bytes that the program may use, 64 bits.
    block_usable: block.bytes,
    /// The number of bytes mapped, 64 bits.
    block_mapped: block.mapped,
    /// The number of bytes of address space, 64 bits.
    block_extent: block.extent,
    /// The call site that allocated the block, 64 bits.
    block_site: block.site,
    /// The state of a descriptor without a block.
    block_none: block.none,
    /// The state of a live block.
    block_live: block.live,
    /// The address of the control record of the reclaimer's thread. The words to `control_given`
    /// are offsets in it.
    control: (&raw const *allocator.control()).expose_provenance(),
    /// The word that the thread sleeps on, 32 bits. It is not zero if the thread must check for
    /// work.
    control_word: offset_of!(Control, word),
    /// The number of the thread, 32 bits; zero if there is none, or all ones if the thread has
    /// returned what was idle, and has ended.
    control_thread: offset_of!(Control, thread),
    /// The number of purges requested, 64 bits.
    control_asked: offset_of!(Control, asked),
    /// The number of purges done, 64 bits: the value of `asked` when the last one began.
    control_answered: offset_of!(Control, answered),
    /// The bytes of address space whose pages the last purge discarded, resident or not; 64 bits.
    control_given: offset_of!(Control, given),
    /// The bits that are set in the state of a slot whose memory another slab uses. A build with a
    /// quarantine does not compact, so there they mark a slot that is never handed out.
    slot_lent: slab.lent,
    /// The address of the table of call sites, each with a separate or a shared partition. Zero if
    /// sites are hashed. An entry whose first 64 bits are zero is not in use.
    sites: sites.entries,
    /// The number of bytes in an entry of `sites`.
    site_bytes: sites.entry_bytes,
    /// The address of the number of mapped bytes of `sites`, 64 bits.
    sites_mapped: sites.mapped,
    /// The number of low bits of the first 64 bits of an entry of `sites` that hold the partition.
    /// The other bits are the low bits of the site.
    site_partition_bits: sites.number_bits,
    /// The first partition that a single site uses. Those before it are shared, and 0 is not in
    /// use.
    site_first_own: sites.first_own,
    /// The first value of the partition bits that is not a partition. From there on, the site is in
    /// a wrapper of malloc, and the callers of the wrapper count as sites.
    site_first_code: sites.first_code,
    /// Bits that may be set in addition to `slot_live`: the slot was reported to a probe.
    slot_sampled: slab.sampled,
    /// In a slab's descriptor, the number of frees that its credit has not counted, 64 bits.
    slab_frees: slab.frees,
    /// The number of frees by other threads that took effect without the owner, 64 bits.
    slab_absorbed: slab.absorbed,
    /// The value that the credit was set to, 32 bits.
    slab_credit_start: slab.credit_start,
    /// The remaining credit, 32 bits. The difference from `slab_credit_start` counts as frees too.
    slab_credit: slab.credit,
    /// The bit that is set in the state of a slot that is not free. It is also set in the states of
    /// held and lent slots.
    slot_taken: slab.taken,
    /// The bits that are set in the state of a slot that the reclaimer holds to release pages. The
    /// slot counts as free.
    slot_held: slab.held,
    /// The address of the counts of large blocks by call site. An entry whose first 64 bits are
    /// zero is not in use.
    tally: tally.entries,
    /// The first address of the first entries of `tally`, which are apart from the others.
    tally_first: tally.first,
    /// The number of bytes of those entries. The others begin as many bytes after `tally`.
    tally_first_bytes: tally.first_bytes,
    /// The number of bytes in an entry of `tally`.
    tally_bytes: tally.entry_bytes,
    /// The address of the number of mapped bytes of `tally`, 64 bits.
    tally_mapped: tally.mapped,
    /// In an entry of `tally`, the site, 64 bits.
    tally_site: tally.site,
    /// In an entry of `tally`, the number of blocks, 64 bits.
    tally_blocks: tally.blocks,
    /// In an entry of `tally`, the bytes of the blocks, 64 bits.
    tally_allocated: tally.bytes,
    /// The number of low bits of the first 64 bits of an entry of `tally` that hold the partition
    /// plus one.
    tally_partition_bits: tally.partition_bits,
    /// The address of two numbers: the blocks that could not be counted, and their bytes.
    tally_missed: tally.missed,
    /// The state of a freed slot in a quarantine. Zero in a build without a quarantine.
    slot_quarantined: slab.quarantined,
    /// The address of the stacks of sampled allocations, or zero if none are kept. An entry whose
    /// first 64 bits are zero is not in use.
    samples: samples.entries,
    /// The number of bytes in an entry of `samples`.
    sample_bytes: samples.entry_bytes,
    /// The address of the number of mapped bytes of `samples`, 64 bits.
    samples_mapped: samples.mapped,
    /// In an entry of `samples`, the number of frames, 32 bits. The next 32 bits are not zero if
    /// there were more frames that could not be read.
    sample_about: samples.about,
    /// In an entry of `samples`, the number of samples, of the blocks that they represent, and of
    /// those blocks' bytes; 64 bits each.
    sample_had: samples.had,
    /// In an entry of `samples`, the freed part of those three numbers.
    sample_freed: samples.freed,
    /// In an entry of `samples`, the return addresses, 64 bits each, up to the end of the entry.
    sample_frames: samples.frames,
    /// The number of fraction bits of numbers of blocks.
    sample_object_bits: OBJECT_BITS,
    /// The average number of bytes from one sampled byte to the next.
    sample_interval: allocator.options().interval(),
    /// The address of three numbers: samples, blocks and bytes for which there was no memory.
    samples_missed: samples.missed,
    /// The address of the record about filters of system calls (seccomp).
    filter: (&raw const *allocator.filter()).expose_provenance(),
    /// In the filter record, the number of filters that the process has installed, 32 bits.
    filter_installed: filter[0],
    /// In the filter record: not zero if each installation is reported, 32 bits.
    filter_watched: filter[1],
    /// In the filter record, whether the process was started under a filter: 0 not checked, 1 no, 2
    /// yes; 32 bits.
    filter_inherited: filter[2],
    /// In the filter record, the progress of the test of that filter: 2 when it is complete, 32
    /// bits.
    filter_probe: filter[3],
    /// In the filter record, one bit for each row of `os::seccomp::Calls` whose call neither kills
    /// nor returns a false result, 32 bits.
    filter_safe: filter[4],
    /// In the filter record, one bit for each row whose call works, 32 bits.
    filter_works: filter[5],
    /// The state of a heap that several threads share.
    heap_shared: HeapState::Shared,
    /// The bit of a frame in `sample_frames` that is no return address, but the address of a named
    /// frame: a function that an interpreter runs.
    sample_named: NAMED,
    /// The number of bytes of a named frame. The words to `named_file` are offsets in it.
    named_bytes: samples.named_bytes,
    /// The line, 32 bits; zero if it is unknown.
    named_line: samples.named_line,
    /// The name of the function, with a final zero.
    named_function: samples.named_function,
    /// The name of the source file, with a final zero.
    named_file: samples.named_file,
    /// In a slab's descriptor, the address of the batch in which one thread gathers frees of the
    /// slab's slots, 64 bits. The word is zero in a build without batches.
    slab_batch: slab.batch,
    /// In a batch, the address of the slab's descriptor, 64 bits. The batch is of no slab, or of
    /// another, if this is not the descriptor that named it.
    batch_slab: slab.batch_slab,
    /// In a batch, one bit for each slot that the thread has freed, 64 bits to a word. They count
    /// like those in `slab_remote`.
    batch_marks: slab.batch_marks,
    /// The address of the number of invalid calls that were ignored, 64 bits.
    misuses: (&raw const *allocator.misuses()).expose_provenance(),
    /// The address of the number of bytes that sweeps have returned to the OS, 64 bits. They are
    /// bytes of address space, resident before or not.
    returned: allocator.reclaimer.returned_at(),
    /// The limit of the allocator's memory in bytes. All bits are set if there is none.
    limit: allocator.limit.bytes(),
    /// The address of the table of chunks of descriptors of large blocks outside the data window.
    /// Each entry is the address of a chunk, 64 bits, or zero for no chunk.
    outside: outside.chunks,
    /// The number of entries of `outside`.
    outside_chunks: outside.chunk_count,
    /// The number of bytes in a chunk.
    outside_chunk_bytes: outside.chunk_bytes,
    /// The number of bytes in a descriptor of a chunk. It begins with a large block's descriptor.
    outside_bytes: outside.bytes,
    /// In a descriptor of a chunk, the first address of the extent, 64 bits.
    outside_at: outside.at,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_in_order_and_too_few_are_refused() {
        let count = Root::NAMES.len();
        assert_eq!(size_of::<Root>(), count * 8);
        let root = Root::from_words(0..count as u64).unwrap();
        assert_eq!((root.ready, root.page_size, root.outside_at), (0, 1, count as u64 - 1));
        assert_eq!(Root::from_words(0..count as u64 - 1), None);
        assert_eq!(Root::from_words(core::iter::repeat_n(0, count)), Some(Root::NONE));
    }
}
