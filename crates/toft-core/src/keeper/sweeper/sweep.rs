//! Sweeps: give pages of free slots back to the OS, in every thread's slabs, without the threads'
//! help.
//!
//! Slabs are checked in the order of demand. Idle slots are held, a batch of slabs at a time,
//! without stopping any thread: see `pinning.rs` in [`crate::slab`].

use crate::keeper::sweeper::Sweeper;
use crate::os::Os;
use crate::os::release::{Piece, Release};
use crate::os::seccomp::Calls;
use crate::reclaim::{BATCH, Turn};
use crate::remote::announce;
use crate::report::Call;
use crate::slab::{PENDING, Slab, SlabActivity};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, HeapState, ReentrancyGuard};
use core::ops::Range;

/// What a sweep gives back. What running threads have claimed stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What has been idle since the sweep before.
    Idle,
    /// Whatever is free.
    Free,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Bytes of pages that went.
    pub bytes: usize,
    /// Slabs that were looked at.
    pub slabs: u32,
    /// Whether there may be more for a later sweep.
    pub more: bool,
}

/// Ranges that are discarded with one call: more than a slab has pages.
const PIECES: usize = 256;

impl<O: Os> Sweeper<'_, O> {
    /// Gives pages of free slots back, and what the pool and the large blocks have kept long
    /// enough. Does nothing while another thread is at it.
    pub fn sweep(self, which: Which) -> Option<Swept> {
        self.sweep_while(which, || true)
    }

    /// Sweeps like `sweep`, and ends after the current batch when `goes_on` returns false.
    pub(crate) fn sweep_while(self, which: Which, goes_on: impl Fn() -> bool) -> Option<Swept> {
        let turn = self.reclaimer.begin()?;
        self.held_heaps().empty_outboxes(which == Which::Idle);
        let mut swept = Swept::default();
        let page = self.os.page_size();
        // Without barriers only slabs of threads that have ended can be reached. While the system
        // refuses memory, the others are left to their threads: a malloc that has nothing else
        // would fail for want of a slot that is held just now.
        let reaches = self.barrier() && !(which == Which::Idle && self.pressure().is_on());
        self.for_each_slab(|slab| {
            if !goes_on() || !self.wanted(slab, which, &mut swept) || !reaches {
                return;
            }
            let full = turn.add(slab);
            if !slab.pinning().hold(page) {
                turn.take_back();
            } else if full {
                self.sweep_pages(&turn, &mut swept);
            }
        });
        self.sweep_pages(&turn, &mut swept);
        match which {
            _ if !goes_on() => {}
            Which::Idle => {
                let ticks = self.maintenance().decay_ticks();
                swept.bytes += self.pool.decay_all(&self.os, self.filter());
                swept.bytes += self.large.kept_blocks().decay_all(&self.os, ticks);
                swept.more |= self.pool.kept_bytes() != 0 || self.large.kept_blocks().have_more();
            }
            Which::Free => swept.bytes += self.drop_kept(),
        }
        turn.count(swept.bytes);
        Some(swept)
    }

    /// Returns true if pages of the slab are to be given back. Gives back those of an exited
    /// thread's slab, and those of an idle slab of a shared heap that has a claim. Drops these
    /// claims.
    fn wanted(self, slab: &Slab, which: Which, swept: &mut Swept) -> bool {
        let Some(heap) = self.heaps.owner_of(slab) else { return false };
        if slab.is_dormant() {
            return false;
        }
        swept.slabs += 1;
        let activity = slab.scan_activity(|| heap.is_current(slab));
        let state = self.heaps.heap_state(heap.number);
        let orphan = state == HeapState::Orphan;
        // No thread is about to hand out what an orphan has claimed, or a shared heap that can be
        // taken. At a limit the caller may itself hold a shared heap.
        let shared = state == HeapState::Shared && which == Which::Idle;
        let left = (orphan || shared) && slab.claimed() != 0;
        let wanted = match activity {
            SlabActivity::Busy => which == Which::Free,
            SlabActivity::Idle => true,
            SlabActivity::Discarded => left,
        };
        swept.more |= activity == SlabActivity::Busy;
        if wanted && (orphan || left) {
            self.held_heaps().with_threadless(heap.number, |heap, _guard| {
                if heap.owns(slab) {
                    swept.bytes += self.discard_own(slab);
                }
            });
        }
        wanted
    }

    /// Gives back the pages of free slots of a slab whose heap the caller holds, with its
    /// reentrancy guard.
    pub(crate) fn discard_own(self, slab: &Slab) -> usize {
        self.slot_checks().verify_reserved(slab, Call::Verify);
        slab.pages().discard(self.os.page_size(), |start, bytes| {
            // SAFETY: (1) the pages belong to free slots, which no thread can claim meanwhile.
            unsafe { self.os.discard(start, bytes) }.is_ok()
        })
    }

    /// Discards the pages of what is held in the slabs of the batch, and lets go of it.
    fn sweep_pages(self, turn: &Turn<'_>, swept: &mut Swept) {
        if turn.slabs().next().is_none() {
            return;
        }
        let can = self.barrier();
        for slab in turn.slabs() {
            let quiet = can && self.heaps.is_quiet(slab);
            slab.pinning().settle(quiet);
            self.slot_checks().verify_held(slab);
            if let Some(slot) = slab.pinning().keep_written(self.os.page_size()) {
                self.reports().freed_twice(slab, slot, Call::RemoteFree);
            }
            swept.more |= !quiet;
        }
        self.discard_held(turn, swept);
        // So that each owner either is seen in what it does, or sees what has become free.
        let can = can && self.barrier();
        for slab in turn.slabs() {
            let busy = !can || !self.heaps.is_quiet(slab);
            if slab.pinning().is_overlooked(busy) {
                announce(slab);
            }
            slab.pinning().leave();
        }
        turn.clear();
    }

    /// Discards the pages between what is held in the batch, many ranges with one call, and
    /// finishes with the slots.
    fn discard_held(self, turn: &Turn<'_>, swept: &mut Swept) {
        let page = self.os.page_size();
        let mut release = Release::new();
        let mut pieces = [Piece::default(); PIECES];
        let (mut count, mut first) = (0, 0);
        for (number, slab) in turn.slabs().enumerate() {
            // A slab has fewer pages than there are pieces.
            let mut more = 0;
            slab.pinning().held_pages(page, |_, _| more += 1);
            if count + more > PIECES {
                self.discard(&mut release, pieces.get_mut(..count), swept);
                self.finish(turn, first..number, &pieces);
                (count, first) = (0, number);
            }
            slab.pinning().held_pages(page, |start, bytes| {
                if let Some(piece) = pieces.get_mut(count) {
                    *piece = Piece::new(start, bytes);
                    count += 1;
                }
            });
        }
        self.discard(&mut release, pieces.get_mut(..count), swept);
        self.finish(turn, first..BATCH, &pieces);
    }

    fn discard(self, release: &mut Release, pieces: Option<&mut [Piece]>, swept: &mut Swept) {
        let Some(pieces) = pieces else { return };
        let permit = self.filter().permit(&self.os, Calls::BATCH, false);
        // SAFETY: (1) pages of slots that are held: no thread uses them.
        unsafe { self.os.discard_all(release, pieces, permit.as_ref()) };
        swept.bytes +=
            pieces.iter().filter(|piece| piece.done).map(|piece| piece.len).sum::<usize>();
    }

    /// Lets go of the slots of some slabs of the batch, whose pieces come one after another.
    fn finish(self, turn: &Turn<'_>, numbers: Range<usize>, pieces: &[Piece]) {
        let page = self.os.page_size();
        let mut pieces = pieces.iter();
        for slab in turn.slabs().skip(numbers.start).take(numbers.len()) {
            let mut gone = true;
            slab.pinning()
                .held_pages(page, |_, _| gone &= pieces.next().is_some_and(|piece| piece.done));
            if let Some(slot) = slab.pinning().finish(page, gone) {
                self.reports().freed_twice(slab, slot, Call::RemoteFree);
            }
        }
    }

    /// Gives back everything that all threads can give back, whatever they are doing. Of the
    /// calling one, which has `heap`, also what it has claimed. Returns the bytes of pages.
    pub fn purge(self, heap: Option<&Heap>) -> usize {
        let begun = self.os.counter();
        let bytes = self.purge_now(heap);
        self.reclaimer.trims().note_purge(self.os.ticks(), begun, self.os.counter());
        bytes
    }

    fn purge_now(self, heap: Option<&Heap>) -> usize {
        let mut bytes = 0;
        self.quarantines().empty_quarantines(heap, None);
        if let Some(heap) = heap
            && let Some(guard) = heap.enter()
        {
            self.held_heaps().empty_outbox(heap, &guard);
            bytes += self.purge_heap(heap, &guard);
        }
        for number in 0..self.heaps.count() {
            self.held_heaps()
                .with_threadless(number, |orphan, guard| bytes += self.purge_heap(orphan, guard));
        }
        // One that is under way may have passed what is free now: it is waited for.
        for _ in 0..2 {
            if let Some(swept) = self.sweep(Which::Free) {
                return bytes + swept.bytes;
            }
            self.reclaimer.wait_for_turn(&self.os);
        }
        bytes + self.drop_kept()
    }

    /// Collects what others have freed into a heap that the caller holds, lets go of its empty
    /// slabs, and gives back the pages of free slots, those that malloc would hand out next
    /// included. Returns the number of bytes of pages that went.
    fn purge_heap(self, heap: &Heap, guard: &ReentrancyGuard) -> usize {
        self.held_heaps().collect(heap, guard);
        let mut bytes = 0;
        self.for_each_slab(|slab| {
            if !heap.owns(slab) || slab.is_dormant() {
                return;
            }
            bytes += self.discard_own(slab);
            if slab.is_listed() && slab.is_empty() && slab.owner.load(Relaxed) & PENDING == 0 {
                self.held_heaps().detach(heap, guard, slab);
            }
        });
        bytes
    }

    /// Gives back the pages of all free large blocks and of empty unowned slabs; returns the bytes.
    pub(crate) fn drop_kept(self) -> usize {
        self.large.kept_blocks().unmap_all(&self.os)
            + self.pool.drop_some(&self.os, usize::MAX, false)
    }
}
