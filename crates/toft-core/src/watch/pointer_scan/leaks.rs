//! Reports leaks at exit, by call site: `TOFT_LEAKS`.
//!
//! A leak is a block that the program can no longer free. At exit, no pointer to it or into it is
//! found in memory that the program can reach (`reachability.rs`). With `TOFT_LEAKS=all`, every
//! block that was not freed is a leak.
//!
//! Each call site has one line, the largest first. The table of sites has an entry for each slab
//! and large block, so no site is left out.

use crate::allocator::Allocator;
use crate::large::BlockState;
use crate::options::Leaks;
use crate::os::seccomp::Calls;
use crate::os::{Os, process};
use crate::reclaim::heap_sort;
use crate::region::Site;
use crate::report::{DETAIL, Writer, open_report_file, place_json, place_text};
use crate::slab::{SlotIndex, SlotState};
use crate::stats::Resident;
use crate::watch::pointer_scan::PointerScan;
use crate::watch::pointer_scan::reachability::Reach;

/// The leaks of one call site.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Leak {
    site: Site,
    bytes: usize,
    blocks: usize,
}

/// All leaks, in memory mapped for the table.
struct Table {
    leaks: &'static mut [Leak],
    len: usize,
    /// The number of blocks that did not fit. Other threads allocated them meanwhile, from new call
    /// sites.
    missed: usize,
    /// The number of blocks that can still be reached, and their bytes.
    reachable: (usize, usize),
}

/// Extra entries for allocations of other threads while the table is filled.
const SPARE: usize = 4096;

impl Table {
    /// Returns a table with an entry for each slab and each large block, or `None` without memory.
    fn new<O: Os>(allocator: &Allocator<O>) -> Option<Table> {
        let mut count = SPARE;
        allocator.for_each_slab(|_| count += 1);
        allocator.large().units().for_each(|_| count += 1);
        let address = process::scratch(count.checked_mul(size_of::<Leak>())?)?;
        let first: *mut Leak = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: these bytes were mapped a moment ago, for this table alone and for ever; zero is
        // a `Leak`.
        let leaks = unsafe { core::slice::from_raw_parts_mut(first, count) };
        Some(Table { leaks, len: 0, missed: 0, reachable: (0, 0) })
    }

    fn add(&mut self, site: Site, bytes: usize, blocks: usize) {
        if blocks == 0 {
            return;
        }
        match self.leaks.get_mut(self.len) {
            Some(place) => {
                *place = Leak { site, bytes, blocks };
                self.len += 1;
            }
            None => self.missed += blocks,
        }
    }

    fn fill<O: Os>(&mut self, allocator: &Allocator<O>, reach: Option<&Reach>) {
        let reached =
            |descriptor: usize, slot| reach.is_some_and(|r| r.is_marked(descriptor, slot));
        allocator.for_each_slab(|slab| {
            let descriptor = (&raw const *slab).addr();
            let (mut lost, mut kept) = (0, 0);
            for slot in slab.all_slots().filter(|&slot| slab.state(slot) == SlotState::Live) {
                *(if reached(descriptor, slot) { &mut kept } else { &mut lost }) += 1;
            }
            self.add(slab.site(), lost * slab.size(), lost);
            self.reachable.0 += kept;
            self.reachable.1 += kept * slab.size();
        });
        allocator.large().units().for_each(|block| {
            if block.state() != BlockState::Live {
            } else if reached((&raw const *block).addr(), SlotIndex::new(0)) {
                self.reachable.0 += 1;
                self.reachable.1 += block.bytes();
            } else {
                self.add(block.site(), block.bytes(), 1);
            }
        });
        self.merge();
    }

    /// Merges the entries of each site, and sorts them by bytes, the largest first.
    fn merge(&mut self) {
        self.sort(|leak| (leak.site.address(), 0));
        let mut kept = 0;
        for place in 0..self.len {
            let Some(&leak) = self.leaks.get(place) else { return };
            match self.leaks.get_mut(kept.max(1) - 1) {
                Some(last) if kept > 0 && last.site == leak.site => {
                    last.bytes += leak.bytes;
                    last.blocks += leak.blocks;
                }
                _ => {
                    if let Some(to) = self.leaks.get_mut(kept) {
                        *to = leak;
                    }
                    kept += 1;
                }
            }
        }
        self.len = kept;
        self.sort(|leak| (usize::MAX - leak.bytes, leak.site.address()));
    }

    fn sort(&mut self, key: impl Fn(&Leak) -> (usize, usize)) {
        let Some(leaks) = self.leaks.get_mut(..self.len) else { return };
        heap_sort(
            leaks,
            |leaks, a, b| match (leaks.get(a), leaks.get(b)) {
                (Some(a), Some(b)) => key(a) < key(b),
                _ => false,
            },
            |leaks, a, b| {
                if let (Some(&first), Some(&second)) = (leaks.get(a), leaks.get(b)) {
                    leaks.get_mut(a).into_iter().for_each(|place| *place = second);
                    leaks.get_mut(b).into_iter().for_each(|place| *place = first);
                }
            },
        );
    }

    fn leaks(&self) -> &[Leak] {
        self.leaks.get(..self.len).unwrap_or(&[])
    }

    fn sums(&self) -> (usize, usize) {
        self.leaks().iter().fold((0, 0), |(bytes, blocks), l| (bytes + l.bytes, blocks + l.blocks))
    }
}

/// The destination of a report of leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// The process that started the program. It names the call sites by the list of mappings that
    /// follows the report.
    Starter(i32),
    /// Stderr, and the file of reports.
    Person,
}

impl<O: Os> PointerScan<'_, O> {
    /// Reports the leaks when the program ends.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_leaks(self, to: To) {
        // With this option the user states that an inherited filter allows the system calls.
        let permit = self.filter().permit(&self.os, Calls::REPORT, true);
        let wanted = self.options.leaks == Leaks::Lost;
        // Reading memory that may vanish takes an unusual system call.
        let reach = if wanted && permit.is_some() { Reach::of(&self) } else { None };
        let Some(mut table) = Table::new(&self) else {
            self.os.report(b"toft: leaks: there is no memory to count them in\n");
            return;
        };
        table.fill(&self, reach.as_ref());
        let blind = wanted && reach.is_none();
        match to {
            To::Starter(descriptor) => {
                let resident = permit.is_some().then(|| Resident::now(&self.layout()));
                write_json(descriptor, &table, blind, false, resident);
            }
            To::Person => {
                if table.len != 0 {
                    write_text(&table, blind, permit.is_some());
                } else if !self.options.in_silence {
                    write_none(&table);
                }
                if permit.is_some()
                    && let Some(file) = open_report_file(&self.options)
                {
                    write_json(file, &table, blind, true, None);
                    process::close(file);
                }
            }
        }
    }
}

/// Writes the first line, such as `leaks: 400 bytes in 4 blocks, of 2 call sites`.
fn message<const BYTES: usize>(w: &mut Writer<BYTES>, table: &Table, blind: bool) {
    let (bytes, blocks) = table.sums();
    w.text("leaks: ").digits(bytes as u64, 10).text(" bytes in ").digits(blocks as u64, 10);
    w.text(" blocks, of ").digits(table.len as u64, 10).text(" call sites");
    if blind {
        w.text(" (what can still be reached is among them: it could not be looked at)");
    } else if table.reachable.0 != 0 {
        w.text("; ").digits(table.reachable.1 as u64, 10).text(" bytes in ");
        w.digits(table.reachable.0 as u64, 10).text(" blocks can still be reached");
    }
    if table.missed != 0 {
        w.text("; ").digits(table.missed as u64, 10).text(" more blocks, allocated just now");
    }
}

/// Writes that there are no leaks, and what was scanned.
fn write_none(table: &Table) {
    let mut w: Writer = Writer::new(libc::STDERR_FILENO);
    w.text("toft: no leaks in process ").digits(process::pid() as u64, 10).text("; ");
    w.digits(table.reachable.1 as u64, 10).text(" bytes in ");
    w.digits(table.reachable.0 as u64, 10).text(" blocks can still be reached\n");
    w.flush();
}

fn write_text(table: &Table, blind: bool, named: bool) {
    let mut w: Writer = Writer::new(libc::STDERR_FILENO);
    w.text("toft: ");
    message(&mut w, table, blind);
    w.text("\n");
    for leak in table.leaks() {
        w.text(DETAIL).digits(leak.bytes as u64, 10).text(" bytes in ");
        w.digits(leak.blocks as u64, 10).text(" blocks, from ");
        if named {
            place_text(&mut w, leak.site.address());
        } else {
            w.text("0x").digits(leak.site.address() as u64, 16);
        }
        w.text("\n");
    }
    w.text(DETAIL).text("process ").digits(process::pid() as u64, 10);
    w.text(", thread ").digits(u64::from(process::thread_number()), 10);
    w.text("; `toft explain` says where that is in the source\n");
    w.flush();
}

fn write_json(
    descriptor: i32,
    table: &Table,
    blind: bool,
    named: bool,
    resident: Option<Resident>,
) {
    let (bytes, blocks) = table.sums();
    let mut w: Writer<2048> = Writer::new(descriptor);
    w.text("{\"toft\":").string(crate::VERSION.as_bytes()).word("report", b"leaks");
    w.field("pid", process::pid() as u64).field("thread", u64::from(process::thread_number()));
    w.text(",\"message\":\"");
    message(&mut w, table, blind);
    w.text("\"").field("bytes", bytes as u64).field("blocks", blocks as u64);
    w.field("reachable_bytes", table.reachable.1 as u64);
    w.field("reachable_blocks", table.reachable.0 as u64);
    if let Some(now) = resident {
        // The scan covers the first. The origin of the second is unknown.
        w.field("resident", now.slabs + now.large);
        w.field("other_resident", now.brk + now.other);
    }
    w.text(if blind { ",\"looked\":false,\"leaks\":[" } else { ",\"looked\":true,\"leaks\":[" });
    for (number, leak) in table.leaks().iter().enumerate() {
        w.text(if number == 0 { "{\"address\":\"0x" } else { ",{\"address\":\"0x" });
        w.digits(leak.site.address() as u64, 16).text("\"");
        if named {
            place_json(&mut w, leak.site.address());
        }
        w.field("bytes", leak.bytes as u64).field("blocks", leak.blocks as u64).text("}");
    }
    w.text("]}\n");
    w.flush();
}
