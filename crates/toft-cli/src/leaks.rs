//! What `toft run --leaks` prints: a line for each call site, by name. Causes come first, the
//! largest before the others, then the blocks that only leaked blocks point to.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use toft_profile::format::Table;
use toft_profile::{Location, Mapping};

use crate::report::Report;
use crate::stats::parse_hex;
use crate::style::{self, Style};
use crate::symbols::{Symbols, by_place, with_place};
use crate::vet::resolve::Resolved;

/// The library's report, with names.
pub struct Leaks {
    value: Value,
    sites: Vec<Site>,
    other_anonymous: Option<u64>,
}

struct Site {
    location: Location,
    bytes: u64,
    blocks: u64,
    /// Those that no other leaked block points to.
    direct_bytes: u64,
    direct_blocks: u64,
    /// The leaked blocks that these hold.
    holds_bytes: u64,
    holds_blocks: u64,
}

impl Leaks {
    /// Names the call sites of the library's report, if there is one.
    pub fn new(report: &Report, target: &Resolved) -> Option<Leaks> {
        let value = report.leaks.clone()?;
        let mappings: Vec<Mapping> = report.mappings();
        let mut symbols = Symbols::new(Vec::new());
        symbols.look_at_target(target);
        let site = |leak: &Value| {
            let address = parse_hex(leak["address"].as_str()?)?;
            Some(Site {
                location: symbols.locate(&mappings, address),
                bytes: leak["bytes"].as_u64()?,
                blocks: leak["blocks"].as_u64()?,
                direct_bytes: leak["direct_bytes"].as_u64()?,
                direct_blocks: leak["direct_blocks"].as_u64()?,
                holds_bytes: leak["holds_bytes"].as_u64()?,
                holds_blocks: leak["holds_blocks"].as_u64()?,
            })
        };
        let sites = value["leaks"].as_array().into_iter().flatten().filter_map(site).collect();
        Some(Leaks { value, sites, other_anonymous: report.other_anonymous() })
    }

    pub fn any(&self) -> bool {
        self.number("blocks") != 0
    }

    fn number(&self, name: &str) -> u64 {
        self.value[name].as_u64().unwrap_or(0)
    }

    /// One object; `own_malloc` is the file whose own malloc the scan does not cover.
    pub fn json(&self, own_malloc: Option<&Path>) -> Value {
        let sites: Vec<Value> = self
            .sites
            .iter()
            .map(|site| {
                let address = format!("{:#x}", site.location.site);
                let object = json!({
                    "site": address,
                    "bytes": site.bytes,
                    "blocks": site.blocks,
                    "direct_bytes": site.direct_bytes,
                    "direct_blocks": site.direct_blocks,
                    "holds_bytes": site.holds_bytes,
                    "holds_blocks": site.holds_blocks,
                });
                with_place(object, &site.location)
            })
            .collect();
        json!({
            "report": "leaks",
            "own_malloc": own_malloc.map(|file| file.display().to_string()),
            "bytes": self.number("bytes"),
            "blocks": self.number("blocks"),
            "reachable_bytes": self.number("reachable_bytes"),
            "reachable_blocks": self.number("reachable_blocks"),
            "all": self.value["all"],
            "looked": self.value["looked"],
            "resident": self.number("resident"),
            "other_resident": self.number("other_resident"),
            "leaks": sites,
        })
    }

    pub fn text(&self, style: Style) -> String {
        let mut page = String::new();
        let reachable = match self.number("reachable_blocks") {
            0 if self.any() => String::new(),
            0 => "; every block was freed".into(),
            n => format!(
                "; {} in {} blocks can still be reached",
                style::bytes(self.number("reachable_bytes")),
                style::count(n)
            ),
        };
        let other = self.other_anonymous.map_or_else(String::new, |bytes| {
            format!("; {} of other anonymous memory were not scanned", style::bytes(bytes))
        });
        if !self.any() {
            let _ = writeln!(page, "toft: {}{reachable}{other}", style.good("no leaks"));
            return page;
        }
        let is_blind = self.value["looked"] == false;
        // Blocks that may be reachable are not called leaked.
        let what = if is_blind || self.value["all"] == true { "not freed" } else { "leaked" };
        let sum = format!(
            "{} {what} in {} block{}, from {} call site{}",
            style::bytes(self.number("bytes")),
            style::count(self.number("blocks")),
            if self.number("blocks") == 1 { "" } else { "s" },
            self.sites.len(),
            if self.sites.len() == 1 { "" } else { "s" },
        );
        let _ = writeln!(page, "toft: {}{reachable}", style.bad(&sum));
        if is_blind {
            page += "toft: reachable blocks are among them: the scan was not possible\n";
        }
        let holds = self.sites.iter().any(|site| site.holds_blocks != 0);
        let columns = [(what, 10), ("blocks", 10), ("holds", 10)];
        let table = Table::new(&columns[..if holds { 3 } else { 2 }], style.width);
        let _ = writeln!(page, "{}", style.faint(&table.head("call site")));
        let causes = self.sites.iter().filter(|site| site.direct_blocks != 0).map(|site| {
            let sum = site.direct_bytes + site.holds_bytes;
            (&site.location, [sum, site.direct_bytes, site.direct_blocks, site.holds_bytes])
        });
        for (place, [_, bytes, blocks, held]) in by_place(causes) {
            let held = if held == 0 { "-".to_owned() } else { style::bytes(held) };
            let figures = [style::bytes(bytes), style::count(blocks), held];
            let _ = writeln!(page, "{}", table.line(&figures, &place));
        }
        let indirect = self.sites.iter().filter(|site| site.direct_blocks < site.blocks);
        if indirect.clone().next().is_none() {
            return page;
        }
        let table = Table::new(&[("held", 10), ("blocks", 10)], style.width);
        let title = "call site: only leaked blocks point to these";
        let _ = writeln!(page, "{}", style.faint(&table.head(title)));
        let held = indirect.map(|site| {
            let bytes = site.bytes - site.direct_bytes;
            (&site.location, [bytes, site.blocks - site.direct_blocks])
        });
        for (place, [bytes, blocks]) in by_place(held) {
            let _ = writeln!(
                page,
                "{}",
                table.line(&[style::bytes(bytes), style::count(blocks)], &place)
            );
        }
        page
    }
}
