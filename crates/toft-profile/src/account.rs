//! Tables and pages joined: what each byte of a resident page is.
//!
//! ```text
//! page   |live |free |claimed|live |free...|   |free |free |free |remote|    |empty slab, unowned|
//!         live pinned claimed live  pinned      dirty dirty dirty uncollected  kept
//! ```
//!
//! Resident is what the kernel says is resident; what a byte of it is, the tables say. So the terms
//! of a [`Split`] add up to the resident bytes of the windows, whatever the counters of the target
//! say.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use toft_core::stats::Root;

use crate::tables::{Doubts, Slot};
use crate::{Block, Error, Mapping, Memory, Run, Slab, Tables};

/// Resident bytes of slabs, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Split {
    /// Blocks in use by the program.
    pub live: u64,
    /// Slots that `malloc` hands out next: a thread's magazine.
    pub claimed: u64,
    /// Slots that another thread has freed and the owner has not collected yet.
    pub uncollected: u64,
    /// Free, on a page with a live slot.
    pub free_pinned: u64,
    /// Free, on a page without a live slot: it can be returned.
    pub free_dirty: u64,
    /// Memory of another slab, at another address: the kernel counts it twice.
    pub lent: u64,
    /// Freed and in a quarantine, with the free rest of pages that only these slots keep.
    pub quarantined: u64,
    /// Never handed out, so that a write there is noticed.
    pub reserved: u64,
}

impl Split {
    /// Returns the sum of all fields.
    pub fn sum(&self) -> u64 {
        self.live + self.uncollected + self.free() + self.lent + self.quarantined + self.reserved
    }

    /// Returns the free bytes, claimed ones included.
    pub fn free(&self) -> u64 {
        self.claimed + self.free_pinned + self.free_dirty
    }

    fn add(&mut self, other: &Split) {
        self.live += other.live;
        self.claimed += other.claimed;
        self.uncollected += other.uncollected;
        self.free_pinned += other.free_pinned;
        self.free_dirty += other.free_dirty;
        self.lent += other.lent;
        self.quarantined += other.quarantined;
        self.reserved += other.reserved;
    }
}

/// The memory of one heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The heap's number.
    pub heap: usize,
    /// True if a running thread has it; else its thread has exited.
    pub running: bool,
    /// True if threads share the heap.
    pub shared: bool,
    /// Address of the thread's control block.
    pub thread_block: u64,
    /// Its slabs.
    pub slabs: u64,
    /// Live blocks, whichever thread has allocated or uses them.
    pub live_blocks: u64,
    /// Bytes of the live blocks, resident or not.
    pub live_bytes: u64,
    /// Bytes of free slots that are not lent, resident or not; claimed ones included.
    pub free_bytes: u64,
    /// Bytes of claimed slots.
    pub claimed_bytes: u64,
    /// Bytes of slots that other threads have freed and the owner has not collected.
    pub uncollected_bytes: u64,
    /// Bytes of freed slots in any quarantine.
    pub quarantined_bytes: u64,
    /// Resident bytes of its slabs.
    pub resident: Split,
}

/// The memory of one call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// The call site: the first that drew from these slabs.
    pub site: u64,
    /// Its partition.
    pub partition: u32,
    /// Free resident bytes that cannot be returned, because a live slot is on the same page.
    pub pinned: u64,
    /// Pages that have such bytes.
    pub pages: u64,
    /// Bytes of live blocks, resident or not.
    pub live_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Resident bytes of its slabs and large blocks.
    pub resident: u64,
}

/// All memory in the windows.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Resident bytes of slabs that a heap owns.
    pub slabs: Split,
    /// Resident bytes of empty slabs that are unowned.
    pub empty_slabs: u64,
    /// Resident bytes of live large blocks, up to their usable size.
    pub large_live: u64,
    /// Resident bytes of live large blocks after their usable size.
    pub large_slack: u64,
    /// Resident bytes of free large blocks.
    pub large_kept: u64,
    /// Resident bytes of descriptors of slabs and large blocks.
    pub descriptors: u64,
    /// Resident bytes of heaps.
    pub heaps: u64,
    /// Resident bytes of tables.
    pub tables: u64,
    /// Usable bytes of live blocks, resident or not.
    pub live_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Bytes of claimed slots, resident or not.
    pub claimed_bytes: u64,
    /// Bytes of slots that are freed and not collected, resident or not.
    pub uncollected_bytes: u64,
    /// Bytes of free slots in owned slabs, resident or not; claimed ones included.
    pub free_bytes: u64,
    /// Slots whose memory another slab has.
    pub lent_slots: u64,
    /// Bytes of the lent slots, which compaction saves.
    pub lent_bytes: u64,
    /// Owned slabs.
    pub slab_count: u64,
    /// Empty slabs that are unowned.
    pub empty_slab_count: u64,
    /// Live large blocks.
    pub large_count: u64,
    /// Free large blocks.
    pub large_kept_count: u64,
    /// Address space after large blocks that is never used: guards, and room to grow.
    pub guards: u64,
    /// By heap.
    pub threads: Vec<Thread>,
    /// By call site, most pinned bytes first.
    pub pins: Vec<Pin>,
    /// Descriptors that were read, and those that are in doubt.
    pub doubts: Doubts,
    /// The granules of address space that have slabs or large blocks.
    granules: BTreeSet<u64>,
    /// The extents of large blocks outside the windows.
    outside: Vec<(u64, u64)>,
}

/// The size of a granule as a shift. A mapping in the windows counts as the allocator's if a slab
/// or a large block is in the same granule.
const GRANULE_SHIFT: u32 = 32;

impl Account {
    fn use_granules(&mut self, start: u64, end: u64) {
        self.granules.extend(start >> GRANULE_SHIFT..=(end - 1) >> GRANULE_SHIFT);
    }

    /// Whether a range of addresses is in granules that have slabs or large blocks. Elsewhere in
    /// the windows there may be mappings of the program: the allocator reserves none of it.
    pub(crate) fn uses(&self, start: u64, end: u64) -> bool {
        self.granules.range(start >> GRANULE_SHIFT..=(end - 1) >> GRANULE_SHIFT).next().is_some()
    }

    /// Returns true if a range of addresses is in a large block outside the windows.
    pub(crate) fn is_outside(&self, start: u64, end: u64) -> bool {
        self.outside.iter().any(|&(first, last)| first <= start && end <= last)
    }

    /// Resident bytes that are accounted for.
    pub fn resident(&self) -> u64 {
        let large = self.large_live + self.large_slack + self.large_kept;
        let metadata = self.descriptors + self.heaps + self.tables;
        self.slabs.sum() + self.empty_slabs + large + metadata
    }
}

/// Accounts for everything in the windows.
pub fn account(memory: &impl Memory, tables: &Tables) -> Result<Account, Error> {
    let mappings = memory.mappings()?;
    let heaps = tables.heaps(memory);
    let mut account = Account {
        threads: heaps
            .iter()
            .enumerate()
            .map(|(heap, of)| Thread {
                heap,
                running: of.live,
                shared: of.shared,
                thread_block: of.thread_block,
                ..Thread::default()
            })
            .collect(),
        ..Account::default()
    };
    let mut pins: HashMap<(u64, u32), Pin> = HashMap::new();
    let page = tables.root.page_size;
    let doubts = tables.for_each_slab(memory, &mappings, |slab, pages| {
        add_slab(&mut account, &mut pins, tables, slab, pages, page);
    })?;
    let (blocks, more) = tables.blocks(memory, &mappings)?;
    let (first, last) = large_tier(&tables.root);
    let (inside, outside): (Vec<Block>, Vec<Block>) =
        blocks.iter().partition(|block| (first..last).contains(&block.base));
    let pages = pages_in(memory, &mappings, (first, last))?;
    add_blocks(&mut account, &mut pins, &inside, &pages);
    for block in outside {
        let range = (block.base, block.base + block.extent);
        account.outside.push(range);
        let pages = pages_in(memory, &mappings, range)?;
        add_blocks(&mut account, &mut pins, &[block], &pages);
    }
    account.doubts = Doubts {
        read: doubts.read + more.read,
        changed: doubts.changed,
        senseless: doubts.senseless + more.senseless,
    };
    let root = &tables.root;
    let resident = |start, end| -> Result<u64, Error> {
        Ok(bytes(pages_in(memory, &mappings, (start, end))?.into_iter()))
    };
    (account.tables, account.descriptors, account.heaps) = (
        resident(root.tables, root.first_heap)?,
        resident(root.metadata, root.tables)? + resident(root.slabs, root.heaps)?,
        resident(root.first_heap, root.slabs)? + resident(root.heaps, root.end)?,
    );
    account.pins = pins.into_values().collect();
    account.pins.sort_by_key(|pin| {
        (std::cmp::Reverse((pin.pinned, pin.live_bytes)), pin.site, pin.partition)
    });
    Ok(account)
}

fn large_tier(root: &Root) -> (u64, u64) {
    (root.data + root.span, root.data + root.span + root.large_span)
}

fn pages_in(
    memory: &impl Memory,
    mappings: &[Mapping],
    (start, end): (u64, u64),
) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for (from, to) in mappings.iter().filter_map(|mapping| mapping.within(start, end)) {
        runs.extend(memory.pages(from, to)?);
    }
    Ok(runs)
}

fn bytes(runs: impl Iterator<Item = Run>) -> u64 {
    runs.map(|run| run.end - run.start).sum()
}

/// The parts of runs, which are in order, that lie between two addresses.
pub(crate) fn within(runs: &[Run], start: u64, end: u64) -> impl Iterator<Item = Run> {
    let first = runs.partition_point(|run| run.end <= start);
    runs.iter()
        .skip(first)
        .take_while(move |run| run.start < end)
        .map(move |run| Run { start: run.start.max(start), end: run.end.min(end) })
}

fn pin_of(pins: &mut HashMap<(u64, u32), Pin>, site: u64, partition: u32) -> &mut Pin {
    pins.entry((site, partition)).or_insert(Pin { site, partition, ..Pin::default() })
}

fn add_slab(
    account: &mut Account,
    pins: &mut HashMap<(u64, u32), Pin>,
    tables: &Tables,
    slab: &Slab<'_>,
    pages: &[Run],
    page: u64,
) {
    account.use_granules(slab.base, slab.base + slab.span);
    let slots: Vec<Slot> = (0..slab.slots).map(|slot| slab.slot(slot)).collect();
    let count = |what| slots.iter().filter(|&&slot| slot == what).count() as u64;
    let (live, remote, claimed) = (count(Slot::Live), count(Slot::Remote), count(Slot::Claimed));
    let (lent, quarantined) = (count(Slot::Lent), count(Slot::Quarantined));
    let free = slab.slots as u64 - live - remote - lent - quarantined - count(Slot::Reserved);
    account.live_blocks += live;
    account.live_bytes += live * slab.size;
    account.claimed_bytes += claimed * slab.size;
    account.uncollected_bytes += remote * slab.size;
    account.lent_slots += lent;
    account.lent_bytes += lent * slab.size;

    let mut split = Split::default();
    let mut pinned_pages = 0;
    for run in within(pages, slab.base, slab.base + slab.span) {
        for at in (run.start..run.end).step_by(page as usize) {
            let of_page = split_page(slab, &slots, at - slab.base, page);
            pinned_pages += u64::from(of_page.free_pinned > 0);
            split.add(&of_page);
        }
    }
    let pin = pin_of(pins, slab.site(), slab.partition());
    pin.pinned += split.free_pinned;
    pin.pages += pinned_pages;
    pin.live_bytes += live * slab.size;
    pin.live_blocks += live;
    pin.resident += split.sum();

    let owner = slab.owner();
    if owner == 0 && live == 0 {
        account.empty_slabs += split.sum();
        account.empty_slab_count += 1;
        return;
    }
    account.slabs.add(&split);
    account.slab_count += 1;
    account.free_bytes += free * slab.size;
    let number = tables.heap_number(owner);
    if let Some(thread) = number.and_then(|number| account.threads.get_mut(number)) {
        thread.slabs += 1;
        thread.live_blocks += live;
        thread.live_bytes += live * slab.size;
        thread.free_bytes += free * slab.size;
        thread.claimed_bytes += claimed * slab.size;
        thread.uncollected_bytes += remote * slab.size;
        thread.quarantined_bytes += quarantined * slab.size;
        thread.resident.add(&split);
    }
}

/// What the bytes of one page of a slab are; those behind the last slot count as free.
fn split_page(slab: &Slab<'_>, slots: &[Slot], offset: u64, page: u64) -> Split {
    let mut split = Split::default();
    let end = offset + page;
    let mut known = 0;
    let mut slot = offset / slab.size;
    while slot * slab.size < end && (slot as usize) < slots.len() {
        let from = (slot * slab.size).max(offset);
        let to = ((slot + 1) * slab.size).min(end);
        match slots[slot as usize] {
            Slot::Live => split.live += to - from,
            Slot::Remote => split.uncollected += to - from,
            Slot::Claimed => split.claimed += to - from,
            Slot::Lent => split.lent += to - from,
            Slot::Quarantined => split.quarantined += to - from,
            Slot::Reserved => split.reserved += to - from,
            Slot::Free => split.free_dirty += to - from,
        }
        known += to - from;
        slot += 1;
    }
    split.free_dirty += page - known;
    // Where pages are shared it is another slab's live slots that keep them.
    if split.live > 0 || split.lent > 0 {
        split.free_pinned = std::mem::take(&mut split.free_dirty);
    } else if split.quarantined > 0 {
        split.quarantined += std::mem::take(&mut split.free_dirty);
    }
    split
}

fn add_blocks(
    account: &mut Account,
    pins: &mut HashMap<(u64, u32), Pin>,
    blocks: &[Block],
    pages: &[Run],
) {
    for block in blocks {
        account.use_granules(block.base, block.base + block.extent.max(1));
        account.guards += block.extent - block.mapped.min(block.extent);
        let resident = |start, end| bytes(within(pages, start, end));
        let whole = resident(block.base, block.base + block.extent);
        if !block.live {
            account.large_kept += whole;
            account.large_kept_count += 1;
            continue;
        }
        let used = resident(block.base, block.base + block.usable);
        account.large_live += used;
        account.large_slack += whole - used.min(whole);
        account.large_count += 1;
        account.live_blocks += 1;
        account.live_bytes += block.usable;
        let pin = pin_of(pins, block.site, block.partition);
        pin.live_bytes += block.usable;
        pin.live_blocks += 1;
        pin.resident += whole;
    }
}
