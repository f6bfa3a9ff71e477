//! How much is kept: what has to go where the process would grow beyond its peak, and where to.

use super::Pool;
use super::pool::has_any;
use crate::os::{Error, Os};
use crate::policy::HARDENED;
use crate::slab::{CLASSES, Class, Slab};
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::StoreChanged;

/// Slabs in use and kept ones may together be larger than the most that were ever in use by so many
/// bytes,
const ROOM_LEAST: usize = 256 << 10;
/// and by this share of it, as a divisor.
const ROOM_SLACK: usize = 8;
/// Touched bytes of a slab from which on its pages are moved rather than given back: moving costs
/// the same for any number of pages, as much as four page faults.
const MOVED_LEAST: usize = 32 << 10;
/// Slabs that may get pages of another: each may cost two mappings, and a process may have 65 530.
const RECEIVERS_MAX: usize = 8192;

impl Pool {
    /// The pages of this slab, of which there are none, are about to be used.
    pub fn grow(&self, os: &impl Os, slab: &Slab) {
        let state = self.state();
        state.total.fetch_add(slab.slot_bytes(), Relaxed);
        let used = self.note_peak();
        let kept = state.kept.load(Relaxed);
        if kept == 0 {
            return;
        }
        let lean = state.lean.load(Relaxed) != 0;
        let peak = state.peak.load(Relaxed);
        let room = if lean { used } else { peak + peak / ROOM_SLACK } + ROOM_LEAST;
        if let Some(excess) = (used + kept).checked_sub(room) {
            let moved = self.hand_over(os, slab);
            self.drop_some(os, excess.saturating_sub(moved), false);
        }
    }

    /// Keeps as little as can be from now on, or as much as usual.
    pub fn set_lean(&self, lean: bool) {
        self.state().lean.store_changed(u32::from(lean), Relaxed);
    }

    /// Moves the pages of a kept slab under one that has none, if there is one of the same tier;
    /// returns the bytes that are not kept any more. That costs less than to give pages back and to
    /// fault others in, which the system must clear.
    fn hand_over(&self, os: &impl Os, to: &Slab) -> usize {
        let state = self.state();
        // Walls stay where they are; and what one call site has left there, another must not find.
        if HARDENED || to.is_dormant() || state.receivers.load(Relaxed) >= RECEIVERS_MAX {
            return 0;
        }
        let small = to.class().is_small();
        let Some(from) = self.find_kept(|class| Class::new(class).is_small() == small) else {
            return 0;
        };
        let touched = from.touched_bytes();
        // What follows the new slab's slots would be of no use to it.
        let useful = touched.min(to.slot_bytes());
        if useful < MOVED_LEAST {
            return self.clean_out(os, from, false);
        }
        // SAFETY: (1) a slab is a part of one mapping: of its plot's, or of a separate one if pages
        // were moved there before; (2) both are empty and held here, `to` is clean.
        match unsafe { os.transfer(from.base(), to.base(), to.tier().slab_bytes()) } {
            Ok(()) => {
                from.lie_dormant();
                from.wake(true);
                if !to.has_received() {
                    state.receivers.fetch_add(1, Relaxed);
                }
                // A larger slab's pages were moved: those that no slot is on would not be counted.
                let pages = |bytes: usize| bytes.next_multiple_of(os.page_size().max(1));
                if let Some(rest) = pages(touched).checked_sub(pages(to.slot_bytes()))
                    && rest != 0
                {
                    let behind = to.base() + pages(to.slot_bytes());
                    // SAFETY: (1) no other thread has the slab, and no slot of it is there.
                    let _ = unsafe { os.discard(behind, rest) };
                }
                to.receive(useful);
                self.shelve(from)
            }
            Err(error) => {
                if error == Error::Unsupported {
                    state.receivers.store(RECEIVERS_MAX, Relaxed);
                } else {
                    to.lie_dormant();
                }
                self.clean_out(os, from, false)
            }
        }
    }

    /// Gives the pages of kept slabs back until `bytes` went or there are no more; with `unmap`
    /// their address space as well. Returns the number of bytes that went.
    pub fn drop_some(&self, os: &impl Os, bytes: usize, unmap: bool) -> usize {
        let mut dropped = 0;
        while dropped < bytes
            && let Some(slab) = self.find_kept(|_| true)
        {
            dropped += self.clean_out(os, slab, unmap);
        }
        dropped
    }

    /// Takes a kept slab of a class for which `choose` says yes. Begins where the last search
    /// ended.
    fn find_kept(&self, choose: impl Fn(usize) -> bool) -> Option<&'static Slab> {
        let start = self.state().cursor.load(Relaxed);
        for step in 0..self.partitions {
            // A power of two.
            let partition = (start + step) & (self.partitions - 1);
            let (word, bit) = self.row(partition);
            if word.load(Relaxed) & bit == 0 {
                continue;
            }
            // Cleared first: what is put there meanwhile sets it again. pairs: kept slab.
            word.fetch_and(!bit, SeqCst);
            let mut found = None;
            for class in 0..CLASSES {
                let stacks = self.stacks(partition * CLASSES + class);
                if !has_any(stacks) {
                    continue;
                }
                word.fetch_or(bit, SeqCst);
                if choose(class) {
                    found = self.pop(&stacks.aging).or_else(|| self.pop(&stacks.kept));
                    if found.is_some() {
                        break;
                    }
                }
            }
            if found.is_some() {
                self.state().cursor.store(partition, Relaxed);
                return found;
            }
        }
        None
    }
}
