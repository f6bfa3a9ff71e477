//! Verifies a third of the heap every three seconds, on the reclaimer's thread. Secure build only,
//! and only its full strength.
//!
//! It finds overflows of live blocks and writes into freed ones, while the program does nothing
//! with these blocks. A pass over the heap takes ten seconds, and longer above a gigabyte:
//!
//! ```text
//! | small slabs, in address order | medium slabs | quarantines, large blocks |  then again
//!   '- a share every three seconds -'
//! ```
//!
//! A batch of slabs is taken hold of as for a sweep, but no slot is held. While a slab has HOLDING
//! set, and its owner was quiet after a barrier, its pages stay mapped. So they are read without
//! system calls. Pages that are not in memory are left alone, because reading would bring them
//! there. Threads go on meanwhile: a slot counts as damaged only if it stays so
//! (`verify_slots.rs`).

use crate::allocator::Allocator;
use crate::os::seccomp::Calls;
use crate::os::{Os, PIECE_BYTES, SECOND};
use crate::policy::WIPE;
use crate::reclaim::{Share, Turn};
use crate::remote::announce;
use crate::slab::{MEDIUM, Slab, SlotCare, Tier};
use crate::watch::extent::Extent;
use core::ops::Range;

/// The least number of ticks from one share to the next: the period, less what a clock of ticks may
/// miss.
const PAUSE: u32 = Share::PERIOD / 1000 * SECOND - SECOND / 8;
/// The least number of shares in a pass.
const SHARES: usize = 3;
/// The most bytes of pages in a share. They take a processor 40 to 120 ms.
const BYTES_MOST: usize = 400 << 20;
/// The least number of bytes in a share.
const BYTES_LEAST: usize = 4 << 20;
/// The number of bytes that a slab without pages counts for.
const SLAB_COST: usize = 512;
/// The number of slots whose memory is fetched while the group before is verified.
const GROUP: usize = 16;
/// The most cache lines that are fetched of a slot. The processor itself goes on from there.
const LINES_MOST: usize = 8;
/// The number of words with a bit for each page of a slab.
const WORDS: usize = Tier::of(MEDIUM).slab_bytes() / 4096 / 64;

/// The pages of a slab that are in memory.
struct Present {
    pages: [u64; WORDS],
    shift: u32,
}

impl Present {
    fn note(&mut self, start: usize, len: usize) {
        for page in start >> self.shift..(start + len) >> self.shift {
            if let Some(word) = self.pages.get_mut(page / 64) {
                *word |= 1 << (page % 64);
            }
        }
    }

    fn bytes(&self) -> usize {
        let pages: u32 = self.pages.iter().map(|word| word.count_ones()).sum();
        (pages as usize) << self.shift
    }

    /// Returns true if any page of the bytes `start..end` is in memory.
    fn has_any(&self, start: usize, end: usize) -> bool {
        let mut pages = start >> self.shift..=(end - 1) >> self.shift;
        pages.any(|page| self.pages.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 != 0))
    }
}

/// Returns the bytes of the slab that show if a slot is whole: none, its canary, or all of it.
#[inline]
fn to_read(slab: &Slab, present: &Present, slot: usize) -> Range<usize> {
    let (begin, end) = (slot * slab.size(), (slot + 1) * slab.size());
    match slab.care(slot) {
        SlotCare::Canary(asked) if asked < slab.size() && present.has_any(end - 1, end) => {
            end - 16..end
        }
        SlotCare::Zero if present.has_any(begin, end) => begin..end,
        _ => 0..0,
    }
}

/// Has the memory fetched that shows if the slots of the group from `first` on are whole. These are
/// reads that wait for nothing, in place of a check that waits for each. A prefetch instruction
/// would not wait for the page table either, and be lost.
///
/// # Safety
/// 1. The pages of the slab stay mapped.
unsafe fn fetch(slab: &Slab, present: &Present, first: usize) {
    for slot in first..(first + GROUP).min(slab.slots()) {
        for at in to_read(slab, present, slot).step_by(64).take(LINES_MOST) {
            let byte: *const u8 = core::ptr::with_exposed_provenance(slab.base() + at);
            // SAFETY: duty 1. Volatile, because other threads may write there.
            let _ = unsafe { byte.read_volatile() };
        }
    }
}

impl<O: Os> Allocator<O> {
    /// Returns true if the reclaimer verifies the heap.
    pub(crate) fn verifies_shares(&self) -> bool {
        // What is to go out to swap must not be read.
        WIPE && self.options.cold == 0 && !self.reclaimer.is_blind()
    }

    /// Verifies the next share of the heap, if a period has passed since the last one. On the
    /// reclaimer's thread, or on the only thread.
    pub(crate) fn verify_share(&self, share: &mut Share) {
        let now = self.os.ticks();
        if !self.verifies_shares() || now.wrapping_sub(share.at) < PAUSE {
            return;
        }
        let Some(turn) = self.reclaimer.begin() else { return };
        share.at = now;
        let most = self.pool.bytes().div_ceil(SHARES).clamp(BYTES_LEAST, BYTES_MOST);
        let mut read = 0;
        let mut each = |slab: &Slab| {
            read += SLAB_COST;
            let full = turn.add(slab);
            if slab.is_dormant() || !slab.engage() {
                turn.take_back();
            } else if full {
                read += self.verify_batch(&turn);
            }
            read < most
        };
        let done = self.small.for_each_from(&mut share.small, &mut each)
            && self.medium.for_each_from(&mut share.medium, &mut each);
        self.verify_batch(&turn);
        drop(turn);
        if done {
            self.verify_rest();
            share.complete();
        }
    }

    /// Verifies the slots of the batch, and lets go of the slabs. Returns the number of bytes of
    /// their pages.
    fn verify_batch(&self, turn: &Turn<'_>) -> usize {
        if turn.slabs().next().is_none() {
            return 0;
        }
        let mut read = 0;
        if self.barrier() {
            for slab in turn.slabs() {
                if self.is_quiet(slab) && !slab.is_dormant() {
                    // SAFETY: (1) HOLDING is set, and the owner was quiet after the barrier.
                    read += unsafe { self.verify_slots(slab) };
                }
            }
        }
        let can = self.barrier();
        for slab in turn.slabs() {
            if slab.is_overlooked(!can || !self.is_quiet(slab)) {
                announce(slab);
            }
            slab.leave();
        }
        turn.clear();
        read
    }

    /// Verifies the slots of a slab. Returns the number of bytes of its pages that are in memory.
    ///
    /// # Safety
    /// 1. The pages of the slab stay mapped.
    unsafe fn verify_slots(&self, slab: &Slab) -> usize {
        let Some(present) = self.present(slab) else { return 0 };
        // SAFETY: (1) duty 1 of this function.
        unsafe { fetch(slab, &present, 0) };
        for first in (0..slab.slots()).step_by(GROUP) {
            // SAFETY: (1) duty 1 of this function.
            unsafe { fetch(slab, &present, first + GROUP) };
            for slot in first..(first + GROUP).min(slab.slots()) {
                if !to_read(slab, &present, slot).is_empty() {
                    self.slot_is_whole(slab, slot);
                }
            }
        }
        present.bytes()
    }

    fn present(&self, slab: &Slab) -> Option<Present> {
        let page = self.os.page_size();
        let mut present = Present { pages: [0; WORDS], shift: page.trailing_zeros() };
        let _permit = self.permit(Calls::RESIDENT)?;
        let all = slab.mapped_bytes(page);
        for at in (0..all).step_by(PIECE_BYTES) {
            let (start, len) = (slab.base() + at, PIECE_BYTES.min(all - at));
            let note = |address: usize, len| present.note(address - slab.base(), len);
            if !self.os.resident_pieces(start, len, note) {
                return None;
            }
        }
        Some(present)
    }

    /// Verifies the slots in quarantines, and the large blocks.
    fn verify_rest(&self) {
        if let Some(_permit) = self.permit(Calls::REPORT) {
            self.heaps.all().all(|heap| self.waiting_of_others(heap));
        }
        self.verify_large(&Extent::all());
    }
}

#[cfg(all(test, feature = "fake-os", feature = "secure"))]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine};
    use crate::report::Call;
    use crate::thread::Heap;

    const SITE: usize = 0x5000;

    struct Program {
        fake: Fake,
        allocator: Allocator<Fake>,
        heap: &'static Heap,
        share: Share,
    }

    impl Program {
        fn new() -> Program {
            let options =
                Options { partitions: 1, warn_only: true, quarantine: 0, ..Options::DEFAULT };
            let fake = Fake::new(Machine::LARGE);
            let allocator = Allocator::new(fake.clone(), options, false).unwrap();
            allocator.filter().watch();
            let heap = allocator.acquire_heap().unwrap();
            Program { fake, allocator, heap, share: Share::default() }
        }

        fn take(&self, size: usize) -> usize {
            self.allocator.allocate(self.heap, size, SITE).unwrap()
        }

        fn free(&self, block: usize) {
            self.allocator.free(self.heap, block, Call::Free);
        }

        /// Lets time go by, until a pass is complete. Returns the reports and the seconds.
        fn pass(&mut self) -> (std::vec::Vec<std::string::String>, u32) {
            let before = self.share.passes;
            let mut seconds = 0;
            while self.share.passes == before {
                self.fake.pass(Share::PERIOD);
                self.allocator.verify_share(&mut self.share);
                seconds += Share::PERIOD / 1000;
            }
            self.allocator.check().unwrap();
            (self.fake.take_reports(), seconds)
        }
    }

    fn overwrite(address: usize) {
        let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: a byte of a slot that the test has or had.
        unsafe { byte.write(byte.read() ^ 0x55) };
    }

    #[test]
    fn an_overflow_and_a_write_after_free_are_found() {
        for size in [1, 100, 1000, 3000, 30_000] {
            let mut program = Program::new();
            let blocks: [usize; 12] = [(); 12].map(|()| program.take(size));
            program.free(blocks[5]);
            assert_eq!(program.pass().0.len(), 0, "no false alarm");
            overwrite(blocks[7] + size);
            let reports = program.pass().0;
            assert!(reports.len() == 1 && reports[0].contains("heap overflow"), "{reports:?}");
            overwrite(blocks[7] + size);
            overwrite(blocks[5] + size / 2);
            let reports = program.pass().0;
            assert!(reports.len() == 1 && reports[0].contains("write after free"), "{reports:?}");
        }
    }
}
