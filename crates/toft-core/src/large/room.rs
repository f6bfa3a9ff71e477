//! How much of free blocks stays resident: which of them wait, in what order they give back, and
//! under which limits.
//!
//! ```text
//! live | slack | kept     <= the most that was ever live, and an eighth
//!              | kept     <= 32 MiB, and 1 MiB more than is live; or
//! live         | kept     <= the most that was live in this period and the last, and 1 MiB
//! ```
//!
//! The last limit holds while the reclaimer's thread runs: it returns what waits longer than two
//! periods, even if the program sleeps. What was in use a moment ago is usually wanted again.

use super::Block;
use super::blocks::{Blocks, Need, UNIT, UNIT_SHIFT};
use super::kept::{Kept, PLACES};
use crate::os::Os;
use crate::policy::SECURE;
use crate::sync::Ordering::Relaxed;
use crate::sync::StoreChanged;

/// Bytes of free blocks that are kept whatever is live. As many as are live are kept on top, up to
/// `KEEP_USUAL` together.
const KEEP_LEAST: usize = 1 << 20;
const KEEP_USUAL: usize = 32 << 20;
/// Live and kept bytes together may be larger than the most that were ever live by this share, as a
/// divisor (decision 0010).
const ROOM_SLACK: usize = 8;
/// What is mapped may be larger than the most that was ever live by this factor: address space, of
/// which only pages that were written to cost memory.
const MAPPED_FACTOR: usize = 2;
/// Bytes that are given back at once, if there are so many.
const CUT_LEAST: usize = 256 << 10;

/// Bytes of pages that are worth moving: it costs about as much as ten faults. A page that is not
/// touched costs no fault either, so it is done only where there is much to be had.
pub(super) const MOVE_LEAST: usize = 64 << 10;
/// Bytes that are asked for, for each one that is moved, at most: a request that the system may
/// refuse costs no kept block for a share of its pages that makes no difference.
const MOVE_SHARE: usize = 64;

/// Bytes that one call of [`Blocks::decay`] gives back at most.
const DECAY_MOST: usize = 16 << 20;

/// What a search has found for a request.
#[derive(Debug, Default)]
pub(super) struct Fit {
    /// The best block of the same partition and class.
    pub(super) own: Option<Kept>,
    /// A block that has more of the pages that are needed than `own` has, by far.
    pub(super) donor: Option<Kept>,
}

/// The best of some blocks by resident bytes: the smallest that has enough, else the largest.
#[derive(Clone, Copy, Debug)]
struct Best {
    kept: Option<Kept>,
    /// What is better is less; `usize::MAX` of none.
    score: usize,
}

impl Best {
    const NONE: Best = Best { kept: None, score: usize::MAX };
    /// Above every difference of a block that has enough.
    const LACKING: usize = 1 << (usize::BITS - 2);

    #[inline(always)]
    fn score(resident: usize, bytes: usize) -> usize {
        let more = resident.wrapping_sub(bytes);
        if resident >= bytes { more } else { Best::LACKING.wrapping_sub(more) }
    }

    #[inline(always)]
    fn offer(&mut self, kept: Kept, score: usize) {
        if score < self.score {
            *self = Best { kept: Some(kept), score };
        }
    }

    fn resident(self) -> usize {
        self.kept.map_or(0, Kept::resident)
    }
}

impl Blocks {
    /// Which waiting blocks suit a request. A hint: no thread holds them yet.
    pub(super) fn best_fit(&self, need: &Need) -> Fit {
        let (mut own, mut any) = (Best::NONE, Best::NONE);
        // A block that has nearly enough is as good as one that has enough.
        let bytes = need.bytes & !(UNIT - 1);
        for kept in self.state().places.all() {
            // Which of them it is cannot be predicted, so nothing branches on it.
            let score = Best::score(kept.resident(), bytes);
            let aligned = (self.base + (kept.unit() << UNIT_SHIFT)) & (need.align - 1) == 0;
            // What waits in the secure build is unowned.
            let is_own = !SECURE & kept.is_of(need.partition, need.class) & aligned;
            any.offer(kept, score);
            own.offer(kept, if is_own { score } else { usize::MAX });
        }
        let enough = own.resident() >= need.bytes / 4;
        let gain = any.resident().min(need.bytes) >= 2 * own.resident() + MOVE_LEAST;
        let worth_it = need.bytes / MOVE_SHARE <= any.resident();
        let donor = any.kept.filter(|_| !enough && gain && worth_it);
        Fit { own: own.kept, donor }
    }

    /// Takes a block out of its place, if it is still there.
    pub(super) fn take_kept(&self, kept: Kept) -> Option<&Block> {
        let taken = self.state().places.take(kept);
        let block = taken.then(|| self.block(kept.unit()))?;
        self.state().kept.fetch_sub(block.resident.load(Relaxed), Relaxed);
        Some(block)
    }

    /// Puts a held, free block with a mapping where it is found again: in a place, from which the
    /// oldest must go if there is none, else, without its pages, on its stack.
    pub(super) fn put_kept(&self, os: &impl Os, block: &Block) {
        for _ in 0..2 {
            if self.put_in_place(block) {
                return;
            }
            if let Some(oldest) = self.oldest(|_| true) {
                self.release(os, oldest);
            }
        }
        self.drop_pages(os, block);
        self.push_free(block);
    }

    fn put_in_place(&self, block: &Block) -> bool {
        let (state, resident) = (self.state(), block.resident.load(Relaxed));
        let class = block.class();
        // Before it can be taken.
        state.kept.fetch_add(resident, Relaxed);
        let put = state.places.put(self.unit_of(block), block.partition(), class, resident);
        if !put {
            state.kept.fetch_sub(resident, Relaxed);
        }
        put
    }

    /// The waiting block that was freed first, among those that are `wanted`.
    fn oldest(&self, wanted: impl Fn(&Block) -> bool) -> Option<Kept> {
        let all = self.state().places.all().filter(|kept| wanted(self.block(kept.unit())));
        all.min_by_key(|kept| self.block(kept.unit()).since.load(Relaxed))
    }

    /// Unmaps a waiting block; returns the number of bytes that may have had pages.
    fn release(&self, os: &impl Os, kept: Kept) -> usize {
        let Some(block) = self.take_kept(kept) else { return 0 };
        let resident = block.resident.load(Relaxed);
        self.drop_pages(os, block);
        let left = block.resident.load(Relaxed);
        // What could not be unmapped is tried again later.
        if block.mapped.load(Relaxed) == 0 || !self.put_in_place(block) {
            self.push_free(block);
        }
        resident - left
    }

    /// Resident bytes that free blocks may have now.
    pub(super) fn budget(&self) -> usize {
        let state = self.state();
        if state.lean.load(Relaxed) != 0 {
            return KEEP_LEAST;
        }
        let live = state.live_bytes.load(Relaxed);
        let bytes = KEEP_USUAL.min(KEEP_LEAST.saturating_add(live));
        if state.reclaimed.load(Relaxed) != 0 {
            let recent = state.recent.iter().map(|most| most.load(Relaxed)).fold(0, usize::max);
            return bytes.max(KEEP_LEAST + recent.saturating_sub(live));
        }
        bytes
    }

    /// After a free: what waits is held to its limits.
    pub(super) fn hold_budget(&self, os: &impl Os) {
        let state = self.state();
        if let Some(excess) = state.kept.load(Relaxed).checked_sub(self.budget()) {
            self.release_kept(os, excess);
        }
        let most = state.peak_bytes.load(Relaxed) * MAPPED_FACTOR + KEEP_LEAST;
        for _ in 0..PLACES {
            if state.mapped.load(Relaxed) <= most {
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
    pub(super) fn make_room(&self, os: &impl Os, bytes: usize) {
        let state = self.state();
        let kept = state.kept.load(Relaxed);
        if kept == 0 {
            return;
        }
        let peak = state.peak_bytes.load(Relaxed);
        let others = state.live_bytes.load(Relaxed) + state.slack.load(Relaxed);
        let wanted = others.saturating_add(kept).saturating_add(bytes);
        if let Some(excess) = wanted.checked_sub(peak + peak / ROOM_SLACK) {
            self.release_kept(os, excess.min(kept));
        }
    }

    /// Keeps as little as can be from now on, or as much as usual.
    pub fn set_lean(&self, lean: bool) {
        self.state().lean.store_changed(u32::from(lean), Relaxed);
    }

    /// Notes that the system has refused memory, or that it grants memory again.
    pub fn set_short(&self, short: bool) {
        self.state().short.store_changed(u32::from(short), Relaxed);
    }

    /// Notes that the reclaimer's thread returns what is kept, so that more may wait, or that none
    /// does.
    pub fn set_reclaimed(&self, reclaimed: bool) {
        self.state().reclaimed.store_changed(u32::from(reclaimed), Relaxed);
    }

    /// A period begins: what is live now is the most of it so far.
    fn begin_recent(&self) {
        let state = self.state();
        let [this, last] = &state.recent;
        last.store(this.swap(state.live_bytes.load(Relaxed), Relaxed), Relaxed);
    }

    /// Gives back `bytes` of waiting blocks, the last pages of the oldest first.
    pub fn release_kept(&self, os: &impl Os, bytes: usize) {
        let mut left = bytes;
        for _ in 0..2 * PLACES {
            if left == 0 {
                break;
            }
            let Some(oldest) = self.oldest(|block| block.resident.load(Relaxed) != 0) else {
                break;
            };
            let Some(block) = self.take_kept(oldest) else { continue };
            let resident = block.resident.load(Relaxed);
            let whole = left.max(CUT_LEAST).checked_next_multiple_of(self.page_size);
            let stays = resident.saturating_sub(whole.unwrap_or(resident));
            // SAFETY: (1) the block is free and held.
            let gone = unsafe { os.discard(self.start(block) + stays, resident - stays) };
            if gone.is_ok() {
                block.resident.store(stays, Relaxed);
                left = left.saturating_sub(resident - stays);
                self.put_kept(os, block);
            } else {
                // Locked pages cannot be discarded, but unmapped.
                self.drop_pages(os, block);
                left = left.saturating_sub(resident - block.resident.load(Relaxed));
                self.push_free(block);
            }
        }
    }

    /// Gives back everything of free blocks; returns the number of bytes that may have had pages.
    pub fn drop_kept(&self, os: &impl Os) -> usize {
        self.state().places.all().map(|kept| self.release(os, kept)).sum()
    }

    /// Gives back what was freed in the period before the last one, or earlier, if this one has
    /// lasted `ticks`. Costs a comparison if nothing is due.
    #[inline]
    pub fn decay(&self, os: &impl Os, ticks: u32) {
        let now = os.ticks();
        if now.wrapping_sub(self.state().period.load(Relaxed)) >= ticks {
            self.begin_period(os, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_period(&self, os: &impl Os, now: u32) {
        let state = self.state();
        let last = state.period.load(Relaxed);
        if state.period.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let before = state.period_frees.load(Relaxed);
        if self.release_before(os, before, DECAY_MOST) >= DECAY_MOST {
            // There is more: the period is not over.
            state.period.store(last, Relaxed);
        } else {
            state.period_frees.store(self.now(), Relaxed);
            self.begin_recent();
        }
    }

    /// If this period has lasted `ticks`, begins another, and gives back everything from before the
    /// last one.
    pub fn decay_all(&self, os: &impl Os, ticks: u32) {
        let state = self.state();
        if os.ticks().wrapping_sub(state.period.load(Relaxed)) < ticks {
            return;
        }
        self.begin_recent();
        self.release_before(os, state.period_frees.load(Relaxed), usize::MAX);
        state.period.store(os.ticks(), Relaxed);
        state.period_frees.store(self.now(), Relaxed);
    }

    /// Resident bytes of free blocks.
    pub fn kept_bytes(&self) -> usize {
        self.state().kept.load(Relaxed)
    }

    /// Says when now is, in frees: what `release_before` compares with.
    pub fn now(&self) -> u64 {
        self.state().frees.load(Relaxed)
    }

    /// Gives back everything of blocks that were freed before `time`, an answer of `now`, the
    /// oldest first, until `bytes` went. Any thread, at any time. Returns the number of bytes that
    /// may have had pages.
    pub fn release_before(&self, os: &impl Os, time: u64, bytes: usize) -> usize {
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
