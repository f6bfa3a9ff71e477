//! The plot for a README, a separate file: a row for each case that is about speed, a dot for Toft
//! and each fast peer, across the time against the best of the others.

use super::Report;
use super::place::text_width;
use super::scale::{Scale, label, number};
use crate::measured::Measured;
use crate::peers;
use crate::table::plain;
use maud::{Markup, PreEscaped, html};

const WIDTH: f64 = 840.0;
const RIGHT: f64 = 825.0;
const ROW: f64 = 20.0;
const TEXT: f64 = 13.0;

struct Row<'a> {
    name: &'a str,
    /// The peer and how many times the time of the best of the others it takes.
    dots: Vec<(usize, f64)>,
}

pub(super) fn draw(report: &Report) -> String {
    let shown = shown(report);
    let mut rows: Vec<Row> =
        report.measured.iter().filter_map(|result| row(report, result, &shown)).collect();
    // Worst first: with the losses at the bottom they would be read last.
    let ours =
        |row: &Row| row.dots.iter().find(|dot| report.is_ours(dot.0)).map_or(0.0, |dot| dot.1);
    rows.sort_by(|a, b| ours(b).total_cmp(&ours(a)));
    let longest = rows.iter().map(|row| text_width(row.name, TEXT)).fold(0.0, f64::max);
    let left = (longest + 20.0).round();
    let across = Scale::over(
        rows.iter().flat_map(|row| &row.dots).map(|dot| dot.1).chain([1.0]),
        1.06,
        left,
        RIGHT,
    );
    let legend = legend(report, &shown);
    let top = 78.0 + legend.last().map_or(0.0, |(_, _, y)| *y);
    let bottom = top + rows.len() as f64 * ROW;
    let height = bottom + 56.0;
    let machine = &report.machine;
    let date = if report.date.is_empty() { String::new() } else { format!(" · {}", report.date) };
    let place =
        format!("{} · Linux {} · revision {}{date}", machine.cpu, machine.kernel, machine.revision);
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) }
            width=(WIDTH) height=(height) role="img" aria-label="Time of each case against the best of the other allocators" {
            style { (PreEscaped(include_str!("plot.css"))) }
            rect.ground x="0.5" y="0.5" width=(WIDTH - 1.0) height=(height - 1.0) rx="8" {}
            text.heading x="8" y="22" { "Time against the best of the other allocators, case by case" }
            text.tick x="8" y="41" { "1 is the best of the others; to the left is faster" }
            @for (peer, x, y) in &legend {
                g.(report.colour(*peer)) {
                    (dot(report, *peer, x + 5.0, y + 58.0))
                    text.label x=(number(x + 15.0)) y=(number(y + 62.5)) { (report.peers[*peer].name) }
                }
            }
            @for tick in across.ticks(9) {
                @let x = number(across.at(tick));
                line.(if tick == 1.0 { "one" } else { "grid" }) x1=(x) x2=(x) y1=(number(top)) y2=(number(bottom)) {}
                text.tick x=(x) y=(number(bottom + 18.0)) text-anchor="middle" { (label(tick)) }
            }
            @for (n, row) in rows.iter().enumerate() {
                @let y = top + (n as f64 + 0.5) * ROW;
                line.grid x1=(left) x2=(RIGHT) y1=(number(y)) y2=(number(y)) {}
                text.case x=(left - 10.0) y=(number(y + 4.5)) text-anchor="end" { (row.name) }
                @for (peer, ratio) in &row.dots {
                    g.(report.colour(*peer)) { (titled(report, *peer, *ratio, dot(report, *peer, across.at(*ratio), y))) }
                }
            }
            text.tick x=(WIDTH - 15.0) y=(number(height - 10.0)) text-anchor="end" { (place) }
            @if report.quick {
                text.tick x="8" y=(number(height - 10.0)) { "a quick run: too short for claims" }
            }
        }
    };
    format!("{}\n", drawn.into_string())
}

/// Builds of Toft last, so that they are drawn on the others; every peer, if none is a fast one.
fn shown(report: &Report) -> Vec<usize> {
    let fast = |peer: &usize| peers::is_fast(&report.peers[*peer].name);
    let others = (0..report.peers.len()).filter(|&peer| !report.is_ours(peer));
    let mut shown: Vec<usize> = others.clone().filter(fast).collect();
    if shown.is_empty() {
        shown = others.collect();
    }
    shown.extend((0..report.peers.len()).filter(|&peer| report.is_ours(peer)));
    shown
}

fn row<'a>(report: &Report, result: &'a Measured, shown: &[usize]) -> Option<Row<'a>> {
    let metric = result.job.case.pace()?;
    let others = (0..report.peers.len()).filter(|&peer| !report.is_ours(peer));
    let best = result.best(others, &metric)?;
    let dot = |&peer: &usize| {
        let ratio = result.cost(peer, best, &metric)?.median;
        (ratio.is_finite() && ratio > 0.0).then_some((peer, ratio))
    };
    let dots: Vec<(usize, f64)> = shown.iter().filter_map(dot).collect();
    (!dots.is_empty()).then(|| Row { name: &result.job.case.name, dots })
}

/// The places of the names, in as many lines as they need.
fn legend(report: &Report, shown: &[usize]) -> Vec<(usize, f64, f64)> {
    let (mut x, mut y) = (8.0, 8.0);
    let mut places = Vec::new();
    for &peer in shown.iter().rev() {
        let width = text_width(&report.peers[peer].name, TEXT) + 32.0;
        if x + width > WIDTH && x > 8.0 {
            (x, y) = (8.0, y + ROW);
        }
        places.push((peer, x, y));
        x += width;
    }
    places
}

/// A square for Toft, a circle for the others: it stands out without colours too.
fn dot(report: &Report, peer: usize, x: f64, y: f64) -> Markup {
    html! {
        @if report.is_ours(peer) {
            rect x=(number(x - 5.5)) y=(number(y - 5.5)) width="11" height="11" rx="2" {}
        } @else {
            circle cx=(number(x)) cy=(number(y)) r="4.5" {}
        }
    }
}

fn titled(report: &Report, peer: usize, ratio: f64, dot: Markup) -> Markup {
    html! { title { (report.peers[peer].name) " " (plain(ratio)) } (dot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

    #[test]
    fn ours_is_against_the_best_of_the_others_and_not_against_itself() {
        let report = Report::parse(TEXT).unwrap();
        let row = row(&report, &report.measured[0], &shown(&report)).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert_eq!((row.name, row.dots.len()), ("pair-64", 2));
        assert!(row.dots[0].0 == 1 && near(row.dots[0].1, 1.0));
        assert!(row.dots[1].0 == 0 && near(row.dots[1].1, 7.0 / 12.0));
    }

    #[test]
    fn fast_peers_are_shown_and_where_there_is_none_every_peer() {
        let mut report = Report::parse(TEXT).unwrap();
        assert_eq!(shown(&report), [1, 2, 0]);
        report.peers[2].name = "snmalloc".into();
        assert_eq!(shown(&report), [2, 0]);
    }

    #[test]
    fn a_long_legend_takes_more_lines_and_stays_inside() {
        let mut report = Report::parse(TEXT).unwrap();
        report.peers[1].name = "a".repeat(60);
        report.peers[2].name = "b".repeat(60);
        let places = legend(&report, &[1, 2, 0]);
        assert_eq!(places.iter().map(|place| place.0).collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(places.iter().map(|place| place.2).collect::<Vec<_>>(), [8.0, 8.0, 28.0]);
    }
}
