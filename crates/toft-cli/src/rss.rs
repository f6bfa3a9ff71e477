//! `toft rss`: where the resident memory of a running process is. `toft-profile` reads; this
//! prints.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use toft_profile::{Counts, Pin, Process, Rss, Split, Thread};

use crate::filtered;
use crate::resident::{Pinning, Term, cells, pin_table, row, table};
use crate::run::{REFUSED, say};
use crate::style::{self, Style};
use crate::symbols::{Place, Symbols};
use crate::words::printed;

/// How many call sites and threads are shown.
const TOP: usize = 10;

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
#[command(name = "rss", after_help = HELP, after_long_help = HELP)]
pub struct Explain {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The process
    #[arg(value_name = "PID", value_parser = crate::words::pid, allow_negative_numbers = true)]
    pid: i32,
}

/// The verb.
pub fn rss(args: &Explain) -> i32 {
    let rss = match Process::open(args.pid).and_then(|process| Rss::of(&process)) {
        Ok(rss) => rss,
        Err(error) => {
            say(&error.to_string());
            return REFUSED;
        }
    };
    let mut symbols = Symbols::new(&rss.code);
    let text = if args.json {
        format!("{}\n", object(&rss, &mut symbols))
    } else {
        page(&rss, &mut symbols, Style::of_stdout())
    };
    printed(&text, 0)
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
        Term::new(a.slabs.remote, "freed by other threads", "not yet collected by the owners"),
        Term::new(a.slabs.pinned, "free, pinned", "on pages with live blocks: see the call sites"),
        Term::new(a.slabs.loose, "free, dirty", "on pages without live blocks: soon returned"),
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
            a.pooled,
            "empty slabs kept",
            format!("{} slabs, for their call sites", style::count(a.pooled_count)),
        ),
        Term::new(
            a.large_kept,
            "free large blocks kept",
            format!("{} blocks", style::count(a.kept_count)),
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

fn page(rss: &Rss, symbols: &mut Symbols, style: Style) -> String {
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
    let (pins, count) = pinning(rss, symbols);
    pin_table(&mut page, style, &pins);
    more(&mut page, count, "call sites");
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
    let mut threads: Vec<(&Thread, Option<i32>)> = rss
        .account
        .threads
        .iter()
        .zip(rss.holders.iter().copied())
        .filter(|(t, _)| t.slabs > 0)
        .collect();
    threads.sort_by_key(|(thread, _)| (std::cmp::Reverse(thread.resident.sum()), thread.heap));
    let head = format!(
        "  {:>10}  {:>10}  {:>10}  {:>10}  {:>11}  thread",
        "resident", "live", "free", "claimed", "uncollected"
    );
    let _ = writeln!(page, "\n{}", style.faint(&style::fit(&head, style.width)));
    for (thread, holder) in threads.iter().take(TOP) {
        let r = &thread.resident;
        let line = format!(
            "  {:>10}  {:>10}  {:>10}  {:>10}  {:>11}  {}",
            style::bytes(r.sum()),
            style::bytes(r.live),
            style::bytes(r.pinned + r.loose),
            style::bytes(r.claimed),
            style::bytes(r.remote),
            whose(rss, thread, *holder),
        );
        let _ = writeln!(page, "{}", style::fit(&line, style.width));
    }
    more(page, threads.len(), "heaps");
}

fn whose(rss: &Rss, thread: &Thread, holder: Option<i32>) -> String {
    let task = holder.and_then(|number| rss.tasks.iter().find(|task| task.number == number));
    if thread.shared {
        return format!("heap {}: shared by threads", thread.heap);
    }
    match (thread.running, task) {
        (true, Some(task)) => format!("{} ({}), heap {}", task.number, task.name, thread.heap),
        (true, None) => format!("heap {}", thread.heap),
        (false, _) => format!("heap {}: its thread has exited", thread.heap),
    }
}

fn more(page: &mut String, count: usize, what: &str) {
    if count > TOP {
        let _ = writeln!(
            page,
            "  and {} more {what}: --json has all",
            style::count((count - TOP) as u64)
        );
    }
}

/// The sites that pin most, and how many there are in all.
fn pinning(rss: &Rss, symbols: &mut Symbols) -> (Vec<Pinning>, usize) {
    let pins = rss.account.pins.iter().filter(|pin| pin.pinned > 0);
    let count = pins.clone().count();
    let named = pins.take(TOP).map(|pin| Pinning {
        pinned: pin.pinned,
        live: pin.live_bytes,
        blocks: pin.live_blocks,
        place: symbols.call_before(pin.site).words(pin.site),
    });
    (named.collect(), count)
}

fn object(rss: &Rss, symbols: &mut Symbols) -> Value {
    let (a, others, c) = (&rss.account, &rss.others, &rss.counts);
    let threads = a.threads.iter().zip(&rss.holders).map(|(thread, holder)| {
        json!({
            "heap": thread.heap,
            "running": thread.running,
            "thread": if thread.running { *holder } else { None },
            "slabs": thread.slabs,
            "live_bytes": thread.live_bytes,
            "free_bytes": thread.free_bytes,
            "claimed_bytes": thread.claimed_bytes,
            "uncollected_bytes": thread.remote_bytes,
            "resident": split(&thread.resident),
        })
    });
    json!({
        "pid": rss.pid,
        "name": rss.name,
        "toft": rss.version,
        "library": rss.library,
        "partitions": rss.partitions,
        "kernel": counts(c),
        "kernel_of_toft": counts(&rss.ours),
        "peak_rss": rss.peak_rss,
        "page_tables": rss.page_tables,
        "resident": {
            "live": a.slabs.live + a.large_live,
            "large_slack": a.large_slack,
            "claimed": a.slabs.claimed,
            "uncollected": a.slabs.remote,
            "free_pinned": a.slabs.pinned,
            "free_dirty": a.slabs.loose,
            "lent": a.slabs.lent,
            "quarantined": a.slabs.quarantined,
            "reserved": a.slabs.reserved,
            "empty_slabs": a.pooled,
            "large_kept": a.large_kept,
            "descriptors": a.descriptors,
            "heaps": a.heaps,
            "tables": a.tables,
            "programs": others.programs,
            "files": others.files,
            "shared": others.shared,
            "stacks": others.stacks,
            "brk": others.brk,
            "anonymous": others.anonymous,
            "kernel": others.kernel,
            "not_told_apart": rss.remainder(),
        },
        "live_bytes": a.live_bytes,
        "live_blocks": a.live_blocks,
        "free_bytes": a.free_bytes,
        "claimed_bytes": a.claimed_bytes,
        "lent_slots": a.lent_slots,
        "saved_bytes": a.lent_bytes,
        "uncollected_bytes": a.remote_bytes,
        "guard_bytes": a.guards,
        "slabs": a.slab_count,
        "empty_slabs": a.pooled_count,
        "large_blocks": a.large_count,
        "large_blocks_kept": a.kept_count,
        "seccomp": filtered::line_of(&rss.filter, rss.pid),
        "reading": {
            "tries": rss.reading.tries,
            "rss_before": rss.reading.rss_before,
            "rss_after": rss.reading.rss_after,
            "descriptors": a.doubts.read,
            "descriptors_changed": a.doubts.changed,
            "descriptors_senseless": a.doubts.senseless,
        },
        "threads": threads.collect::<Vec<_>>(),
        "pins": a.pins.iter().map(|pin| site(pin, &symbols.call_before(pin.site))).collect::<Vec<_>>(),
    })
}

fn counts(c: &Counts) -> Value {
    json!({
        "rss": c.rss,
        "pss": c.pss,
        "anonymous": c.anonymous,
        "lazy_free": c.lazy_free,
        "anon_huge_pages": c.anon_huge_pages,
        "swap": c.swap,
    })
}

fn split(s: &Split) -> Value {
    json!({
        "live": s.live,
        "claimed": s.claimed,
        "uncollected": s.remote,
        "free_pinned": s.pinned,
        "free_dirty": s.loose,
        "lent": s.lent,
        "quarantined": s.quarantined,
        "reserved": s.reserved,
    })
}

fn site(pin: &Pin, place: &Place) -> Value {
    json!({
        "site": format!("{:#x}", pin.site),
        "partition": pin.partition,
        "pinned_bytes": pin.pinned,
        "pinned_pages": pin.pages,
        "live_bytes": pin.live_bytes,
        "live_blocks": pin.live_blocks,
        "resident_bytes": pin.resident,
        "module": place.module.as_ref().map(|path| path.display().to_string()),
        "offset": format!("{:#x}", place.offset),
        "function": place.function,
        "file": place.file,
        "line": place.line,
    })
}
