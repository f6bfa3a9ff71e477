//! Allocation, growth and release of large blocks.

use super::class::{CLASS_BASE, large_class};
use super::figures::Figures;
use super::kept::Places;
use super::kept_blocks::Limits;
use super::pages::most_resident;
use super::spares::Spares;
use super::stacks::Stacks;
use super::units::{Frontier, Units};
use super::waiting::WaitingTable;
use super::{Block, Damage, Tally};
use crate::keyed::Key;
use crate::os::filter::Permit;
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::region::{Partition, Site};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use core::mem::offset_of;

/// Places to try when something foreign is in the way, and stack entries to try for an alignment.
pub(super) const TRIES: usize = 8;

/// Defines a view of all large blocks, whose methods are those of one concept, and the method of
/// `Blocks` that returns it.
macro_rules! view {
    ($visibility:vis $name:ident, $method:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name<'a>(&'a Blocks);

        impl Blocks {
            #[doc = $what]
            #[inline]
            $visibility fn $method(&self) -> $name<'_> {
                $name(self)
            }
        }
    };
}
pub(super) use view;

/// What changes; in the metadata tables, and zero at first.
#[derive(Debug)]
pub(super) struct State {
    figures: Figures,
    frontier: Frontier,
    pub(super) limits: Limits,
    /// Free blocks with a mapping.
    pub(super) places: Places,
    /// Live blocks with far more pages than they need.
    pub(super) spares: Spares,
    /// Random words drawn. Any thread; which one has which does not matter.
    pub(super) drawn: AtomicU64,
    /// Free blocks whose addresses wait.
    pub(super) waiting: WaitingTable,
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
    units: Units,
    stacks: Stacks,
    page_size: usize,
    state: *const State,
    /// Where blocks lie, and what is written before and behind them. Secure build only.
    key: Key,
    /// What each call site has ever had.
    tally: Tally,
}

impl Blocks {
    /// Bytes of the first table that `new` needs, zeroed. Every program writes to it.
    pub const STATE_BYTES: usize = size_of::<State>();

    /// Bytes of the second one for a tier of `span` bytes, zeroed.
    pub fn table_bytes(span: usize, partitions: usize) -> usize {
        Stacks::table_bytes(partitions) + Units::table_bytes(span)
    }

    /// Before anything is known: contains no address.
    pub const fn none() -> Blocks {
        Blocks {
            units: Units::none(),
            stacks: Stacks::none(),
            page_size: 4096,
            state: core::ptr::null(),
            key: Key::NONE,
            tally: Tally::none(),
        }
    }

    /// The blocks of a tier of `span` bytes from `base`, with descriptors from `blocks` on.
    ///
    /// # Safety
    /// 1. `state` and `tables` are the addresses of `STATE_BYTES` and of `table_bytes(span,
    ///    partitions)` zero bytes that live for ever, are aligned to 64, and belong to this object
    ///    alone.
    /// 2. The span, and as much below `blocks` as descriptors for it take, are address space for
    ///    this object alone. It and all other address space of the allocator are in `windows`.
    /// 3. `Layout::LARGE_FIRST` zero bytes from `blocks` on live for ever, are aligned to 64, and
    ///    belong to this object alone.
    pub unsafe fn new(
        os: &impl Os,
        (base, span): (usize, usize),
        blocks: usize,
        (state, stacks): (usize, usize),
        partitions: usize,
        windows: [(usize, usize); 2],
    ) -> Result<Blocks, Error> {
        let units = stacks + Stacks::table_bytes(partitions);
        let frontier = state + offset_of!(State, frontier);
        let random = os.random()?;
        Ok(Blocks {
            // SAFETY: (1) a separate piece of the caller's tables; (2), (3) the caller's.
            units: unsafe { Units::new((base, span), blocks, (frontier, units), random, windows) },
            // SAFETY: (1) as above.
            stacks: unsafe { Stacks::new(stacks, partitions) },
            page_size: os.page_size(),
            state: core::ptr::with_exposed_provenance(state),
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

    /// The units of address space, and the blocks in them.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// The counters of blocks and bytes.
    pub fn figures(&self) -> &Figures {
        &self.state().figures
    }

    /// Bytes that may be resident: of live blocks, what follows them, and what is kept; and of
    /// descriptors.
    pub fn counted_bytes(&self) -> usize {
        let figures = self.figures();
        figures.in_use() + figures.kept_bytes() + self.units.descriptor_bytes()
    }

    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
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
        site: Site,
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
        block.site.store(site.address(), Relaxed);
        block.set_replaces_slot(false);
        if SECURE {
            self.canaries().write(block, size);
        }
        self.count(os, site, partition, [1, size]);
        self.begin(block, size);
        Ok((self.placement().address(block), dirty))
    }

    /// A block out of what free blocks have: the one of the same partition, and of the same class
    /// or the next (decision 0069), whose pages fit best. Where there is none, or it has less than
    /// half of them: the pages of another. Nothing for a zero-size block, which has no pages.
    fn reuse(
        &self,
        os: &impl Os,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
    ) -> Option<(&Block, usize)> {
        if need.bytes == 0 {
            return None;
        }
        let fit = self.kept_blocks().best_fit(need);
        if let Some(donor) = fit.donor
            && let Some(found) = self.moves().take_over(os, donor, need, admit)
        {
            return Some(found);
        }
        let block = self.kept_blocks().take(fit.own?)?;
        let dirty = block.resident.load(Relaxed);
        if self.adapt(os, block, need.bytes, admit).is_err() {
            // A new mapping may have more luck, or else the request fails for good.
            self.pages().unmap(os, block);
            self.extents().push(block);
            return None;
        }
        Some((block, dirty))
    }

    /// A block in an extent without pages, and how many of its first bytes may be other than zero.
    /// The extent is outside the window if something foreign is wherever the window has room.
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
            foreign.into_iter().rev().flatten().for_each(|block| self.extents().put_back(block));
        }
        match mapped {
            Err(Error::Occupied) => self.map_outside(os, need, admit),
            done => done,
        }
    }

    /// As `map_vacant`, for a block outside the window.
    #[cold]
    #[inline(never)]
    fn map_outside(
        &self,
        os: &impl Os,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
    ) -> Result<(&Block, usize), Error> {
        let block = match self.extents().take_outside(os, need) {
            Err(_) if SECURE && self.waiting().stop(need.bytes) => {
                self.extents().take_outside(os, need)
            }
            block => block,
        };
        let block = block.map_err(|_| Error::NoMemory)?;
        self.placement().choose(block, need);
        let dirty = block.resident.load(Relaxed);
        match self.adapt(os, block, need.bytes, admit) {
            Ok(()) => Ok((block, dirty)),
            Err(_) => {
                self.extents().put_back_outside(os, block);
                Err(Error::NoMemory)
            }
        }
    }

    fn map_one_of<'a>(
        &'a self,
        os: &impl Os,
        need: &Need,
        admit: &impl Fn(usize) -> bool,
        foreign: &mut [Option<&'a Block>; TRIES],
    ) -> Result<(&'a Block, usize), Error> {
        for found in foreign {
            let block = match self.extents().take(os, need) {
                // Addresses that wait can be had back.
                Err(Error::NoMemory | Error::Occupied)
                    if SECURE && self.waiting().stop(need.bytes) =>
                {
                    self.extents().take(os, need)?
                }
                block => block?,
            };
            if SECURE && block.mapped() != 0 && !self.pages().is_shared(block) {
                // It could not be unmapped, at the limit of mappings, and lies where it lay.
                self.pages().unmap(os, block);
                if block.mapped() != 0 {
                    self.extents().push(block);
                    return Err(Error::NoMemory);
                }
            }
            self.placement().choose(block, need);
            let dirty = block.resident.load(Relaxed);
            match self.adapt(os, block, need.bytes, admit) {
                Ok(()) => return Ok((block, dirty)),
                Err(Error::Occupied) => *found = Some(block),
                Err(error) => {
                    self.extents().put_back(block);
                    return Err(error);
                }
            }
        }
        Err(Error::Occupied)
    }

    /// Maps a held, free block for `bytes` from whatever it has now, and gives back what it has far
    /// too much of, or, while the system is short of memory, everything else.
    fn adapt(
        &self,
        os: &impl Os,
        block: &Block,
        bytes: usize,
        admit: &impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let resident = block.resident.load(Relaxed);
        if self.kept_blocks().is_short() {
            self.pages().cut_mapping(os, block, bytes);
        } else if resident > most_resident(bytes) {
            self.pages().cut(os, block, bytes);
        }
        if !admit(block.resident.load(Relaxed).max(bytes)) {
            return Err(Error::NoMemory);
        }
        self.pages().map(os, block, bytes)?;
        if resident < bytes {
            // Not before: a request that is refused takes nothing from what is kept.
            self.kept_blocks().make_room(os, bytes);
        }
        Ok(())
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
        if SECURE && let Some(damage) = self.canaries().damage(block) {
            damaged(damage);
        }
        if !SECURE && self.settlers().leave(block, false) {
            return true;
        }
        self.end(block);
        if SECURE {
            if !self.holders().take_pages(os, block, permit) {
                self.guard_pages().make_inaccessible(os, block);
            }
            self.waiting().put(block);
            self.kept_blocks().hold_budget(os);
            return true;
        }
        self.give_back(os, block);
        true
    }

    /// Keeps the pages of a free block that the caller holds, or gives them back.
    pub(super) fn give_back(&self, os: &impl Os, block: &Block) {
        let resident = block.resident.load(Relaxed);
        // A zero-size one, requested by its alignment alone, has no mapping.
        let mapped = block.mapped.load(Relaxed) != 0;
        let too_large = resident > self.kept_blocks().budget();
        if !mapped || too_large || self.pages().is_shared(block) {
            if too_large {
                self.figures().refuse(resident);
            }
            self.pages().unmap(os, block);
            self.extents().push(block);
        } else {
            self.kept_blocks().note_free(block);
            self.kept_blocks().put(os, block);
        }
        self.kept_blocks().hold_budget(os);
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
        if SECURE && let Some(damage) = self.canaries().damage(block) {
            damaged(damage);
        }
        if !SECURE && self.settlers().leave(block, true) {
            return true;
        }
        self.end(block);
        // Free, and on no stack and in no place: no search finds it.
        if SECURE {
            self.guard_pages().make_inaccessible(os, block);
        } else {
            self.pages().unmap(os, block);
        }
        true
    }

    /// Counts blocks, and bytes, that a call site was given. Where the system is short of memory,
    /// the table of these counts does not take what was freed.
    pub(super) fn count(
        &self,
        os: &impl Os,
        site: Site,
        partition: Partition,
        [blocks, bytes]: [usize; 2],
    ) {
        let os = (!self.kept_blocks().is_short()).then_some(os);
        self.tally.add(os, site, partition, [blocks as u64, bytes as u64]);
    }

    /// A held block that is mapped for `bytes` becomes the program's.
    fn begin(&self, block: &Block, bytes: usize) {
        self.figures().count_allocation();
        self.begin_bytes(block, bytes);
        block.publish();
    }

    /// As `begin`, for a block that is live already or not to be published yet.
    pub(super) fn begin_bytes(&self, block: &Block, bytes: usize) {
        let resident = block.resident.load(Relaxed).max(self.placement().span(block, bytes));
        block.bytes.store(bytes, Relaxed);
        block.resident.store(resident, Relaxed);
        block.since.store(0, Relaxed);
        self.figures().begin(bytes, resident);
    }

    /// A live block is the holder's.
    pub(super) fn end(&self, block: &Block) {
        self.figures().end(block.bytes(), block.resident.load(Relaxed));
    }
}
