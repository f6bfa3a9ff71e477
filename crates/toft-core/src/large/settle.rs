//! Live blocks with far more pages than they need, so that they grow without a call. They are
//! trimmed if they stay small.
//!
//! A vector that is filled by `realloc`, and freed, and filled again would have the kernel clear
//! the same pages each time. Copied once, while it is small, to a free block with far more pages,
//! it grows to its former size without a fault. A vector that the program makes smaller keeps its
//! pages for the same reason (decision 0066).

use super::Block;
use super::blocks::{Blocks, view};
use super::kept::Kept;
use super::pages::most_after_shrinking;
use super::spares::{Spares, Trimmed};
use crate::os::Os;
use crate::region::Partition;
use crate::sync::Ordering::Relaxed;

/// How many times its size a block may be given, at least and at most. Less is not worth the copy.
/// With more, a small block would take what a large one will want.
const SETTLE_LEAST: usize = 2;
const SETTLE_MOST: usize = 16;

view!(pub(super) Settlers, settlers, "The live blocks with far more pages than they need.");

impl<'a> Settlers<'a> {
    fn spares(self) -> &'a Spares {
        &self.0.state().spares
    }

    /// Copies a held block that grows to `bytes` into a free one of its partition, if there is one
    /// with far more pages. Returns where the block is then. Frees the old one.
    ///
    /// It is done only while the reclaimer runs, which gives back what is not used.
    pub(super) fn settle(
        self,
        os: &impl Os,
        block: &Block,
        bytes: usize,
        admit: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let kept = self.0.kept_blocks();
        let home = kept.take(self.spacious(block.partition(), bytes)?)?;
        let unit = self.0.units().of(home);
        if !admit(home.resident.load(Relaxed)) || !self.spares().note(unit, kept.now()) {
            kept.put(os, home);
            return None;
        }
        let (from, to) = (self.0.placement().address(block), self.0.placement().address(home));
        let source: *const u8 = core::ptr::with_exposed_provenance(from);
        let target: *mut u8 = core::ptr::with_exposed_provenance_mut(to);
        // SAFETY: two blocks that the caller holds. Both have pages for the old size.
        unsafe { core::ptr::copy_nonoverlapping(source, target, block.bytes()) };
        home.site.store(block.site().address(), Relaxed);
        self.0.begin_bytes(home, bytes);
        home.publish();
        self.0.give_back(os, block);
        Some(to)
    }

    /// The number of bytes that stay with a held block that the program makes smaller, until it is
    /// trimmed.
    pub(super) fn stays_for_now(self, block: &Block, bytes: usize) -> usize {
        let kept = self.0.kept_blocks();
        let most = bytes.saturating_mul(SETTLE_MOST);
        let waits = kept.is_reclaimed_asleep()
            && !kept.is_short()
            && self.spares().note(self.0.units().of(block), kept.now());
        if waits { most } else { bytes }
    }

    /// The smallest waiting block of a partition that is large enough to settle in. A hint: no
    /// thread holds it yet.
    fn spacious(self, partition: Partition, bytes: usize) -> Option<Kept> {
        let kept = self.0.kept_blocks();
        let least = bytes.saturating_mul(SETTLE_LEAST);
        let most = bytes.saturating_mul(SETTLE_MOST);
        if self.0.figures().kept_bytes() < least || !kept.is_reclaimed() || kept.is_short() {
            return None;
        }
        let fits =
            |kept: &Kept| kept.is_from(partition) && (least..=most).contains(&kept.resident());
        self.0.state().places.all().filter(fits).min_by_key(|kept| kept.resident())
    }

    /// Gives back what blocks that were noted before `time` have too much of, until `most` bytes
    /// went. Returns the number of bytes. Any thread, at any time.
    pub(super) fn trim_before(self, os: &impl Os, time: u64, most: usize) -> usize {
        let mut gone = 0;
        while gone < most
            && let Some(unit) = self.spares().begin(time)
        {
            let block = self.0.units().block(unit);
            if block.is_live_for_trimming() {
                gone += self.trim(os, block);
            }
            self.finish(os, block, self.spares().end());
        }
        gone
    }

    /// Trims a live block that no thread frees or resizes meanwhile.
    fn trim(self, os: &impl Os, block: &Block) -> usize {
        let resident = block.resident.load(Relaxed);
        let most = most_after_shrinking(block.bytes());
        // Whole pages.
        let stays = most.wrapping_add(self.0.page_size() - 1) & !(self.0.page_size() - 1);
        let Some(rest) = resident.checked_sub(stays).filter(|rest| *rest > 0) else { return 0 };
        let start = self.0.placement().start(block);
        // SAFETY: (1) it is behind what the program may use.
        if unsafe { os.discard(start + stays, rest) }.is_err() {
            return 0;
        }
        self.0.figures().trim(rest);
        block.resident.store(stays, Relaxed);
        rest
    }

    /// Does what a free has left to the thread that trims the block.
    fn finish(self, os: &impl Os, block: &Block, trimmed: Trimmed) {
        if trimmed != Trimmed::Kept {
            self.0.end(block);
        }
        match trimmed {
            Trimmed::Kept => {}
            Trimmed::Left => self.0.give_back(os, block),
            Trimmed::LeftForEver => self.0.pages().unmap(os, block),
        }
    }

    /// Whether a block that the caller has taken from the program is being trimmed.
    pub(super) fn is_trimmed(self, block: &Block) -> bool {
        self.spares().is_trimmed(self.0.units().of(block))
    }

    /// Leaves a block that the caller has taken to the thread that trims it, if one does.
    pub(super) fn leave(self, block: &Block, for_ever: bool) -> bool {
        self.spares().leave(self.0.units().of(block), for_ever)
    }

    /// Whether blocks wait to be trimmed.
    pub(super) fn are_there(self) -> bool {
        !self.spares().is_empty()
    }

    /// In the child of a fork: ends what a thread did that is not here.
    pub(super) fn repair(self, os: &impl Os) {
        if let Some((unit, trimmed)) = self.spares().after_fork() {
            self.finish(os, self.0.units().block(unit), trimmed);
        }
    }
}
