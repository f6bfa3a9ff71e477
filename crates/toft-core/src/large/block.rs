//! The descriptor of one large block, at the 64 KiB unit where the block begins.

use crate::policy::SECURE;
use crate::region::{Partition, Site};
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::mem::offset_of;

/// What a unit's descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// No block begins here.
    None,
    /// The program has the block.
    Live,
    /// Free: on its stack, or on its way there.
    Free,
}

/// Where the fields of a descriptor lie, for those who read it from outside the process
/// (`stats/root.rs`), and what its states mean.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct BlockFields {
    pub size: usize,
    pub state: usize,
    pub partition: usize,
    pub bytes: usize,
    pub mapped: usize,
    pub extent: usize,
    pub site: usize,
    pub none: u32,
    pub live: u32,
}

/// Flag in `class`: see `lies_apart`.
const APART: u16 = 1 << 15;
/// Flag in `class`: see `is_forbidden`.
const FORBIDDEN: u16 = 1 << 14;

/// Flag in `class`: the block was sampled.
const SAMPLED: u16 = 1 << 13;
/// Flag in `class`: see `replaces_slot`.
const REPLACES_SLOT: u16 = 1 << 12;
/// All flags.
const FLAGS: u16 = APART | FORBIDDEN | SAMPLED | REPLACES_SLOT;

const NONE: u32 = 0;
const LIVE: u32 = 1;
const FREE: u32 = 2;

/// A large block. A thread holds it from when it takes it from a stack or from the places of
/// `kept.rs`, or wins the change from live to free. Until the block is published, put or pushed
/// again, only the holder writes its fields. That release pairs with the acquire of the next
/// taking. `partition`, `class` and `extent` never change once the block has been published (law
/// 1), so any thread may read them.
///
/// `head + bytes <= resident <= mapped` while it is live, where the head is what lies on its first
/// page before it, and `resident <= mapped` while it is free.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Block {
    state: AtomicU32,
    /// The next block down the stack: unit number plus one. Written by the pusher.
    pub(super) below: AtomicU32,
    /// The class, and a flag.
    class: AtomicU16,
    /// Bytes between the start of the unit and what the program has; zero, but in the secure
    /// build (`place.rs`). Changes only while the block has no mapping.
    pub(super) lead: AtomicU16,
    pub(super) partition: AtomicU32,
    /// Bytes that the program may use, or could when it was live last.
    pub(super) bytes: AtomicUsize,
    /// Bytes mapped from the start of the block's first page.
    pub(super) mapped: AtomicUsize,
    /// Bytes from the start that may have pages. Those behind were never written since they were
    /// mapped or given back: they have no pages, and are zero.
    pub(super) resident: AtomicUsize,
    /// Bytes of address space, guard included.
    pub(super) extent: AtomicUsize,
    pub(super) site: AtomicUsize,
    /// Of a free block `KeptBlocks::now` when it was freed last; the holder writes it, others read
    /// it as a hint. Of a live one its idleness at the last scan for cold pages; zero at first.
    pub(super) since: AtomicU64,
}

const _: () = assert!(size_of::<Block>() == 64, "the layout reserves so much for each");

impl Block {
    /// Where the fields lie.
    pub const FIELDS: BlockFields = BlockFields {
        size: size_of::<Block>(),
        state: offset_of!(Block, state),
        partition: offset_of!(Block, partition),
        bytes: offset_of!(Block, bytes),
        mapped: offset_of!(Block, mapped),
        extent: offset_of!(Block, extent),
        site: offset_of!(Block, site),
        none: NONE,
        live: LIVE,
    };

    /// Returns the page idleness at the last scan, if the block is live. Read it before the state:
    /// then `set_idleness` stores nothing in a block that was made again.
    pub fn idleness(&self) -> u64 {
        self.since.load(Acquire)
    }

    /// Stores the page idleness, unless the block was freed or made again since `seen` was its
    /// idleness.
    pub fn set_idleness(&self, seen: u64, idleness: u64) {
        let _ = self.since.compare_exchange(seen, idleness, Relaxed, Relaxed);
    }

    /// The state now.
    pub fn state(&self) -> BlockState {
        match self.state.load(Acquire) {
            NONE => BlockState::None,
            LIVE => BlockState::Live,
            _ => BlockState::Free,
        }
    }

    /// Publishes a block that the caller holds as the program's.
    pub(super) fn publish(&self) {
        self.state.store(LIVE, Release);
    }

    /// Publishes a block that was never live as free.
    pub(super) fn publish_free(&self) {
        self.state.store(FREE, Release);
    }

    /// Gives a block that `take` took back to the program.
    pub(super) fn untake(&self) {
        self.state.store(LIVE, Release);
    }

    /// Takes the block from the program: exactly one of any number of frees succeeds.
    pub(super) fn take(&self) -> bool {
        // trim.
        self.state.compare_exchange(LIVE, FREE, SeqCst, Acquire).is_ok()
    }

    /// Whether the program has the block, to be asked after [`Spares::begin`]. No other thread
    /// changes it then before [`Spares::end`].
    ///
    /// [`Spares::begin`]: super::spares::Spares::begin
    /// [`Spares::end`]: super::spares::Spares::end
    pub(super) fn is_live_for_trimming(&self) -> bool {
        self.state.load(SeqCst) == LIVE
    }

    /// Bytes that the program may use.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Bytes mapped from its start on.
    pub fn mapped(&self) -> usize {
        self.mapped.load(Relaxed)
    }

    /// Bytes of address space that belong to the block, guard included.
    pub fn extent(&self) -> usize {
        self.extent.load(Relaxed)
    }

    /// Its large class.
    pub fn class(&self) -> usize {
        (self.class.load(Relaxed) & !FLAGS).into()
    }

    /// Whether there is a gap before its extent, in the secure build: such blocks cannot share a
    /// mapping, and all others do.
    pub(super) fn lies_apart(&self) -> bool {
        self.class.load(Relaxed) & APART != 0
    }

    /// Whether its pages were taken away as a mapping without rights: it takes more than the end of
    /// guards to have them again. Secure build; holder.
    pub(super) fn is_forbidden(&self) -> bool {
        self.class.load(Relaxed) & FORBIDDEN != 0
    }

    /// Says so, or that it is over.
    pub(super) fn set_forbidden(&self, forbidden: bool) {
        let class = self.class.load(Relaxed) & !FORBIDDEN;
        self.class.store(class | if forbidden { FORBIDDEN } else { 0 }, Relaxed);
    }

    /// Marks a block as sampled, by the thread that allocates or resizes it, before the program
    /// gets it.
    pub fn mark_sampled(&self) {
        self.class.fetch_or(SAMPLED, Relaxed);
    }

    /// Marks the block again, if it was `sampled` before.
    pub fn restore_sampled(&self, sampled: bool) {
        if sampled {
            self.mark_sampled();
        }
    }

    /// Whether a live block was sampled; clears the mark. Any thread: of those that free it at the
    /// same moment one gets true.
    pub fn take_sampled(&self) -> bool {
        self.class.load(Relaxed) & SAMPLED != 0
            && self.state() == BlockState::Live
            && self.class.fetch_and(!SAMPLED, Relaxed) & SAMPLED != 0
    }

    /// Returns true if the block serves a request for which there was no slot.
    pub fn replaces_slot(&self) -> bool {
        self.class.load(Relaxed) & REPLACES_SLOT != 0
    }

    /// Notes whether the block serves such a request. For the thread that allocates the block,
    /// before the program gets it.
    pub fn set_replaces_slot(&self, replaces: bool) {
        if self.replaces_slot() != replaces {
            self.class.fetch_xor(REPLACES_SLOT, Relaxed);
        }
    }

    /// Sets class and place, of a new extent.
    pub(super) fn set_class(&self, class: usize, apart: bool) {
        let flag = if SECURE && apart { APART } else { 0 };
        self.class.store(class as u16 | flag, Relaxed);
    }

    /// Bytes between the start of the block's unit and the block.
    pub(super) fn lead(&self) -> usize {
        if SECURE { self.lead.load(Relaxed).into() } else { 0 }
    }

    /// The partition that the block belongs to for ever.
    pub fn partition(&self) -> Partition {
        Partition::new(self.partition.load(Relaxed) as usize)
    }

    /// Where the block was allocated.
    pub fn site(&self) -> Site {
        Site::at(self.site.load(Relaxed))
    }
}
