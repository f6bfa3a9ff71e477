//! Figures in Prometheus' text format, version 0.0.4: what its agents, the textfile collector of
//! node_exporter, VictoriaMetrics, Telegraf, Vector and the OpenTelemetry collector read.
//!
//! Which metrics there are, and how they are written, is the library's own
//! (`toft_core::stats::metrics`): from inside it writes the same.

use std::fmt::Write as _;

use toft_core::stats::metrics::{
    CALL_SITES, DURATION, Family, INFO, Metrics, Page, SITE_BLOCKS, SITE_BYTES, head, one, sample,
};

use crate::{Figures, Profile};

/// The result of one reading.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// Live memory by call site, with names where they are known.
    pub profile: &'a Profile,
    /// Of the same reading.
    pub figures: &'a Figures,
    /// Number of distinct call sites.
    pub top: usize,
    /// Duration of the reading.
    pub seconds: f64,
}

/// The `Content-Type` of it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text as it grows.
struct Text(String);

impl Page for Text {
    fn put(&mut self, bytes: &[u8]) {
        // What is put in are pieces of strings, cut where letters are.
        self.0 += &String::from_utf8_lossy(bytes);
    }

    fn number(&mut self, number: u64) {
        self.0 += &number.to_string();
    }
}

/// The text.
pub fn prometheus(scrape: &Scrape<'_>) -> String {
    let Scrape { profile, figures, .. } = scrape;
    let metrics = Metrics {
        version: profile.toft.as_bytes(),
        process: profile.name.as_bytes(),
        pid: u64::try_from(profile.pid).unwrap_or(0),
        slab_live_bytes: profile.bytes - figures.large_live_bytes,
        large_live_bytes: figures.large_live_bytes,
        slab_live_blocks: profile.objects - figures.large_blocks,
        large_live_blocks: figures.large_blocks,
        slot_bytes: figures.slot_bytes,
        empty_slab_bytes: figures.empty_slab_bytes,
        large_free_bytes: figures.large_kept_bytes,
        free_resident: Some(figures.free_resident),
        slabs: figures.slabs,
        empty_slabs: figures.empty_slabs,
        threads: figures.threads,
        ended_threads: figures.ended_threads,
        resident: profile.resident,
        allocations: figures.allocations,
        frees: figures.frees,
        misuses: figures.misuses,
        returned_bytes: figures.returned_bytes,
        partitions: profile.partitions,
        doubts: profile.doubts,
        descriptors: figures.descriptors,
    };
    let mut page = Text(String::new());
    metrics.begin(&mut page);
    sites(&mut page, scrape);
    metrics.end(&mut page);
    head(&mut page, DURATION);
    // The one that is no whole number.
    let _ = writeln!(page.0, "{} {}", DURATION.name, scrape.seconds);
    page.0
}

/// The page of one process among several.
#[derive(Clone, Debug)]
pub struct OfProcess {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Its page, as [`prometheus`] writes it.
    pub page: String,
}

/// One page of several processes: their number, and each family once, its samples with the labels
/// `process` and `pid`.
pub fn together(pages: &[OfProcess]) -> String {
    let mut families: Vec<(&str, String)> = Vec::new();
    for of in pages {
        let name = of.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels = format!("process=\"{name}\",pid=\"{}\"", of.pid);
        for line in of.page.lines() {
            let comment = line.strip_prefix("# ");
            let family = match comment {
                Some(rest) => rest.split(' ').nth(1).unwrap_or_default(),
                None => line.split(['{', ' ']).next().unwrap_or_default(),
            };
            let at = families.iter().position(|(name, _)| *name == family).unwrap_or_else(|| {
                families.push((family, String::new()));
                families.len() - 1
            });
            let text = &mut families[at].1;
            let rest = &line[if comment.is_some() { 0 } else { family.len() }..];
            let _ = match (comment, rest.strip_prefix('{')) {
                (Some(_), _) if text.contains(line) => Ok(()),
                (Some(_), _) => writeln!(text, "{line}"),
                // It has these labels.
                (None, Some(rest)) if family == INFO.name => writeln!(text, "{family}{{{rest}"),
                (None, Some(rest)) => writeln!(text, "{family}{{{labels},{rest}"),
                (None, None) => writeln!(text, "{family}{{{labels}}}{rest}"),
            };
        }
    }
    let mut all = Text(String::new());
    one(&mut all, PROCESSES, pages.len() as u64);
    families.into_iter().for_each(|(_, text)| all.0 += &text);
    all.0
}

/// How many processes a page is of. No process says that of itself.
const PROCESSES: Family = Family { name: "toft_processes", help: "Processes that were read." };

/// A call site by the labels that it has.
#[derive(Default)]
struct Site {
    name: String,
    file: String,
    bytes: u64,
    blocks: u64,
}

fn sites(page: &mut Text, scrape: &Scrape<'_>) {
    let mut places = scrape.profile.by_place();
    places.retain(|row| row.objects > 0);
    let (top, rest) = places.split_at(scrape.top.min(places.len()));
    let mut sites: Vec<Site> = top
        .iter()
        .map(|row| {
            let (file, name) = row.location.key();
            Site { name, file, bytes: row.bytes, blocks: row.objects }
        })
        .collect();
    let mut others = Site { name: "other".into(), ..Site::default() };
    for row in rest {
        others.bytes += row.bytes;
        others.blocks += row.objects;
    }
    sites.push(others);
    one(page, CALL_SITES, scrape.profile.live_sites() as u64);
    let mut of_each = |family: Family, value: fn(&Site) -> u64| {
        head(page, family);
        for site in &sites {
            let labels = [("site", site.name.as_bytes()), ("file", site.file.as_bytes())];
            sample(page, family, &labels, value(site));
        }
    };
    of_each(SITE_BYTES, |site| site.bytes);
    of_each(SITE_BLOCKS, |site| site.blocks);
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

    #[test]
    fn of_several_processes_each_family_is_there_once() {
        let page = text(&[("a", 1, 100, 3)], 5);
        let of = |pid, name: &str| OfProcess { pid, name: name.into(), page: page.clone() };
        let all = together(&[of(7, "b\"c"), of(8, "d")]);
        assert!(all.contains("\ntoft_processes 2\n"), "{all}");
        for line in all.lines().filter(|line| line.starts_with('#')) {
            assert_eq!(all.matches(&format!("{line}\n")).count(), 1, "{line}");
        }
        let lines = |start: &str| all.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(lines("toft_info{"), lines("# TYPE toft_info") * 2);
        assert_eq!(lines(r#"toft_site_live_bytes{process="b\"c",pid="7",site="#), 2);
        assert_eq!(lines(r#"toft_partitions{process="d",pid="8"} "#), 1);
        let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples(&all), 2 * samples(&page) + 1);
        assert_eq!(together(&[]).lines().count(), 3);
    }

    /// Call sites with one name are one series.
    #[test]
    fn a_series_is_there_once() {
        let mut same = profile(vec![row("a", 1, 16, 1), row("a", 2, 16, 2)]);
        for row in &mut same.rows {
            row.location.frames[0].line = Some(7);
            let same_frame = row.location.frames[0].clone();
            row.location.frames.push(same_frame);
        }
        same.rows[1].location.frames.truncate(1);
        let figures = Figures::default();
        let text = prometheus(&Scrape { profile: &same, figures: &figures, top: 9, seconds: 0.0 });
        let count = text.matches("toft_site_live_bytes{site=\"a at sample.c:7\"").count();
        assert_eq!(count, 1, "{text}");
        assert!(text.contains("file=\"sample\"} 48\n"), "{text}");
        assert!(text.contains("\ntoft_call_sites 2\n"), "{text}");
    }
}
