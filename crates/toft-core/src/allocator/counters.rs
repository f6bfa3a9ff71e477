//! What an allocator writes after it is built, apart from its parts: counts, and what was
//! reported_options or drawn.

use super::verify_progress::SavedProgress;
use super::{Allocator, Written};
use crate::os::Os;
use crate::os::filter::Filter;
use crate::reclaim::Pressure;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes for the counters at the start of the tables.
pub(crate) const COUNTERS: usize = 256;

/// What the allocator itself writes after it is built; at the start of the tables, zero at first.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Bad calls that were ignored. Any thread.
    misuses: AtomicUsize,
    pressure: Pressure,
    /// Random words drawn. Any thread; which one has which does not matter.
    drawn: AtomicU64,
    /// Mappings that guard pages have cost. Any thread.
    guard_page_mappings: AtomicUsize,
    /// A bit for each mapping option that the system has refused, and that was reported. Any
    /// thread.
    reported_options: AtomicU32,
    filter: Filter,
    /// Allocations that slow paths have looked at. Any thread.
    looked_at: AtomicUsize,
    /// Blocks that were freed permanently, and their bytes. Any thread.
    permanently_freed: [AtomicUsize; 2],
    /// Bytes of blocks that fit in the quarantines of threads that use shared heaps. Any thread.
    own_quarantines: AtomicUsize,
    /// Not zero if a form of `operator new` that is not Toft's may have requested blocks. Any
    /// thread sets it.
    rounds_sizes: AtomicU32,
    /// The tick at which a free in a shared slab last woke the reclaimer's thread. Any thread.
    woken_for_shared: AtomicU32,
    /// The tick at which the size of the program was last counted, and what was known of it then.
    /// Any thread; which one counts does not matter.
    size_counted_at: AtomicU64,
    /// The address of the page of `process::interface_page`, or zero. Any thread; written once.
    interface_page: AtomicUsize,
    /// The numbers of allocated and freed blocks that were last written as metrics. Any thread.
    served: [AtomicU64; 2],
    /// What is known of the system's huge pages (`keeper/mappings/mapping_options.rs`), zero at
    /// first. Any thread, and all write the same value.
    huge_habit: AtomicU32,
    /// What is remembered of the profiles that were written.
    written: Written,
    /// How far the heap is verified while no thread of Toft runs. That thread takes it and leaves
    /// it.
    verify_progress: SavedProgress,
}

const _: () = assert!(size_of::<Counters>() <= COUNTERS);

impl<O: Os> Allocator<O> {
    /// Bad calls so far.
    pub fn misuses(&self) -> &AtomicUsize {
        &self.counters().misuses
    }

    /// Allocations that slow paths have looked at.
    pub(crate) fn looked_at(&self) -> &AtomicUsize {
        &self.counters().looked_at
    }

    /// Blocks that were freed permanently, and their bytes.
    pub fn permanently_freed(&self) -> &[AtomicUsize; 2] {
        &self.counters().permanently_freed
    }

    /// Bytes of blocks that fit in the quarantines of threads that use shared heaps.
    pub(crate) fn own_quarantines(&self) -> &AtomicUsize {
        &self.counters().own_quarantines
    }

    /// Notes that a form of `operator new` that is not Toft's may request blocks. It rounds their
    /// sizes up.
    pub fn note_rounded_sizes(&self) {
        self.counters().rounds_sizes.store(1, Ordering::Relaxed);
    }

    /// Returns true after `note_rounded_sizes`.
    pub(crate) fn may_round_sizes(&self) -> bool {
        self.counters().rounds_sizes.load(Ordering::Relaxed) != 0
    }

    /// Returns the bytes that count against the limit.
    pub fn counted_bytes(&self) -> usize {
        let descriptors = self.slabs.descriptor_bytes();
        let metadata = descriptors + self.heaps.mapped_bytes();
        self.pool.bytes() + self.large.counted_bytes() + metadata
    }

    /// The tick at which a free in a shared slab last woke the reclaimer's thread.
    pub(crate) fn woken_for_shared(&self) -> &AtomicU32 {
        &self.counters().woken_for_shared
    }

    /// The numbers of allocated and freed blocks that were last written as metrics.
    pub fn served(&self) -> &[AtomicU64; 2] {
        &self.counters().served
    }

    /// When the size of the program was last counted, and what was known of it then.
    pub(crate) fn size_counted_at(&self) -> &AtomicU64 {
        &self.counters().size_counted_at
    }

    /// The address of the page of `process::interface_page`, or zero.
    pub(crate) fn interface_page(&self) -> &AtomicUsize {
        &self.counters().interface_page
    }

    /// What is known of the system's huge pages.
    pub(crate) fn huge_habit(&self) -> &AtomicU32 {
        &self.counters().huge_habit
    }

    /// What is remembered of the profiles that were written.
    pub fn written(&self) -> &Written {
        &self.counters().written
    }

    /// How far the heap is verified while no thread of Toft runs.
    pub(crate) fn verify_progress(&self) -> &SavedProgress {
        &self.counters().verify_progress
    }

    /// Whether the system is short of memory: then what becomes empty is given back at once.
    pub fn pressure(&self) -> &Pressure {
        &self.counters().pressure
    }

    /// Mappings that guard pages have cost.
    pub fn guard_page_mappings(&self) -> &AtomicUsize {
        &self.counters().guard_page_mappings
    }

    /// The mapping options that were reported as refused.
    pub(crate) fn reported_options(&self) -> &AtomicU32 {
        &self.counters().reported_options
    }

    /// A random word. Secure build only.
    pub(crate) fn draw(&self) -> u64 {
        self.key.mix(self.counters().drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// What is known about filters of system calls: who makes an unusual one asks it for a permit.
    pub fn filter(&self) -> &Filter {
        &self.counters().filter
    }

    fn counters(&self) -> &Counters {
        // SAFETY: the start of the tables, which live for ever; all-zero is a `Counters`. Not
        // read before the allocator is built: it owns nothing then, and misuse is fatal.
        unsafe { &*self.counters }
    }

    /// Number of bad calls so far.
    pub fn misuse_count(&self) -> usize {
        self.misuses().load(Ordering::Relaxed)
    }
}
