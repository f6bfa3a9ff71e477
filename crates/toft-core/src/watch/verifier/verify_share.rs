//! Verifies a third of the heap every three seconds, on the reclaimer's thread. Secure build only,
//! and only its full strength.
//!
//! It finds overflows of live blocks and writes into freed ones, while the program does nothing
//! with these blocks. A pass over the heap takes ten seconds, and longer above a gigabyte. When the
//! program is idle, the rest of the heap follows at once, as fast as 3 % of a processor allow
//! (`allocator/verify_progress.rs`):
//!
//! ```text
//! | slabs, in the order of demand | quarantines, large blocks |  then again
//!   '- a share every three seconds -'
//! ```
//!
//! A batch of slabs is taken hold of as for a sweep, but no slot is held. While a slab has HOLDING
//! set, and its owner was quiet after a barrier, its pages stay mapped. So they are read without
//! system calls. Pages that are not in memory are left alone, because reading would bring them
//! there. Threads go on meanwhile: a slot counts as damaged only if it stays so
//! (`verify_slots.rs`).

use crate::allocator::VerifyProgress;
use crate::os::Os;
use crate::policy::WIPE;
use crate::reclaim::Turn;
use crate::slab::{Slab, SlotCare, SlotIndex};
use crate::watch::verifier::Verifier;
use crate::watch::verifier::extent::Extent;
use crate::watch::verifier::present::Present;
use core::ops::Range;

/// The least number of shares in a pass while the program runs.
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
/// Returns the bytes of the slab that show if a slot is whole: none, the last of its canary, or all
/// of it. None if one of the pages that a check reads is not in memory.
#[inline]
fn to_read(slab: &Slab, present: &Present, slot: SlotIndex) -> Range<usize> {
    let (begin, end) = (slot.begin(slab.size()), slot.end(slab.size()));
    let (bytes, there) = match slab.care(slot) {
        SlotCare::Canary(asked) if asked < slab.size() => {
            (end - 16..end, present.has_canary(begin + asked, end))
        }
        SlotCare::Zero => (begin..end, present.has_all(&(begin..end))),
        SlotCare::LastByte => (end - 1..end, present.has_all(&(end - 1..end))),
        _ => (0..0, false),
    };
    if there { bytes } else { 0..0 }
}

/// Reads the memory that shows if the slots of the group from `first` on are whole. The processor
/// waits for none of these reads, while a check waits for each. A prefetch instruction is lost if
/// the page table is not in the caches.
///
/// # Safety
/// 1. The pages of the slab stay mapped.
unsafe fn fetch(slab: &Slab, present: &Present, first: usize) {
    for slot in SlotIndex::range(first..(first + GROUP).min(slab.slots())) {
        let bytes = to_read(slab, present, slot);
        let (mut at, end) = (bytes.start, bytes.end.min(bytes.start + LINES_MOST * 64));
        while at < end {
            let byte: *const u8 = core::ptr::with_exposed_provenance(slab.base() + at);
            // SAFETY: duty 1. Volatile, because other threads may write there.
            let _ = unsafe { byte.read_volatile() };
            at += 64;
        }
    }
}

impl<O: Os> Verifier<'_, O> {
    /// Returns true if the reclaimer verifies the heap.
    pub(crate) fn verifies_shares(self) -> bool {
        // What is to go out to swap must not be read.
        WIPE && self.options.cold == 0 && !self.reclaimer.is_blind()
    }

    /// Verifies the next share of the heap. On the reclaimer's thread, or on the only thread.
    pub(crate) fn verify_share(self, progress: &mut VerifyProgress) {
        let shares = if progress.is_idle() { 1 } else { SHARES };
        let most = self.pool.bytes().div_ceil(shares).clamp(BYTES_LEAST, BYTES_MOST);
        let mut read = 0;
        let mut done = false;
        // A call that stops the thread waits for it.
        while !done && read < most && !self.reclaimer.life().is_held() {
            // A turn for each batch: others wait for it, and so does the child of a fork.
            let Some(turn) = self.reclaimer.begin() else { return };
            let mut each = |slab: &Slab| {
                read += SLAB_COST;
                if slab.is_dormant() || !slab.has_owner() {
                    return read < most;
                }
                let full = turn.add(slab);
                if !slab.pinning().engage() {
                    turn.take_back();
                }
                !full && read < most
            };
            done = self.slabs.for_each_from(&mut progress.slabs, &mut each);
            read += self.verify_batch(&turn);
        }
        if done {
            self.verify_rest();
            progress.complete();
        }
    }

    /// Verifies the slots of the batch, and lets go of the slabs. Returns the number of bytes of
    /// their pages. No slot was held, so there is nothing that an owner could have overlooked.
    fn verify_batch(self, turn: &Turn<'_>) -> usize {
        let mut read = 0;
        if turn.slabs().next().is_some() && self.barrier() {
            for slab in turn.slabs() {
                if self.heaps.is_quiet(slab) && !slab.is_dormant() {
                    // SAFETY: (1) HOLDING is set, and the owner was quiet after the barrier.
                    read += unsafe { self.verify_slots(slab) };
                }
            }
        }
        turn.slabs().for_each(|slab| slab.pinning().leave());
        turn.clear();
        read
    }

    /// Verifies the slots of a slab. Returns the number of bytes of its pages that are in memory.
    ///
    /// # Safety
    /// 1. The pages of the slab stay mapped.
    unsafe fn verify_slots(self, slab: &Slab) -> usize {
        let Some(present) = Present::of(self, slab) else { return 0 };
        // SAFETY: (1) duty 1 of this function.
        unsafe { fetch(slab, &present, 0) };
        let mut first = 0;
        while first < slab.slots() {
            // SAFETY: (1) duty 1 of this function.
            unsafe { fetch(slab, &present, first + GROUP) };
            for slot in SlotIndex::range(first..(first + GROUP).min(slab.slots())) {
                if !to_read(slab, &present, slot).is_empty() {
                    self.slot_is_whole(slab, slot);
                }
            }
            first += GROUP;
        }
        present.bytes()
    }

    /// Verifies the slots in quarantines, and the large blocks.
    fn verify_rest(self) {
        self.heaps.all().all(|heap| self.waiting_of_others(heap));
        self.verify_large(&Extent::all());
    }
}

#[cfg(all(test, feature = "fake-os", feature = "secure"))]
mod tests {
    use super::*;
    use crate::allocator::{Allocator, VerifyProgress};
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine};
    use crate::report::Call;
    use crate::slab::SizeClass;
    use crate::thread::Heap;

    const SITE: usize = 0x5000;

    struct Program {
        fake: Fake,
        allocator: Allocator<Fake>,
        heap: &'static Heap,
        progress: VerifyProgress,
    }

    impl Program {
        fn new() -> Program {
            let options =
                Options { partitions: 1, warn_only: true, quarantine: 0, ..Options::DEFAULT };
            let fake = Fake::new(Machine::LARGE);
            let allocator = Allocator::new(fake.clone(), options, false).unwrap();
            allocator.filter().watch();
            let heap = allocator.held_heaps().acquire_heap().unwrap();
            Program { fake, allocator, heap, progress: VerifyProgress::default() }
        }

        fn take(&self, size: usize) -> usize {
            self.allocator.allocate(self.heap, size, SITE).unwrap()
        }

        fn free(&self, block: usize) {
            self.allocator.free(self.heap, block, Call::Free);
        }

        /// Verifies a whole pass. Returns the reports and the number of shares.
        fn pass(&mut self) -> (std::vec::Vec<std::string::String>, usize) {
            let before = self.progress.passes;
            let mut shares = 0;
            while self.progress.passes == before {
                self.allocator.verifier().verify_share(&mut self.progress);
                shares += 1;
            }
            self.allocator.check().unwrap();
            (self.fake.take_reports(), shares)
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

    /// The block is zero, too: nothing but the state of its slot says that there is a canary.
    #[test]
    fn an_overflow_by_zeros_is_found() {
        for size in [1, 100, 1000, 3000, 30_000] {
            let mut program = Program::new();
            let block = program.take(size);
            let slack = SizeClass::of(size + 1).unwrap().size() - size;
            let behind: *mut u8 = core::ptr::with_exposed_provenance_mut(block + size);
            // SAFETY: the rest of a slot that the test has.
            unsafe { behind.write_bytes(0, slack) };
            let reports = program.pass().0;
            assert!(reports.len() == 1 && reports[0].contains("heap overflow"), "{reports:?}");
        }
    }

    #[test]
    fn a_pass_over_a_large_heap_takes_several_shares() {
        let mut program = Program::new();
        for _ in 0..1000 {
            let block: *mut u8 = core::ptr::with_exposed_provenance_mut(program.take(30_000));
            // SAFETY: a block of the test.
            unsafe { block.write_bytes(1, 30_000) };
        }
        let (reports, shares) = program.pass();
        // A share ends with a batch, which may be as large as all of a third.
        assert!(reports.is_empty() && (2..=SHARES).contains(&shares), "{shares}");
    }
}
