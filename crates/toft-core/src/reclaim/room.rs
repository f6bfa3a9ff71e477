//! The limit of memory in kept slabs.
//!
//! When the process grows beyond its peak, the pages of kept slabs move to the new slab or are
//! returned to the OS.

use super::Pool;
use super::pool::has_any;
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::slab::{CLASSES, SizeClass, Slab};
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::StoreChanged;

/// The bytes by which slabs in use and kept slabs together may always exceed the peak of slabs in
/// use.
const EXCESS_MIN: usize = 256 << 10;
/// The divisor of that peak that gives the bytes by which they may exceed it in addition.
const EXCESS_DIVISOR: usize = 8;
/// The least touched bytes of a slab whose pages are moved rather than returned to the OS. A move
/// of any number of pages costs as much as four page faults.
const MOVED_BYTES_MIN: usize = 32 << 10;
/// The most slabs that receive pages of another slab. Each may need two mappings, and a process may
/// have 65 530.
const RECEIVERS_MAX: usize = 8192;

impl Pool {
    /// Counts a slab without pages, which its new owner is about to use. Moves or drops the pages
    /// of kept slabs if the process would otherwise grow too much beyond its peak.
    pub fn grow(&self, os: &impl Os, slab: &Slab) {
        let state = self.state();
        state.total.fetch_add(slab.pages().slot_bytes(), Relaxed);
        let used = self.note_peak();
        let kept = state.kept.load(Relaxed);
        if kept == 0 {
            return;
        }
        let lean = state.lean.load(Relaxed) != 0;
        let peak = state.peak.load(Relaxed);
        let room = if lean { used } else { peak + peak / EXCESS_DIVISOR } + EXCESS_MIN;
        if let Some(excess) = (used + kept).checked_sub(room) {
            let moved = self.move_kept_pages(os, slab);
            self.drop_some(os, excess.saturating_sub(moved), false);
        }
    }

    /// Keeps as few slabs as possible from now on if `lean` is set, else as many as usual.
    pub fn set_lean(&self, lean: bool) {
        self.state().lean.store_changed(u32::from(lean), Relaxed);
    }

    /// Moves the pages of a kept slab that is not longer to the slab `to`, which has none. Returns
    /// the number of bytes that are no longer kept. A move costs less than to return pages and
    /// fault in others, which the kernel must clear.
    fn move_kept_pages(&self, os: &impl Os, to: &Slab) -> usize {
        let state = self.state();
        // In the secure build guard pages do not move, and no call site may get the data of
        // another.
        let whole = !to.is_dormant() && !to.pages().is_without_tail();
        if SECURE || !whole || state.receivers.load(Relaxed) >= RECEIVERS_MAX {
            return 0;
        }
        // By the class's longest slab: a bin has at most a few that are shorter.
        let fits = |class| (MOVED_BYTES_MIN..=to.span()).contains(&SizeClass::new(class).span());
        let Some(from) = self.take_kept(fits) else { return 0 };
        let touched = from.touched_bytes();
        // The new slab cannot use pages after its last slot.
        let useful = touched.min(to.pages().slot_bytes());
        // A slab that has got pages of a shorter one consists of two mappings.
        let whole = !from.pages().is_without_tail() && !from.has_received();
        if useful < MOVED_BYTES_MIN || !whole {
            return self.clean_out(os, from, false);
        }
        let page = os.page_size();
        // SAFETY: (1) `from` is part of one mapping, and so is as much of `to`: that of the field,
        // because pages are moved to a slab that has none, and never from one that has got some.
        // (2) This thread holds both slabs, both are empty, and `to` is clean.
        match unsafe { os.transfer(from.base(), to.base(), from.pages().mapped_bytes(page)) } {
            Ok(()) => {
                from.make_dormant();
                from.wake(true);
                if !to.has_received() {
                    state.receivers.fetch_add(1, Relaxed);
                }
                // `from` may have touched more pages than the slots of `to` cover. No counter would
                // include the others, so they are returned to the OS.
                let pages = |bytes: usize| bytes.next_multiple_of(os.page_size().max(1));
                if let Some(rest) = pages(touched).checked_sub(pages(to.pages().slot_bytes()))
                    && rest != 0
                {
                    let unused = to.base() + pages(to.pages().slot_bytes());
                    // SAFETY: (1) no other thread has the slab, and these pages have no slot.
                    let _ = unsafe { os.discard(unused, rest) };
                }
                to.receive(useful);
                self.push_clean(from)
            }
            Err(error) => {
                if error == Error::Unsupported {
                    state.receivers.store(RECEIVERS_MAX, Relaxed);
                } else {
                    // As much of `to` as `from` has is not mapped any more. All of it is mapped
                    // again when it wakes.
                    let moved = from.pages().mapped_bytes(page);
                    if let Some(rest) = to.pages().mapped_bytes(page).checked_sub(moved)
                        && rest != 0
                    {
                        // SAFETY: (1) this thread holds the slab, which is empty.
                        let _ = unsafe { os.unmap(to.base() + moved, rest) };
                    }
                    to.make_dormant();
                }
                self.clean_out(os, from, false)
            }
        }
    }

    /// Returns the pages of kept slabs to the OS until at least `bytes` bytes are returned or no
    /// kept slab is left. With `unmap` their address space is unmapped as well. Returns the number
    /// of bytes.
    pub fn drop_some(&self, os: &impl Os, bytes: usize, unmap: bool) -> usize {
        let mut dropped = 0;
        while dropped < bytes
            && let Some(slab) = self.take_kept(|_| true)
        {
            dropped += self.clean_out(os, slab, unmap);
        }
        dropped
    }

    /// Takes a kept slab of a class for which `choose` returns true. Begins at the partition where
    /// the last search ended.
    fn take_kept(&self, choose: impl Fn(usize) -> bool) -> Option<&'static Slab> {
        let start = self.state().cursor.load(Relaxed);
        for step in 0..self.partitions {
            // The number of partitions is a power of two.
            let partition = (start + step) & (self.partitions - 1);
            let (word, bit) = self.row(partition);
            if word.load(Relaxed) & bit == 0 {
                continue;
            }
            // The bit is cleared first: a thread that puts a slab there meanwhile sets it again.
            // pairs: kept slab.
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
