//! Allocation, growth and release of large blocks.

use super::class::{CLASS_BASE, LARGE_CLASSES, large_class};
use super::extents::CHUNK_SHIFT;
use super::kept::Places;
use super::waiting::Waiting;
use super::{Block, BlockState, Damage, Tally};
use crate::keyed::Key;
use crate::os::filter::Permit;
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::region::Partition;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use Ordering::Relaxed;

pub(super) const UNIT_SHIFT: u32 = 16;
/// Bytes in a unit of address space.
pub const UNIT: usize = 1 << UNIT_SHIFT;
/// Places to try when something foreign is in the way, and stack entries to try for an alignment.
pub(super) const TRIES: usize = 8;

/// Partitions that have stacks: in the secure build one more, which no program has (`held.rs`).
pub(super) const fn rows(partitions: usize) -> usize {
    partitions + SECURE as usize
}

/// Counters and frontiers; lives in the metadata tables, zero at first. Any thread adds to and
/// subtracts from any of them; they publish nothing, so their order does not matter, and a limit
/// that is held by them may be passed by what threads are doing at that moment.
#[derive(Debug)]
pub(super) struct State {
    /// Units handed out from the first one on.
    pub(super) next: AtomicUsize,
    /// Resident bytes of free blocks that no thread holds.
    pub(super) kept: AtomicUsize,
    /// Usable bytes of live blocks, and the most that they ever were.
    pub(super) live_bytes: AtomicUsize,
    pub(super) peak_bytes: AtomicUsize,
    /// The most usable bytes that were live in this period of `decay`, and in the last one.
    pub(super) recent: [AtomicUsize; 2],
    /// Resident bytes of live blocks behind what the program may use.
    pub(super) slack: AtomicUsize,
    /// Mapped bytes of blocks with a separate mapping.
    pub(super) mapped: AtomicUsize,
    /// How many of those there are.
    pub(super) separate: AtomicUsize,
    pub(super) live_blocks: AtomicUsize,
    /// Bytes mapped for descriptors.
    pub(super) descriptors: AtomicUsize,
    /// Not zero while as little is kept as can be.
    pub(super) lean: AtomicU32,
    /// Not zero while the system is short of memory.
    pub(super) short: AtomicU32,
    /// Not zero while the reclaimer's thread returns what is kept, whatever the program does.
    pub(super) reclaimed: AtomicU32,
    pub(super) allocations: AtomicU64,
    /// Frees ever, which is what time is measured in here.
    pub(super) frees: AtomicU64,
    /// The tick at which the last period of `decay` began, and what `frees` was then. One thread at
    /// a time: the one that has moved `period` on.
    pub(super) period: AtomicU32,
    pub(super) period_frees: AtomicU64,
    /// Free blocks with a mapping.
    pub(super) places: Places,
    /// Random words drawn. Any thread; which one has which does not matter.
    pub(super) drawn: AtomicU64,
    /// Free blocks whose addresses wait.
    pub(super) waiting: Waiting,
}

/// A request for a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) partition: Partition,
    pub(super) class: usize,
    /// Bytes that the program asks for; in the default build, whole pages.
    pub(super) size: usize,
    /// Whole pages.
    pub(super) bytes: usize,
    pub(super) align: usize,
}

/// All large blocks.
#[derive(Debug)]
pub struct Blocks {
    pub(super) base: usize,
    /// Units in the tier.
    pub(super) units: usize,
    /// The first unit in use, at a random place.
    pub(super) first: usize,
    pub(super) page_size: usize,
    pub(super) partitions: usize,
    /// Where the descriptor of unit 0 would be.
    pub(super) blocks: usize,
    pub(super) state: *const State,
    pub(super) stacks: *const AtomicU64,
    /// Two bits for each chunk of descriptors: mapped, and claimed by a thread that maps it. Any
    /// thread sets them; the thread that has claimed a chunk clears that bit if it cannot map it.
    pub(super) chunks: *const [AtomicU64; 2],
    /// Where blocks lie, and what is written before and behind them. Secure build only.
    pub(super) key: Key,
    /// What each call site has ever had.
    pub(super) tally: Tally,
}

impl Blocks {
    /// Bytes of tables that `new` needs for a tier of `span` bytes, zeroed.
    pub fn table_bytes(span: usize, partitions: usize) -> usize {
        let chunk_words = (span >> UNIT_SHIFT >> CHUNK_SHIFT) / 64 + 1;
        size_of::<State>().next_multiple_of(64)
            + (rows(partitions) * LARGE_CLASSES + 2 * chunk_words) * 8
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Blocks {
        Blocks {
            base: 0,
            units: 0,
            first: 0,
            page_size: 4096,
            partitions: 1,
            blocks: 0,
            state: core::ptr::null(),
            stacks: core::ptr::null(),
            chunks: core::ptr::null(),
            key: Key::NONE,
            tally: Tally::none(),
        }
    }

    /// The blocks of a tier of `span` bytes from `base`, with descriptors from `blocks` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes(span, partitions)` zero bytes that live for ever,
    ///    are aligned to 64, and belong to this object alone.
    /// 2. The span, and descriptors for it from `blocks` on, are address space for this object
    ///    alone.
    pub unsafe fn new(
        os: &impl Os,
        (base, span): (usize, usize),
        blocks: usize,
        partitions: usize,
        tables: usize,
    ) -> Result<Blocks, Error> {
        let units = span >> UNIT_SHIFT;
        // The first block lies anywhere in the first quarter.
        let first = ((u128::from(os.random()?) * (units as u128 / 4)) >> 64) as usize;
        let stacks = tables + size_of::<State>().next_multiple_of(64);
        let chunks = stacks + rows(partitions) * LARGE_CLASSES * 8;
        Ok(Blocks {
            base,
            units,
            first,
            page_size: os.page_size(),
            partitions,
            blocks,
            state: core::ptr::with_exposed_provenance(tables),
            stacks: core::ptr::with_exposed_provenance(stacks),
            chunks: core::ptr::with_exposed_provenance(chunks),
            key: if SECURE { Key::new(os)? } else { Key::NONE },
            tally: Tally::none(),
        })
    }

    /// These blocks, with a tally that counts them.
    pub fn with_tally(self, tally: Tally) -> Blocks {
        Blocks { tally, ..self }
    }

    /// What each call site has ever had.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    pub(super) fn stack(&self, partition: Partition, class: usize) -> &AtomicU64 {
        // SAFETY: `new` duty 1: there is one word for each partition and class.
        unsafe { &*self.stacks.add(partition.number() * LARGE_CLASSES + class) }
    }

    pub(super) fn block(&self, unit: usize) -> &Block {
        let address = self.blocks + unit * size_of::<Block>();
        // SAFETY: callers name units whose descriptors `reach` has mapped, or that `is_mapped`
        // confirms; zero bytes are a `Block`, and all its fields are atomics.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    pub(super) fn unit_of(&self, block: &Block) -> usize {
        ((&raw const *block).addr() - self.blocks) / size_of::<Block>()
    }

    /// The block that begins at an address of the tier.
    pub fn block_at(&self, address: usize) -> Option<&Block> {
        let offset = address.wrapping_sub(self.base);
        let unit = offset >> UNIT_SHIFT;
        if !SECURE && offset & (UNIT - 1) != 0 || !self.is_mapped(unit) {
            return None;
        }
        let begins = |block: &&Block| {
            // pairs: publish block. The lead was written before.
            block.state() != BlockState::None && block.lead() == offset & (UNIT - 1)
        };
        Some(self.block(unit)).filter(begins)
    }

    /// The block that an address lies inside, for naming what a wild pointer hit. Not fast.
    pub fn block_around(&self, address: usize) -> Option<&Block> {
        let offset = address.checked_sub(self.base)?;
        let mut unit = offset >> UNIT_SHIFT;
        while unit < self.units {
            if !self.is_mapped(unit) {
                // A block longer than a chunk covers chunks without descriptors.
                unit = (unit >> CHUNK_SHIFT << CHUNK_SHIFT).checked_sub(1)?;
                continue;
            }
            let block = self.block(unit);
            if block.state() != BlockState::None {
                let begin = unit << UNIT_SHIFT;
                return (offset - begin < block.extent()).then_some(block);
            }
            unit = unit.checked_sub(1)?;
        }
        None
    }

    /// A block of at least `size` bytes at a multiple of `align` (a power of two), and how many of
    /// its first bytes may be other than zero. `admit` returns true if there may be a block with
    /// the given number of resident bytes more than are counted at that moment.
    pub fn allocate(
        &self,
        os: &impl Os,
        size: usize,
        align: usize,
        partition: Partition,
        site: usize,
        admit: &impl Fn(usize) -> bool,
    ) -> Result<(usize, usize), Error> {
        let bytes = size.checked_next_multiple_of(self.page_size).ok_or(Error::NoMemory)?;
        let class = large_class(bytes.max(1 << CLASS_BASE | 1));
        let size = if SECURE { size } else { bytes };
        let need = Need { partition, class, size, bytes, align };
        let (block, dirty) = match self.reuse(os, &need, admit) {
            Some(found) => found,
            None => self.map_vacant(os, &need, admit)?,
        };
        block.site.store(site, Relaxed);
        if SECURE {
            self.write_canaries(block, size);
        }
        self.tally.made(os, site, partition, size);
        self.begin(block, size);
        Ok((self.address(block), dirty))
    }

    /// A block out of what free blocks have: the one of the same partition and class whose pages
    /// fit best, or, where there is none or it has less than half of them, the pages of another.
    fn reuse(
        &self,
        os: &impl Os,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
    ) -> Option<(&Block, usize)> {
        let fit = self.best_fit(need);
        if let Some(donor) = fit.donor
            && let Some(found) = self.take_over(os, donor, need, admit)
        {
            return Some(found);
        }
        let block = self.take_kept(fit.own?)?;
        let dirty = block.resident.load(Relaxed);
        if self.adapt(os, block, need.bytes, admit).is_err() {
            // A new mapping may have more luck, or else the request fails for good.
            self.drop_pages(os, block);
            self.push_free(block);
            return None;
        }
        Some((block, dirty))
    }

    /// A block in an extent without pages, and how many of its first bytes may be other than zero.
    fn map_vacant(
        &self,
        os: &impl Os,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
    ) -> Result<(&Block, usize), Error> {
        // Where something foreign is: those extents are left alone, unless it is everywhere.
        let mut foreign = [None; TRIES];
        let mapped = self.map_one_of(os, need, admit, &mut foreign);
        if mapped.is_err() {
            foreign.into_iter().rev().flatten().for_each(|block| self.put_vacant(block));
        }
        mapped
    }

    fn map_one_of<'a>(
        &'a self,
        os: &impl Os,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
        foreign: &mut [Option<&'a Block>; TRIES],
    ) -> Result<(&'a Block, usize), Error> {
        for found in foreign {
            let block = match self.vacant(os, need) {
                // Addresses that wait can be had back.
                Err(Error::NoMemory) if SECURE && self.stop_waiting(need.bytes) => {
                    self.vacant(os, need)?
                }
                block => block?,
            };
            if SECURE && block.mapped() != 0 && !self.is_shared(block) {
                // It could not be unmapped, at the limit of mappings, and lies where it lay.
                self.drop_pages(os, block);
                if block.mapped() != 0 {
                    self.push_free(block);
                    return Err(Error::NoMemory);
                }
            }
            self.choose_place(block, need);
            let dirty = block.resident.load(Relaxed);
            match self.adapt(os, block, need.bytes, admit) {
                Ok(()) => return Ok((block, dirty)),
                Err(Error::Occupied) => *found = Some(block),
                Err(error) => {
                    self.put_vacant(block);
                    return Err(error);
                }
            }
        }
        Err(Error::NoMemory)
    }

    /// Frees a block. Returns false if it is free already. In the secure builds `damaged` is called
    /// with the damage beside the block, if there is any. Pages are kept only with a permit for the
    /// system call.
    pub fn free<'a>(
        &self,
        os: &impl Os,
        block: &Block,
        permit: &dyn Fn() -> Option<Permit<'a>>,
        damaged: impl FnOnce(Damage),
    ) -> bool {
        if !block.take() {
            return false;
        }
        if SECURE && let Some(damage) = self.damage(block) {
            damaged(damage);
        }
        self.end(block);
        if SECURE {
            if !self.transfer_pages(os, block, permit) {
                self.make_inaccessible(os, block);
            }
            self.wait(block);
            self.hold_budget(os);
            return true;
        }
        let resident = block.resident.load(Relaxed);
        // A zero-size one, requested by its alignment alone, has no mapping.
        let mapped = block.mapped.load(Relaxed) != 0;
        if !mapped || self.is_shared(block) || resident > self.budget() {
            self.drop_pages(os, block);
            self.push_free(block);
            self.hold_budget(os);
            return true;
        }
        block.since.store(self.state().frees.fetch_add(1, Relaxed), Relaxed);
        self.put_kept(os, block);
        self.hold_budget(os);
        true
    }

    /// As `free`, and the address is never anybody's again.
    pub fn free_permanently(
        &self,
        os: &impl Os,
        block: &Block,
        damaged: impl FnOnce(Damage),
    ) -> bool {
        if !block.take() {
            return false;
        }
        if SECURE && let Some(damage) = self.damage(block) {
            damaged(damage);
        }
        self.end(block);
        // Free, and on no stack and in no place: no search finds it.
        if SECURE {
            self.make_inaccessible(os, block);
        } else {
            self.drop_pages(os, block);
        }
        true
    }
}
