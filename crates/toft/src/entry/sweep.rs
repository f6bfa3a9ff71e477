//! Sweeps: pages of free slots go back, in every thread's slabs, without the threads' help.
//!
//! Slabs are looked at in address order. What is idle is held, a batch of slabs at a time; how that
//! goes without stopping anybody is told in [`crate::slab`], `hold.rs`.

use super::{Allocator, Call};
use crate::os::{Os, wait_for};
use crate::reclaim::Turn;
use crate::remote::announce;
use crate::slab::{FLAGS, Look, PENDING, Slab};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, HeapState, Seat};

/// What a sweep gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What has lain idle since the sweep before.
    Idle,
    /// Whatever is free.
    Free,
}

/// What a sweep has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Bytes of pages that went.
    pub bytes: usize,
    /// Slabs that were looked at.
    pub slabs: u32,
    /// Whether there may be more for a later sweep.
    pub more: bool,
}

/// Ranges that are discarded with one call.
const PIECES: usize = 128;

/// Ranges of pages to discard.
struct Pieces {
    ranges: [(usize, usize); PIECES],
    count: usize,
}

impl<O: Os> Allocator<O> {
    /// Gives pages of free slots back, and what the pool and the large blocks have kept long enough.
    /// Does nothing while another thread is at it.
    pub fn sweep(&self, which: Which) -> Option<Swept> {
        let turn = self.reclaimer.begin()?;
        let mut swept = Swept::default();
        let page = self.os.page_size();
        // Without barriers only slabs of threads that have ended can be reached.
        let reaches = self.barrier();
        self.for_each_slab(|slab| {
            if !self.wanted(slab, which, &mut swept) || !reaches {
                return;
            }
            let full = turn.add(slab);
            if !slab.hold(page) {
                turn.take_back();
            } else if full {
                self.give_back(&turn, &mut swept);
            }
        });
        self.give_back(&turn, &mut swept);
        match which {
            Which::Idle => {
                self.pool.decay_all(&self.os);
                self.large.decay_all(&self.os);
                swept.more |= self.pool.kept_bytes() != 0 || self.large.kept_bytes() != 0;
            }
            Which::Free => swept.bytes += self.drop_kept(),
        }
        turn.count(swept.bytes);
        Some(swept)
    }

    /// Whether pages of the slab are to be given back.
    fn wanted(&self, slab: &Slab, which: Which, swept: &mut Swept) -> bool {
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        let Some(heap) = self.heaps.heap_at(owner) else { return false };
        if slab.is_dormant() {
            return false;
        }
        swept.slabs += 1;
        let look = slab.look(heap.draws_from(slab));
        let wanted = match which {
            Which::Idle => look == Look::Idle,
            Which::Free => look != Look::Tidy,
        };
        swept.more |= look == Look::Busy;
        if wanted && self.heaps.who(heap.number) == HeapState::Orphan {
            // A thread that has ended hands nothing out: what it had claimed can go, too.
            self.heaps.with_orphan(heap.number, |orphan| {
                if let Some(_seat) = orphan.sit()
                    && orphan.owns(slab)
                {
                    swept.bytes += self.give_back_own(slab);
                }
            });
        }
        wanted
    }

    /// Gives back the pages of free slots of a slab whose heap the caller holds, with its seat.
    fn give_back_own(&self, slab: &Slab) -> usize {
        slab.give_back_pages(self.os.page_size(), |start, bytes| {
            // SAFETY: (1) the pages belong to free slots, which nobody can claim meanwhile.
            unsafe { self.os.discard(start, bytes) }.is_ok()
        })
    }

    /// Discards the pages of what is held in the slabs of the batch, and lets go of it.
    fn give_back(&self, turn: &Turn<'_>, swept: &mut Swept) {
        if turn.slabs().next().is_none() {
            return;
        }
        let page = self.os.page_size();
        let can = self.barrier();
        for slab in turn.slabs() {
            let quiet = can && self.is_quiet(slab);
            slab.settle(quiet);
            swept.more |= !quiet;
        }
        let mut pieces = Pieces { ranges: [(0, 0); PIECES], count: 0 };
        for slab in turn.slabs() {
            let mut gone = true;
            let bytes = swept.bytes;
            slab.held_pages(page, |start, bytes| {
                if pieces.count == PIECES {
                    gone &= self.discard(&mut pieces, swept);
                }
                if let Some(piece) = pieces.ranges.get_mut(pieces.count) {
                    *piece = (start, bytes);
                    pieces.count += 1;
                }
            });
            gone &= self.discard(&mut pieces, swept);
            if !gone {
                swept.bytes = bytes;
            }
            if let Some(slot) = slab.finish(page, gone) {
                self.freed_twice(slab, slot, Call::RemoteFree);
            }
        }
        // So that each owner either is seen in what it does, or sees what has become free.
        let can = can && self.barrier();
        for slab in turn.slabs() {
            let busy = !can || !self.is_quiet(slab);
            if slab.is_overlooked(busy) {
                announce(slab);
            }
            slab.leave();
        }
        turn.clear();
    }

    fn discard(&self, pieces: &mut Pieces, swept: &mut Swept) -> bool {
        let mut gone = true;
        for &(start, bytes) in pieces.ranges.iter().take(pieces.count) {
            // SAFETY: (1) pages of slots that are held: nobody uses them.
            let done = unsafe { self.os.discard(start, bytes) }.is_ok();
            gone &= done;
            swept.bytes += if done { bytes } else { 0 };
        }
        pieces.count = 0;
        gone
    }

    /// Whether the slab's owner is not in the middle of something.
    fn is_quiet(&self, slab: &Slab) -> bool {
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        self.heaps.heap_at(owner).is_some_and(|heap| !heap.is_torn())
    }

    /// Gives back everything that can be given back, of all threads, whatever they are doing. Says how
    /// many bytes of pages went.
    pub fn purge(&self, heap: &Heap) -> usize {
        let mut bytes = 0;
        if let Some(seat) = heap.sit() {
            bytes += self.tidy_up(heap, &seat);
        }
        for number in 0..self.heaps.count() {
            self.heaps.with_orphan(number, |orphan| {
                if let Some(seat) = orphan.sit() {
                    bytes += self.tidy_up(orphan, &seat);
                }
            });
        }
        // One that is under way may have passed what is free now: it is waited for.
        for _ in 0..2 {
            if let Some(swept) = self.sweep(Which::Free) {
                return bytes + swept.bytes;
            }
            wait_for(&self.os, || !self.reclaimer.is_sweeping());
        }
        bytes + self.drop_kept()
    }

    /// Collects what others have freed into a heap that the caller holds, lets go of its empty slabs,
    /// and gives back the pages of free slots, those that malloc would hand out next included. Says
    /// how many bytes of pages went.
    fn tidy_up(&self, heap: &Heap, seat: &Seat) -> usize {
        self.collect(heap, seat);
        let mut bytes = 0;
        self.for_each_slab(|slab| {
            if !heap.owns(slab) || slab.is_dormant() {
                return;
            }
            bytes += self.give_back_own(slab);
            if slab.is_listed() && slab.is_empty() && slab.owner.load(Relaxed) & PENDING == 0 {
                self.part_with(heap, seat, slab);
            }
        });
        bytes
    }
}
