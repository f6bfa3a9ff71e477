//! Makes shared pages private before a fork, so that a child never writes to its parent's memory.
//!
//! During the fork only a counter is raised, which keeps other threads from sharing pages again. No
//! lock is held. The forking thread waits at most for the batch of slabs that another thread is
//! compacting. That thread waits for no other thread.

use crate::keeper::compact::Compactor;
use crate::keeper::compact::units::copy_slot;
use crate::os::{Os, Sharing, wait_for};
use crate::reclaim::Entry;
use crate::remote::announce;
use crate::slab::{Slab, SlotIndex};

/// The most waits of a fork for the end of a batch, each of a fifth of a second.
const BATCH_WAITS_MAX: u32 = 300;

impl<O: Os> Compactor<'_, O> {
    /// Makes all shared pages private before a fork, and forbids sharing until `fork_is_done`.
    /// Aborts the process on failure, because the child must have its own memory.
    pub fn prepare_fork(self) {
        if !self.options.compact {
            return;
        }
        self.groups.fork_begins();
        if self.os.process() != self.reclaimer.process() {
            return;
        }
        let mut entry = None;
        for _ in 0..BATCH_WAITS_MAX {
            // A batch in progress ends without help, because its thread takes no signal.
            entry = self.groups.enter_to_fork();
            if entry.is_some() {
                break;
            }
            wait_for(&self.os, || !self.groups.is_entered());
        }
        let made = entry.as_ref().is_some_and(|entry| self.make_private(entry));
        drop(entry);
        if !made {
            self.os.report(b"toft: fork: compacted memory cannot be made private (TOFT_COMPACT)\n");
            self.os.abort();
        }
    }

    /// Disables compaction for ever, in a process whose forks will not be announced.
    pub(crate) fn never_compact(self) {
        self.groups.fork_begins();
    }

    /// Allows sharing again, in the parent after a fork.
    pub fn fork_is_done(self) {
        if self.options.compact {
            self.groups.fork_ends();
        }
    }

    /// Makes all shared pages private. Returns false on failure.
    fn make_private(self, entry: &Entry) -> bool {
        if entry.is_empty() {
            return true;
        }
        let own = Some(self.reclaimer.threads());
        let signals = self.os.block_signals();
        let Ok(sharing) = self.os.begin_sharing(own, self.groups.kept(), 0) else {
            self.os.restore_signals(signals);
            return false;
        };
        let (mut from, mut made) = (1, true);
        while made && let Some((slab, group)) = entry.any_member(from) {
            from = group;
            made = self.make_slab_private(entry, &sharing, slab);
        }
        self.os.end_sharing(sharing);
        self.os.restore_signals(signals);
        made
    }

    /// Makes the shared pages of one slab private. Returns false if the OS refuses.
    fn make_slab_private(self, entry: &Entry, sharing: &Sharing, slab: &'static Slab) -> bool {
        let page = self.os.page_size();
        for unit in slab.units().sharing(page) {
            let (start, bytes) = slab.units().range(unit, page);
            let address = slab.base() + start;
            let copy = |to| {
                let (first, end) = slab.units().slots_within(start, start + bytes);
                for slot in SlotIndex::range(first..end).filter(|&slot| slab.units().needs(slot)) {
                    copy_slot(slab, slot, address, bytes, to);
                }
            };
            // SAFETY: (1) a view of a store. Writers are stopped before `copy` reads which slots
            // are needed, so a slot that malloc hands out later has no contents yet.
            if unsafe { self.os.unshare(sharing, address, bytes, copy) }.is_err() {
                return false;
            }
            self.mapper().keep_small(address, bytes);
        }
        // While SHARED is set, the slab keeps its owner and its mapping.
        slab.units().redeem_all();
        slab.disturb();
        announce(slab);
        for unit in slab.units().sharing(page) {
            entry.remove(slab, unit);
        }
        true
    }
}
