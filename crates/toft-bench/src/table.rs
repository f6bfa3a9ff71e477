//! Draws the results: a row for each case and metric, a column for each peer.

use crate::measured::Measured;
use crate::outcome::{Better, Metric};
use crate::peers::Peer;
use crate::stats::{Summary, noisy, undecided};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};

/// The table of all results. `ours` is the peer that is compared, if it is among them.
#[must_use]
pub fn draw(measured: &[Measured], peers: &[Peer], ours: Option<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec![Cell::new("case"), Cell::new("unit")];
    header.extend(peers.iter().map(|peer| Cell::new(&peer.name)));
    if let Some(ours) = ours {
        let name = &peers[ours].name;
        header.push(Cell::new(format!("{name} / best other")));
        header.push(Cell::new(format!("{name} / glibc")));
    }
    header.push(Cell::new(""));
    table.set_header(header);
    for result in measured {
        for metric in &result.job.case.metrics {
            table.add_row(row(result, metric, peers, ours));
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(result: &Measured, metric: &Metric, peers: &[Peer], ours: Option<usize>) -> Vec<Cell> {
    let best = result.best(0..peers.len(), metric);
    let mut cells = vec![Cell::new(&result.job.case.name), Cell::new(metric.unit)];
    for peer in 0..peers.len() {
        let cell = match result.summary(peer, metric) {
            Some(summary) => Cell::new(figure(&summary)),
            None => Cell::new(if result.series[peer].is_err() { "failed" } else { "-" }),
        };
        cells.push(if best == Some(peer) { cell.add_attribute(Attribute::Bold) } else { cell });
    }
    if let Some(ours) = ours {
        let others = (0..peers.len()).filter(|&peer| peer != ours);
        let rival = result.best(others, metric);
        cells.push(against(result, ours, rival, metric, peers));
        let glibc = peers.iter().position(|peer| peer.name == "glibc");
        cells.push(against(result, ours, glibc, metric, peers));
    }
    let ratios: Vec<Summary> = best.map_or_else(Vec::new, |best| {
        let others = (0..peers.len()).filter(|&peer| peer != best);
        others.filter_map(|peer| result.ratio(peer, best, metric)).collect()
    });
    let notes = [(noisy(&ratios), "noisy"), (result.moved(), "moved")];
    let notes: Vec<&str> = notes.into_iter().filter_map(|(is, note)| is.then_some(note)).collect();
    cells.push(Cell::new(notes.join(" ")));
    cells
}

/// A median, and how far the extremes lie from it.
#[must_use]
pub fn figure(summary: &Summary) -> String {
    let around = 50.0 * summary.spread();
    if around < 0.5 {
        plain(summary.median)
    } else {
        format!("{} ±{around:.0}%", plain(summary.median))
    }
}

/// Three digits that mean something.
#[must_use]
pub fn plain(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A paired ratio, marked `?` where the rounds disagree, and the rival's name.
fn against(
    result: &Measured,
    ours: usize,
    rival: Option<usize>,
    metric: &Metric,
    peers: &[Peer],
) -> Cell {
    let Some((rival, ratio)) =
        rival.and_then(|rival| Some((rival, result.ratio(ours, rival, metric)?)))
    else {
        return Cell::new("-");
    };
    let mark = if undecided(&ratio) { "?" } else { "" };
    let cell = Cell::new(format!("{:.2}{mark} {}", ratio.median, peers[rival].name));
    let lost = match metric.better {
        Better::Less => ratio.median > 1.05,
        Better::More => ratio.median < 0.95,
    };
    if lost { cell.add_attribute(Attribute::Underlined) } else { cell }
}

/// One line for each peer that failed a case, with how.
#[must_use]
pub fn failures(measured: &[Measured], peers: &[Peer]) -> Vec<String> {
    let mut lines = Vec::new();
    for result in measured {
        for (peer, series) in peers.iter().zip(&result.series) {
            if let Err(error) = series {
                lines.push(format!("{} on {}: {error}", result.job.case.name, peer.name));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::runner::choose;

    fn peer(name: &str) -> Peer {
        Peer { name: name.into(), library: None, version: String::new() }
    }

    #[test]
    fn figures_keep_three_digits_and_their_spread() {
        let summary = |median, min, max| figure(&Summary { median, min, max });
        assert_eq!(summary(5.041, 5.04, 5.05), "5.04");
        assert_eq!(summary(50.0, 45.0, 55.0), "50.0 ±10%");
        assert_eq!(summary(0.0301, 0.0301, 0.0301), "0.030");
        assert_eq!(summary(1234.0, 1234.0, 1234.0), "1234");
    }

    #[test]
    fn losses_failures_and_noise_are_shown() {
        let series = |values: [f64; 3]| {
            Ok(values.iter().map(|v| Outcome::default().with("ns", *v)).collect::<Vec<_>>())
        };
        let measured = [Measured {
            job: choose(&["pair-64".into()]).unwrap()[0],
            series: vec![
                series([12.0, 18.0, 12.0]),
                series([10.0, 12.0, 10.0]),
                Err("status 139".into()),
            ],
        }];
        let peers = [peer("toft"), peer("glibc"), peer("other")];
        let text = draw(&measured, &peers, Some(0)).to_string();
        assert!(text.contains("1.20 glibc"), "{text}");
        assert!(text.contains("failed") && text.contains("noisy"), "{text}");
        assert_eq!(failures(&measured, &peers), ["pair-64 on other: status 139"]);
    }
}
