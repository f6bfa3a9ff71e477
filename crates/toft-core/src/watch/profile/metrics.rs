//! Writes the figures of this process in Prometheus' text format, from inside. `toft metrics`
//! writes the same figures from outside.
//!
//! A call site is named by its file and its offset there. Functions are not looked up.

use super::Room;
use super::own_name;
use super::table::Entry;
use super::table::Table;
use crate::large::BlockState;
use crate::os::{Os, Text, process};
use crate::report::Writer;
use crate::stats::metrics::{
    CALL_SITES, Family, Metrics, Page, SITE_BLOCKS, SITE_BYTES, TOP, head, one, sample,
};
use crate::stats::resident_now;
use crate::watch::profile::Profiler;
use core::ffi::c_int;

/// The most bytes of a place's name: a file's name without its folders, and an offset.
const PLACE: usize = 300;

impl<const BYTES: usize> Page for Writer<BYTES> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }

    fn number(&mut self, number: u64) {
        self.digits(number, 10);
    }
}

impl<O: Os> Profiler<'_, O> {
    #[inline(never)]
    pub(crate) fn metrics_to(self, descriptor: c_int) -> bool {
        self.on_request(|room| {
            let Some(mut table) = Table::of(&self) else { return false };
            let taken = self.write_metrics(room, descriptor, &mut table);
            table.unmap();
            taken
        })
    }

    #[inline(never)]
    fn write_metrics(self, room: &mut Room, descriptor: c_int, table: &mut Table) -> bool {
        let mut name = [0u8; 16];
        let len = own_name(&mut name, room.desk.pieces());
        let mut metrics = self.metrics(name.get(..len).unwrap_or(&[]));
        metrics.resident = resident_now();
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
            version: crate::VERSION.as_bytes(),
            process,
            pid: process::pid() as u64,
            threads: self.heaps.live() as u64,
            partitions: self.options.partitions as u64,
            ..Metrics::default()
        };
        let threads = self.heaps.count() - self.heaps.shared_count();
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
}
