//! The whole table: a row for each case and metric, a column for each peer. Ours against the best
//! of the others comes first, so that it is seen without moving the table.

use super::Report;
use super::bars::spread;
use super::compare::{Ending, against_best, is_noisy};
use crate::measured::Measured;
use crate::metrics::Metric;
use crate::table::plain;
use maud::{Markup, html};

/// Draws it.
pub(super) fn draw(report: &Report) -> Markup {
    let ours = report.ours();
    html! {
        div.scroll tabindex="0" {
            table.sortable {
                thead {
                    tr {
                        th scope="col" { "case" }
                        th.text scope="col" { "unit" }
                        @if let Some(ours) = ours {
                            th scope="col" { (report.peers[ours].name) " / best other" }
                        }
                        @for (peer, named) in report.peers.iter().enumerate() {
                            th.(if report.is_ours(peer) { "ours" } else { "" }) scope="col" { (named.name) }
                        }
                        th.text scope="col" { "notes" }
                    }
                }
                tbody {
                    @for result in &report.measured {
                        @for metric in &result.job.case.metrics {
                            (row(report, result, metric, ours))
                        }
                    }
                }
            }
        }
    }
}

fn row(report: &Report, result: &Measured, metric: &Metric, ours: Option<usize>) -> Markup {
    let best = result.best(0..report.peers.len(), metric);
    let notes = [(is_noisy(result, metric), "noisy"), (result.moved(), "moved")];
    let notes: Vec<&str> = notes.into_iter().filter_map(|(is, note)| is.then_some(note)).collect();
    html! {
        tr.result {
            td data-key=(result.job.case.name) { (result.job.case.name) }
            td.text data-key=(metric.unit) { (metric.unit) }
            @if let Some(ours) = ours { (standing(report, result, ours, metric)) }
            @for peer in 0..report.peers.len() { (cell(result, peer, best, metric)) }
            td.text data-key=(notes.join(" ")) { (notes.join(" ")) }
        }
    }
}

/// A median, how far the extremes lie from it, and how many times the cost of the best that is.
fn cell(result: &Measured, peer: usize, best: Option<usize>, metric: &Metric) -> Markup {
    let Some(summary) = result.summary(peer, metric) else {
        let failed = result.series[peer].is_err();
        return html! {
            @if failed { td.failed { "failed" } } @else { td.dim { "–" } }
        };
    };
    let times = best.and_then(|best| result.cost(peer, best, metric));
    html! {
        td.(if best == Some(peer) { "best" } else { "" }) data-key=(summary.median) {
            (plain(summary.median))
            small {
                (spread(&summary))
                @if best == Some(peer) { " best" }
                @else if let Some(times) = times { " " (format!("{:.2}", times.median)) "×" }
            }
        }
    }
}

fn standing(report: &Report, result: &Measured, ours: usize, metric: &Metric) -> Markup {
    let Some((rival, cost)) = against_best(result, ours, metric) else {
        return html! { td.dim { "–" } };
    };
    let standing = Ending::of(&cost);
    html! {
        td.(standing.word()) data-key=(cost.median) {
            (format!("{:.2}×", cost.median)) @if standing == Ending::Open { "?" }
            small { (report.peers[rival].name) " " (format!("{:.2}..{:.2}", cost.min, cost.max)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

    #[test]
    fn a_row_has_medians_spreads_ratios_to_the_best_and_failures() {
        let report = Report::parse(TEXT).unwrap();
        let drawn = draw(&report).into_string();
        assert_eq!(drawn.matches(r#"<tr class="result">"#).count(), 1);
        assert!(drawn.contains(r#"<td class="best" data-key="7">7.00<small>±14% best"#), "{drawn}");
        assert!(drawn.contains("12.0<small>±0% 1.75×"), "{drawn}");
        assert!(drawn.contains(r#"<td class="failed">failed"#), "{drawn}");
        assert!(drawn.contains(r#"0.58×<small>glibc 0.50..0.67"#), "{drawn}");
    }
}
