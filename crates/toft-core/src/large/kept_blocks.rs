//! How much of free blocks stays resident: which of them wait, in what order they give back, and
//! under which limits.
//!
//! ```text
//! live | slack | kept     <= the most that was ever live, and a quarter
//!              | kept     <= 32 MiB, and 1 MiB more than is live; or
//! live         | kept     <= the most that was live in this period and the last, and a quarter,
//!                            and 1 MiB
//! ```
//!
//! In the secure build it is an eighth in place of a quarter.
//!
//! The last limit holds while the reclaimer's thread runs: it returns what waits longer than two
//! periods, even if the program sleeps. What was in use a moment ago is usually wanted again. Up to
//! 32 MiB it also holds without the thread in a program that has freed many bytes for which there
//! was no room (`Figures::extent_of_use`). Then the calls of the program return what waits.

use super::Block;
use super::blocks::{Blocks, Need, view};
use super::kept::{Kept, PLACES, Places};
use super::moves::MOVE_LEAST;
use super::pages::most_resident;
use super::units::UNIT;
use crate::os::Os;
use crate::policy::SECURE;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64, StoreChanged};

/// Bytes of free blocks that are kept whatever is live. As many as are live are kept on top, up to
/// `KEEP_USUAL` together.
const KEEP_LEAST: usize = 1 << 20;
const KEEP_USUAL: usize = 32 << 20;
/// Live and kept bytes together may be larger than the most that were ever live by this share, as a
/// divisor (decision 0065).
const ROOM_SLACK: usize = if SECURE { 8 } else { 4 };
/// What is mapped may be larger than the most that was ever live by this factor: address space, of
/// which only pages that were written to cost memory.
const MAPPED_FACTOR: usize = 2;
/// Bytes that are given back at once, if there are so many.
const CUT_LEAST: usize = 256 << 10;

/// Bytes that are asked for, for each one that is moved, at most: a request that the system may
/// refuse costs no kept block for a share of its pages that makes no difference.
const MOVE_SHARE: usize = 64;

/// Bytes that one call of [`KeptBlocks::decay`] gives back at most.
const DECAY_MOST: usize = 16 << 20;

/// The most that may be live and kept if `bytes` were live.
fn with_slack(bytes: usize) -> usize {
    bytes + bytes / ROOM_SLACK
}

/// What decides how much is kept; in the metadata tables, and zero at first. Any thread writes.
#[derive(Debug)]
pub(super) struct Limits {
    /// Not zero while as little is kept as can be.
    lean: AtomicU32,
    /// A [`ReturnedBy`], as a number.
    returned_by: AtomicU32,
    /// Not zero while the system is short of memory.
    short: AtomicU32,
    /// Frees ever, which is what time is measured in here.
    frees: AtomicU64,
    /// The tick at which the last period of `decay` began, and what `frees` was then. One thread at
    /// a time: the one that has moved `period` on.
    period: AtomicU32,
    period_frees: AtomicU64,
}

/// What returns blocks that have waited for two periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ReturnedBy {
    /// Nothing does, or the program is small.
    Nothing = 0,
    /// The calls of the program.
    Calls = 1,
    /// The reclaimer's thread, whatever the program does.
    Thread = 2,
}

/// What a search has found for a request.
#[derive(Debug, Default)]
pub(super) struct Fit {
    /// The best block of the same partition, and of the same class or the next.
    pub(super) own: Option<Kept>,
    /// A block whose last pages are to be moved to the new one: it has more of those that are
    /// needed than `own` has, by far, or it is `own` and has far too many.
    pub(super) donor: Option<Kept>,
}

view!(pub KeptBlocks, kept_blocks, "The free blocks with a mapping, and how many there may be.");

impl<'a> KeptBlocks<'a> {
    fn places(self) -> &'a Places {
        &self.0.state().places
    }

    fn limits(self) -> &'a Limits {
        &self.0.state().limits
    }

    /// Which waiting blocks suit a request. A hint: no thread holds them yet.
    pub(super) fn best_fit(self, need: &Need) -> Fit {
        // A block that has nearly enough is as good as one that has enough.
        let bytes = need.bytes & !(UNIT - 1);
        // What waits in the secure build is unowned.
        let own = (need.partition, need.class);
        let [own, any] = if SECURE {
            self.places().best(bytes, own, |_| false)
        } else if need.align <= UNIT {
            self.places().best(bytes, own, |_| true)
        } else {
            let is_aligned = |unit| self.0.units().extent_address(unit) & (need.align - 1) == 0;
            self.places().best(bytes, own, is_aligned)
        };
        let resident = |kept: Option<Kept>| kept.map_or(0, Kept::resident);
        let enough = resident(own) >= need.bytes / 2;
        let gain = resident(any).min(need.bytes) >= 2 * resident(own) + MOVE_LEAST;
        let worth_it = need.bytes / MOVE_SHARE <= resident(any);
        let donor = any.filter(|_| !enough && gain && worth_it);
        // What has far too much is split, and keeps its first pages for another request.
        let split = own.filter(|own| own.resident() > most_resident(need.bytes));
        Fit { own, donor: donor.or(split) }
    }

    /// Takes a block out of its place, if it is still there.
    pub(super) fn take(self, kept: Kept) -> Option<&'a Block> {
        let taken = self.places().take(kept);
        let block = taken.then(|| self.0.units().block(kept.unit()))?;
        self.0.figures().take(block.resident.load(Relaxed));
        Some(block)
    }

    /// Puts a held, free block with a mapping where it is found again: in a place, from which the
    /// oldest must go if there is none, else, without its pages, on its stack.
    pub(super) fn put(self, os: &impl Os, block: &Block) {
        for _ in 0..2 {
            if self.put_in_place(block) {
                return;
            }
            if let Some(oldest) = self.oldest(|_| true) {
                self.release(os, oldest);
            }
        }
        self.0.pages().unmap(os, block);
        self.0.extents().push(block);
    }

    fn put_in_place(self, block: &Block) -> bool {
        let (figures, resident) = (self.0.figures(), block.resident.load(Relaxed));
        let class = block.class();
        // Before it can be taken.
        figures.put(resident);
        let put = self.places().put(self.0.units().of(block), block.partition(), class, resident);
        if !put {
            figures.take(resident);
        }
        put
    }

    /// The waiting block that was freed first, among those that are `wanted`.
    fn oldest(self, wanted: impl Fn(&Block) -> bool) -> Option<Kept> {
        let all = self.places().all().filter(|kept| wanted(self.0.units().block(kept.unit())));
        all.min_by_key(|kept| self.0.units().block(kept.unit()).since.load(Relaxed))
    }

    /// Unmaps a waiting block; returns the number of bytes that may have had pages.
    fn release(self, os: &impl Os, kept: Kept) -> usize {
        let Some(block) = self.take(kept) else { return 0 };
        let resident = block.resident.load(Relaxed);
        self.0.pages().unmap(os, block);
        let left = block.resident.load(Relaxed);
        // What could not be unmapped is tried again later.
        if block.mapped.load(Relaxed) == 0 || !self.put_in_place(block) {
            self.0.extents().push(block);
        }
        resident - left
    }

    /// Resident bytes that free blocks may have now.
    pub(super) fn budget(self) -> usize {
        let limits = self.limits();
        if limits.lean.load(Relaxed) != 0 {
            return KEEP_LEAST;
        }
        let live = self.0.figures().live_bytes();
        let bytes = KEEP_USUAL.min(KEEP_LEAST.saturating_add(live));
        if !self.is_reclaimed() {
            return bytes;
        }
        let recent = with_slack(self.0.figures().recent_bytes());
        let recent = KEEP_LEAST + recent.saturating_sub(live);
        // A program that sleeps calls nothing.
        bytes.max(if self.is_reclaimed_asleep() { recent } else { recent.min(KEEP_USUAL) })
    }

    /// After a free: what waits is held to its limits.
    pub(super) fn hold_budget(self, os: &impl Os) {
        let figures = self.0.figures();
        if let Some(excess) = figures.kept_bytes().checked_sub(self.budget()) {
            figures.refuse(excess);
            self.release_bytes(os, excess);
        }
        let most = figures.peak_bytes() * MAPPED_FACTOR + KEEP_LEAST;
        for _ in 0..PLACES {
            if figures.separately_mapped() <= most {
                break;
            }
            let empty = self.oldest(|block| block.resident.load(Relaxed) == 0);
            let Some(oldest) = empty.or_else(|| self.oldest(|_| true)) else { break };
            self.release(os, oldest);
        }
    }

    /// Called before a block that the caller holds gets `bytes` resident. Together with what is
    /// kept, that must not make the process larger than its live blocks have ever made it, or only
    /// by little.
    pub(super) fn make_room(self, os: &impl Os, bytes: usize) {
        let figures = self.0.figures();
        let kept = figures.kept_bytes();
        let has_spares = self.0.settlers().are_there();
        if kept == 0 && !has_spares {
            return;
        }
        let wanted = figures.in_use().saturating_add(kept).saturating_add(bytes);
        if let Some(excess) = wanted.checked_sub(with_slack(figures.peak_bytes())) {
            self.release_bytes(os, excess.min(kept));
            if excess > kept && has_spares {
                self.0.settlers().trim_before(os, self.now().wrapping_add(1), usize::MAX);
            }
        }
    }

    /// Keeps as little as can be from now on, or as much as usual.
    pub fn set_lean(self, lean: bool) {
        self.limits().lean.store_changed(u32::from(lean), Relaxed);
    }

    /// Notes that the system has refused memory, or that it grants memory again.
    pub fn set_short(self, short: bool) {
        self.limits().short.store_changed(u32::from(short), Relaxed);
    }

    /// Returns true while the system is short of memory. No block then gets more than it needs.
    pub(super) fn is_short(self) -> bool {
        self.limits().short.load(Relaxed) != 0
    }

    /// Notes what returns the blocks that wait. If anything does, more may wait.
    pub fn set_returned_by(self, what: ReturnedBy) {
        self.limits().returned_by.store_changed(what as u32, Relaxed);
    }

    /// Returns true while something returns the blocks that wait.
    pub(super) fn is_reclaimed(self) -> bool {
        self.limits().returned_by.load(Relaxed) != ReturnedBy::Nothing as u32
    }

    /// Returns true while something does so even if the program sleeps.
    pub(super) fn is_reclaimed_asleep(self) -> bool {
        self.limits().returned_by.load(Relaxed) == ReturnedBy::Thread as u32
    }

    /// Gives back `bytes` of waiting blocks, the last pages of the oldest first.
    pub fn release_bytes(self, os: &impl Os, bytes: usize) {
        let mut left = bytes;
        for _ in 0..2 * PLACES {
            if left == 0 {
                break;
            }
            let Some(oldest) = self.oldest(|block| block.resident.load(Relaxed) != 0) else {
                break;
            };
            let Some(block) = self.take(oldest) else { continue };
            let resident = block.resident.load(Relaxed);
            let whole = left.max(CUT_LEAST).checked_next_multiple_of(self.0.page_size());
            let stays = resident.saturating_sub(whole.unwrap_or(resident));
            // SAFETY: (1) the block is free and held.
            let gone =
                unsafe { os.discard(self.0.placement().start(block) + stays, resident - stays) };
            if gone.is_ok() {
                block.resident.store(stays, Relaxed);
                left = left.saturating_sub(resident - stays);
                self.put(os, block);
            } else {
                // Locked pages cannot be discarded, but unmapped.
                self.0.pages().unmap(os, block);
                left = left.saturating_sub(resident - block.resident.load(Relaxed));
                self.0.extents().push(block);
            }
        }
    }

    /// Gives back everything of free blocks, and what live ones have far too much of. Returns the
    /// number of bytes that may have had pages.
    pub fn unmap_all(self, os: &impl Os) -> usize {
        let trimmed = self.0.settlers().trim_before(os, self.now().wrapping_add(1), usize::MAX);
        trimmed + self.places().all().map(|kept| self.release(os, kept)).sum::<usize>()
    }

    /// Whether something is left for `decay_all`.
    pub fn have_more(self) -> bool {
        self.0.figures().kept_bytes() != 0 || self.0.settlers().are_there()
    }

    /// Gives back what was freed in the period before the last one, or earlier, if this one has
    /// lasted `ticks`. Costs a comparison if nothing is due.
    #[inline]
    pub fn decay(self, os: &impl Os, ticks: u32) {
        let now = os.ticks();
        if now.wrapping_sub(self.limits().period.load(Relaxed)) >= ticks {
            self.begin_period(os, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_period(self, os: &impl Os, now: u32) {
        let limits = self.limits();
        let last = limits.period.load(Relaxed);
        if limits.period.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let before = limits.period_frees.load(Relaxed);
        let trimmed = self.0.settlers().trim_before(os, before, DECAY_MOST);
        if trimmed + self.release_before(os, before, DECAY_MOST) >= DECAY_MOST {
            // There is more: the period is not over.
            limits.period.store(last, Relaxed);
        } else {
            limits.period_frees.store(self.now(), Relaxed);
            self.0.figures().begin_period();
        }
    }

    /// If this period has lasted `ticks`, begins another, and gives back everything from before the
    /// last one. Returns the number of bytes that may have had pages.
    pub fn decay_all(self, os: &impl Os, ticks: u32) -> usize {
        let limits = self.limits();
        if os.ticks().wrapping_sub(limits.period.load(Relaxed)) < ticks {
            return 0;
        }
        self.0.figures().begin_period();
        let before = limits.period_frees.load(Relaxed);
        let trimmed = self.0.settlers().trim_before(os, before, usize::MAX);
        let released = self.release_before(os, before, usize::MAX);
        limits.period.store(os.ticks(), Relaxed);
        limits.period_frees.store(self.now(), Relaxed);
        trimmed + released
    }

    /// In the child of a fork: the reclaimer's thread is not here.
    pub fn repair(self, os: &impl Os) {
        self.set_lean(false);
        self.set_returned_by(ReturnedBy::Nothing);
        self.0.settlers().repair(os);
    }

    /// Notes when a held block was freed, before it is put.
    pub(super) fn note_free(self, block: &Block) {
        block.since.store(self.limits().frees.fetch_add(1, Relaxed), Relaxed);
    }

    /// Says when now is, in frees: what `release_before` compares with.
    pub fn now(self) -> u64 {
        self.limits().frees.load(Relaxed)
    }

    /// Gives back everything of blocks that were freed before `time`, an answer of `now`, the
    /// oldest first, until `bytes` went. Any thread, at any time. Returns the number of bytes that
    /// may have had pages.
    pub fn release_before(self, os: &impl Os, time: u64, bytes: usize) -> usize {
        let mut gone = 0;
        for _ in 0..PLACES {
            let Some(oldest) = self.oldest(|block| block.since.load(Relaxed) < time) else { break };
            if gone >= bytes {
                break;
            }
            gone += self.release(os, oldest);
        }
        gone
    }
}
