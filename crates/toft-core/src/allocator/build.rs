//! Building an allocator: its windows are chosen, its tables mapped, and each part gets its piece
//! of both.

use crate::allocator::Allocator;
use crate::allocator::counters::COUNTERS;
use crate::guarded::Guarded;
use crate::harden::Long;
use crate::hook::Hook;
use crate::keyed::{Key, Secret};
use crate::large::{Blocks, Tally};
use crate::options::{Options, SiteMode};
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::reclaim::{Groups, Limit, Pool, Reclaimer};
use crate::region::{Slabs, Windows};
use crate::sample::Samples;
use crate::site::{Hints, SiteHash, Sites, Wrappers};
use crate::slab::Slab;
use crate::thread::{HeapSpace, Heaps, Quarantine};
use crate::zero_size::ZeroSizeBlocks;

/// The largest number of bytes of the tables.
const TABLES_MOST: usize = 32 << 20;

/// The addresses of the parts of the tables, which are mapped at once.
struct Tables {
    heaps: usize,
    reclaimer: usize,
    limit: usize,
    zero_size: usize,
    sites: usize,
    wrappers: usize,
    hook: usize,
    tally: usize,
    samples: usize,
    groups: usize,
    slabs: usize,
    pool: usize,
    large: usize,
    states: usize,
    pool_stacks: usize,
    large_tables: usize,
    /// The first counts of large blocks, and the first heap, on separate pages.
    first_counts: usize,
    first_heap: usize,
}

impl Tables {
    fn of(windows: &Windows, partitions: usize, page: usize, hook: usize) -> Tables {
        let (span, large_span) = (windows.span, windows.large_span);
        let mut next = windows.tables() + COUNTERS;
        let mut place = |bytes: usize| {
            let place = next.next_multiple_of(64);
            next = place + bytes;
            place
        };
        let slabs = Slabs::<Slab>::table_bytes(span, partitions);
        // What a start writes to is together, on few pages: of the states the first.
        let mut tables = Tables {
            heaps: place(Heaps::TABLE_BYTES),
            reclaimer: place(Reclaimer::TABLE_BYTES),
            limit: place(Limit::TABLE_BYTES),
            zero_size: place(ZeroSizeBlocks::TABLE_BYTES),
            sites: place(Sites::TABLE_BYTES),
            wrappers: place(Wrappers::TABLE_BYTES),
            hook: place(hook),
            tally: place(Tally::TABLE_BYTES),
            samples: place(Samples::TABLE_BYTES),
            slabs: if SECURE { 0 } else { place(slabs) },
            pool: place(Pool::state_bytes(partitions)),
            large: place(Blocks::STATE_BYTES),
            states: place(Heaps::STATES_FIRST),
            pool_stacks: place(Pool::table_bytes(partitions)),
            large_tables: place(Blocks::table_bytes(large_span, partitions)),
            groups: place(Groups::TABLE_BYTES),
            first_counts: 0,
            first_heap: 0,
        };
        if SECURE {
            // They have a part for each plot.
            tables.slabs = place(slabs);
        }
        tables.first_counts = (next + page - 1) & !(page - 1);
        tables.first_heap = tables.first_counts + Tally::FIRST_BYTES;
        tables
    }
}

impl<O: Os> Allocator<O> {
    /// Builds an allocator with [`Hook::NONE`].
    pub fn new(os: O, options: Options, hide_addresses: bool) -> Result<Allocator<O>, Error> {
        Allocator::with_hook(&Hook::NONE, os, options, hide_addresses)
    }

    /// Builds an allocator: chooses its windows and maps its tables.
    pub fn with_hook(
        hook: &'static Hook,
        os: O,
        options: Options,
        hide_addresses: bool,
    ) -> Result<Allocator<O>, Error> {
        // Slots that share memory with others cannot be told from what was written after a free;
        // and where slabs share pages, guard pages would move.
        let compact = options.compact && !SECURE;
        let by_demand = !SECURE && options.partitions == 0;
        let partitions = options.partitions_there_are();
        let exact = options.is_exact() && partitions >= Sites::PARTITIONS_LEAST;
        let sites = if exact { SiteMode::Exact } else { SiteMode::Hash };
        let options = Options { partitions, sites, compact, ..options };
        let page = os.page_size();
        let heap_bytes = Heaps::bytes_of_heap(partitions, exact, page);
        let (os, layout) = Windows::choose(os, |windows| {
            let tables = Tables::of(windows, partitions, page, *hook.tables);
            tables.first_heap + heap_bytes - windows.tables()
        })?;
        let tables = Tables::of(&layout.windows, partitions, page, *hook.tables);
        if tables.first_counts - layout.tables > TABLES_MOST {
            return Err(Error::NoMemory);
        }
        let windows = layout.windows;
        let (data, span, large_span) = (windows.data, windows.span, windows.large_span);

        let hash = SiteHash::new(partitions, os.random()?);
        let sites_window = (layout.sites, layout.sites + layout.sites_span);
        let sites = if exact {
            // SAFETY: (1) its own piece of the zero tables that were mapped above; (2) its own part
            // of the metadata window.
            unsafe { Sites::new(sites_window, partitions, os.random()?, tables.sites) }
        } else {
            Sites::none()
        };
        let wrappers_window = (layout.wrappers, layout.wrappers + layout.wrappers_span);
        let wrappers = if exact && options.wrappers.is_some() {
            // SAFETY: (1), (2) as above.
            unsafe { Wrappers::new(wrappers_window, tables.wrappers) }
        } else {
            Wrappers::none()
        };
        let samples = if options.sample == 0 {
            Samples::none()
        } else {
            let window = (layout.samples, layout.samples + layout.samples_span);
            // SAFETY: (1), (2) as above.
            unsafe { Samples::new(window, tables.samples) }
        };
        let secret = Secret::new(&os)?;
        let zero_size_span = windows.zero_size_span();
        let blocks_span = large_span - zero_size_span;
        let key = if SECURE { Key::new(&os)? } else { Key::NONE };
        let heap_places = HeapSpace {
            first: tables.first_heap,
            others: (layout.heaps, layout.end),
            first_states: tables.states,
            other_states: layout.more_states,
        };
        let windows_of = layout.addresses().map(|range| (range.start, range.end));
        // SAFETY: (1), (3) each part gets its own piece of what was mapped above, which is zero;
        // (2) its own part of the two windows, which no other part uses.
        let (slabs, large, empty, pool, reclaimer, groups, limit, heaps) = unsafe {
            (
                Slabs::at(&os, &layout, partitions, tables.slabs)?,
                Blocks::new(
                    &os,
                    (data + span, blocks_span),
                    windows.first_metadata,
                    (tables.large, tables.large_tables),
                    partitions,
                    windows_of,
                )?
                .with_tally(Tally::new(
                    (layout.tallies, layout.tallies + layout.tallies_span),
                    tables.tally,
                    tables.first_counts,
                )),
                ZeroSizeBlocks::new(
                    (data + span + blocks_span, zero_size_span),
                    layout.zero_size,
                    tables.zero_size,
                    os.random()?,
                ),
                Pool::new((tables.pool, tables.pool_stacks), partitions, layout.slabs, secret),
                Reclaimer::new(tables.reclaimer, os.process()),
                Groups::new(tables.groups, layout.slabs),
                Limit::new(tables.limit, options.limit.bytes(|| os.memory_there_is())),
                Heaps::new(
                    &os,
                    heap_places,
                    (partitions, by_demand),
                    (hash, sites, secret),
                    tables.heaps,
                ),
            )
        };
        Ok(Allocator {
            base: data,
            span,
            large_span,
            slabs,
            large,
            zero_size: empty,
            pool,
            reclaimer,
            groups,
            limit,
            thread_body: None,
            heap_of_thread: None,
            heaps,
            sites,
            wrappers,
            hints: Hints::none(),
            guarded: Guarded::none(),
            samples,
            watchful: options.is_watchful(),
            secret,
            long_vectors: if SECURE { Long::of_processor() } else { Long::NONE },
            quarantine_share: Quarantine::share(options.quarantine),
            key,
            os: os.after_start(),
            options,
            hide_addresses,
            counters: core::ptr::with_exposed_provenance(layout.tables),
            hook,
            hook_tables: tables.hook,
        })
    }
}
