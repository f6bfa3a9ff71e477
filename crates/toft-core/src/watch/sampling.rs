//! Samples blocks on the slow paths of malloc and free, at random and in proportion to bytes.
//! Probes (`os/probes.rs`) and the kept stacks (`sample/`) share the choice.
//!
//! A claim begins with a slow call, and fast calls take its other slots. So the claim is cut before
//! the slot with the next chosen byte. The call that gets that slot is then slow again
//! (`bin/distance.rs`). If frees are followed, chosen blocks are marked: their state is not LIVE,
//! so their free is slow.

use crate::allocator::{Allocator, Found, handle};
use crate::bin::BinIndex;
use crate::large::Block;
use crate::os::seccomp::Calls;
use crate::os::{Os, probes};
use crate::region::Site;
use crate::report::registers;
use crate::sample::{self, Trace, Weight, Words};
use crate::site::{LEVELS_MAX, NEW_WORDS, Place, REACH, STEP_FIRST};
use crate::thread::{Heap, ReentrancyGuard};

handle!(Profiler, profiler);

impl<O: Os> Profiler<'_, O> {
    /// Samples the first slot of a new claim, at `address`, if it is chosen. Makes the claim end
    /// before the next chosen slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn sample_claim(
        self,
        heap: &Heap,
        _guard: &ReentrancyGuard,
        index: BinIndex,
        address: usize,
        site: Site,
    ) {
        let Some(distance) = heap.distance() else { return };
        let slab = heap.bins().current(index);
        let size = slab.size();
        let interval = self.options.interval();
        let pass = |bytes| distance.pass(bytes, interval, heap.address());
        let chosen = match slab.take_due() {
            Some(place) => 1 + pass(size.saturating_sub(place)),
            None => pass(size),
        };
        let claimed = slab.claimed().count_ones() as usize;
        let before = distance.pass_slots(claimed, size);
        if before < claimed {
            if slab.claim_at_most(before) {
                slab.set_due(distance.owe());
            } else {
                // The reclaimer is at the slab, so the claim cannot be cut. Its chosen slots are
                // handed out without being sampled.
                let lost = (before..claimed).filter(|_| pass(size) != 0).count();
                self.samples.lost(lost, Weight::of(size, interval));
            }
        }
        // If a guarded block has replaced the slot, nothing is reported.
        if chosen != 0
            && let Found::Slot(slab, slot) = self.find(address)
        {
            if self.samples.is_on() || probes::wants_frees() {
                slab.states.mark_sampled(slot);
            }
            self.record_sample(heap, address, size, chosen, site);
        }
    }

    /// Samples a large block that is being handed out, if it is chosen.
    #[inline]
    pub(crate) fn sample_large(self, heap: &Heap, address: usize, site: Site) {
        if probes::wants_allocations() {
            self.sample_large_by_chance(heap, address, site);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample_large_by_chance(self, heap: &Heap, address: usize, site: Site) {
        let Found::Large(block) = self.find(address) else { return };
        let Some(distance) = heap.distance() else { return };
        let bytes = block.bytes();
        let chosen = distance.pass(bytes, self.options.interval(), heap.address());
        if chosen != 0 {
            if self.samples.is_on() || probes::wants_frees() {
                block.mark_sampled();
            }
            self.record_sample(heap, address, bytes, chosen, site);
        }
    }

    fn record_sample(self, heap: &Heap, address: usize, bytes: usize, chosen: u64, site: Site) {
        let interval = self.options.interval();
        if self.samples.is_on() {
            self.keep_stack(heap, address, Weight::of(bytes, interval), site);
        }
        let weight = chosen.saturating_mul(interval as u64);
        probes::allocated(address, bytes, weight as usize);
    }

    /// Keeps the stack of a block that was not handed out yet.
    #[cold]
    #[inline(never)]
    fn keep_stack(self, heap: &Heap, address: usize, weight: Weight, site: Site) {
        let [stack, frame] = heap.take_call();
        // With this option the user states that an inherited filter allows the call that reads
        // stacks.
        let mut trace = match self.filter().permit(&self.os, Calls::REPORT, true) {
            Some(_permit) => {
                let mut trace = match self.place_of(site, Place { stack, frame }) {
                    Some(place) => Trace::of_call(site, place),
                    // The site may be above wrappers. A search could take a copy for its place, and
                    // show the functions that it called as its callers.
                    None if cfg!(target_arch = "x86_64") && self.wrappers.are_there() => {
                        Trace::of_site(site)
                    }
                    None => Trace::of_search(site),
                };
                self.samples.add_interpreted(&self.os, &mut trace);
                trace
            }
            None => Trace::of_site(site),
        };
        self.samples.had(&self.os, address, weight, &mut trace);
    }

    /// Returns the place of the return address `site`: that of the program's call, or of a call
    /// above, which `site_behind` has found by the same steps. Returns `None` if it is unknown.
    #[inline(never)]
    fn place_of(self, site: Site, call: Place) -> Option<sample::Call> {
        let (pointer, _) = registers();
        let mut words = Words::new();
        [call.stack, call.stack.wrapping_add(NEW_WORDS * size_of::<usize>())]
            .into_iter()
            // What was recorded may be of an earlier call, or of another thread's.
            .filter(|stack| (pointer..pointer.saturating_add(sample::REACH)).contains(stack))
            .find_map(|stack| {
                let limit = stack.saturating_add(REACH);
                let mut place = Place { stack, ..call };
                for _ in 0..=LEVELS_MAX {
                    let here = Site::at(words.at(place.stack)?);
                    if here == site {
                        return Some(sample::Call { stack: place.stack, frame: place.frame });
                    }
                    let (code, _) =
                        self.sites.find(here).filter(|&(code, _)| code >= STEP_FIRST)?;
                    place = place.above_by(code, limit, |address| words.at(address))?;
                    if place.frame == 0 {
                        // Unknown: the stack goes on, but cannot be followed.
                        place.frame = usize::MAX;
                    }
                }
                None
            })
    }

    /// Reports that a sampled block is about to be freed.
    pub(crate) fn record_sampled_free(self, address: usize) {
        self.samples.freed(address);
        probes::freed(address);
    }

    /// Reports that a call that returns to `site` has resized or moved a large block. With
    /// `sampled`, the old block was sampled, and is already out of the samples.
    pub(crate) fn sample_resized(
        self,
        heap: &Heap,
        (from, to): (usize, usize),
        sampled: bool,
        site: Site,
    ) {
        if sampled {
            probes::freed(from);
        }
        self.sample_large(heap, to, site);
    }

    /// Reports that a large block is about to be freed, if it was sampled.
    #[inline]
    pub(crate) fn record_large_free_if_sampled(self, block: &Block, address: usize) {
        if probes::THERE && block.take_sampled() {
            self.record_sampled_free(address);
        }
    }

    /// Reports that a block is about to be freed on a separate path, if it was sampled.
    pub(crate) fn record_free_if_sampled(self, address: usize) {
        let sampled = probes::THERE
            && match self.find(address) {
                Found::Slot(slab, slot) => {
                    slab.has_slot_at(slot, address) && slab.states.take_sampled(slot)
                }
                Found::Large(block) => block.take_sampled(),
                _ => false,
            };
        if sampled {
            self.record_sampled_free(address);
        }
    }
}
