//! Checks a few free slots of the calling thread's slabs after each claim, in the full build.
//!
//! A freed block is compared when it leaves the quarantine, and when its slot is handed out again.
//! A slot is handed out only to the call site that had it. If that site allocates no more, a write
//! after the quarantine would not be found before the heap is verified. So a thread that claims 32
//! bytes for any call site checks one byte of a free slot. It goes round all slabs that it owns. In
//! a heap of F bytes of free slots, a round takes 32 F bytes of claims. A stop at one of its slabs
//! takes 8 KiB more, and one at a slab of another thread 1 KiB.

use crate::harden::is_zero;
use crate::os::Os;
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::thread::{Heap, ReentrancyGuard};
use crate::watch::slot_checks::SlotChecks;

/// The most slabs at which a check stops, of any owner.
const SLABS_MOST: usize = 32;
/// The number of bytes that a stop at a slab of this thread, or of another, counts for. Where
/// little is free, checks are rare.
const SLAB_COST: usize = 256;
const OTHERS_COST: usize = 32;

impl<O: Os> SlotChecks<'_, O> {
    /// Checks free slots, after malloc has claimed `bytes` bytes. The caller holds the heap and its
    /// reentrancy guard.
    #[inline]
    pub(crate) fn patrol(self, heap: &Heap, guard: &ReentrancyGuard, bytes: usize) {
        if heap.patrol().earn(bytes) {
            self.check_some(heap, guard);
        }
    }

    #[cold]
    #[inline(never)]
    fn check_some(self, heap: &Heap, _guard: &ReentrancyGuard) {
        let patrol = heap.patrol();
        let (mut number, mut slot) = patrol.place();
        for _ in 0..SLABS_MOST {
            if patrol.credit() == 0 {
                break;
            }
            if self.slabs.is_end(number) {
                (number, slot) = (0, 0);
                patrol.spend(OTHERS_COST);
                continue;
            }
            let slab = self.slabs.nth(number).filter(|slab| heap.owns(slab));
            patrol.spend(if slab.is_some() { SLAB_COST } else { OTHERS_COST });
            if let Some(slab) = slab.filter(|slab| !slab.is_dormant()) {
                while let Some(next) = slab.next_left(SlotIndex::new(slot)) {
                    if slab.size() > patrol.credit() {
                        return patrol.go_to(number, next.number());
                    }
                    patrol.spend(slab.size());
                    self.check_left(slab, next);
                    slot = next.number() + 1;
                }
            }
            number += 1;
            slot = 0;
        }
        patrol.go_to(number, slot);
    }

    /// Checks a free slot, and reports what was written there.
    #[inline]
    fn check_left(self, slab: &Slab, slot: SlotIndex) {
        let (address, bytes) = (slab.slot_address(slot), slab.size());
        // SAFETY: (1) a slot of a slab of this thread that is not dormant; (2) the processor was
        // asked.
        if unsafe { is_zero(address, bytes, self.long_vectors) } || !slab.take_left(slot) {
            return;
        }
        self.find_writes(slab, slot, address, Call::Malloc);
        slab.leave(slot);
    }
}

#[cfg(all(test, feature = "fake-os", feature = "secure"))]
mod tests {
    use crate::allocator::Allocator;
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine};
    use crate::report::Call;

    /// A block leaves the quarantine, and is written to. Its call site allocates no more, and
    /// another one goes on.
    #[test]
    fn a_late_write_is_found_while_another_site_allocates() {
        const SITES: [usize; 2] = [0x5000, 0x9000];
        for size in [16, 64, 100, 500, 1000, 5000, 60_000] {
            let options = Options { warn_only: true, partitions: 4, ..Options::DEFAULT };
            let fake = Fake::new(Machine::LARGE);
            let allocator = Allocator::new(fake.clone(), options, false).unwrap();
            allocator.filter().watch();
            let heap = allocator.held_heaps().acquire_heap().unwrap();
            let take = |site: usize| allocator.allocate(heap, size, SITES[site]).unwrap();
            let free = |block| allocator.free(heap, block, Call::Free);
            let turn = |times: usize| (0..times).for_each(|_| free(take(1)));
            let blocks = [(); 10].map(|()| take(0));
            // The others stay, so that the slab keeps its owner and its pages.
            free(blocks[4]);
            // Some blocks stay in the quarantine several times as long as most.
            turn(20_000);
            assert_eq!(fake.take_reports(), [] as [std::string::String; 0], "{size}");
            let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(blocks[4] + size / 2);
            // SAFETY: a byte of a slot that the test has had.
            unsafe { byte.write(1) };
            turn(if size <= 100 { 80_000 } else { 20_000 });
            let reports = fake.take_reports();
            // One block in some hundred is still in the quarantine, and is found when it leaves it.
            let words = ["malloc", "free"].map(|call| {
                std::format!(
                    "toft: write after free: {call}({:#x}): byte {} of this free {size}-byte block",
                    blocks[4],
                    size / 2
                )
            });
            let is_named =
                |report: &std::string::String| words.iter().any(|w| report.starts_with(w));
            assert!(reports.len() == 1 && is_named(&reports[0]), "{size}: {reports:?}");
            turn(20_000);
            assert_eq!(fake.take_reports(), [] as [std::string::String; 0], "it is named once");
            allocator.check().unwrap();
        }
    }
}
