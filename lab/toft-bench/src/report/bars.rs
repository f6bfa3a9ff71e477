//! Plots of horizontal bars. Names and figures are text of the page, and only the bars are drawn,
//! in per cent of the room that is left: nothing overlaps, and nothing shrinks on a phone.

use super::Report;
use super::compare::{Ending, against_best, is_noisy, ranked};
use super::scale::{Scale, label};
use crate::measured::Measured;
use crate::metrics::{Better, Metric};
use crate::stats::Summary;
use crate::table::plain;
use maud::{Markup, html};

/// A case and a metric: a bar for each peer to its median, the best first, with a whisker from the
/// least sample to the largest.
pub(super) fn medians(report: &Report, result: &Measured, metric: &Metric) -> Markup {
    let ranked = ranked(result, metric);
    let high = ranked.iter().fold(0.0_f64, |high, (_, summary)| high.max(summary.max));
    let scale = Scale::linear(high, 0.0, 100.0);
    let better = match metric.better {
        Better::Less => "lower is better",
        Better::More => "higher is better",
    };
    html! {
        figure.plot {
            figcaption {
                b { (metric.unit) } " " span.hint { (better) }
                @if is_noisy(result, metric) { " " span.tag { "noisy" } }
                @if result.moved() { " " span.tag { "moved" } }
            }
            div.bars {
                @for (peer, summary) in &ranked {
                    @let ours = report.is_ours(*peer).then_some("ours");
                    span.name.(ours.unwrap_or_default()) { (report.peers[*peer].name) }
                    svg.(ours.unwrap_or_default()) aria-hidden="true" {
                        rect.bar x="0" y="3" height="11" width=(percent(scale.at(summary.median))) {}
                        (whisker(&scale, summary))
                    }
                    span.figure { (plain(summary.median)) }
                    span.spread title={ (plain(summary.min)) " to " (plain(summary.max)) } { (spread(summary)) }
                }
            }
        }
    }
}

/// The peers that failed a case, and how.
pub(super) fn failures(report: &Report, result: &Measured) -> Markup {
    html! {
        @for (peer, series) in report.peers.iter().zip(&result.series) {
            @if let Err(error) = series {
                p.failed { b { (peer.name) } " failed: " (error) }
            }
        }
    }
}

/// A bar for each row: the cost of our peer against the best of the others, from worst to best.
pub(super) fn standings(
    report: &Report,
    ours: usize,
    title: &str,
    wanted: impl Fn(&Metric) -> bool,
) -> Option<Markup> {
    let all = report
        .measured
        .iter()
        .flat_map(|result| result.job.case.metrics.iter().map(move |metric| (result, metric)));
    let mut rows: Vec<(&Measured, &Metric, usize, Summary)> = all
        .filter(|(_, metric)| wanted(metric))
        .filter_map(|(result, metric)| {
            let (rival, cost) = against_best(result, ours, metric)?;
            Some((result, metric, rival, cost))
        })
        .filter(|(.., cost)| cost.median.is_finite() && cost.median > 0.0)
        .collect();
    rows.sort_by(|a, b| b.3.median.total_cmp(&a.3.median));
    let ends = rows.iter().flat_map(|(.., cost)| [cost.min, cost.median, cost.max]);
    let scale = Scale::log(ends.chain([0.9, 1.1]), 1.05, 0.0, 100.0);
    // On a phone the scale is some 80 pixels wide, and a label and its gap take 18 of them.
    let ticks = scale.apart(&scale.ticks(6), 23.0);
    // The unit is said where it is not the time that the title speaks of.
    let unit = |result: &Measured, metric: &Metric| {
        if result.job.case.pace() == Some(*metric) { "" } else { metric.unit }
    };
    let count = |standing| rows.iter().filter(|row| Ending::of(&row.3) == standing).count();
    let name = &report.peers[ours].name;
    (!rows.is_empty()).then(|| html! {
        figure.plot {
            figcaption {
                b { (title) } " "
                span.hint {
                    "worse on " (count(Ending::Loss)) ", better on " (count(Ending::Win))
                    ", even on " (count(Ending::Even)) ", undecided on " (count(Ending::Open))
                }
            }
            div.bars.standings {
                span.hint { (name) " / best other" }
                (axis(&scale, &ticks))
                span {}
                span.rival { "best other" }
                @for (result, metric, rival, cost) in &rows {
                    @let standing = Ending::of(cost);
                    @let (one, here) = (scale.at(1.0), scale.at(cost.median));
                    span.name { (result.job.case.name) " " span.hint { (unit(result, metric)) } }
                    svg.(standing.word()) aria-hidden="true" {
                        @for tick in &ticks {
                            @let x = percent(scale.at(*tick));
                            line.grid x1=(x) x2=(x) y1="0" y2="19" {}
                        }
                        rect.bar x=(percent(one.min(here))) y="3" height="11"
                            width=(percent((one - here).abs())) {}
                        line.one x1=(percent(one)) x2=(percent(one)) y1="0" y2="19" {}
                        (whisker(&scale, cost))
                    }
                    span.figure.(standing.word()) {
                        (format!("{:.2}", cost.median)) @if standing == Ending::Open { "?" }
                    }
                    span.rival { (report.peers[*rival].name) }
                }
            }
        }
    })
}

/// The names of the ticks, above the bars.
fn axis(scale: &Scale, ticks: &[f64]) -> Markup {
    html! {
        svg aria-hidden="true" {
            @for tick in ticks {
                text.tick x=(percent(scale.at(*tick))) y="12" text-anchor="middle" { (label(*tick)) }
            }
        }
    }
}

fn whisker(scale: &Scale, summary: &Summary) -> Markup {
    let (from, to) = (percent(scale.at(summary.min)), percent(scale.at(summary.max)));
    html! {
        @if summary.min < summary.max {
            line.whisker x1=(from) x2=(to) y1="8.5" y2="8.5" {}
            line.whisker x1=(from) x2=(from) y1="5" y2="12" {}
            line.whisker x1=(to) x2=(to) y1="5" y2="12" {}
        }
    }
}

/// Half the distance between the extremes.
pub(super) fn spread(summary: &Summary) -> String {
    format!("±{:.0}%", 50.0 * summary.spread())
}

fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::NS;
    use crate::report::tests::TEXT;

    #[test]
    fn bars_are_in_proportion_sorted_and_failures_named() {
        let report = Report::parse(TEXT).unwrap();
        let drawn = medians(&report, &report.measured[0], &NS).into_string();
        let at = |part: &str| drawn.find(part).unwrap_or_else(|| panic!("{part} in {drawn}"));
        assert!(at(">toft<") < at(">glibc<"));
        assert!(at(r#"width="58.33%""#) < at(r#"width="100.00%""#));
        assert!(at(r#"x1="50.00%" x2="66.67%""#) < at(">±14%<"));
        let failed = failures(&report, &report.measured[0]).into_string();
        assert!(
            failed.contains("&lt;x&gt;&amp;&quot;</b> failed: signal: 11 &lt;&amp;&gt;"),
            "{failed}"
        );
        assert!(drawn.contains("lower is better") && !drawn.contains("higher"));
    }

    #[test]
    fn a_loss_is_drawn_to_the_right_and_a_win_to_the_left() {
        let mut report = Report::parse(TEXT).unwrap();
        let drawn =
            |report: &Report| standings(report, 0, "speed", |_| true).unwrap().into_string();
        let win = drawn(&report);
        assert!(win.contains(r#"<span class="figure win">0.58"#), "{win}");
        assert!(win.contains("worse on 0, better on 1, even on 0, undecided on 0"), "{win}");
        report.measured[0].series.swap(0, 1);
        let loss = drawn(&report);
        assert!(loss.contains(r#"<span class="figure loss">1.7"#), "{loss}");
        let start = |drawn: &str, from: &str| -> f64 {
            let rest = &drawn[drawn.find(from).unwrap() + from.len()..];
            rest[..rest.find('%').unwrap()].parse().unwrap()
        };
        for (drawn, is_loss) in [(&win, false), (&loss, true)] {
            let (bar, one) =
                (start(drawn, r#"class="bar" x=""#), start(drawn, r#"class="one" x1=""#));
            assert_eq!(bar == one, is_loss, "{bar} {one}");
        }
        assert!(standings(&report, 0, "memory", |_| false).is_none());
    }

    #[test]
    fn ticks_that_would_touch_are_left_out_but_1_stays() {
        let scale = Scale::log([0.5, 8.0], 1.0, 0.0, 100.0);
        assert_eq!(scale.apart(&[0.5, 0.9, 1.0, 2.0, 2.1, 4.0], 14.0), [1.0, 0.5, 2.0, 4.0]);
    }
}
