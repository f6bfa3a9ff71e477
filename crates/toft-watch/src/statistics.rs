//! The snapshot as one line of JSON, with the call sites.

use toft_core::allocator::Allocator;
use toft_core::large::BlockState;
use toft_core::os::{Linux, Memory, process};
use toft_core::reclaim::Shared;
use toft_core::region::Site;
use toft_core::report::Writer;
use toft_core::stats::pinned_bytes;
use toft_core::stats::{Resident, Snapshot, snapshot};

/// The largest number of call sites in one report. The largest sites are kept.
const SITES: usize = 64;

/// The figures of one call site's slabs and blocks.
#[derive(Clone, Copy, Default)]
struct SiteFigures {
    site: Site,
    large: bool,
    live_bytes: usize,
    live_blocks: usize,
    pinned_bytes: usize,
    allocated_bytes: u64,
    allocated_blocks: u64,
}

/// The sites with the most bytes, in a fixed table. If it is full, a larger site replaces the
/// smallest, so a site that allocates much is soon in the table.
struct Sites {
    sites: [SiteFigures; SITES],
    len: usize,
}

impl Sites {
    fn add(&mut self, site: SiteFigures) {
        let same = |other: &&mut SiteFigures| other.site == site.site && other.large == site.large;
        if let Some(known) = self.sites.iter_mut().take(self.len).find(same) {
            known.live_bytes += site.live_bytes;
            known.live_blocks += site.live_blocks;
            known.pinned_bytes += site.pinned_bytes;
            known.allocated_bytes += site.allocated_bytes;
            known.allocated_blocks += site.allocated_blocks;
        } else if self.len < SITES {
            if let Some(place) = self.sites.get_mut(self.len) {
                *place = site;
                self.len += 1;
            }
        } else if let Some(least) = self.sites.iter_mut().min_by_key(|s| s.allocated_bytes)
            && least.allocated_bytes < site.allocated_bytes
        {
            *least = site;
        }
    }
}

impl Sites {
    /// Sorts the sites by bytes, largest first. It sorts by insertion, because the table is small
    /// and nothing here may panic.
    fn sort(&mut self) {
        for end in 1..self.len {
            for place in (1..=end).rev() {
                let bytes = |i: usize| self.sites.get(i).map_or(0, |site| site.allocated_bytes);
                if bytes(place - 1) < bytes(place)
                    && let Some([before, after]) = self.sites.get_mut(place - 1..=place)
                {
                    core::mem::swap(before, after);
                }
            }
        }
    }
}

/// Writes the snapshot of `allocator`, and the kernel's figures if given, as one line to a
/// descriptor. Returns true if the descriptor accepted all of it.
#[inline(never)]
pub fn write_json(
    allocator: &Allocator<Linux>,
    descriptor: i32,
    resident: Option<&Resident>,
) -> bool {
    let s = snapshot(allocator);
    let mut w: Writer = Writer::new(descriptor);
    w.text("{\"toft\":\"");
    w.text(toft_core::VERSION);
    w.text("\"");
    w.field("pid", process::pid() as u64);
    w.field("partitions", allocator.options().partitions as u64);
    w.field("partitions_in_use", allocator.heaps().partitions() as u64);
    w.text(if allocator.sites().is_exact() {
        ",\"sites_are\":\"exact\""
    } else {
        ",\"sites_are\":\"hashed\""
    });
    let (own, merged) = allocator.sites().counts();
    w.field("own_sites", own as u64);
    w.field("merged_sites", merged as u64);
    w.field("grouped_sites", allocator.sites().grouped() as u64);
    w.field("wrapper_sites", allocator.wrapper_sites() as u64);
    w.field("threads", s.threads as u64);
    w.field("heaps", s.heaps as u64);
    w.field("allocations", s.allocations);
    w.field("live_blocks", s.live_blocks as u64);
    w.field("live_bytes", s.live_bytes() as u64);
    w.field("small_bytes", s.small_bytes as u64);
    w.field("medium_bytes", s.medium_bytes as u64);
    w.field("large_bytes", s.large_bytes as u64);
    w.field("guarded_bytes", s.guarded_bytes as u64);
    w.field("kept_bytes", s.kept_bytes as u64);
    w.field("peak_bytes", s.peak_bytes as u64);
    w.field("slabs", s.slabs as u64);
    w.field("mapped_bytes", s.mapped_bytes as u64);
    w.field("metadata_bytes", s.metadata_bytes as u64);
    w.field("remote_frees_pending", s.remote_pending as u64);
    w.field("misuse", s.misuses as u64);
    w.text(",\"filter\":\"");
    w.text(allocator.filter().state(allocator.os()).name());
    w.text("\"");
    w.field("claimed_bytes", s.claimed_bytes as u64);
    w.field("uncollected_bytes", s.remote_bytes as u64);
    w.field("free_bytes", s.free_bytes as u64);
    w.field("pinned_bytes", s.pinned_bytes as u64);
    w.field("empty_slab_bytes", s.empty_slab_bytes as u64);
    w.field("large_kept_bytes", s.large_kept_bytes as u64);
    w.field("guard_bytes", s.guard_bytes as u64);
    w.field("permanently_freed_blocks", s.gone_blocks as u64)
        .field("permanently_freed_bytes", s.gone_bytes as u64);
    write_shared(&mut w, &allocator.compactor().shared(), &s);
    if let Some(resident) = resident {
        write_resident(&mut w, resident);
    }
    w.text(",\"sites\":[");
    let sites = collect(allocator);
    for (i, site) in sites.sites.iter().take(sites.len).enumerate() {
        w.text(if i == 0 { "{\"site\":\"0x" } else { ",{\"site\":\"0x" });
        w.digits(site.site.address() as u64, 16);
        w.text("\"");
        w.field("live_bytes", site.live_bytes as u64);
        w.field("live_blocks", site.live_blocks as u64);
        w.field("pinned_bytes", site.pinned_bytes as u64);
        w.field("allocated_bytes", site.allocated_bytes);
        w.field("allocated_blocks", site.allocated_blocks);
        w.text(if site.large { ",\"large\":true}" } else { ",\"large\":false}" });
    }
    w.text("]}\n");
    w.flush()
}

/// Writes the figures of page sharing, as an object within the object.
fn write_shared(w: &mut Writer, shared: &Shared, s: &Snapshot) {
    w.text(",\"shared\":{\"status\":\"");
    w.text(shared.status.name());
    w.text("\"");
    for (name, value) in [
        ("groups", u64::from(shared.groups)),
        ("units", u64::from(shared.units)),
        ("passes", shared.passes as u64),
        ("given_bytes", shared.given as u64),
        ("lent_slots", s.lent_slots as u64),
        ("saved_bytes", s.lent_bytes as u64),
    ] {
        w.field(name, value);
    }
    w.text("}");
}

/// Writes the kernel's figures, as an object within the object.
fn write_resident(w: &mut Writer, r: &Resident) {
    w.text(",\"resident\":{\"rss\":");
    w.digits(r.rss, 10);
    for (name, bytes) in [
        ("pss", r.pss),
        ("anonymous", r.anonymous),
        ("lazy_free", r.lazy_free),
        ("anon_huge_pages", r.anon_huge_pages),
        ("swap", r.swap),
        ("page_tables", r.page_tables),
        ("peak_rss", r.peak),
        ("slabs", r.slabs),
        ("large", r.large),
        ("metadata", r.metadata),
        ("files", r.files),
        ("stack", r.stack),
        ("brk", r.brk),
        ("other", r.other),
    ] {
        w.field(name, bytes);
    }
    w.text("}");
}

#[inline(never)]
fn collect(allocator: &Allocator<Linux>) -> Sites {
    let mut sites = Sites { sites: [SiteFigures::default(); SITES], len: 0 };
    allocator.for_each_slab(|slab| {
        let live = slab.live_slots();
        sites.add(SiteFigures {
            site: slab.site(),
            large: false,
            live_bytes: live * slab.size(),
            live_blocks: live,
            pinned_bytes: pinned_bytes(slab, allocator.os().page_size()),
            allocated_bytes: slab.allocations() * slab.size() as u64,
            allocated_blocks: slab.allocations(),
        });
    });
    allocator.large().tally().for_each(|made| {
        sites.add(SiteFigures {
            site: made.site,
            large: true,
            allocated_bytes: made.bytes,
            allocated_blocks: made.blocks,
            ..SiteFigures::default()
        });
    });
    allocator.large().units().for_each(|block| {
        let live = block.state() == BlockState::Live;
        sites.add(SiteFigures {
            site: block.site(),
            large: true,
            live_bytes: if live { block.bytes() } else { 0 },
            live_blocks: usize::from(live),
            ..SiteFigures::default()
        });
    });
    sites.sort();
    sites
}
