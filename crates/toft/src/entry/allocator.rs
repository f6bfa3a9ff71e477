//! The allocator: all its parts, built once, over any operating system.

use super::profile::Written;
use crate::bin::ROW_WORDS;
use crate::guarded::{Guarded, Slot};
use crate::harden::Long;
use crate::keyed::{Key, Secret};
use crate::large::{Blocks, Tally};
use crate::nothing::{Nothing, Place};
use crate::options::{Huge, Options, SiteMode};
use crate::os::filter::Filter;
use crate::os::{Error, HugeHabit, Os};
use crate::policy::HARDENED;
use crate::reclaim::{Control, Groups, Limit, Pool, Reclaimer};
use crate::region::{Descriptor, Layout, Plots, Windows};
use crate::remote::announce;
use crate::sample::Samples;
use crate::site::{Hints, STEP_FIRST, SiteHash, Sites, Watch, Wrappers};
use crate::slab::{MEDIUM, SMALL, Slab, Tier, TierNumber, Violation};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::thread::{Heap, Heaps, Quarantine, thread_block};
use crate::zone::Zones;

/// Where the states of heaps lie within the tables' part of the metadata window.
const STATES_OFFSET: usize = 32 << 20;
/// Bytes for the counters at the start of the tables.
const COUNTERS: usize = 192;

/// A whole allocator. Never changes after it is built, but for what its parts point to, so the
/// process's own one lies in read-only memory.
#[derive(Debug)]
pub struct Allocator<O> {
    /// What every free reads.
    pub(super) small: Plots<SMALL, Slab>,
    /// First address of the data window, and bytes in its slab tiers and its large tier.
    base: usize,
    span: usize,
    large_span: usize,
    pub(super) medium: Plots<MEDIUM, Slab>,
    pub(super) large: Blocks,
    pub(super) nothing: Nothing,
    /// Private zones.
    pub(super) zones: Zones,
    pub(super) pool: Pool,
    pub(super) reclaimer: Reclaimer,
    pub(super) groups: Groups,
    pub(super) limit: Limit,
    /// Whether this lives as long as the process, so that a thread of ours may use it.
    pub(super) for_ever: bool,
    /// All heaps.
    pub heaps: Heaps,
    pub(super) hash: SiteHash,
    /// Call sites and their partitions, in exact mode.
    pub sites: Sites,
    /// Functions whose callers are the call sites.
    pub(super) wrappers: Wrappers,
    pub(super) watch: Watch,
    /// What an earlier run showed of call sites.
    pub(super) hints: Hints,
    /// Sampled blocks between guard pages.
    pub(super) guarded: Guarded,
    /// Sampled allocations with their stacks.
    pub(super) samples: Samples,
    /// Whether slow paths have something to do with blocks that they hand out.
    pub(super) watchful: bool,
    /// What canaries are made from.
    pub(super) secret: Secret,
    /// Whether bytes are cleared and looked at by long vectors.
    pub(super) long_vectors: Long,
    /// The share of its places that a quarantine uses.
    pub(super) quarantine_share: usize,
    /// Where walls are. Hardened build only.
    key: Key,
    pub(super) os: O,
    pub(super) options: Options,
    /// Whether the system is told to make no huge pages of slabs by itself: where it would.
    pub(super) small_pages: bool,
    /// Whether what is readied is put into pages of 64 KiB.
    pub(super) middle_pages: bool,
    /// Whether addresses may be written to stderr.
    pub(super) hide_addresses: bool,
    counters: *const Counters,
}

/// What the allocator itself writes after it is built; at the start of the tables, zero at first.
#[derive(Debug)]
struct Counters {
    /// Bad calls that were ignored. Any thread.
    misuses: AtomicUsize,
    /// Not zero once the system has refused memory. Any thread.
    pressure: AtomicUsize,
    /// Random words drawn. Any thread; which one has which does not matter.
    drawn: AtomicU64,
    /// Mappings that walls have cost. Any thread.
    wall_mappings: AtomicUsize,
    /// A bit for each wish that could not be fulfilled, and of which that was said. Any thread.
    told: AtomicU32,
    filter: Filter,
    /// Allocations that slow paths have looked at. Any thread.
    looked_at: AtomicUsize,
    /// Blocks that were freed for good, and their bytes. Any thread.
    gone: [AtomicUsize; 2],
    /// What is remembered of the profiles that were written.
    written: Written,
}

const _: () = assert!(size_of::<Counters>() <= COUNTERS);

// SAFETY: the raw pointers inside lead to tables of atomics that live for ever; every other field
// is never written after the allocator is built.
unsafe impl<O: Sync> Sync for Allocator<O> {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl<O: Send> Send for Allocator<O> {}

/// What an address is to the allocator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// The start of a slot.
    Slot(&'a Slab, usize),
    /// Within a slab, but not the start of a slot.
    InSlab(&'a Slab, usize),
    /// The start of a large block.
    Large(&'a crate::large::Block),
    /// Within a large block's extent.
    InLarge(&'a crate::large::Block),
    /// In or near a sampled block between guard pages.
    Guarded(&'a Slot),
    /// Among the blocks of no bytes.
    Nothing(Place),
    /// Not ours.
    Foreign,
}

impl<O> Allocator<O> {
    /// An allocator to which every address is foreign.
    pub const fn unready(os: O) -> Allocator<O> {
        Allocator {
            base: 0,
            span: 0,
            large_span: 0,
            small: Plots::none(),
            medium: Plots::none(),
            large: Blocks::none(),
            nothing: Nothing::none(),
            zones: Zones::none(),
            pool: Pool::none(),
            reclaimer: Reclaimer::none(),
            groups: Groups::none(),
            limit: Limit::none(),
            for_ever: false,
            heaps: Heaps::none(),
            hash: SiteHash::single(),
            sites: Sites::none(),
            wrappers: Wrappers::none(),
            watch: Watch::none(),
            hints: Hints::none(),
            guarded: Guarded::none(),
            samples: Samples::none(),
            watchful: false,
            secret: Secret::none(),
            long_vectors: Long::NONE,
            quarantine_share: 0,
            key: Key::NONE,
            os,
            options: Options::DEFAULT,
            small_pages: false,
            middle_pages: false,
            hide_addresses: false,
            counters: core::ptr::null(),
        }
    }
}

impl<O: Os> Allocator<O> {
    /// Builds an allocator: chooses its windows and maps its tables.
    pub fn new(os: O, options: Options, hide_addresses: bool) -> Result<Allocator<O>, Error> {
        // Slots that share memory with others cannot be told from what was written after a free; and where
        // slabs share pages, walls would move.
        let compact = options.compact && !HARDENED;
        let partitions = crate::experiment::partitions(options.partitions_there_are());
        let exact = options.is_exact() && partitions >= Sites::PARTITIONS_LEAST;
        let sites = if exact { SiteMode::Exact } else { SiteMode::Hash };
        let options = Options { partitions, sites, compact, ..options };
        let windows = Windows::choose(&os, options.partitions)?;
        let layout = Layout::new(windows, os.page_size());
        let (data, span, large_span) = (windows.data, windows.span, windows.large_span);
        let os = os.with_tables(layout.tables..layout.end);
        let partitions = options.partitions;

        let heaps_at = layout.tables + COUNTERS;
        let small_at = (heaps_at + Heaps::TABLE_BYTES).next_multiple_of(64);
        let medium_at =
            (small_at + Plots::<SMALL, Slab>::table_bytes(span, partitions)).next_multiple_of(64);
        let large_at =
            (medium_at + Plots::<MEDIUM, Slab>::table_bytes(span, partitions)).next_multiple_of(64);
        let pool_at = (large_at + Blocks::table_bytes(large_span, partitions)).next_multiple_of(64);
        let reclaimer_at = (pool_at + Pool::table_bytes(partitions)).next_multiple_of(64);
        let groups_at = (reclaimer_at + Reclaimer::TABLE_BYTES).next_multiple_of(64);
        let limit_at = (groups_at + Groups::TABLE_BYTES).next_multiple_of(64);
        let nothing_at = (limit_at + Limit::TABLE_BYTES).next_multiple_of(64);
        let sites_at = (nothing_at + Nothing::TABLE_BYTES).next_multiple_of(64);
        let wrappers_at = (sites_at + Sites::TABLE_BYTES).next_multiple_of(64);
        let watch_at = (wrappers_at + Wrappers::TABLE_BYTES).next_multiple_of(64);
        let zones_at = (watch_at + Watch::TABLE_BYTES).next_multiple_of(64);
        let tally_at = (zones_at + Zones::TABLE_BYTES).next_multiple_of(64);
        let samples_at = (tally_at + Tally::TABLE_BYTES).next_multiple_of(64);
        let end = samples_at + Samples::TABLE_BYTES;
        debug_assert!(end - layout.tables <= STATES_OFFSET);
        os.map(layout.tables, (end - layout.tables).next_multiple_of(os.page_size()))?;

        let hash = SiteHash::new(partitions, os.random()?);
        let sites_window = (layout.sites, layout.sites + layout.sites_span);
        let sites = if exact {
            // SAFETY: (1) its own piece of the zero tables that were mapped above; (2) its own part of the
            // metadata window.
            unsafe { Sites::new(sites_window, partitions, os.random()?, sites_at) }
        } else {
            Sites::none()
        };
        let wrappers_window = (layout.wrappers, layout.wrappers + layout.wrappers_span);
        let wrappers = if exact && options.wrappers.is_some() {
            // SAFETY: (1), (2) as above.
            unsafe { Wrappers::new(wrappers_window, wrappers_at) }
        } else {
            Wrappers::none()
        };
        let watch = if exact && options.wrappers.is_some_and(|names| names.finds()) {
            // SAFETY: (1), (2) as above.
            unsafe { Watch::new((layout.notes, layout.notes + layout.notes_span), watch_at) }
        } else {
            Watch::none()
        };
        let samples = if options.sample == 0 {
            Samples::none()
        } else {
            let window = (layout.samples, layout.samples + layout.samples_span);
            // SAFETY: (1), (2) as above.
            unsafe { Samples::new(window, samples_at) }
        };
        let secret = Secret::new(&os)?;
        let keep = options.large_keep;
        let nothing_span = windows.nothing_span();
        let blocks_span = large_span - nothing_span;
        let key = if HARDENED { Key::new(&os)? } else { Key::NONE };
        let heap_window = (layout.heaps, layout.end);
        let states = layout.tables + STATES_OFFSET;
        // SAFETY: (1) each part gets its own piece of the zero tables that were mapped above;
        // (2) its own part of the two windows, which nobody else uses.
        let (small, medium, large, nothing, zones, pool, reclaimer, groups, limit, heaps) = unsafe {
            (
                Plots::new(&os, data, span, partitions, layout.small_slabs, small_at)?,
                Plots::new(
                    &os,
                    data + span + large_span,
                    span,
                    partitions,
                    layout.medium_slabs,
                    medium_at,
                )?,
                Blocks::new(
                    &os,
                    (data + span, blocks_span),
                    layout.large_blocks,
                    partitions,
                    large_at,
                    keep,
                )?
                .with_tally(Tally::new(
                    (layout.tallies, layout.tallies + layout.tallies_span),
                    tally_at,
                )),
                Nothing::new(
                    (data + span + blocks_span, nothing_span),
                    layout.nothing,
                    nothing_at,
                    key.mix(u64::MAX),
                ),
                Zones::new(
                    zones_at,
                    [data..data + 2 * span + large_span, layout.tables..layout.end],
                ),
                Pool::new(pool_at, partitions, layout.small_slabs, secret),
                Reclaimer::new(reclaimer_at, os.process()),
                Groups::new(groups_at, layout.small_slabs),
                Limit::new(limit_at, options.limit.bytes(|| os.memory_there_is())),
                Heaps::new(&os, heap_window, states, partitions, (hash, sites, secret), heaps_at),
            )
        };
        // What the kernel sees fit needs no asking.
        let kernel = options.huge == Huge::Kernel;
        let habit = if kernel { HugeHabit::default() } else { os.huge_habit() };
        let middle_pages = options.ready && habit.middle;
        let small_pages = habit.unasked || middle_pages;
        Ok(Allocator {
            base: data,
            span,
            large_span,
            small,
            medium,
            large,
            nothing,
            zones,
            pool,
            reclaimer,
            groups,
            limit,
            for_ever: false,
            heaps,
            hash,
            sites,
            wrappers,
            watch,
            hints: Hints::none(),
            guarded: Guarded::none(),
            samples,
            watchful: options.is_watchful(),
            secret,
            long_vectors: if HARDENED { Long::of_processor() } else { Long::NONE },
            quarantine_share: Quarantine::share(options.quarantine),
            key,
            os,
            options,
            small_pages,
            middle_pages,
            hide_addresses,
            counters: core::ptr::with_exposed_provenance(layout.tables),
        })
    }

    /// The same allocator with a pool of sampled blocks.
    pub(super) fn with_guarded(self, guarded: Guarded) -> Allocator<O> {
        Allocator { guarded, ..self }
    }

    /// The same allocator, that follows these hints. Before it is used.
    pub(super) fn with_hints(self, hints: Hints) -> Allocator<O> {
        self.sites.reserve(hints.groups());
        Allocator { hints, ..self }
    }

    /// The same allocator, which may have a thread of its own.
    ///
    /// # Safety
    /// 1. It is put where it stays for as long as the process lives, before it is used.
    pub(super) unsafe fn living_for_ever(self) -> Allocator<O> {
        Allocator { for_ever: true, ..self }
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The operating system underneath.
    pub fn os(&self) -> &O {
        &self.os
    }

    /// Bad calls so far.
    pub fn misuses(&self) -> &AtomicUsize {
        &self.counters().misuses
    }

    /// Allocations that slow paths have looked at.
    pub(super) fn looked_at(&self) -> &AtomicUsize {
        &self.counters().looked_at
    }

    /// Blocks that were freed for good, and their bytes.
    pub fn gone(&self) -> &[AtomicUsize; 2] {
        &self.counters().gone
    }

    /// What is remembered of the profiles that were written.
    pub(super) fn written(&self) -> &Written {
        &self.counters().written
    }

    /// Whether the system has ever refused memory: then what becomes empty is given back at once.
    pub(super) fn pressure(&self) -> &AtomicUsize {
        &self.counters().pressure
    }

    /// Mappings that walls have cost.
    pub fn wall_mappings(&self) -> &AtomicUsize {
        &self.counters().wall_mappings
    }

    /// Which wishes were said not to be fulfilled.
    pub(super) fn told(&self) -> &AtomicU32 {
        &self.counters().told
    }

    /// A random word. Hardened build only.
    pub(super) fn draw(&self) -> u64 {
        self.key.mix(self.counters().drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// What is known about filters of system calls: who makes an unusual one asks it for a permit.
    pub fn filter(&self) -> &Filter {
        &self.counters().filter
    }

    fn counters(&self) -> &Counters {
        // SAFETY: the start of the tables, which live for ever; all-zero is a `Counters`. Nobody
        // asks before the allocator is built: it owns nothing then, and misuse is fatal.
        unsafe { &*self.counters }
    }

    /// Whether an address lies where blocks may be.
    #[inline]
    pub(super) fn may_be_block(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < 2 * self.span + self.large_span
    }

    /// What an address is. Touches nothing but metadata.
    #[inline]
    pub(super) fn find(&self, address: usize) -> Found<'_> {
        if let Some(slab) = self.small.slab_at(address)
            && let Some(slot) = slab.slot_at::<SMALL>(Tier::of(SMALL).offset(address))
        {
            return Found::Slot(slab, slot);
        }
        if let Some(slab) = self.medium.slab_at(address)
            && let Some(slot) = slab.slot_at::<MEDIUM>(Tier::of(MEDIUM).offset(address))
        {
            return Found::Slot(slab, slot);
        }
        self.find_other(address)
    }

    /// What an address is that does not begin a slot.
    #[inline(never)]
    fn find_other(&self, address: usize) -> Found<'_> {
        let offset = address.wrapping_sub(self.base);
        if offset < self.span {
            in_slab::<SMALL>(self.small.slab_at(address), address)
        } else if offset < self.span + self.large_span {
            if HARDENED && let Some(place) = self.nothing.at(address) {
                return Found::Nothing(place);
            }
            match self.large.block_at(address) {
                Some(block) => Found::Large(block),
                None => match self.large.block_around(address) {
                    Some(block) => Found::InLarge(block),
                    None => Found::Foreign,
                },
            }
        } else if offset < 2 * self.span + self.large_span {
            in_slab::<MEDIUM>(self.medium.slab_at(address), address)
        } else {
            self.guarded.slot_around(address).map_or(Found::Foreign, Found::Guarded)
        }
    }

    /// Index of the first bin of a site's row. In exact mode the site gets a partition, if it has none yet.
    /// Remembered in `heap`, which the caller holds.
    #[inline]
    pub(super) fn row(&self, heap: &Heap, site: usize) -> usize {
        if !self.sites.is_exact() {
            return self.hash.row(site);
        }
        match heap.known_row(site) {
            0 => self.unknown_row(heap, site),
            row => row,
        }
    }

    #[cold]
    #[inline(never)]
    fn unknown_row(&self, heap: &Heap, site: usize) -> usize {
        let number = match self.learn(heap, site, None) {
            // Whoever knows where the call came from has looked through it.
            STEP_FIRST.. => self.sites.shared_number(site),
            number => number,
        };
        number * ROW_WORDS
    }

    /// Call sites in wrappers, of which the callers count.
    pub fn wrapper_sites(&self) -> usize {
        self.wrappers.count() + self.watch.count()
    }

    /// Those of them that nobody has named: what they had handed out before is counted as theirs.
    pub fn found_wrappers(&self) -> usize {
        self.watch.count()
    }

    /// Where everything lies.
    pub fn layout(&self) -> Layout {
        let metadata = self.counters.addr();
        let (data, span, large_span) = (self.base, self.span, self.large_span);
        Layout::new(Windows { data, span, large_span, metadata }, self.os.page_size())
    }

    /// Every slab of both tiers.
    pub fn for_each_slab(&self, mut each: impl FnMut(&Slab)) {
        self.small.for_each(&mut each);
        self.medium.for_each(&mut each);
    }

    /// All large blocks.
    pub fn large(&self) -> &Blocks {
        &self.large
    }

    /// What can be asked of the reclaimer's thread.
    pub fn control(&self) -> &Control {
        self.reclaimer.control()
    }

    /// Live guarded blocks, and their bytes.
    pub fn guarded_figures(&self) -> (usize, usize) {
        self.guarded.figures()
    }

    /// Sampled allocations with their stacks.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Bytes of empty slabs that are nobody's and may still be resident.
    pub fn kept_slab_bytes(&self) -> usize {
        self.pool.kept_bytes()
    }

    /// Bytes mapped for slabs, and for all metadata.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let (small, small_metadata) = self.small.mapped_bytes();
        let (medium, medium_metadata) = self.medium.mapped_bytes();
        let metadata = small_metadata + medium_metadata + self.heaps.mapped_bytes();
        let metadata = metadata + self.nothing.mapped_bytes() + self.sites.mapped_bytes();
        let metadata = metadata + self.zones.table_bytes() + self.watch.mapped_bytes();
        let metadata = metadata + self.large.tally().mapped_bytes();
        let metadata = metadata + self.samples.mapped_bytes();
        (small + medium, metadata)
    }

    /// E5: what `pool.bytes` is to be, while no thread is about it.
    fn bytes_with_pages(&self) -> usize {
        let mut bytes = self.pool.kept_bytes();
        self.for_each_slab(|slab| {
            bytes += if slab.has_owner() { slab.slot_bytes() } else { 0 };
            bytes = bytes.wrapping_sub(slab.uncounted());
        });
        bytes
    }

    /// Verifies every slab, the large blocks, and every heap's lists. For tests and the fuzzer: no other thread may be
    /// using the allocator.
    pub fn check(&self) -> Result<(), Violation> {
        let mut result = Ok(());
        self.for_each_slab(|slab| {
            if result.is_ok() {
                result = slab.check();
            }
        });
        result?;
        self.pool.check()?;
        self.groups.check(self.os.page_size())?;
        if self.bytes_with_pages() != self.pool.bytes() {
            return Err(Violation("E5: the count of bytes that may have pages"));
        }
        self.large.check().map_err(Violation)?;
        self.guarded.check().map_err(Violation)?;
        self.samples.check().map_err(Violation)?;
        self.nothing.check().map_err(Violation)?;
        self.sites.check().map_err(Violation)?;
        self.zones.check().map_err(Violation)?;
        self.heaps.all().try_for_each(|heap| heap.check(self.heaps.partitions()))
    }

    /// Runs `body` with a heap that no thread has, for a call that cannot use the thread's own.
    pub(super) fn with_borrowed_heap<R>(&self, body: impl FnOnce(&Heap) -> R) -> Option<R> {
        let heap = self.heaps.acquire(&self.os).ok()?;
        let result = body(heap);
        self.heaps.orphan(heap);
        Some(result)
    }

    /// In the child of a fork.
    pub fn after_fork_in_child(&self, mine: &Heap) {
        self.heaps.repair(&self.os);
        self.heaps.seed_anew(self.os.process());
        self.reopen_quarantines();
        self.small.repair(&self.os);
        self.medium.repair(&self.os);
        self.large.repair(&self.os);
        self.nothing.repair(&self.os);
        self.large.tally().repair(&self.os);
        self.samples.repair(&self.os);
        self.sites.repair(&self.os);
        self.zones.repair(&self.os, thread_block());
        self.written().repair();
        self.wrappers.repair(&self.os);
        self.watch.repair(&self.os);
        self.pool.repair();
        self.limit.repair();
        self.pool.set_lean(false);
        self.large.set_lean(false);
        let torn = self.reclaimer.repair(
            &self.os,
            (self.os.process(), self.os.ticks()),
            crate::bin::slab_at,
            announce,
        );
        self.filter().repair();
        self.guarded.forget_watcher();
        if self.options.compact {
            self.os.forget_sharing(self.groups.kept());
            self.groups.repair();
        }
        crate::thread::repair_after_fork(&self.heaps, mine, torn, |each| {
            self.for_each_slab(|slab| each(slab));
        });
        if self.limit.is_set() {
            // Some thread may have been between a count and what follows of it.
            self.for_each_slab(Slab::is_not_counted);
            self.pool.set_bytes(self.bytes_with_pages());
        }
    }

    /// Number of bad calls so far.
    pub fn misuse_count(&self) -> usize {
        self.misuses().load(Ordering::Relaxed)
    }
}

fn in_slab<const TIER: TierNumber>(slab: Option<&Slab>, address: usize) -> Found<'_> {
    let offset = Tier::of(TIER).offset(address);
    match slab {
        Some(slab) if slab.is_open() => match slab.slot_at::<TIER>(offset) {
            Some(slot) => Found::Slot(slab, slot),
            None => Found::InSlab(slab, offset),
        },
        _ => Found::Foreign,
    }
}
