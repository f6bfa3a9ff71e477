//! The figures of a run over all programs, as a page.

use super::measure::Figures;
use std::collections::BTreeMap;
use std::fmt::Write;
use toft_bench::machine::Machine;
use toft_bench::peers::Peer;
use toft_bench::stats::{Summary, geometric_mean};

/// The figures of one script on each allocator, in rounds; an allocator on which it failed has why.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// By the allocator's name, a figure for each round.
    pub figures: BTreeMap<String, Vec<Figures>>,
    /// By the allocator's name, the first line of what was wrong.
    pub failed: BTreeMap<String, String>,
}

/// A column of figures: its title, its unit, and the figure of a run.
struct Kind {
    title: &'static str,
    unit: &'static str,
    of: fn(&Figures) -> Option<f64>,
}

const KINDS: &[Kind] = &[
    Kind {
        title: "Requests per second (runs per second of a program that answers none)",
        unit: "/s",
        of: |figures| (figures.seconds > 0.0).then(|| figures.requests as f64 / figures.seconds),
    },
    Kind {
        title: "Processor time per request",
        unit: "µs",
        of: |figures| {
            (figures.processor > 0.0).then(|| figures.processor * 1e6 / figures.requests as f64)
        },
    },
    Kind { title: "Peak memory", unit: "MiB", of: |figures| Some(figures.peak as f64 / MIB) },
    Kind {
        title: "Memory of the idle server, two seconds after the load",
        unit: "MiB",
        of: |figures| figures.idle.map(|bytes| bytes as f64 / MIB),
    },
];

const MIB: f64 = 1048576.0;

/// The most bytes of a line of the page.
const WIDTH: usize = 100;

/// An item of a list, in as many lines as it needs.
pub(super) fn item(text: &mut String, line: &str) {
    let mut column = 0;
    for word in line.split(' ') {
        let begins = if column == 0 { "- " } else { " " };
        let begins = if column + begins.len() + word.len() > WIDTH { "\n  " } else { begins };
        column = if begins.starts_with('\n') { 2 } else { column + begins.len() } + word.len();
        text.push_str(begins);
        text.push_str(word);
    }
    text.push('\n');
}

/// The page. `rounds` runs of each script on each allocator, in turn.
#[must_use]
pub fn page(
    rows: &BTreeMap<String, Row>,
    peers: &[Peer],
    left_out: &[String],
    rounds: u32,
) -> String {
    let mut text = String::from(
        "# Real programs\n\n\
         For readers who want to know how Toft does on the software they run. `cargo xtask test real`\n\
         measures and writes this page; the [scripts](../tests/programs) say what each program does.\n\
         Every run must print what it prints on libc and end with the same status.\n\n\
         The first column is libc's figure with its unit, the others are ratios to it, both medians;\n\
         ± is half the distance between the extremes of libc's runs. Lower is better, except for\n\
         requests per second. Memory is the proportional set size of all processes of the server,\n\
         sampled every 50 ms. Processor time of a program without requests includes its shell script.\n\n",
    );
    let machine = Machine::here();
    for line in machine.header(peers, rounds as usize, false).lines() {
        item(&mut text, line);
    }
    for kind in KINDS {
        let _ = writeln!(text, "\n## {}\n", kind.title);
        text.push_str(&table(kind, rows, peers));
    }
    let failed: Vec<_> = rows
        .iter()
        .flat_map(|(name, row)| row.failed.iter().map(move |(peer, why)| (name, peer, why)))
        .collect();
    if !failed.is_empty() {
        text.push_str("\n## Failed\n\n");
        for (name, peer, why) in failed {
            let _ = writeln!(text, "- {name} on {peer}: {why}");
        }
    }
    if !left_out.is_empty() {
        text.push_str("\n## Not run\n\n");
        for name in left_out {
            let _ = writeln!(text, "- {name}");
        }
    }
    text
}

/// Returns a section of a page, from its heading to the next one.
#[must_use]
pub fn section<'a>(page: &'a str, title: &str) -> Option<&'a str> {
    let from = page.find(&format!("\n## {title}\n"))? + 1;
    let rest = &page[from..];
    Some(rest.find("\n## ").map_or(rest, |end| &rest[..=end]))
}

/// Returns a page with this section in place of the one with its title, or at the end.
#[must_use]
pub fn with_section(page: &str, title: &str, text: &str) -> String {
    match section(page, title) {
        Some(old) if page.ends_with(old) => page.replacen(old, text, 1),
        Some(old) => page.replacen(old, &format!("{text}\n"), 1),
        None => format!("{page}\n{text}"),
    }
}

fn table(kind: &Kind, rows: &BTreeMap<String, Row>, peers: &[Peer]) -> String {
    let libc = &peers[0];
    let mut text = format!("| program | {}, {} |", libc.name, kind.unit);
    for peer in &peers[1..] {
        let _ = write!(text, " {} |", peer.name);
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(peers.len()));
    text.push('\n');
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, row) in rows {
        let of = |peer: &str| -> Option<Summary> {
            let figures = row.figures.get(peer)?;
            let values: Option<Vec<f64>> = figures.iter().map(|f| (kind.of)(f)).collect();
            Summary::of(&values?)
        };
        let Some(base) = of(&libc.name) else { continue };
        let half = (base.max - base.min) / 2.0;
        let _ = write!(text, "| {name} | {} ±{} |", short(base.median), short(half));
        for peer in &peers[1..] {
            match of(&peer.name) {
                Some(theirs) if base.median > 0.0 => {
                    let ratio = theirs.median / base.median;
                    ratios.entry(&peer.name).or_default().push(ratio);
                    let _ = write!(text, " {ratio:.2} |");
                }
                _ if row.failed.contains_key(&peer.name) => text.push_str(" failed |"),
                _ => text.push_str(" - |"),
            }
        }
        text.push('\n');
    }
    text.push_str("| geometric mean | |");
    for peer in &peers[1..] {
        let mean = ratios.get(peer.name.as_str()).and_then(|all| geometric_mean(all));
        let _ = match mean {
            Some(mean) => write!(text, " {mean:.2} |"),
            None => write!(text, " - |"),
        };
    }
    text.push('\n');
    text
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str) -> Peer {
        Peer { name: name.into(), library: None, version: "1".into() }
    }

    #[test]
    fn a_table_has_ratios_and_tells_what_failed() {
        let figures = |seconds: f64, idle| Figures {
            seconds,
            processor: seconds,
            requests: 10,
            peak: 2 << 20,
            idle,
        };
        let mut row = Row::default();
        row.figures.insert("glibc".into(), vec![figures(1.0, None), figures(3.0, None)]);
        row.figures.insert("toft".into(), vec![figures(1.0, None)]);
        row.failed.insert("other".into(), "crashed".into());
        let rows = BTreeMap::from([("prog".to_owned(), row)]);
        let peers = [peer("glibc"), peer("toft"), peer("other")];
        let page = page(&rows, &peers, &["absent".into()], 2);
        assert!(page.contains("| prog | 200000 ±100000 | 0.50 | failed |"), "{page}");
        assert!(page.contains("prog on other: crashed") && page.contains("- absent"));
        // A program without a server has no row for idle memory.
        let idle = page.split("## Memory of the idle").nth(1).unwrap();
        assert!(!idle.contains("| prog |"), "{idle}");
    }

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let page = "# Page\n\n## One\n\n1\n\n## Two\n\n2\n";
        assert_eq!(section(page, "One"), Some("## One\n\n1\n\n"));
        assert_eq!(section(page, "Two"), Some("## Two\n\n2\n"));
        assert_eq!(section(page, "Three"), None);
        let new = with_section(page, "One", "## One\n\nnew\n");
        assert_eq!(new, "# Page\n\n## One\n\nnew\n\n## Two\n\n2\n");
        let new = with_section(page, "Two", "## Two\n\nnew\n");
        assert_eq!(new, "# Page\n\n## One\n\n1\n\n## Two\n\nnew\n");
        assert_eq!(with_section(page, "Three", "## Three\n"), format!("{page}\n## Three\n"));
    }
}
