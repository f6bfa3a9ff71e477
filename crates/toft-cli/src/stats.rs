//! `toft run --stats`: what the kernel and the library counted, as a page for people or as one JSON
//! object.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toft_profile::Location;
use toft_profile::format::{Table, share};

use crate::launch::Outcome;
use crate::resident::{TOP, Term, cells, pin_table, row, table};
use crate::style::{self, Style};
use crate::symbols::{Symbols, by_place, with_place};
use crate::sys::Usage;
use crate::vet::resolve::Resolved;

pub struct Stats {
    program: String,
    arguments: Vec<String>,
    /// The file whose own malloc the figures do not cover.
    own_malloc: Option<String>,
    version: Option<String>,
    ended: Ended,
    wall: f64,
    usage: Usage,
    heap: Option<Value>,
    sites: Vec<Site>,
    site_bytes: u64,
    garbled: u64,
}

/// How the target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    pub fn of(status: i32) -> Ended {
        if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status))
        } else {
            Ended::Exit(libc::WEXITSTATUS(status))
        }
    }

    pub fn words(self) -> String {
        match self {
            Ended::Exit(status) => format!("exit {status}"),
            Ended::Signal(number) => match nix::sys::signal::Signal::try_from(number) {
                Ok(which) => format!("killed by {which}"),
                Err(_) => format!("killed by signal {number}"),
            },
        }
    }
}

#[derive(Default)]
struct Site {
    location: Location,
    large: bool,
    allocated_bytes: u64,
    allocated_blocks: u64,
    live_bytes: u64,
    live_blocks: u64,
    pinned_bytes: u64,
}

impl Stats {
    pub fn new(
        target: &Resolved,
        arguments: Vec<String>,
        own_malloc: Option<String>,
        outcome: Outcome,
    ) -> Stats {
        let heap = outcome.report.heap.clone();
        let mut sites = heap.as_ref().map(merged_sites).unwrap_or_default();
        let site_bytes = sites.iter().map(|site| site.allocated_bytes).sum();
        let mappings = outcome.report.mappings();
        let mut symbols = Symbols::new(Vec::new());
        symbols.look_at_target(target);
        for site in &mut sites {
            site.location = symbols.locate(&mappings, site.location.site);
        }
        Stats {
            program: target.named.display().to_string(),
            arguments,
            own_malloc,
            version: outcome.report.ready,
            ended: Ended::of(outcome.status),
            wall: outcome.wall.as_secs_f64(),
            usage: outcome.usage,
            heap,
            sites,
            site_bytes,
            garbled: outcome.report.garbled,
        }
    }

    /// One object; the library's own statistics are under `heap`, as it wrote them.
    pub fn json(&self) -> Value {
        let (code, signal) = match self.ended {
            Ended::Exit(code) => (Some(code), None),
            Ended::Signal(number) => (None, Some(number)),
        };
        json!({
            "program": self.program,
            "arguments": self.arguments,
            "own_malloc": self.own_malloc,
            "loaded": self.version.is_some(),
            "toft": self.version,
            "exit_status": code,
            "signal": signal,
            "wall_seconds": self.wall,
            "user_seconds": self.usage.user.as_secs_f64(),
            "system_seconds": self.usage.system.as_secs_f64(),
            "max_rss_bytes": self.usage.max_rss,
            "minor_faults": self.usage.minor_faults,
            "major_faults": self.usage.major_faults,
            "allocations_per_second": self.heap.as_ref().map(|_| self.rate()),
            "garbled_lines": self.garbled,
            "top_sites": self.sites.iter().take(TOP).map(Site::json).collect::<Vec<_>>(),
            "heap": self.heap,
        })
    }

    fn rate(&self) -> f64 {
        if self.wall > 0.0 { self.number("allocations") as f64 / self.wall } else { 0.0 }
    }

    fn number(&self, name: &str) -> u64 {
        self.heap.as_ref().and_then(|heap| heap[name].as_u64()).unwrap_or(0)
    }

    pub fn text(&self, style: Style) -> String {
        let mut page = String::new();
        let version =
            self.version.as_ref().map_or_else(|| "not loaded".into(), |v| format!("Toft {v}"));
        let program = style::fit(&self.program, style.width.saturating_sub(40).max(16));
        page += &format!("\n{}  {}, {}\n", style.strong(&program), version, self.ended.words());
        let mut line = |name: &str, cells: &[String]| row(&mut page, style, name, cells);
        if let Some(file) = &self.own_malloc {
            line("unseen", &[style.bad(&format!("blocks of the malloc that {file} brings"))]);
        }
        let count = |name, what| format!("{} {what}", style::count(self.number(name)));
        let bytes = |name, what| format!("{} {what}", style::bytes(self.number(name)));
        let time = |seconds, what| format!("{} {what}", style::duration(seconds));
        let usage = &self.usage;
        let (user, system) = (usage.user.as_secs_f64(), usage.system.as_secs_f64());
        line("time", &[time(self.wall, "wall"), time(user, "user"), time(system, "system")]);
        let mut memory = vec![format!("{} max RSS", style::bytes(usage.max_rss))];
        if self.heap.is_some() {
            memory.push(bytes("peak_bytes", "peak"));
            memory.push(bytes("live_bytes", "live at exit"));
        }
        line("memory", &memory);
        let minor = format!("{} minor", style::count(usage.minor_faults));
        line("faults", &[minor, format!("{} major", style::count(usage.major_faults))]);
        if self.heap.is_none() {
            line("heap", &[style.bad(self.silence())]);
            return page;
        }
        let rate = format!("{}/s", style::count(self.rate().round() as u64));
        let live = count("live_blocks", "live at exit");
        line("blocks", &[count("allocations", "allocated"), rate, live]);
        line(
            "heap",
            &[
                count("slabs", "slabs"),
                bytes("mapped_bytes", "mapped"),
                bytes("metadata_bytes", "metadata"),
                count("partitions", "partitions"),
            ],
        );
        if self.number("own_sites") + self.number("grouped_sites") != 0 {
            let merged = match self.number("merged_sites") {
                0 => "none shared".to_owned(),
                n => style.bad(&format!("{} later ones share one", style::count(n))),
            };
            let mut parts = vec![count("own_sites", "with their own partition"), merged];
            if self.number("grouped_sites") != 0 {
                parts.push(count("grouped_sites", "share one, as hinted"));
            }
            line("sites", &parts);
        }
        line("threads", &[self.number("threads").to_string()]);
        line("guards", &[bytes("guard_bytes", "of address space, not resident")]);
        if self.number("permanently_freed_blocks") != 0 {
            let size = style::bytes(self.number("permanently_freed_bytes"));
            line("freed", &[count("permanently_freed_blocks", "permanently"), size]);
        }
        let misuse = match self.number("misuse") {
            0 => style.good("none"),
            _ => style.bad(&count("misuse", "bad calls, reported above")),
        };
        line("misuse", &[misuse]);
        self.resident_table(&mut page, style);
        self.site_table(&mut page, style);
        let pins = self.sites.iter().filter(|site| site.pinned_bytes > 0);
        let figures = |site: &Site| [site.pinned_bytes, site.live_bytes, site.live_blocks];
        pin_table(&mut page, style, pins.map(|site| (&site.location, figures(site))));
        page
    }

    /// What was resident when the program ended, in the form of `toft rss`. The uses
    /// of slabs are not separated here: only `toft rss` does so, while the program runs.
    fn resident_table(&self, page: &mut String, style: Style) {
        let Some(resident) = self.heap.as_ref().map(|heap| &heap["resident"]) else { return };
        let of = |name: &str| resident[name].as_u64().unwrap_or(0);
        if of("rss") == 0 {
            return;
        }
        let mut terms = vec![
            Term::new(of("slabs"), "slabs", "blocks up to 128 KiB"),
            Term::new(of("large"), "large blocks", ""),
            Term::new(of("metadata"), "metadata", "descriptors, heaps, tables"),
            Term::new(of("files"), "program and libraries", "and other files"),
            Term::new(of("stack"), "stack", "of the first thread"),
            Term::new(of("brk"), "brk heap", "not Toft's: from direct calls of brk"),
            Term::new(of("other"), "other mappings", "not Toft's: mmap, stacks of threads"),
        ];
        terms.retain(|term| term.bytes > 0);
        let _ = writeln!(page);
        table(page, style, "at exit", &terms, of("rss"));
        page.push('\n');
        let number = |name| self.number(name);
        let named = [
            ("live", number("small_bytes") + number("medium_bytes")),
            ("free", number("free_bytes")),
            ("of that pinned", number("pinned_bytes")),
            ("claimed", number("claimed_bytes")),
            ("uncollected", number("uncollected_bytes")),
            ("in empty slabs", number("empty_slab_bytes")),
        ];
        row(page, style, "slots", &cells(&named));
        let named = [("live", number("large_bytes")), ("free, kept", number("large_kept_bytes"))];
        row(page, style, "large", &cells(&named));
        let shared = self.heap.as_ref().map_or(&Value::Null, |heap| &heap["shared"]);
        let lent = shared["lent_slots"].as_u64().unwrap_or(0);
        if lent > 0 {
            let saved = style::bytes(shared["saved_bytes"].as_u64().unwrap_or(0));
            let lent = format!("{} slots lent", style::count(lent));
            row(page, style, "shared", &[format!("by compaction, which saves {saved}"), lent]);
        }
        let named = [
            ("Pss", of("pss")),
            ("Anonymous", of("anonymous")),
            ("LazyFree", of("lazy_free")),
            ("AnonHugePages", of("anon_huge_pages")),
            ("Swap", of("swap")),
            ("page tables", of("page_tables")),
        ];
        row(page, style, "kernel", &cells(&named));
    }

    /// Why a target that had the library gave no statistics.
    fn silence(&self) -> &'static str {
        match (&self.version, self.ended) {
            (None, _) => "no statistics: the library was not loaded",
            _ if self.garbled > 0 => "no statistics: several processes wrote them at once",
            (_, Ended::Signal(_)) => {
                "no statistics: the program was killed before it could write them"
            }
            _ => "no statistics: the program called _exit, or exec (then try --children)",
        }
    }

    fn site_table(&self, page: &mut String, style: Style) {
        if self.sites.is_empty() {
            return;
        }
        let columns = [("allocated", 10), ("share", 6), ("blocks", 13), ("live", 10)];
        let table = Table::new(&columns, style.width);
        let _ = writeln!(page, "\n{}", style.faint(&table.head("call site")));
        let sites = self.sites.iter().map(|site| {
            (&site.location, [site.allocated_bytes, site.allocated_blocks, site.live_bytes])
        });
        for (place, [allocated, blocks, live]) in by_place(sites).iter().take(TOP) {
            let figures = [
                style::bytes(*allocated),
                share(*allocated, self.site_bytes),
                style::count(*blocks),
                style::bytes(*live),
            ];
            let _ = writeln!(page, "{}", table.line(&figures, place));
        }
    }
}

impl Site {
    fn json(&self) -> Value {
        let object = json!({
            "site": format!("{:#x}", self.location.site),
            "large": self.large,
            "allocated_bytes": self.allocated_bytes,
            "allocated_blocks": self.allocated_blocks,
            "live_bytes": self.live_bytes,
            "live_blocks": self.live_blocks,
            "pinned_bytes": self.pinned_bytes,
        });
        with_place(object, &self.location)
    }
}

/// The library lists a site once per slot size; people ask for the site. Most allocated bytes
/// first.
fn merged_sites(heap: &Value) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    for entry in heap["sites"].as_array().into_iter().flatten() {
        let Some(address) = entry["site"].as_str().and_then(parse_hex) else {
            continue;
        };
        let number = |name: &str| entry[name].as_u64().unwrap_or(0);
        let large = entry["large"].as_bool().unwrap_or(false);
        let same = |s: &Site| s.location.site == address && s.large == large;
        let index = sites.iter().position(same).unwrap_or_else(|| {
            let location = Location { site: address, ..Location::default() };
            sites.push(Site { location, large, ..Site::default() });
            sites.len() - 1
        });
        let site = &mut sites[index];
        site.allocated_bytes += number("allocated_bytes");
        site.allocated_blocks += number("allocated_blocks");
        site.live_bytes += number("live_bytes");
        site.live_blocks += number("live_blocks");
        site.pinned_bytes += number("pinned_bytes");
    }
    // Zero-byte rows would only fill the table; the address makes the order of equals the same in
    // every run.
    sites.retain(|site| site.allocated_bytes > 0);
    sites.sort_by_key(|site| (std::cmp::Reverse(site.allocated_bytes), site.location.site));
    sites
}

/// Parses an address as the library writes it.
pub fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_merged_and_ordered() {
        let heap = json!({"sites": [
            {"site": "0x10", "allocated_bytes": 5, "allocated_blocks": 1, "live_bytes": 1, "live_blocks": 1, "large": false},
            {"site": "0x20", "allocated_bytes": 7, "allocated_blocks": 1, "live_bytes": 0, "live_blocks": 0, "large": false},
            {"site": "0x10", "allocated_bytes": 4, "allocated_blocks": 2, "live_bytes": 2, "live_blocks": 1, "large": false},
            {"site": "0x30", "allocated_bytes": 0, "allocated_blocks": 0, "live_bytes": 0, "live_blocks": 0, "large": false},
            {"site": "bad", "allocated_bytes": 99}
        ]});
        let sites = merged_sites(&heap);
        let shown: Vec<_> = sites
            .iter()
            .map(|s| (s.location.site, s.allocated_bytes, s.allocated_blocks, s.live_bytes))
            .collect();
        assert_eq!(shown, [(0x10, 9, 3, 3), (0x20, 7, 1, 0)]);
    }

    #[test]
    fn the_wait_status_says_how_it_ended() {
        assert_eq!(Ended::of(3 << 8), Ended::Exit(3));
        assert_eq!(Ended::of(libc::SIGABRT), Ended::Signal(libc::SIGABRT));
        assert_eq!(Ended::Signal(libc::SIGABRT).words(), "killed by SIGABRT");
    }
}
