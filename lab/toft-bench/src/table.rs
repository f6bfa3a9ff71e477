//! Draws the results: a row for each case and metric, a column for each peer.

use crate::grid::{Cell, Grid, Mark};
use crate::interval::{Interval, TOO_WIDE};
use crate::measured::Measured;
use crate::metrics::{Better, Metric};
use crate::peers::Peer;
use crate::stats::Summary;

/// The table of all results. `ours` is the peer that is compared, if it is among them.
pub fn draw(measured: &[Measured], peers: &[Peer], ours: Option<usize>) -> Grid {
    let mut head = vec!["case".to_owned(), "unit".to_owned()];
    head.extend(peers.iter().map(|peer| peer.name.clone()));
    if let Some(ours) = ours {
        let name = &peers[ours].name;
        head.push(format!("{name} / best other"));
        if glibc(peers, ours).is_some() {
            head.push(format!("{name} / glibc"));
        }
    }
    head.push(String::new());
    let mut table = Grid::new(2, head);
    for result in measured {
        for metric in &result.job.case.metrics {
            if worth_a_row(result, metric) {
                table.push(row(result, metric, peers, ours));
            }
        }
    }
    table
}

/// The peer whose ratios are shown: Toft, or else the first that was brought along.
pub fn ours(peers: &[Peer]) -> Option<usize> {
    let toft = peers.iter().position(|peer| peer.name == "toft");
    let brought = || peers.iter().position(|peer| peer.name != "glibc");
    toft.or_else(brought).filter(|_| peers.len() > 1)
}

/// The column of ratios to glibc needs a glibc.
fn glibc(peers: &[Peer], ours: usize) -> Option<usize> {
    peers.iter().position(|peer| peer.name == "glibc").filter(|glibc| *glibc != ours)
}

/// A metric that was asked for may be none of this workload's.
fn worth_a_row(result: &Measured, metric: &Metric) -> bool {
    let failed = result.series.iter().any(Result::is_err);
    failed || (0..result.series.len()).any(|peer| result.summary(peer, metric).is_some())
}

fn row(result: &Measured, metric: &Metric, peers: &[Peer], ours: Option<usize>) -> Vec<Cell> {
    let best = result.best(0..peers.len(), metric);
    let mut cells = vec![shortened(&result.job.case.name).into(), metric.unit.into()];
    for peer in 0..peers.len() {
        let text = match result.summary(peer, metric) {
            Some(summary) => figure(&summary),
            None => if result.series[peer].is_err() { "failed" } else { "-" }.to_owned(),
        };
        cells.push(Cell::marked(text, (best == Some(peer)).then_some(Mark::Best)));
    }
    let mut shown = Vec::new();
    if let Some(ours) = ours {
        let others = (0..peers.len()).filter(|&peer| peer != ours);
        let rival = result.best(others, metric);
        let columns = [Some(rival), glibc(peers, ours).map(Some)];
        for rival in columns.into_iter().flatten() {
            cells.push(against(result, ours, rival, metric, peers));
            shown.extend(rival.and_then(|rival| result.interval(ours, rival, metric)));
        }
    } else if let Some(best) = best {
        let others = (0..peers.len()).filter(|&peer| peer != best);
        shown.extend(others.filter_map(|peer| result.interval(peer, best, metric)));
    }
    let notes = [(noisy(&shown), "too noisy to tell"), (result.moved(), "moved")];
    let notes: Vec<&str> = notes.into_iter().filter_map(|(is, note)| is.then_some(note)).collect();
    cells.push(notes.join(", ").into());
    cells
}

/// Whether the machine was too noisy for a row: a ratio that it shows is too wide.
fn noisy(shown: &[Interval]) -> bool {
    shown.iter().any(Interval::too_wide)
}

/// A command line may be longer than a column should be.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 40;
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    name.chars().take(LONGEST - 3).chain("...".chars()).collect()
}

/// A median, and how far the extremes lie from it.
pub fn figure(summary: &Summary) -> String {
    let around = 50.0 * summary.spread();
    if !around.is_finite() {
        // Of nothing there are no percent.
        format!("{} to {}", plain(summary.min), plain(summary.max))
    } else if around < 0.5 {
        plain(summary.median)
    } else {
        format!("{} ±{around:.0}%", plain(summary.median))
    }
}

/// Three digits that mean something.
pub fn plain(value: f64) -> String {
    // Rounded, 9.999 is 10.0: the bounds are the least values that round up to a power of ten.
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.01 => 3,
        _ => 5,
    };
    format!("{value:.digits$}")
}

/// The median of a paired ratio, marked `?` where it may as well be 1, its confidence interval, and
/// the rival's name.
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
        return "-".into();
    };
    let interval = result.interval(ours, rival, metric);
    let mark = if interval.is_none_or(|interval| interval.open()) { "?" } else { "" };
    // An interval that is a point says nothing that the ratio does not.
    let around = interval
        .filter(|interval| interval.low < interval.high)
        .map_or_else(String::new, |interval| {
            format!(" ({:.2}-{:.2})", interval.low, interval.high)
        });
    let lost = match metric.better {
        Better::Less => ratio.median > 1.05,
        Better::More => ratio.median < 0.95,
    };
    let text = format!("{:.2}{mark}{around} {}", ratio.median, peers[rival].name);
    Cell::marked(text, lost.then_some(Mark::Loss))
}

/// One line for each way in which a case failed, with the peers that it failed on.
pub fn failures(measured: &[Measured], peers: &[Peer]) -> Vec<String> {
    let mut lines = Vec::new();
    for result in measured {
        let mut ways: Vec<(&str, Vec<&str>)> = Vec::new();
        for (peer, series) in peers.iter().zip(&result.series) {
            let Err(error) = series else { continue };
            match ways.iter_mut().find(|(known, _)| known == error) {
                Some((_, names)) => names.push(&peer.name),
                None => ways.push((error, vec![&peer.name])),
            }
        }
        for (error, names) in ways {
            lines.push(format!("{} on {}: {error}", result.job.case.name, names.join(", ")));
        }
    }
    lines
}

/// What the marks of a drawn table mean, as far as it has any.
pub fn legend(drawn: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if drawn.contains("? ") {
        lines.push("? the 95 % interval of the ratio contains 1".to_owned());
    }
    if drawn.contains("too noisy") {
        lines.push(format!(
            "too noisy to tell: an interval is wider than {:.0} % of its ratio",
            TOO_WIDE * 100.0
        ));
    }
    if drawn.contains("moved") {
        lines.push(
            "moved: the machine's processors were further apart in one run than in another"
                .to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{job, peers};
    use crate::outcome::Outcome;

    #[test]
    fn figures_keep_three_digits_and_their_spread() {
        let summary = |median, min, max| figure(&Summary { median, min, max });
        assert_eq!(summary(5.041, 5.04, 5.05), "5.04");
        assert_eq!(summary(50.0, 45.0, 55.0), "50.0 ±10%");
        assert_eq!(summary(0.0301, 0.0301, 0.0301), "0.030");
        assert_eq!(summary(0.000_421, 0.000_421, 0.000_421), "0.00042");
        assert_eq!(summary(1234.0, 1234.0, 1234.0), "1234");
        assert_eq!(summary(0.0, 0.0, 0.25), "0 to 0.250");
        assert_eq!(summary(0.0, 0.0, 0.0), "0");
        for (value, text) in [
            (9.999, "10.0"),
            (9.994, "9.99"),
            (99.96, "100"),
            (99.94, "99.9"),
            (0.9996, "1.00"),
            (0.9994, "0.999"),
            (-9.999, "-10.0"),
            (0.0, "0"),
        ] {
            assert_eq!(plain(value), text);
        }
    }

    fn series(rounds: &[f64]) -> crate::measured::Series {
        crate::fixtures::series("ns", rounds)
    }

    fn drawn(all: &[crate::measured::Series], peers: &[Peer]) -> String {
        let measured = Measured { job: job("pair-64"), series: all.to_vec() };
        draw(&[measured], peers, ours(peers)).to_string()
    }

    #[test]
    fn losses_failures_and_noise_are_shown() {
        let all = [
            series(&[12.0, 18.0, 12.0]),
            series(&[10.0, 12.0, 10.0]),
            Err("status 139".into()),
            Err("status 139".into()),
            Err("another".into()),
        ];
        let peers = peers(&["toft", "glibc", "other", "third", "last"]);
        let text = drawn(&all, &peers);
        // Logarithms of 1.2, 1.5, 1.2: mean 0.2567, error 0.0744, times 4.3027.
        assert!(text.contains("1.20? (0.94-1.78) glibc"), "{text}");
        assert!(text.contains("failed") && text.contains("too noisy to tell"), "{text}");
        assert_eq!(legend(&text).len(), 2, "{:?}", legend(&text));
        assert_eq!(
            failures(&[Measured { job: job("pair-64"), series: all.to_vec() }], &peers),
            ["pair-64 on other, third: status 139", "pair-64 on last: another"]
        );
    }

    #[test]
    fn what_is_certain_has_no_mark() {
        let peers = peers(&["toft", "glibc"]);
        let text = drawn(&[series(&[12.0, 12.1, 12.0]), series(&[10.0, 10.0, 10.0])], &peers);
        assert!(text.contains("1.20 (1.19-1.22) glibc"), "{text}");
        assert!(!text.contains("noisy") && legend(&text).is_empty(), "{text}");
        let counted = drawn(&[series(&[12.0; 3]), series(&[10.0; 3])], &peers);
        assert!(counted.contains("1.20 glibc"), "{counted}");
        let once = drawn(&[series(&[12.0]), series(&[10.0])], &peers);
        assert!(once.contains("1.20? glibc"), "{once}");
    }

    #[test]
    fn rounds_on_different_machines_mark_the_row() {
        let on = |link: f64| {
            let outcome = Outcome::default().with("ns", 5.0).with("link_ns", link);
            Ok(vec![outcome; 3])
        };
        let peers = peers(&["toft", "glibc"]);
        let text = drawn(&[on(50.0), on(500.0)], &peers);
        assert!(text.contains("moved") && legend(&text).len() == 1, "{text}");
        assert!(!drawn(&[on(50.0), on(51.0)], &peers).contains("moved"));
    }

    #[test]
    fn ratios_are_of_toft_or_of_a_library_that_was_brought() {
        let position = |names: &[&str]| ours(&peers(names));
        assert_eq!(position(&["glibc", "mine", "toft"]), Some(2));
        assert_eq!(position(&["glibc", "mine"]), Some(1));
        assert_eq!(position(&["toft"]), None);
        let text = drawn(&[series(&[3.0; 2]), series(&[2.0; 2])], &peers(&["old", "new"]));
        assert!(text.contains("old / best other") && !text.contains("glibc"), "{text}");
    }

    #[test]
    fn a_metric_that_nobody_has_makes_no_row_and_long_names_are_cut() {
        use crate::metrics::P999;
        let line: Vec<std::ffi::OsString> = ["true".into(), "x".repeat(60).into()].into();
        let job = crate::program::Program::new(&line).unwrap().job(&line).showing(&[P999]);
        let outcome = Outcome::default().with("seconds", 1.0);
        let measured = [Measured { job, series: vec![Ok(vec![outcome])] }];
        let text = draw(&measured, &peers(&["glibc"]), None).to_string();
        assert!(text.contains("true xxx") && text.contains("x... |"), "{text}");
        assert!(!text.contains(P999.unit) && !text.contains(&"x".repeat(40)), "{text}");
    }
}
