//! Sends unused live data out to swap: on demand, or when it has been cold for `TOFT_COLD` seconds.
//! It is still there, and the kernel brings it in when it is touched.
//!
//! There are two scans: the first notes what there is, the second sends out what nothing has
//! happened to since. For each slab and large block: whether anything was allocated or freed there.
//! For each page: whether it was written to. Reads are not visible: [`Idleness`] tells what is done
//! about that.
//!
//! Paging out changes no contents, whichever owner the pages have by then. So nothing is held
//! meanwhile. A slab that is given back or compacted between scan and call costs only the call.

use crate::allocator::{Allocator, handle};
use crate::keeper::sweeper::Which;
use crate::large::{Block, BlockState};
use crate::os::seccomp::Calls;
use crate::os::{Os, Pages, Scan};
use crate::reclaim::{ColdTurn, Idleness};
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;

handle!(ColdPages, cold_pages);

/// Ranges of pages that are found and sent out with one pair of calls.
const RANGES: usize = 32;

/// One scan of everything.
struct ColdScan<'a, O> {
    all: ColdPages<'a, O>,
    /// What tells of pages.
    pages: u32,
    noted: Noted,
    swap: bool,
    /// log2 of the bytes in a page.
    page_shift: u32,
    /// Bytes that went out.
    bytes: usize,
}

/// Whether writes are noted; where they are not, everything counts as not written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Noted {
    slabs: bool,
    blocks: bool,
}

/// A run of pages, and what is known of it.
struct Run {
    start: usize,
    bytes: usize,
    /// Whether nothing was allocated or freed there.
    quiet: bool,
    noted: bool,
}

impl<O: Os> ColdPages<'_, O> {
    /// Sends out live data that nothing has happened to since the last call of this, and notes the
    /// rest for the next one. Returns the number of bytes sent out. That is 0 where there is no
    /// swap, where the kernel does not tell of pages, where there may be a filter of system calls,
    /// or while another thread is at it. Any thread.
    pub fn page_out(self) -> usize {
        // A child that runs in its parent's memory has other descriptors.
        if self.os.process() != self.reclaimer.process() {
            return 0;
        }
        let Some(turn) = self.reclaimer.begin_cold_scan() else { return 0 };
        let Some(pages) = self.open_pages() else { return 0 };
        // Free pages should not go to swap. Those of claimed slots may.
        self.sweeper().sweep(Which::Idle);
        let mut scan = ColdScan {
            all: self,
            pages,
            noted: self.note_writes(&turn),
            swap: self.permit(Calls::SWAP).is_some_and(|_permit| self.os.has_swap()),
            page_shift: self.os.page_size().trailing_zeros(),
            bytes: 0,
        };
        self.for_each_slab(|slab| scan.at_slab(slab));
        self.large
            .units()
            .for_each(|block| scan.at_block(block, self.large.placement().start(block)));
        let bytes = scan.bytes;
        self.close_pages(pages);
        bytes
    }

    /// Opens what tells of pages. Each unusual call about it takes a separate permit: a scan may
    /// take long.
    fn open_pages(self) -> Option<u32> {
        let _permit = self.permit(Calls::COLD)?;
        self.os.open_pages().ok()
    }

    fn close_pages(self, pages: u32) {
        // Where a filter has come meanwhile, the descriptor stays.
        if let Some(_permit) = self.permit(Calls::COLD) {
            self.os.close_pages(pages);
        }
    }

    /// Has the kernel note writes to all slabs and large blocks. Returns which of the two it notes.
    fn note_writes(self, turn: &ColdTurn) -> Noted {
        let kept = turn.watch();
        let alive =
            |watch: &u32| self.permit(Calls::COLD).is_some_and(|_permit| self.os.is_watch(*watch));
        let watch = kept.load(Relaxed).checked_sub(1).filter(alive);
        // The first time, or the program has closed all descriptors: then nothing is noted any
        // more.
        let open = || {
            let _permit = self.permit(Calls::COLD)?;
            self.os.open_watch().ok()
        };
        let Some(watch) = watch.or_else(open) else { return Noted::default() };
        kept.store(watch + 1, Relaxed);
        self.watch_all(watch)
    }

    /// Whole mappings, so that none is split. What cannot be watched counts as written to for ever.
    fn watch_all(self, watch: u32) -> Noted {
        let each = |start, bytes, any: &mut bool| {
            if bytes != 0
                && let Some(_permit) = self.permit(Calls::COLD)
            {
                *any |= self.os.watch(watch, start, bytes).is_ok();
            }
        };
        let mut noted = Noted::default();
        // Compaction has its own watch on slabs, and the kernel allows only one.
        if !self.options.compact {
            // Addresses of a slab that were unmapped may have another mapping by now.
            let page = self.os.page_size();
            let there = |slab: &Slab| slab.pages().present_bytes(page);
            self.slabs.for_each_range(there, |start, bytes| each(start, bytes, &mut noted.slabs));
        }
        self.large.units().for_each(|block| {
            if block.state() == BlockState::Live {
                let (start, mapped) = self.large.pages().mapping(block);
                each(start, mapped, &mut noted.blocks);
            }
        });
        noted
    }

    /// Finds pages, and returns their number of bytes.
    fn find_pages(
        self,
        pages: u32,
        wanted: Pages,
        (start, bytes): (usize, usize),
        mut each: impl FnMut(usize, usize),
    ) -> usize {
        let (mut at, mut sum) = (start, 0);
        while at < start + bytes {
            let mut found = [(0, 0); RANGES];
            let rest = (at, start + bytes - at);
            let mut scan = || {
                let _permit = self.permit(Calls::COLD)?;
                self.os.scan(pages, wanted, rest, &mut found).ok()
            };
            let Some(Scan { ranges, end }) = scan() else { break };
            for &(from, len) in found.iter().take(ranges) {
                sum += len;
                each(from, len);
            }
            if end <= at {
                break;
            }
            at = end;
        }
        sum
    }
}

impl<O: Os> ColdScan<'_, O> {
    fn find(&self, wanted: Pages, run: &Run, each: impl FnMut(usize, usize)) -> usize {
        self.all.find_pages(self.pages, wanted, (run.start, run.bytes), each)
    }

    /// Returns true if a call waits for the reclaimer, which may be this thread. The next scan does
    /// the rest.
    fn is_stopped(&self) -> bool {
        self.all.reclaimer.life().is_held()
    }

    fn at_slab(&mut self, slab: &Slab) {
        // Pages that several slabs show do not go: the kernel leaves them, and they are few.
        if !slab.has_owner() || slab.is_dormant() || slab.is_shared() || self.is_stopped() {
            return;
        }
        let quiet = slab.is_quiet();
        let mut idleness = Idleness::from_slab_bits(slab.scans.idleness.load(Relaxed));
        let bytes = slab.pages().mapped_bytes(self.all.os.page_size());
        self.at_run(
            &mut idleness,
            &Run { start: slab.base(), bytes, quiet, noted: self.noted.slabs },
        );
        slab.scans.idleness.store(idleness.slab_bits(), Relaxed);
    }

    fn at_block(&mut self, block: &Block, address: usize) {
        let seen = block.idleness();
        if block.state() != BlockState::Live || self.is_stopped() {
            return;
        }
        // That nothing was allocated or freed there is the same as that it is still there.
        let mut idleness = Idleness::from_bits(seen);
        let bytes = block.bytes() >> self.page_shift << self.page_shift;
        let noted = self.noted.blocks;
        self.at_run(&mut idleness, &Run { start: address, bytes, quiet: true, noted });
        block.set_idleness(seen, idleness.bits());
    }

    fn at_run(&mut self, idleness: &mut Idleness, run: &Run) {
        let resident = self.find(Pages::Resident, run, |_, _| {});
        if idleness.note_scan(run.quiet, resident >> self.page_shift) {
            let wanted = if run.noted { Pages::Still } else { Pages::Resident };
            let (all, swap) = (self.all, self.swap);
            self.find(wanted, run, |start, bytes| {
                // What cannot go stays.
                if let Some(_permit) = all.permit(Calls::COLD) {
                    let _ = all.os.page_out(start, bytes, swap);
                }
            });
            let stayed = self.find(Pages::Resident, run, |_, _| {});
            let went = resident.saturating_sub(stayed);
            self.bytes += went;
            idleness.count_paged_out(went >> self.page_shift, stayed >> self.page_shift);
        }
        if run.noted {
            self.find(Pages::Written, run, |_, _| {});
        }
    }
}
