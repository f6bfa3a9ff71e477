//! Reports leaks at exit, by call site: `TOFT_LEAKS`.
//!
//! A leak is a block that the program can no longer free. At exit, no pointer to it or into it is
//! found in memory that the program can reach (`reachability.rs`). With `TOFT_LEAKS=all`, the
//! report has every block that was not freed, and calls none of them leaked.
//!
//! Causes come first (`causes.rs`): call sites of blocks that no other leaked block leads to, with
//! the bytes that these hold. The largest comes first. The table of sites has an entry for each
//! slab and large block, so no site is left out.

use super::causes::Causes;
use super::reachability::{Block, Reach, live_large, live_slots};
use crate::reports::{open_report_file, place_json, place_text};
use toft_core::allocator::Allocator;
use toft_core::options::Leaks;
use toft_core::os::seccomp::Calls;
use toft_core::os::{Linux, Os, process};
use toft_core::reclaim::heap_sort;
use toft_core::region::Site;
use toft_core::report::{DETAIL, Writer, process_json, process_line};
use toft_core::stats::Resident;

/// The leaks of one call site.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Leak {
    site: Site,
    bytes: usize,
    blocks: usize,
    /// Those of them that are causes.
    direct_bytes: usize,
    direct_blocks: usize,
    /// The leaked blocks, of any site, that these hold.
    holds_bytes: usize,
    holds_blocks: usize,
}

impl Leak {
    /// Adds a block that no leaked block leads to, and the number and bytes of those that it holds.
    fn add_cause(&mut self, bytes: usize, (held_blocks, held_bytes): (usize, usize)) {
        self.add_held(bytes);
        self.direct_bytes += bytes;
        self.direct_blocks += 1;
        self.holds_bytes += held_bytes;
        self.holds_blocks += held_blocks;
    }

    /// Adds a block that another leaked block leads to.
    fn add_held(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.blocks += 1;
    }

    fn merge(&mut self, other: &Leak) {
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.direct_bytes += other.direct_bytes;
        self.direct_blocks += other.direct_blocks;
        self.holds_bytes += other.holds_bytes;
        self.holds_blocks += other.holds_blocks;
    }

    /// The bytes and blocks that other leaked blocks lead to.
    fn indirect(&self) -> (usize, usize) {
        (self.bytes - self.direct_bytes, self.blocks - self.direct_blocks)
    }
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
    scan: Scan,
}

/// What is known about pointers to the blocks of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// None was found, so the blocks leaked.
    Done,
    /// The user wants every block that was not freed.
    Unwanted,
    /// The process may not read its own memory.
    Impossible,
}

/// Extra entries for allocations of other threads while the table is filled.
const SPARE: usize = 4096;

impl Table {
    /// Returns a table with an entry for each slab and each large block, or `None` without memory.
    fn new(allocator: &Allocator<Linux>, scan: Scan) -> Option<Table> {
        let mut count = SPARE;
        allocator.for_each_slab(|_| count += 1);
        allocator.large().units().for_each(|_| count += 1);
        let address = process::scratch(count.checked_mul(size_of::<Leak>())?)?;
        let first: *mut Leak = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: these bytes were mapped a moment ago, for this table alone and for ever; zero is
        // a `Leak`.
        let leaks = unsafe { core::slice::from_raw_parts_mut(first, count) };
        Some(Table { leaks, len: 0, missed: 0, reachable: (0, 0), scan })
    }

    fn add(&mut self, leak: Leak) {
        if leak.blocks == 0 {
            return;
        }
        match self.leaks.get_mut(self.len) {
            Some(place) => {
                *place = leak;
                self.len += 1;
            }
            None => self.missed += leak.blocks,
        }
    }

    fn fill(&mut self, allocator: &Allocator<Linux>, reach: Option<&Reach>) {
        let mut causes = reach.and_then(|reach| Causes::of(allocator, reach));
        let mut add_lost = |leak: &mut Leak, block: Block| match (reach, &mut causes) {
            (Some(_), Some(causes)) if causes.is_held(block.descriptor, block.slot) => {
                leak.add_held(block.bytes);
            }
            (Some(reach), Some(causes)) => {
                leak.add_cause(block.bytes, causes.held_by(allocator, reach, block));
            }
            _ => leak.add_cause(block.bytes, (0, 0)),
        };
        let reached =
            |block: Block| reach.is_some_and(|r| r.is_marked(block.descriptor, block.slot));
        allocator.for_each_slab(|slab| {
            let mut leak = Leak { site: slab.site(), ..Leak::default() };
            for block in live_slots(slab) {
                if reached(block) {
                    self.reachable.0 += 1;
                    self.reachable.1 += block.bytes;
                } else {
                    add_lost(&mut leak, block);
                }
            }
            self.add(leak);
        });
        allocator.large().units().for_each(|unit| {
            let Some(block) = live_large(allocator, unit) else { return };
            if reached(block) {
                self.reachable.0 += 1;
                self.reachable.1 += block.bytes;
            } else {
                let mut leak = Leak { site: unit.site(), ..Leak::default() };
                add_lost(&mut leak, block);
                self.add(leak);
            }
        });
        self.merge();
    }

    /// Merges the entries of each site, and sorts them: causes first, by what they hold with
    /// themselves, then the others, by bytes. The largest comes first.
    fn merge(&mut self) {
        self.sort(|leak| (leak.site.address(), 0));
        let mut kept = 0;
        for place in 0..self.len {
            let Some(&leak) = self.leaks.get(place) else { return };
            match self.leaks.get_mut(kept.max(1) - 1) {
                Some(last) if kept > 0 && last.site == leak.site => {
                    last.merge(&leak);
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
        self.sort(|leak| {
            // Two numbers of bytes of one process have a sum below half of the address space.
            let size = match leak.direct_blocks {
                0 => leak.bytes,
                _ => usize::MAX / 2 + leak.direct_bytes + leak.holds_bytes,
            };
            (usize::MAX - size, leak.site.address())
        });
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
pub enum To {
    /// The process that started the program. It names the call sites by the list of mappings that
    /// follows the report.
    Starter(i32),
    /// Stderr, and the file of reports.
    Person,
}

/// Reports the leaks when the program ends.
#[cold]
#[inline(never)]
pub fn report_leaks(allocator: &Allocator<Linux>, to: To) {
    // With this option the user states that an inherited filter allows the system calls.
    let permit = allocator.filter().permit(allocator.os(), Calls::REPORT, true);
    let wanted = allocator.options().leaks == Leaks::Lost;
    // Reading memory that may vanish takes an unusual system call.
    let reach = if wanted && permit.is_some() { Reach::of(allocator) } else { None };
    let scan = match reach {
        Some(_) => Scan::Done,
        None if wanted => Scan::Impossible,
        None => Scan::Unwanted,
    };
    let Some(mut table) = Table::new(allocator, scan) else {
        allocator.os().report(b"toft: leaks: there is no memory to count them in\n");
        return;
    };
    table.fill(allocator, reach.as_ref());
    match to {
        To::Starter(descriptor) => {
            let resident = permit.is_some().then(|| Resident::now(&allocator.layout()));
            write_json(descriptor, &table, false, resident);
        }
        To::Person => {
            if table.len != 0 {
                write_text(&table, permit.is_some());
            } else if !allocator.options().in_silence {
                write_none(&table);
            }
            if permit.is_some()
                && let Some(file) = open_report_file(allocator.options())
            {
                write_json(file, &table, true, None);
                process::close(file);
            }
        }
    }
}

/// Writes the first line, such as `leaks: 400 bytes in 4 blocks, of 2 call sites`, or with
/// `not freed` if the blocks may be reachable.
fn message<const BYTES: usize>(w: &mut Writer<BYTES>, table: &Table) {
    let (bytes, blocks) = table.sums();
    w.text(if table.scan == Scan::Done { "leaks: " } else { "not freed: " })
        .digits(bytes as u64, 10)
        .text(" bytes in ")
        .digits(blocks as u64, 10);
    w.text(" blocks, of ").digits(table.len as u64, 10).text(" call sites");
    if table.scan == Scan::Impossible {
        w.text(" (reachable blocks are among them: the scan was not possible)");
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
    if table.scan == Scan::Done {
        w.digits(table.reachable.1 as u64, 10).text(" bytes in ");
        w.digits(table.reachable.0 as u64, 10).text(" blocks can still be reached\n");
    } else {
        w.text("every block was freed\n");
    }
    w.flush();
}

/// Writes such as `400 bytes in 4 blocks`.
fn sum<const BYTES: usize>(w: &mut Writer<BYTES>, bytes: usize, blocks: usize) {
    w.digits(bytes as u64, 10).text(" bytes in ").digits(blocks as u64, 10).text(" blocks");
}

fn write_text(table: &Table, named: bool) {
    let mut w: Writer = Writer::new(libc::STDERR_FILENO);
    w.text("toft: ");
    message(&mut w, table);
    w.text("\n");
    let place = |w: &mut Writer, leak: &Leak| {
        w.text(" from ");
        if named {
            place_text(w, leak.site.address());
        } else {
            w.text("0x").digits(leak.site.address() as u64, 16);
        }
        w.text("\n");
    };
    for leak in table.leaks().iter().filter(|leak| leak.direct_blocks != 0) {
        sum(w.text(DETAIL), leak.direct_bytes, leak.direct_blocks);
        if leak.holds_blocks != 0 {
            sum(w.text(", which hold "), leak.holds_bytes, leak.holds_blocks);
        }
        place(w.text(","), leak);
    }
    for leak in table.leaks().iter().filter(|leak| leak.indirect() != (0, 0)) {
        let (bytes, blocks) = leak.indirect();
        sum(w.text(DETAIL), bytes, blocks);
        place(w.text(", held by leaked blocks,"), leak);
    }
    process_line(&mut w, named, "");
}

fn write_json(descriptor: i32, table: &Table, named: bool, resident: Option<Resident>) {
    let (bytes, blocks) = table.sums();
    let mut w: Writer<2048> = Writer::new(descriptor);
    w.text("{\"toft\":").string(toft_core::VERSION.as_bytes()).word("report", b"leaks");
    process_json(&mut w, named);
    w.text(",\"message\":\"");
    message(&mut w, table);
    w.text("\"").field("bytes", bytes as u64).field("blocks", blocks as u64);
    w.field("reachable_bytes", table.reachable.1 as u64);
    w.field("reachable_blocks", table.reachable.0 as u64);
    if let Some(now) = resident {
        // The scan covers the first. The origin of the second is unknown.
        w.field("resident", now.slabs + now.large);
        w.field("other_resident", now.brk + now.other);
    }
    w.text(if table.scan == Scan::Unwanted { ",\"all\":true" } else { ",\"all\":false" });
    w.text(if table.scan == Scan::Impossible { ",\"looked\":false" } else { ",\"looked\":true" });
    w.text(",\"leaks\":[");
    for (number, leak) in table.leaks().iter().enumerate() {
        w.text(if number == 0 { "{\"address\":\"0x" } else { ",{\"address\":\"0x" });
        w.digits(leak.site.address() as u64, 16).text("\"");
        if named {
            place_json(&mut w, leak.site.address());
        }
        w.field("bytes", leak.bytes as u64).field("blocks", leak.blocks as u64);
        w.field("direct_bytes", leak.direct_bytes as u64);
        w.field("direct_blocks", leak.direct_blocks as u64);
        w.field("holds_bytes", leak.holds_bytes as u64);
        w.field("holds_blocks", leak.holds_blocks as u64).text("}");
    }
    w.text("]}\n");
    w.flush();
}
