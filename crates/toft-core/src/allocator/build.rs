//! Building an allocator: its windows are chosen, its tables mapped, and each part gets its piece
//! of both.

use crate::allocator::Allocator;
use crate::allocator::counters::COUNTERS;
use crate::guarded::Guarded;
use crate::harden::Long;
use crate::keyed::{Key, Secret};
use crate::large::{Blocks, Tally};
use crate::options::{Huge, Options, SiteMode};
use crate::os::{Error, HugeHabit, Os};
use crate::policy::SECURE;
use crate::reclaim::{Groups, Limit, Pool, Reclaimer};
use crate::region::{Layout, Slabs, Windows};
use crate::sample::Samples;
use crate::site::{Hints, SiteHash, Sites, Watch, Wrappers};
use crate::slab::Slab;
use crate::thread::{Heaps, Quarantine};
use crate::zero_size::ZeroSizeBlocks;
use crate::zone::Zones;

/// Where the states of heaps lie within the tables' part of the metadata window.
const STATES_OFFSET: usize = 32 << 20;

impl<O: Os> Allocator<O> {
    /// Builds an allocator: chooses its windows and maps its tables.
    pub fn new(os: O, options: Options, hide_addresses: bool) -> Result<Allocator<O>, Error> {
        // Slots that share memory with others cannot be told from what was written after a free;
        // and where slabs share pages, guard pages would move.
        let compact = options.compact && !SECURE;
        let by_demand = !SECURE && options.partitions == 0;
        let partitions = options.partitions_there_are();
        let exact = options.is_exact() && partitions >= Sites::PARTITIONS_LEAST;
        let sites = if exact { SiteMode::Exact } else { SiteMode::Hash };
        let options = Options { partitions, sites, compact, ..options };
        let chosen = Windows::choose(&os, options.partitions)?;
        let layout = Layout::new(chosen, os.page_size());
        let (data, span, large_span) = (chosen.data, chosen.span, chosen.large_span);
        let os = os.with_tables(layout.tables..layout.end);
        let partitions = options.partitions;

        let heaps_at = layout.tables + COUNTERS;
        let slabs_at = (heaps_at + Heaps::TABLE_BYTES).next_multiple_of(64);
        let large_at =
            (slabs_at + Slabs::<Slab>::table_bytes(span, partitions)).next_multiple_of(64);
        let pool_at = (large_at + Blocks::table_bytes(large_span, partitions)).next_multiple_of(64);
        let reclaimer_at = (pool_at + Pool::table_bytes(partitions)).next_multiple_of(64);
        let groups_at = (reclaimer_at + Reclaimer::TABLE_BYTES).next_multiple_of(64);
        let limit_at = (groups_at + Groups::TABLE_BYTES).next_multiple_of(64);
        let zero_size_at = (limit_at + Limit::TABLE_BYTES).next_multiple_of(64);
        let sites_at = (zero_size_at + ZeroSizeBlocks::TABLE_BYTES).next_multiple_of(64);
        let wrappers_at = (sites_at + Sites::TABLE_BYTES).next_multiple_of(64);
        let watch_at = (wrappers_at + Wrappers::TABLE_BYTES).next_multiple_of(64);
        let zones_at = (watch_at + Watch::TABLE_BYTES).next_multiple_of(64);
        let tally_at = (zones_at + Zones::TABLE_BYTES).next_multiple_of(64);
        let samples_at = (tally_at + Tally::TABLE_BYTES).next_multiple_of(64);
        let end = samples_at + Samples::TABLE_BYTES;
        // The states of heaps begin there, whatever is before them.
        if end - layout.tables > STATES_OFFSET {
            return Err(Error::NoMemory);
        }
        os.map(layout.tables, (end - layout.tables).next_multiple_of(os.page_size()))?;

        let hash = SiteHash::new(partitions, os.random()?);
        let sites_window = (layout.sites, layout.sites + layout.sites_span);
        let sites = if exact {
            // SAFETY: (1) its own piece of the zero tables that were mapped above; (2) its own part
            // of the metadata window.
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
        let zero_size_span = chosen.zero_size_span();
        let blocks_span = large_span - zero_size_span;
        let key = if SECURE { Key::new(&os)? } else { Key::NONE };
        let heap_window = (layout.heaps, layout.end);
        let windows = [(data, data + chosen.data_bytes()), (layout.tables, layout.end)];
        let states = layout.tables + STATES_OFFSET;
        // SAFETY: (1) each part gets its own piece of the zero tables that were mapped above; (2)
        // its own part of the two windows, which no other part uses.
        let (slabs, large, empty, zones, pool, reclaimer, groups, limit, heaps) = unsafe {
            (
                Slabs::at(&os, &layout, partitions, slabs_at)?,
                Blocks::new(
                    &os,
                    (data + span, blocks_span),
                    layout.large_blocks,
                    (partitions, large_at),
                    windows,
                )?
                .with_tally(Tally::new(
                    (layout.tallies, layout.tallies + layout.tallies_span),
                    tally_at,
                )),
                ZeroSizeBlocks::new(
                    (data + span + blocks_span, zero_size_span),
                    layout.zero_size,
                    zero_size_at,
                    os.random()?,
                ),
                Zones::new(zones_at, windows.map(|(start, end)| start..end)),
                Pool::new(pool_at, partitions, layout.small_slabs, secret),
                Reclaimer::new(reclaimer_at, os.process()),
                Groups::new(groups_at, layout.small_slabs),
                Limit::new(limit_at, options.limit.bytes(|| os.memory_there_is())),
                Heaps::new(
                    &os,
                    heap_window,
                    states,
                    (partitions, by_demand),
                    (hash, sites, secret),
                    heaps_at,
                )?,
            )
        };
        // What the kernel sees fit needs no asking.
        let kernel = options.huge == Huge::Kernel;
        let habit = if kernel { HugeHabit::default() } else { os.huge_habit() };
        let middle_pages = options.prefault && habit.middle;
        let small_pages = habit.unasked || middle_pages;
        Ok(Allocator {
            base: data,
            span,
            large_span,
            slabs,
            large,
            zero_size: empty,
            zones,
            pool,
            reclaimer,
            groups,
            limit,
            thread_body: None,
            heap_of_thread: None,
            heaps,
            sites,
            wrappers,
            watch,
            hints: Hints::none(),
            guarded: Guarded::none(),
            samples,
            watchful: options.is_watchful(),
            secret,
            long_vectors: if SECURE { Long::of_processor() } else { Long::NONE },
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
}
