//! The plot of a family: a line for each peer, named at its end.

use super::Report;
use super::families::Family;
use super::place::spread;
use super::scale::{Scale, label};
use crate::metrics::Better;
use crate::stats::Summary;
use maud::{Markup, html};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 330.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 258.0;

/// Draws it.
pub(super) fn draw(report: &Report, family: &Family) -> Markup {
    let across = Scale::log(family.cases.iter().map(|(at, _)| *at as f64), 1.0, LEFT, RIGHT);
    let lines: Vec<(usize, Vec<(f64, Summary)>)> = (0..report.peers.len())
        .map(|peer| {
            let point = |(at, result): &(u64, &crate::measured::Measured)| {
                Some((across.at(*at as f64), result.summary(peer, &family.metric)?))
            };
            (peer, family.cases.iter().filter_map(point).collect::<Vec<_>>())
        })
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let high = lines.iter().flat_map(|(_, points)| points).map(|(_, s)| s.max);
    let up = Scale::linear(high.fold(0.0, f64::max), BOTTOM, TOP);
    let ends: Vec<f64> =
        lines.iter().filter_map(|(_, points)| Some(up.at(points.last()?.1.median))).collect();
    let names = spread(&ends, 14.0, TOP + 4.0, BOTTOM);
    let better = match family.metric.better {
        Better::Less => "lower is better",
        Better::More => "higher is better",
    };
    html! {
        figure.plot {
            figcaption {
                b { (family.workload) " over " (family.axis) ", " (family.metric.unit) } " "
                span.hint { (better) }
            }
            svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                aria-label={ (family.workload) " over " (family.axis) ", a line for each allocator" } {
                @for tick in up.ticks(5) {
                    @let y = up.at(tick);
                    line.grid x1=(LEFT) x2=(RIGHT) y1=(number(y)) y2=(number(y)) {}
                    text.tick x=(LEFT - 6.0) y=(number(y + 4.0)) text-anchor="end" { (label(tick)) }
                }
                @for (at, _) in &family.cases {
                    @let x = number(across.at(*at as f64));
                    line.grid x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) {}
                    text.tick x=(x) y=(BOTTOM + 16.0) text-anchor="middle" { (at) }
                }
                text.title x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 6.0) text-anchor="middle" { (family.axis) }
                @for ((peer, points), (end, height)) in lines.iter().zip(ends.iter().zip(&names)).rev() {
                    g.(report.colour(*peer)) {
                        @for (x, summary) in points {
                            line.whisker x1=(number(*x)) x2=(number(*x))
                                y1=(number(up.at(summary.min))) y2=(number(up.at(summary.max))) {}
                            circle cx=(number(*x)) cy=(number(up.at(summary.median))) r="3" {}
                        }
                        polyline points=(path(points, &up)) {}
                        line.leader x1=(number(points[points.len() - 1].0 + 5.0)) y1=(number(*end))
                            x2=(RIGHT + 16.0) y2=(number(*height)) {}
                        text.label x=(RIGHT + 20.0) y=(number(height + 4.0)) { (report.peers[*peer].name) }
                    }
                }
            }
        }
    }
}

fn path(points: &[(f64, Summary)], up: &Scale) -> String {
    let pairs: Vec<String> =
        points.iter().map(|(x, s)| format!("{},{}", number(*x), number(up.at(s.median)))).collect();
    pairs.join(" ")
}

fn number(place: f64) -> String {
    format!("{place:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Measured;
    use crate::metrics::MOPS;
    use crate::outcome::Outcome;
    use crate::report::tests::TEXT;
    use crate::runner::jobs;

    #[test]
    fn a_line_for_each_peer_that_ended_and_a_point_for_each_case() {
        let report = Report::parse(TEXT).unwrap();
        let series = |mops| Ok(vec![Outcome::default().with("mops", mops)]);
        let case = |mops| Measured {
            job: jobs()[0],
            series: vec![series(mops), series(1.0), Err("crashed".into())],
        };
        let cases = [case(10.0), case(20.0), case(20.0)];
        let cases = [2, 4, 8].into_iter().zip(&cases).collect();
        let family = Family { workload: "handover", axis: "threads", metric: MOPS, cases };
        let drawn = draw(&report, &family).into_string();
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert_eq!(drawn.matches("<circle").count(), 6);
        assert!(drawn.contains(r#"points="40.0,134.0 185.0,10.0 330.0,10.0""#), "{drawn}");
        assert!(drawn.contains("higher is better"));
    }
}
