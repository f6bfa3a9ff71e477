//! Figures in Prometheus' text format, version 0.0.4: what its agents, the textfile collector of node_exporter,
//! VictoriaMetrics, Telegraf, Vector and the OpenTelemetry collector read.
//!
//! Names end with their units, in base units. Nothing has a label whose values grow without end: call sites are the
//! largest few, by name, and `other`, so that the sum over them is what is live.

use std::fmt::Write as _;

use crate::{Figures, Profile};

/// What one look came to.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// Who has what; call sites have names here, where they have any.
    pub profile: &'a Profile,
    /// As of the same look.
    pub figures: &'a Figures,
    /// How many call sites are told apart.
    pub top: usize,
    /// How long the look took.
    pub seconds: f64,
}

/// The `Content-Type` of it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One family: its head, and a sample for each list of labels.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, help: &str) {
        // Of a help text backslashes and line ends are to be escaped; there are none in ours.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0 += name;
        for (number, (label, text)) in labels.iter().enumerate() {
            let _ = write!(
                self.0,
                "{}{label}=\"{}\"",
                if number == 0 { '{' } else { ',' },
                escaped(text)
            );
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn one(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, help);
        self.sample(name, &[], value);
    }

    /// Samples that a label tells apart.
    fn by(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        self.family(name, help);
        values.iter().for_each(|(text, value)| self.sample(name, &[(label, text)], value));
    }
}

/// A label's value as it is written: backslashes, quotes and line ends escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The text.
pub fn prometheus(scrape: &Scrape<'_>) -> String {
    let Scrape { profile, figures, .. } = scrape;
    let mut page = Page(String::new());
    page.family("toft_info", "The process, and the version of Toft that it runs on.");
    let pid = profile.pid.to_string();
    let labels = [("version", &*profile.toft), ("process", &*profile.name), ("pid", &*pid)];
    page.sample("toft_info", &labels, 1);
    page.by(
        "toft_live_bytes",
        "Bytes that the program has, as malloc_usable_size counts them, in slots of slabs and in large blocks.",
        "kind",
        &[("slab", profile.bytes - figures.large_live_bytes), ("large", figures.large_live_bytes)],
    );
    page.by(
        "toft_live_blocks",
        "Blocks that the program has.",
        "kind",
        &[("slab", profile.objects - figures.large_blocks), ("large", figures.large_blocks)],
    );
    page.by(
        "toft_free_bytes",
        "Bytes that are free: in slabs that a thread has, in empty slabs, in large blocks; resident or not.",
        "where",
        &[
            ("slab", figures.slot_bytes - figures.slot_live_bytes),
            ("empty_slab", figures.pooled_bytes),
            ("large", figures.large_kept_bytes),
        ],
    );
    page.by(
        "toft_slabs",
        "Slabs: those that a thread has, and empty ones that wait for their next use.",
        "state",
        &[("owned", figures.slabs), ("empty", figures.pooled_slabs)],
    );
    page.by(
        "toft_heaps",
        "Heaps: of threads that run, and of threads that have ended, for the next ones.",
        "thread",
        &[("running", figures.threads), ("ended", figures.ended_threads)],
    );
    if let Some(resident) = profile.resident {
        let help = "Resident bytes of the whole process, as the kernel counts them.";
        page.one("toft_process_resident_bytes", help, resident);
    }
    page.one("toft_partitions", "Partitions that there can be.", profile.partitions);
    sites(&mut page, scrape);
    page.one(
        "toft_doubtful_descriptors",
        "Descriptors that made no sense when they were read, and are not counted.",
        profile.doubts,
    );
    page.one(
        "toft_descriptors",
        "Descriptors of slabs and large blocks that were read.",
        figures.descriptors,
    );
    page.one("toft_scrape_duration_seconds", "How long it took to read this.", scrape.seconds);
    page.0
}

/// A call site by the labels that it has.
#[derive(Default)]
struct Site {
    name: String,
    file: String,
    bytes: u64,
    blocks: u64,
}

fn sites(page: &mut Page, scrape: &Scrape<'_>) {
    let places = scrape.profile.by_place();
    let (top, rest) = places.split_at(scrape.top.min(places.len()));
    // Two places may have one name: a series may be there once.
    let mut sites: Vec<Site> = Vec::new();
    for row in top {
        let (name, file) = (row.place(), row.module_name().to_owned());
        let known = sites.iter().position(|site| site.name == name && site.file == file);
        let at = known.unwrap_or_else(|| {
            sites.push(Site { name, file, ..Site::default() });
            sites.len() - 1
        });
        sites[at].bytes += row.bytes;
        sites[at].blocks += row.objects;
    }
    let mut others = Site { name: "other".into(), ..Site::default() };
    for row in rest {
        others.bytes += row.bytes;
        others.blocks += row.objects;
    }
    sites.push(others);
    page.one("toft_call_sites", "Call sites that have live blocks.", places.len());
    let mut family = |name, help, value: fn(&Site) -> u64| {
        page.family(name, help);
        for site in &sites {
            page.sample(name, &[("site", &site.name), ("file", &site.file)], value(site));
        }
    };
    let (bytes, blocks) = ("toft_site_live_bytes", "toft_site_live_blocks");
    family(bytes, "Bytes that the program has, by the call site that allocated them.", |s| s.bytes);
    family(blocks, "Blocks that the program has, by the call site that allocated them.", |s| {
        s.blocks
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::samples::{profile, row};

    fn text(rows: &[(&str, u64, u64, u64)], top: usize) -> String {
        let rows =
            rows.iter().map(|&(name, offset, size, objects)| row(name, offset, size, objects));
        let profile = profile(rows.collect());
        let figures =
            Figures { slot_bytes: 4096, slot_live_bytes: profile.bytes, ..Figures::default() };
        prometheus(&Scrape { profile: &profile, figures: &figures, top, seconds: 0.25 })
    }

    #[test]
    fn the_sites_that_are_named_and_the_others_are_all() {
        let rows = [("a", 1, 100, 3), ("b", 2, 50, 2), ("c", 3, 10, 1), ("d", 4, 1, 5)];
        let text = text(&rows, 2);
        let values: Vec<&str> =
            text.lines().filter(|line| line.starts_with("toft_site_live_bytes{")).collect();
        assert_eq!(
            values,
            [
                "toft_site_live_bytes{site=\"a at sample.c:1\",file=\"sample\"} 300",
                "toft_site_live_bytes{site=\"b at sample.c:2\",file=\"sample\"} 100",
                "toft_site_live_bytes{site=\"other\",file=\"\"} 15",
            ]
        );
        assert!(text.contains("\ntoft_live_bytes{kind=\"slab\"} 415\n"), "{text}");
        assert!(text.contains("\ntoft_free_bytes{where=\"slab\"} 3681\n"), "{text}");
        assert!(text.contains("\ntoft_scrape_duration_seconds 0.25\n") && text.ends_with('\n'));
    }

    #[test]
    fn what_a_name_may_contain_is_escaped() {
        let text = text(&[("operator\"\" _x\\y\nz", 1, 16, 1)], 5);
        assert!(text.contains(r#"site="operator\"\" _x\\y\nz at sample.c:1""#), "{text}");
    }

    /// Of one name, at different places that nobody can tell apart, there is one series.
    #[test]
    fn a_series_is_there_once() {
        let mut same = profile(vec![row("a", 1, 16, 1), row("a", 2, 16, 2)]);
        for row in &mut same.rows {
            row.frames[0].line = Some(7);
            row.frames.push(row.frames[0].clone());
        }
        same.rows[1].frames.truncate(1);
        let figures = Figures::default();
        let text = prometheus(&Scrape { profile: &same, figures: &figures, top: 9, seconds: 0.0 });
        let count = text.matches("toft_site_live_bytes{site=\"a at sample.c:7\"").count();
        assert_eq!(count, 1, "{text}");
        assert!(text.contains("file=\"sample\"} 48\n"), "{text}");
    }
}
