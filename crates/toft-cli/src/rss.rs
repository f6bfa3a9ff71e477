//! `toft rss`: where the resident memory of a running process is. `toft-profile` reads; this
//! prints.

use std::cmp::Reverse;
use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use toft_profile::format::Table;
use toft_profile::{Counts, Location, Pin, Process, Rss};

use crate::filtered;
use crate::profile::{Names, json_of_owner};
use crate::resident::{TOP, Term, cells, pin_table, row, table};
use crate::style::{self, Style};
use crate::symbols::with_place;
use crate::verb::{End, SymbolFolders, print};

const HELP: &str = "\
Examples:
  toft rss 1234                    explain the resident memory of process 1234
  toft rss --json 1234 | jq .pins  the same as JSON, with every call site and thread
  toft run -- ./server &           start a process that toft rss $! can read

No code runs in the process, and it is not stopped. You need the permission that a debugger needs.

Exit status: 0, or 125 with a message if the process cannot be read.";

/// Explain the resident memory of a running process: what is live, what is free, and what pins it.
///
/// Combines the kernel's figures (Rss, by mapping) with the allocator's tables. Each resident byte
/// is live, free on a page with a live block, claimed by a thread, kept for reuse, metadata, or not
/// Toft's. The lines add up to the kernel's Rss. The last table lists the call sites whose live
/// blocks pin the most free memory.
#[derive(Args, Debug)]
#[command(name = "rss", after_help = HELP)]
pub struct Explain {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The process
    #[arg(value_name = "PID", value_parser = crate::verb::pid, allow_negative_numbers = true)]
    pid: i32,
}

pub fn rss(args: &Explain) -> End {
    let rss = Rss::of(&Process::open(args.pid)?)?;
    let mut names = SymbolFolders::default().names_of(args.pid);
    let text = if args.json {
        format!("{}\n", object(&rss, &mut names))
    } else {
        page(&rss, &mut names, Style::of_stdout())
    };
    print(text)?;
    Ok(0)
}

const SHARED: &str = "shared by compaction";

fn terms(rss: &Rss) -> Vec<Term> {
    let (a, others) = (&rss.account, &rss.others);
    let blocks =
        format!("{} in {} blocks", style::bytes(a.live_bytes), style::count(a.live_blocks));
    let nothing = String::new;
    let metadata = format!(
        "descriptors {}, heaps {}, tables {}",
        style::bytes(a.descriptors),
        style::bytes(a.heaps),
        style::bytes(a.tables)
    );
    let mut terms = vec![
        Term::new(a.slabs.live + a.large_live, "live", format!("{blocks}, touched or not")),
        Term::new(a.large_slack, "slack of large blocks", "after the requested sizes"),
        Term::new(a.slabs.claimed, "claimed by threads", "malloc hands these slots out next"),
        Term::new(a.slabs.uncollected, "freed by other threads", "not yet collected by the owners"),
        Term::new(
            a.slabs.free_pinned,
            "free, pinned",
            "on pages with live blocks: see the call sites",
        ),
        Term::new(a.slabs.free_dirty, "free, dirty", "on pages without live blocks: soon returned"),
        Term::new(
            a.slabs.quarantined,
            "quarantine",
            "freed blocks that wait for reuse: toft purge returns them",
        ),
        Term::new(
            a.slabs.reserved,
            "reserved slots",
            "never handed out: a write there is reported",
        ),
        Term::new(
            a.slabs.lent,
            SHARED,
            format!(
                "counted again: {} slots lent, which saves {}",
                style::count(a.lent_slots),
                style::bytes(a.lent_bytes)
            ),
        ),
        Term::new(
            a.empty_slabs,
            "empty slabs kept",
            format!("{} slabs, for their call sites", style::count(a.empty_slab_count)),
        ),
        Term::new(
            a.large_kept,
            "free large blocks kept",
            format!("{} blocks", style::count(a.large_kept_count)),
        ),
        Term::new(a.descriptors + a.heaps + a.tables, "metadata", metadata),
        Term::new(others.programs, "program and libraries", nothing()),
        Term::new(others.files, "other files", nothing()),
        Term::new(others.shared, "shared memory", nothing()),
        Term::new(others.stacks, "stacks", "of the first thread and of sleeping threads"),
        Term::new(others.brk, "brk heap", "not Toft's: from direct calls of brk"),
        Term::new(
            others.anonymous,
            "other anonymous mappings",
            "not Toft's: mmap, stacks of running threads",
        ),
        Term::new(others.kernel, "the kernel's own", nothing()),
    ];
    // What is shared may be resident at one address only, and saves what it saves.
    terms.retain(|term| term.bytes > 0 || (term.name == SHARED && a.lent_slots > 0));
    terms
}

fn page(rss: &Rss, names: &mut Names, style: Style) -> String {
    let mut page = String::new();
    let name = style::fit(&rss.name, 16);
    let _ = writeln!(
        page,
        "{} ({name})  Toft {}, {} resident, {} at its peak\n",
        style.strong(&format!("process {}", rss.pid)),
        rss.version,
        style::bytes(rss.counts.rss),
        style::bytes(rss.peak_rss),
    );
    table(&mut page, style, "now", &terms(rss), rss.counts.rss);
    page.push('\n');
    let mut line = |name: &str, cells: &[String]| row(&mut page, style, name, cells);
    let (c, ours) = (&rss.counts, &rss.ours);
    let mut kernel = kernel_cells(c);
    kernel.extend(cells(&[("page tables", rss.page_tables)]));
    line("kernel", &kernel);
    line("of Toft", &kernel_cells(ours));
    let guards = style::bytes(rss.account.guards);
    line("guards", &[format!("{guards} of address space after large blocks, not resident")]);
    if let Some(text) = filtered::line_of(&rss.filter, rss.pid) {
        line("seccomp", &[text]);
    }
    line("unknown", &["the requested sizes of blocks: they are not recorded".into()]);
    line("reading", &calm(rss));
    thread_table(&mut page, rss, style);
    let pins = rss.account.pins.iter().filter(|pin| pin.pinned > 0);
    let named: Vec<_> = pins
        .map(|pin| {
            (names.locate(&rss.modules, pin.site), [pin.pinned, pin.live_bytes, pin.live_blocks])
        })
        .collect();
    let left_out =
        pin_table(&mut page, style, named.iter().map(|(location, figures)| (location, *figures)));
    more(&mut page, left_out, "lines");
    page
}

fn kernel_cells(c: &Counts) -> Vec<String> {
    cells(&[
        ("Pss", c.pss),
        ("Anonymous", c.anonymous),
        ("LazyFree", c.lazy_free),
        ("AnonHugePages", c.anon_huge_pages),
        ("Swap", c.swap),
    ])
}

/// How far the figures are of one moment.
fn calm(rss: &Rss) -> Vec<String> {
    let (reading, doubts) = (&rss.reading, &rss.account.doubts);
    let mut cells = vec![
        format!(
            "{} of {} descriptors changed",
            style::count(doubts.changed),
            style::count(doubts.read)
        ),
        format!("Rss moved by {}", style::bytes(reading.rss_before.abs_diff(reading.rss_after))),
    ];
    if reading.tries > 1 {
        cells.push(format!("the calmest of {} readings", reading.tries));
    }
    if doubts.senseless > 0 {
        cells.push(format!("{} made no sense", style::count(doubts.senseless)));
    }
    cells
}

fn thread_table(page: &mut String, rss: &Rss, style: Style) {
    let mut owners: Vec<_> = rss.owners.iter().filter(|owner| owner.heap.slabs > 0).collect();
    owners.sort_by_key(|owner| (Reverse(owner.heap.resident.sum()), owner.heap.heap));
    let columns =
        [("resident", 10), ("live", 10), ("free", 10), ("claimed", 10), ("uncollected", 11)];
    let table = Table::new(&columns, style.width).cut();
    let _ = writeln!(page, "\n{}", style.faint(&table.head("thread")));
    for owner in owners.iter().take(TOP) {
        let split = &owner.heap.resident;
        let free = split.free_pinned + split.free_dirty;
        let figures =
            [split.sum(), split.live, free, split.claimed, split.uncollected].map(style::bytes);
        let _ = writeln!(page, "{}", table.line(&figures, &owner.words()));
    }
    more(page, owners.len().saturating_sub(TOP), "heaps");
}

fn more(page: &mut String, left_out: usize, what: &str) {
    if left_out > 0 {
        let left_out = style::count(left_out as u64);
        let _ = writeln!(page, "  and {left_out} more {what}: --json has all");
    }
}

fn object(rss: &Rss, names: &mut Names) -> Value {
    let (a, reading) = (&rss.account, &rss.reading);
    let mut site = |pin: &Pin| json_of_pin(pin, &names.locate(&rss.modules, pin.site));
    json!({
        "pid": rss.pid,
        "name": rss.name,
        "toft": rss.version,
        "library": rss.library,
        "partitions": rss.partitions,
        "kernel": rss.counts,
        "kernel_of_toft": rss.ours,
        "peak_rss": rss.peak_rss,
        "page_tables": rss.page_tables,
        "resident": resident(rss),
        "live_bytes": a.live_bytes,
        "live_blocks": a.live_blocks,
        "free_bytes": a.free_bytes,
        "claimed_bytes": a.claimed_bytes,
        "lent_slots": a.lent_slots,
        "saved_bytes": a.lent_bytes,
        "uncollected_bytes": a.uncollected_bytes,
        "guard_bytes": a.guards,
        "slabs": a.slab_count,
        "empty_slabs": a.empty_slab_count,
        "large_blocks": a.large_count,
        "large_blocks_kept": a.large_kept_count,
        "seccomp": filtered::line_of(&rss.filter, rss.pid),
        "reading": {
            "tries": reading.tries,
            "rss_before": reading.rss_before,
            "rss_after": reading.rss_after,
            "descriptors": a.doubts.read,
            "descriptors_changed": a.doubts.changed,
            "descriptors_senseless": a.doubts.senseless,
        },
        "threads": rss.owners.iter().map(json_of_owner).collect::<Vec<_>>(),
        "pins": a.pins.iter().map(&mut site).collect::<Vec<_>>(),
    })
}

/// The terms that add up to the kernel's number.
fn resident(rss: &Rss) -> Value {
    let a = &rss.account;
    let more = json!({
        "live": a.slabs.live + a.large_live,
        "large_slack": a.large_slack,
        "empty_slabs": a.empty_slabs,
        "large_kept": a.large_kept,
        "descriptors": a.descriptors,
        "heaps": a.heaps,
        "tables": a.tables,
        "unaccounted": rss.remainder(),
    });
    let mut terms = json!(a.slabs);
    for part in [json!(rss.others), more].iter().filter_map(Value::as_object).flatten() {
        terms[part.0] = part.1.clone();
    }
    terms
}

fn json_of_pin(pin: &Pin, location: &Location) -> Value {
    let object = json!({
        "site": format!("{:#x}", pin.site),
        "partition": pin.partition,
        "pinned_bytes": pin.pinned,
        "pinned_pages": pin.pages,
        "live_bytes": pin.live_bytes,
        "live_blocks": pin.live_blocks,
        "resident_bytes": pin.resident,
    });
    with_place(object, location)
}
