//! What `toft run --leaks` prints: a line for each call site, by name, the largest first.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use toft_profile::format::Table;
use toft_profile::{Location, Mapping};

use crate::report::Report;
use crate::stats::parse_hex;
use crate::style::{self, Style};
use crate::symbols::{Symbols, by_place, with_place};

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
}

impl Leaks {
    /// Names the call sites of the library's report, if there is one.
    pub fn new(report: &Report) -> Option<Leaks> {
        let value = report.leaks.clone()?;
        let mappings: Vec<Mapping> = report.mappings();
        let mut symbols = Symbols::new(Vec::new());
        let site = |leak: &Value| {
            let address = parse_hex(leak["address"].as_str()?)?;
            Some(Site {
                location: symbols.locate(&mappings, address),
                bytes: leak["bytes"].as_u64()?,
                blocks: leak["blocks"].as_u64()?,
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
                let object = json!({"site": address, "bytes": site.bytes, "blocks": site.blocks});
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
        let table = Table::new(&[("leaked", 10), ("blocks", 10)], style.width);
        let _ = writeln!(page, "{}", style.faint(&table.head("call site")));
        let sites = self.sites.iter().map(|site| (&site.location, [site.bytes, site.blocks]));
        for (place, [bytes, blocks]) in by_place(sites) {
            let figures = [style::bytes(bytes), style::count(blocks)];
            let _ = writeln!(page, "{}", table.line(&figures, &place));
        }
        page
    }
}
