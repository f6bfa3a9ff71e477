//! What `toft run --leaks` prints: a line for each call site, by name, the largest first.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::report::Report;
use crate::style::{self, Style};
use crate::symbols::{Place, Symbols};

/// As many bytes that are not Toft's are named beside an answer: far more than stacks and tables of
/// the C library have.
const ELSEWHERE: u64 = 32 << 20;

/// The library's report, with names.
pub struct Leaks {
    value: Value,
    sites: Vec<Site>,
}

struct Site {
    address: u64,
    bytes: u64,
    blocks: u64,
    place: Place,
}

impl Leaks {
    /// From what the library said, if it did.
    pub fn new(report: &Report) -> Option<Leaks> {
        let value = report.leaks.clone()?;
        let mut symbols = Symbols::new(&report.maps);
        let site = |leak: &Value| {
            let text = leak["address"].as_str()?.strip_prefix("0x")?;
            let address = u64::from_str_radix(text, 16).ok()?;
            let place = symbols.call_before(address);
            Some(Site {
                address,
                bytes: leak["bytes"].as_u64()?,
                blocks: leak["blocks"].as_u64()?,
                place,
            })
        };
        let sites = value["leaks"].as_array().into_iter().flatten().filter_map(site).collect();
        Some(Leaks { value, sites })
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.number("blocks") != 0
    }

    /// Bytes of anonymous memory in which no block was looked for, if they are far more than what
    /// Toft had: a program that has a separate heap (a virtual machine's, say), or a malloc that
    /// was not recognised.
    pub fn elsewhere(&self) -> Option<u64> {
        let (other, ours) = (self.number("other_resident"), self.number("resident"));
        (other >= ELSEWHERE && other / 4 > ours).then_some(other)
    }

    fn number(&self, name: &str) -> u64 {
        self.value[name].as_u64().unwrap_or(0)
    }

    /// One object.
    pub fn json(&self) -> Value {
        let sites: Vec<Value> = self
            .sites
            .iter()
            .map(|site| {
                json!({
                    "site": format!("{:#x}", site.address),
                    "bytes": site.bytes,
                    "blocks": site.blocks,
                    "module": site.place.module,
                    "offset": format!("{:#x}", site.place.offset),
                    "function": site.place.function,
                    "file": site.place.file,
                    "line": site.place.line,
                })
            })
            .collect();
        json!({
            "report": "leaks",
            "bytes": self.number("bytes"),
            "blocks": self.number("blocks"),
            "reachable_bytes": self.number("reachable_bytes"),
            "reachable_blocks": self.number("reachable_blocks"),
            "looked": self.value["looked"],
            "resident": self.number("resident"),
            "other_resident": self.number("other_resident"),
            "leaks": sites,
        })
    }

    /// For people, lines ended.
    pub fn text(&self, style: Style) -> String {
        let mut page = String::new();
        let reachable = match self.number("reachable_blocks") {
            0 => String::new(),
            n => format!(
                "; {} in {} blocks can still be reached",
                style::bytes(self.number("reachable_bytes")),
                style::count(n)
            ),
        };
        let elsewhere = self.elsewhere().map_or_else(String::new, |bytes| {
            format!("; {} of other anonymous memory were not scanned", style::bytes(bytes))
        });
        if !self.any() {
            let _ = writeln!(page, "toft: {}{reachable}{elsewhere}", style.good("no leaks"));
            return page;
        }
        let sum = format!(
            "{} leaked in {} block{}, from {} call site{}",
            style::bytes(self.number("bytes")),
            style::count(self.number("blocks")),
            if self.number("blocks") == 1 { "" } else { "s" },
            self.sites.len(),
            if self.sites.len() == 1 { "" } else { "s" },
        );
        let _ = writeln!(page, "toft: {}{reachable}", style.bad(&sum));
        if self.value["looked"] == false {
            page += "toft: reachable blocks are among them: the scan was not possible\n";
        }
        let _ = writeln!(
            page,
            "{}",
            style.faint(&format!("  {:>10}  {:>10}  call site", "leaked", "blocks"))
        );
        for site in &self.sites {
            let figures =
                format!("  {:>10}  {:>10}  ", style::bytes(site.bytes), style::count(site.blocks));
            let room = style.width.saturating_sub(figures.chars().count()).max(24);
            let _ =
                writeln!(page, "{figures}{}", style::fit(&site.place.words(site.address), room));
        }
        page
    }
}
