//! L7: the allocator: all its parts, built once, over any operating system.
//!
//! | file | what |
//! |---|---|
//! | `build.rs` | how it is built |
//! | `find.rs` | what an address is to it |
//! | `counters.rs`, `written.rs`, `verify_progress.rs` | what it writes itself |
//! | `instance.rs` | the process's own |
//! | `permits.rs` | system calls that a filter might forbid |
//! | `gate.rs` | opens its tables where a protection key closes them |

mod build;
mod counters;
mod find;
mod gate;
mod instance;
mod permits;
mod verify_progress;
mod written;

use crate::guarded::Guarded;
use crate::harden::Long;
use crate::hook::Hook;
use crate::keyed::{Key, Secret};
use crate::large::Blocks;
use crate::options::Options;
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::policy::QUARANTINE;
use crate::reclaim::{Control, Groups, Limit, Pool, Reclaimer};
use crate::region::{Layout, Slabs, Windows};
use crate::remote::announce;
use crate::sample::Samples;
use crate::site::{Hints, Sites, Wrappers};
use crate::slab::{Slab, Violation};
use crate::sync::Ordering::Relaxed;
use crate::thread::{Heap, Heaps};
use crate::zero_size::ZeroSizeBlocks;
use core::ops::Range;
use counters::Counters;

pub use find::Found;
pub use gate::inside;
pub(crate) use instance::{FRESH, READY, STARTING, allocator, calls_are_looked_at, is_ready};
pub use instance::{GLOBAL, Global, LOOKS_THROUGH, toft_root};
pub(crate) use verify_progress::{Reading, VerifyProgress};
pub use written::Written;

/// Defines a handle on an allocator, whose methods are those of one room, and the method of the
/// allocator that returns it.
macro_rules! handle {
    ($name:ident, $method:ident) => {
        /// The allocator, with all parts and the methods of this room.
        #[derive(Debug)]
        pub struct $name<'a, O> {
            allocator: &'a Allocator<O>,
        }

        impl<O> Allocator<O> {
            #[doc = concat!("Returns the methods of `", stringify!($name), "`.")]
            #[inline(always)]
            pub fn $method(&self) -> $name<'_, O> {
                $name { allocator: self }
            }
        }

        impl<O> Clone for $name<'_, O> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<O> Copy for $name<'_, O> {}

        impl<O> core::ops::Deref for $name<'_, O> {
            type Target = Allocator<O>;

            #[inline(always)]
            fn deref(&self) -> &Allocator<O> {
                self.allocator
            }
        }
    };
}
pub(crate) use handle;

/// The function of a thread, which gets the allocator's address and the end of its stack.
type ThreadBody = crate::os::thread::Run;
/// The function that returns the calling thread's heap.
type HeapOfThread = fn() -> Option<&'static Heap>;

/// A whole allocator. After it is built only what its parts point to changes: the process's
/// allocator is in read-only memory.
#[derive(Debug)]
pub struct Allocator<O> {
    /// What every free reads.
    pub(crate) slabs: Slabs<Slab>,
    /// First address of the data window, and bytes of its part for slabs and of its large tier.
    base: usize,
    span: usize,
    large_span: usize,
    pub(crate) large: Blocks,
    pub(crate) zero_size: ZeroSizeBlocks,
    pub(crate) pool: Pool,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) groups: Groups,
    pub(crate) limit: Limit,
    /// Where the reclaimer's thread begins; only if this lives as long as the process, so that a
    /// thread of ours may use it.
    pub(crate) thread_body: Option<ThreadBody>,
    /// Returns the calling thread's heap, which it creates if there is none. Only for a process's
    /// own allocator.
    pub(crate) heap_of_thread: Option<HeapOfThread>,
    /// All heaps.
    pub heaps: Heaps,
    /// Call sites and their partitions, in exact mode.
    pub sites: Sites,
    /// Functions whose callers are the call sites.
    pub(crate) wrappers: Wrappers,
    /// What an earlier run showed of call sites.
    pub(crate) hints: Hints,
    /// Sampled blocks between guard pages.
    pub(crate) guarded: Guarded,
    /// Sampled allocations with their stacks.
    pub(crate) samples: Samples,
    /// Whether slow paths have something to do with blocks that they hand out.
    pub(crate) watchful: bool,
    /// What canaries are made from.
    pub(crate) secret: Secret,
    /// Whether bytes are cleared and looked at by long vectors.
    pub(crate) long_vectors: Long,
    /// The share of its places that a quarantine uses.
    pub(crate) quarantine_share: usize,
    /// Where guard pages are. Secure build only.
    key: Key,
    pub(crate) os: O,
    pub(crate) options: Options,
    /// Whether addresses may be written to stderr.
    pub(crate) hide_addresses: bool,
    counters: *const Counters,
    /// The functions of the crates above.
    pub(crate) hook: &'static Hook,
    hook_tables: usize,
}

// SAFETY: the raw pointers inside lead to tables of atomics that live for ever; every other field
// is never written after the allocator is built.
unsafe impl<O: Sync> Sync for Allocator<O> {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl<O: Send> Send for Allocator<O> {}

impl<O> Allocator<O> {
    /// An allocator to which every address is foreign.
    pub const fn unready(os: O) -> Allocator<O> {
        Allocator {
            base: 0,
            span: 0,
            large_span: 0,
            slabs: Slabs::none(),
            large: Blocks::none(),
            zero_size: ZeroSizeBlocks::none(),
            pool: Pool::none(),
            reclaimer: Reclaimer::none(),
            groups: Groups::none(),
            limit: Limit::none(),
            thread_body: None,
            heap_of_thread: None,
            heaps: Heaps::none(),
            sites: Sites::none(),
            wrappers: Wrappers::none(),
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
            hide_addresses: false,
            counters: core::ptr::null(),
            hook: &Hook::NONE,
            hook_tables: 0,
        }
    }
}

impl<O: Os> Allocator<O> {
    /// Adds a pool of sampled blocks.
    pub(crate) fn with_guarded(self, guarded: Guarded) -> Allocator<O> {
        Allocator { guarded, ..self }
    }

    /// Finds an interpreter in this process, if stacks of sampled allocations are kept. Call it
    /// before the allocator is used.
    pub(crate) fn with_interpreter(self) -> Allocator<O> {
        let may = || self.filter().permit(&self.os, Calls::REPORT, true).is_some();
        if self.samples.is_on() && may() {
            self.samples.find_interpreter();
        }
        self
    }

    /// Makes the allocator follow these hints. Call it before the allocator is used.
    pub(crate) fn with_hints(self, hints: Hints) -> Allocator<O> {
        self.sites.reserve(hints.groups());
        Allocator { hints, ..self }
    }

    /// Permits the allocator to have a separate thread, and to give a heap to a thread that only
    /// frees.
    ///
    /// # Safety
    /// 1. It is put where it stays for as long as the process lives, before it is used.
    pub(crate) unsafe fn living_for_ever(
        self,
        body: ThreadBody,
        heap_of_thread: HeapOfThread,
    ) -> Allocator<O> {
        Allocator { thread_body: Some(body), heap_of_thread: Some(heap_of_thread), ..self }
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The operating system underneath.
    pub fn os(&self) -> &O {
        &self.os
    }

    /// Call sites in wrappers, of which the callers count.
    pub fn wrapper_sites(&self) -> usize {
        self.wrappers.count()
    }

    /// The addresses of all parts.
    pub fn layout(&self) -> Layout {
        let tables = self.counters.addr();
        let table_bytes = self.slabs.first_descriptor() - tables;
        let windows = self.windows(tables - Layout::LARGE_FIRST);
        Layout::new(windows, table_bytes, self.os.page_size())
    }

    /// The address of the tables of a crate above, if the allocator was built with a hook that has
    /// its number of bytes ([`Hook::tables`]); else zero.
    #[inline]
    pub fn hook_tables(&self, bytes: &'static usize) -> usize {
        if core::ptr::eq(self.hook.tables, bytes) { self.hook_tables } else { 0 }
    }

    /// The addresses that are the allocator's, used or not.
    pub fn addresses(&self) -> [Range<usize>; 2] {
        self.layout().addresses()
    }

    fn windows(&self, first_metadata: usize) -> Windows {
        let (data, span, large_span) = (self.base, self.span, self.large_span);
        Windows { data, span, large_span, first_metadata }
    }

    /// The number of bytes of the data window.
    #[inline]
    pub(crate) fn data_bytes(&self) -> usize {
        self.windows(0).data_bytes()
    }

    /// Every slab.
    pub fn for_each_slab(&self, mut each: impl FnMut(&Slab)) {
        self.slabs.for_each(&mut each);
    }

    /// The heaps of all threads.
    pub fn heaps(&self) -> &Heaps {
        &self.heaps
    }

    /// The call sites of the process, in exact mode.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// The number of bytes of pages that were returned to the OS.
    pub fn returned_bytes(&self) -> usize {
        self.reclaimer.figures().1
    }

    /// The sampled blocks between guard pages.
    pub fn guarded(&self) -> &Guarded {
        &self.guarded
    }

    /// Returns true if addresses may not be written to stderr.
    pub fn hides_addresses(&self) -> bool {
        self.hide_addresses
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

    /// Bytes of empty unowned slabs that may still be resident.
    pub fn kept_slab_bytes(&self) -> usize {
        self.pool.kept_bytes()
    }

    /// Bytes mapped for slabs, and for all metadata.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let (slabs, slab_metadata) = self.slabs.mapped_bytes();
        let metadata = slab_metadata + self.heaps.mapped_bytes();
        let metadata = metadata + self.zero_size.mapped_bytes() + self.sites.mapped_bytes();
        let metadata = metadata + (self.hook.metadata_bytes)();
        let metadata = metadata + self.large.tally().mapped_bytes();
        let metadata = metadata + self.samples.mapped_bytes();
        (slabs, metadata)
    }

    /// E5: what `pool.bytes` is to be, while no thread is about it.
    fn bytes_with_pages(&self) -> usize {
        let mut bytes = self.pool.kept_bytes();
        self.for_each_slab(|slab| {
            bytes += if slab.has_owner() { slab.pages().slot_bytes() } else { 0 };
            bytes = bytes.wrapping_sub(slab.limit_count().uncounted());
        });
        bytes
    }

    /// Verifies every slab, the large blocks, and every heap's lists. For tests and the fuzzer: no
    /// other thread may be using the allocator.
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
        self.large.checks().all().map_err(Violation)?;
        self.guarded.check().map_err(Violation)?;
        self.samples.check().map_err(Violation)?;
        self.zero_size.check().map_err(Violation)?;
        self.sites.check().map_err(Violation)?;
        let counted: usize = self.heaps.all().map(Heap::counted_places).sum();
        if self.own_quarantines().load(Relaxed) != counted {
            return Err(Violation("Q1: the places of quarantines of threads that share"));
        }
        self.heaps.all().try_for_each(|heap| heap.check(self.heaps.partitions()))
    }

    /// In the child of a fork. Out of line: apart from the code that every program runs.
    #[cold]
    #[inline(never)]
    pub fn after_fork_in_child(&self, mine: &Heap) {
        self.heaps.repair(&self.os);
        self.heaps.seed_anew(self.os.process());
        if QUARANTINE {
            // No thread is emptying a quarantine here.
            self.heaps.all().for_each(|heap| heap.quarantine().open());
        }
        self.slabs.repair(&self.os);
        self.large.units().repair(&self.os);
        self.zero_size.repair(&self.os);
        self.large.tally().repair(&self.os);
        self.samples.repair(&self.os);
        self.sites.repair(&self.os);
        self.written().repair();
        self.verify_progress().repair();
        self.wrappers.repair(&self.os);
        self.pool.repair();
        self.limit.repair();
        self.pool.set_lean(false);
        self.large.kept_blocks().repair(&self.os);
        let torn = self.reclaimer.repair(
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
        mine.maintain_later(self.os.ticks());
        if self.limit.is_set() {
            // Some thread may have been between a count and what follows of it.
            self.for_each_slab(|slab| slab.limit_count().is_not_counted());
            self.pool.set_bytes(self.bytes_with_pages());
        }
    }
}
