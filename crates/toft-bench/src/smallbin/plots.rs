//! The plots, each a file beside the page.

use super::plan::{
    ALL_ROWS, COUNTS, GLIBC, INVERTED, ORIGINAL, ORIGINAL_PARKING, PARKING, RUNS, SIZES, STANDARD,
    STEPS, VARIANTS, published, simple,
};
use super::tables::{case, speed};
use crate::metrics::{Metric, NS};
use crate::report::Report;
use crate::report::chart::{Chart, Line};
use crate::report::dots::{Dot, Dots};

/// The lines of the charts, and their colours.
const LINES: &[(&str, &str)] = &[
    (PARKING, "ours"),
    (ORIGINAL_PARKING, "c5"),
    (RUNS, "c7"),
    (STANDARD, "c1"),
    (ORIGINAL, "c2"),
    (INVERTED, "c3"),
    (GLIBC, "c0"),
    ("glibc-no-trim", "c4"),
    ("glibc-no-cache", "c6"),
];

const HINT: &str = "ns for a malloc and a free; lower is better; both scales logarithmic";

/// Every plot with the name of its file.
pub(super) fn all(report: &Report) -> Vec<(String, String)> {
    let mut plots = vec![
        ("small-bins-variants.svg".to_owned(), variants(report).svg()),
        ("small-bins-steps.svg".to_owned(), steps(report).svg()),
    ];
    for count in COUNTS {
        plots.push((format!("small-bins-simple-{count}.svg"), runs(report, count).svg()));
    }
    plots.push(("small-bins-threads.svg".to_owned(), threads(report).svg()));
    plots
}

fn dot(report: &Report, of: usize, case: &str, metric: &Metric, pair: (&str, &str)) -> Option<Dot> {
    let interval = speed(report, case, metric, pair).filter(|ratio| !ratio.too_wide())?;
    Some(Dot { of, at: interval.ratio, low: interval.low, high: interval.high })
}

fn variants(report: &Report) -> Dots {
    let names = ["published"].into_iter().chain(VARIANTS.iter().map(|(_, name)| *name));
    let row = |row: super::plan::Published| {
        let own = VARIANTS.iter().enumerate().filter_map(|(n, (peer, _))| {
            dot(report, n + 1, row.case, &row.metric, (peer, ORIGINAL))
        });
        let published = Dot { of: 0, at: row.ratio, low: row.ratio, high: row.ratio };
        (row.name, [published].into_iter().chain(own).collect())
    };
    Dots {
        title: "Variants of the patch, on the arena".to_owned(),
        hint:
            "times as fast as the original; more is better; what is too noisy to tell is left out"
                .to_owned(),
        names: names.map(str::to_owned).collect(),
        rows: published().into_iter().map(row).collect(),
    }
}

fn steps(report: &Report) -> Dots {
    let row = |result: &crate::measured::Measured| {
        let name = &result.job.case.name;
        let dots = STEPS
            .iter()
            .enumerate()
            .filter_map(|(n, (of, to, _))| dot(report, n, name, &NS, (of, to)));
        (name.clone(), dots.collect())
    };
    let timed = report.measured.iter().filter(|result| result.job.case.metrics.contains(&NS));
    Dots {
        title: "Ideas, one at a time".to_owned(),
        hint: "times as fast as the same without it; more is better".to_owned(),
        names: STEPS.iter().map(|(_, _, idea)| (*idea).to_owned()).collect(),
        rows: timed.map(row).collect(),
    }
}

/// Lines over numbers, where a case and a metric belong to each.
fn chart<'a>(report: &Report, title: String, across: &str, at: &[(f64, &'a str, Metric)]) -> Chart {
    let line = |(peer, colour): &(&str, &str)| {
        let place = report.peers.iter().position(|known| known.name == *peer);
        let point = |(at, name, metric): &(f64, &'a str, Metric)| {
            Some((*at, case(report, name)?.summary(place?, metric)?))
        };
        Line {
            name: (*peer).to_owned(),
            colour: (*colour).to_owned(),
            points: at.iter().filter_map(point).collect(),
        }
    };
    Chart {
        title,
        hint: HINT.to_owned(),
        across: across.to_owned(),
        at: at.iter().map(|(at, ..)| *at).collect(),
        ratios: true,
        lines: LINES.iter().map(line).collect(),
    }
}

fn runs(report: &Report, count: usize) -> Chart {
    let at: Vec<_> =
        SIZES.iter().map(|&size| (size as f64, ALL_ROWS, simple("main", size, count))).collect();
    chart(report, format!("simple-malloc, runs of {count}, main thread"), "bytes", &at)
}

fn threads(report: &Report) -> Chart {
    let cases = [
        (1.0, "malloc-thread-1", NS),
        (8.0, "malloc-thread-8", NS),
        (16.0, "malloc-thread-16", NS),
        (32.0, "malloc-thread-32", NS),
    ];
    chart(report, "malloc-thread".to_owned(), "threads", &cases)
}

#[cfg(test)]
mod tests {
    use super::super::tables::tests::report;
    use super::*;

    #[test]
    fn each_plot_shows_its_groups() {
        let ns = |peer: &str, _: &str, _: &str| if peer == ORIGINAL { 12.0 } else { 10.0 };
        let cases = ["uns-filler", ALL_ROWS, "malloc-thread-1", "malloc-thread-8"];
        let report = report(&[ORIGINAL, INVERTED, PARKING, GLIBC], &cases, ns);
        let plots = all(&report);
        assert_eq!(plots.len(), 7);
        for (name, svg) in &plots {
            assert!(svg.starts_with("<svg ") && svg.len() > 2000, "{name}");
            let line = name.contains("simple") || name.contains("threads");
            assert!(!line || svg.matches("<polyline").count() == 4, "{name}: {svg}");
        }
        let variants = &plots[0].1;
        // Eleven that were published, and what was measured of the one variant that ran: uns_filler
        // and five rows.
        assert_eq!(variants.matches("<title>").count(), 11 + 6, "{variants}");
        assert!(variants.contains("<title>mod-unlikely-inverted 1.20</title>"), "{variants}");
    }
}
