//! Writes the figures of this process in Prometheus' text format, from inside. `toft metrics`
//! writes the same figures from outside.
//!
//! A call site is named by its file and its offset there. Functions are not looked up.
//!
//! `mincore` finds the resident free bytes, with one call for 64 KiB of address space.

use super::Profiler;
use super::Room;
use super::table::Entry;
use super::table::Table;
use core::ffi::c_int;
use toft_core::large::BlockState;
use toft_core::os::seccomp::Calls;
use toft_core::os::{Memory, PIECE_BYTES, Residency, Text, process};
use toft_core::policy::SECURE;
use toft_core::report::name_of_process;
use toft_core::slab::{Slab, SlotIndex, SlotState};
use toft_core::stats::metrics::{
    CALL_SITES, Family, Metrics, SITE_BLOCKS, SITE_BYTES, TOP, head, one, sample,
};
use toft_core::stats::resident_now;
use toft_core::sync::AtomicU64;
use toft_core::sync::Ordering::Relaxed;

/// The most bytes of a place's name: a file's name without its folders, and an offset.
const PLACE: usize = 300;

impl Profiler<'_> {
    #[inline(never)]
    pub(super) fn metrics_to(self, descriptor: c_int) -> bool {
        self.on_request(|room| {
            let Some(mut table) = Table::of(&self) else { return false };
            let taken = self.write_metrics(room, descriptor, &mut table);
            table.unmap();
            taken
        })
    }

    #[inline(never)]
    fn write_metrics(self, room: &mut Room, descriptor: c_int, table: &mut Table) -> bool {
        let mut name = [0; 16];
        let mut metrics = self.metrics(name_of_process(&mut name, room.desk.pieces()));
        metrics.resident = resident_now();
        metrics.free_resident = self.free_resident();
        // A block that could not be counted lives all the same.
        let counted = |entry: &Entry| entry.allocations.max(entry.objects as u64);
        let allocations = table.entries().iter().map(counted).sum::<u64>();
        let live = table.entries().iter().map(|entry| entry.objects as u64).sum::<u64>();
        let [allocated, freed] = self.served();
        // A count that another thread is changing may be read too large, and counters do not fall.
        let rising = |served: &AtomicU64, now: u64| served.fetch_max(now, Relaxed).max(now);
        metrics.allocations = rising(allocated, allocations);
        metrics.frees = rising(freed, allocations.saturating_sub(live));
        let Room { writer: w, desk, .. } = room;
        w.begin(descriptor);
        metrics.begin(w);

        table.merge_sites();
        table.sort_by(|a, b| (b.bytes, a.site) < (a.bytes, b.site));
        let live = || table.entries().iter().filter(|entry| entry.objects != 0);
        one(w, CALL_SITES, live().count() as u64);
        let mut family = |family: Family, value: fn(&Entry) -> usize| {
            head(w, family);
            for entry in live().take(TOP) {
                let mut place: Text<PLACE> = Text::new();
                let file = desk.module_of(entry.site.address()).map(|module| {
                    let path = module.path();
                    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
                    place.add(file).add(b"+0x").digits(module.offset as u64, 16);
                    file
                });
                if file.is_none() {
                    place.add(b"0x").digits(entry.site.address() as u64, 16);
                }
                let labels = [("site", place.as_bytes()), ("file", file.unwrap_or(b"no file"))];
                sample(w, family, &labels, value(entry) as u64);
            }
            let others: usize = live().skip(TOP).map(value).sum();
            sample(w, family, &[("site", b"other"), ("file", b"")], others as u64);
        };
        family(SITE_BYTES, |entry| entry.bytes);
        family(SITE_BLOCKS, |entry| entry.objects);
        metrics.end(w);
        w.flush()
    }

    /// Returns the figures from the tables, counted as a process outside counts them.
    fn metrics<'a>(self, process: &'a [u8]) -> Metrics<'a> {
        let mut m = Metrics {
            version: toft_core::VERSION.as_bytes(),
            process,
            pid: process::pid() as u64,
            threads: self.heaps().live() as u64,
            partitions: self.options().partitions as u64,
            misuses: self.misuse_count() as u64,
            returned_bytes: self.returned_bytes() as u64,
            ..Metrics::default()
        };
        let threads = self.heaps().count() - self.heaps().shared_count();
        m.ended_threads = u64::from(threads).saturating_sub(m.threads);
        self.for_each_slab(|slab| {
            m.descriptors += 1;
            let (bytes, live) = (slab.slots() * slab.size(), slab.live_slots());
            m.slab_live_blocks += live as u64;
            m.slab_live_bytes += (live * slab.size()) as u64;
            if slab.has_owner() {
                m.slabs += 1;
                m.slot_bytes += bytes as u64;
            } else {
                m.empty_slabs += 1;
                m.empty_slab_bytes += bytes as u64;
            }
        });
        self.large().units().for_each(|block| {
            m.descriptors += 1;
            if block.state() == BlockState::Live {
                m.large_live_blocks += 1;
                m.large_live_bytes += block.bytes() as u64;
            } else {
                m.large_free_bytes += block.mapped() as u64;
            }
        });
        m
    }

    /// Returns the resident bytes of free slots in slabs that have an owner, of free slots in empty
    /// slabs, and of free large blocks. `None` if a filter may not allow the system call.
    fn free_resident(self) -> Option<[u64; 3]> {
        let _permit = self.filter().permit(self.os(), Calls::RESIDENT, false)?;
        let [mut owned, mut empty, mut large] = [0; 3];
        self.for_each_slab(|slab| {
            let bytes = self.free_resident_of(slab);
            if slab.has_owner() { owned += bytes } else { empty += bytes }
        });
        self.large().units().for_each(|block| {
            if block.state() != BlockState::Live {
                let start = self.large().placement().start(block);
                self.for_each_resident(start, block.mapped(), |_, len| large += len);
            }
        });
        Some([owned, empty, large].map(|bytes: usize| bytes as u64))
    }

    /// Returns the resident bytes of the free slots of a slab. Those of a lent slot count where
    /// they are used.
    fn free_resident_of(self, slab: &Slab) -> usize {
        let (base, size, slots) = (slab.base(), slab.size(), slab.slots());
        let mut free = 0;
        self.for_each_resident(base, slots * size, |start, len| {
            let (from, to) = (start - base, start - base + len);
            let slots = SlotIndex::range(from / size.max(1)..slots);
            for slot in slots.take_while(|slot| slot.begin(size) < to) {
                let is_lent = !SECURE && slab.units().is_lent(slot);
                if slab.state(slot) != SlotState::Live && !is_lent {
                    free += slot.end(size).min(to) - slot.begin(size).max(from);
                }
            }
        });
        free
    }

    /// Calls `each` with the resident parts of a range, which begins with a page.
    fn for_each_resident(self, start: usize, len: usize, mut each: impl FnMut(usize, usize)) {
        let page = self.os().page_size();
        for at in (0..len).step_by(PIECE_BYTES) {
            let piece = (len - at).min(PIECE_BYTES);
            self.os().resident_pieces(
                start + at,
                (piece + page - 1) & !(page - 1),
                |first, bytes| {
                    // The last page may have more than the range.
                    each(first, bytes.min(start + len - first));
                },
            );
        }
    }
}
