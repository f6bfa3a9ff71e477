//! The plot of a sweep: a line for each peer, named at its end.

use super::Report;
use super::chart::{Chart, Line};
use super::sweeps::Sweep;
use crate::metrics::Better;
use maud::{Markup, html};

/// Draws it.
pub(super) fn draw(report: &Report, sweep: &Sweep) -> Markup {
    let better = match sweep.metric.better {
        Better::Less => "lower is better",
        Better::More => "higher is better",
    };
    let line = |peer: usize| Line {
        name: report.peers[peer].name.clone(),
        colour: report.colour(peer),
        points: sweep
            .cases
            .iter()
            .filter_map(|(at, result)| Some((*at as f64, result.summary(peer, &sweep.metric)?)))
            .collect(),
    };
    let chart = Chart {
        title: format!("{} over {}, a line for each allocator", sweep.workload, sweep.axis),
        across: sweep.axis.into(),
        at: sweep.cases.iter().map(|(at, _)| *at as f64).collect(),
        lines: (0..report.peers.len()).map(line).collect(),
    };
    html! {
        figure.plot {
            figcaption {
                b { (sweep.workload) " over " (sweep.axis) ", " (sweep.metric.unit) } " "
                span.hint { (better) }
            }
            (chart.drawing())
        }
    }
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
        let sweep = Sweep { workload: "handover", axis: "threads", metric: MOPS, cases };
        let drawn = draw(&report, &sweep).into_string();
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert_eq!(drawn.matches("<circle").count(), 6);
        assert!(drawn.contains(r#"points="40.0,134.0 185.0,10.0 330.0,10.0""#), "{drawn}");
        assert!(drawn.contains("higher is better"));
    }
}
