//! Checks a few free slots of the calling thread's slabs after each claim, in the full build.
//!
//! A freed block is compared when it leaves the quarantine, and when its slot is handed out again.
//! A slot is handed out only to the call site that had it. If that site allocates no more, a write
//! after the quarantine would not be found before the heap is verified. So a thread that claims 32
//! bytes for any call site checks one byte of a free slot. It goes round all slabs that it owns. In
//! a heap of F bytes of free slots, a round takes 32 F bytes of claims. A stop at a slab, and at a
//! partition of which the heap has had slabs, takes 8 KiB more. It passes by other partitions.

use crate::harden::is_zero;
use crate::os::Os;
use crate::region::{PlotPlace, SlabPlace};
use crate::report::Call;
use crate::slab::{Slab, SlotIndex};
use crate::thread::{Heap, Seat};
use crate::watch::slot_checks::SlotChecks;

/// The most slabs at which a check stops, of any owner.
const SLABS_MOST: usize = 8;
/// The number of bytes that a stop at a slab, or at the end of a plot, counts for. Where little is
/// free, checks are rare.
const SLAB_COST: usize = 256;

impl<O: Os> SlotChecks<'_, O> {
    /// Checks free slots, after malloc has claimed `bytes` bytes of a slab. The caller holds the
    /// heap and its seat.
    #[inline]
    pub(crate) fn patrol(self, heap: &Heap, seat: &Seat, slab: &Slab, bytes: usize) {
        self.note_slab(heap, slab);
        if heap.patrol().earn(bytes) {
            self.check_some(heap, seat);
        }
    }

    /// Notes that malloc has claimed slots of a slab, so that checks stop at its partition.
    #[inline]
    pub(crate) fn note_slab(self, heap: &Heap, slab: &Slab) {
        heap.patrol().note(!slab.class().is_small(), slab.partition());
    }

    /// Moves a place on to the first plot in which the heap may have slabs.
    ///
    /// The first plots, in their order, are the partitions'. The others have slabs. If there are
    /// fewer plots than partitions, none is passed by.
    fn pass_by_unused(self, heap: &Heap, at: &mut SlabPlace) {
        let partitions = self.options.partitions;
        let last = PlotPlace { plot: partitions.saturating_sub(1), slab: 0 };
        // Both tiers have as many plots.
        let is_shared = self.slabs.is_end(SlabPlace { medium: true, place: last });
        let plot = at.place.plot;
        if at.place.slab == 0 && !is_shared {
            at.place.plot = heap.patrol().next_had(at.medium, plot, partitions).max(plot);
        }
    }

    #[cold]
    #[inline(never)]
    fn check_some(self, heap: &Heap, _seat: &Seat) {
        let patrol = heap.patrol();
        let (mut place, mut slot) = patrol.place();
        for _ in 0..SLABS_MOST {
            self.pass_by_unused(heap, &mut place);
            let here = place;
            patrol.spend(SLAB_COST);
            if self.slabs.is_end(place) {
                (place, slot) = (SlabPlace::default(), 0);
                continue;
            }
            let slab = self.slabs.step(&mut place);
            if let Some(slab) = slab.filter(|slab| heap.owns(slab) && !slab.is_dormant()) {
                while let Some(next) = slab.next_left(SlotIndex::new(slot)) {
                    if slab.size() > patrol.credit() {
                        return patrol.go_to(here, next.number());
                    }
                    patrol.spend(slab.size());
                    self.check_left(slab, next);
                    slot = next.number() + 1;
                }
            }
            slot = 0;
        }
        patrol.go_to(place, 0);
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
