//! Ratios to Toft as it is, case by case, and the tables of them.

use super::Variant;
use crate::interval::Interval;
use crate::measured::Measured;
use crate::metrics::{Better, INSTRUCTIONS, MOPS, Metric, NS, PEAK, SECONDS};
use crate::report::Report;
use crate::stats::{Summary, geometric_mean};
use crate::table::{figure, plain};
use std::fmt::Write;

/// What a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The time that a case takes; of one that gives a rate, the inverse of that.
    Time,
    /// Its peak resident memory.
    Memory,
}

impl About {
    /// The word in names of tables and plots.
    pub fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Memory => "memory",
        }
    }

    /// The metric of a case that is about this, if it has one.
    fn metric(self, result: &Measured) -> Option<Metric> {
        let wanted: &[Metric] = match self {
            Self::Time => &[NS, SECONDS, MOPS],
            Self::Memory => &[PEAK],
        };
        result.job.case.metrics.iter().find(|metric| wanted.contains(metric)).copied()
    }
}

/// How many times the cost of Toft as it is a variant's cost is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean of the rounds, and where it lies with 95 % confidence.
    pub interval: Interval,
}

/// The ratios of variants on one case.
#[derive(Debug)]
pub struct Row<'a> {
    /// The case.
    pub case: &'a str,
    /// The figure of Toft as it is, with its spread and unit.
    pub figure: String,
    /// One for each variant, or why there is none.
    pub ratios: Vec<Result<Ratio, &'static str>>,
}

/// The rows of a table: those cases that have a figure about this.
pub fn rows<'a>(report: &'a Report, variants: &[&Variant], about: About) -> Vec<Row<'a>> {
    let place = |variant: &Variant| place(report, &variant.peer());
    let Some(base) = place(&Variant::default_build()) else { return Vec::new() };
    let row = |result: &'a Measured| {
        let metric = about.metric(result)?;
        let summary = result.summary(base, &metric)?;
        let ratio = |variant: &&Variant| {
            let peer =
                place(variant).filter(|&peer| result.series[peer].is_ok()).ok_or("failed")?;
            // Both ran, but never found the same machine.
            ratio(result, peer, base, &metric).ok_or("moved")
        };
        Some(Row {
            case: &result.job.case.name,
            figure: format!("{} {}", figure(&summary), metric.unit),
            ratios: variants.iter().map(ratio).collect(),
        })
    };
    report.measured.iter().filter_map(row).collect()
}

fn place(report: &Report, peer: &str) -> Option<usize> {
    report.peers.iter().position(|known| known.name == peer)
}

fn ratio(result: &Measured, peer: usize, base: usize, metric: &Metric) -> Option<Ratio> {
    let interval = result.interval(peer, base, metric).or_else(|| {
        // Of a single round there is a ratio, and nothing to say how sure it is.
        let ratio = result.ratio(peer, base, metric)?.median;
        Some(Interval { ratio, low: 0.0, high: f64::INFINITY })
    })?;
    let interval = match metric.better {
        Better::Less => interval,
        Better::More => Interval {
            ratio: 1.0 / interval.ratio,
            low: 1.0 / interval.high,
            high: 1.0 / interval.low,
        },
    };
    interval.ratio.is_finite().then_some(Ratio { interval })
}

/// The rows of which every ratio can be told: over them all variants can be compared by a mean.
pub fn told<'a, 'b>(rows: &'b [Row<'a>]) -> Vec<&'b Row<'a>> {
    let told = |row: &&Row| row.ratios.iter().all(|ratio| ratio.is_ok_and(|r| !r.noisy()));
    rows.iter().filter(told).collect()
}

/// The geometric mean of one variant's ratios.
pub fn mean(rows: &[&Row], variant: usize) -> Option<f64> {
    let ratios: Option<Vec<f64>> =
        rows.iter().map(|row| Some(row.ratios[variant].ok()?.interval.ratio)).collect();
    geometric_mean(&ratios?)
}

impl Ratio {
    /// Whether the rounds differed so much that it tells nothing.
    pub fn noisy(&self) -> bool {
        self.interval.too_wide()
    }

    /// As `1.03 ±1 %`, with a `?` where it may as well be 1 or on the other side. In parentheses
    /// and no more where it tells nothing.
    pub fn text(&self) -> String {
        let Interval { ratio, low, high } = self.interval;
        if self.noisy() {
            return format!("({ratio:.2})");
        }
        let half = 50.0 * (high - low) / ratio;
        let mut text = format!("{ratio:.2}");
        if half >= 0.5 {
            let _ = write!(text, " ±{half:.0} %");
        }
        if self.interval.open() {
            text.push('?');
        }
        text
    }
}

/// A table in Markdown: a row for each case, a column for each variant.
pub fn table(rows: &[Row], variants: &[&Variant], default_name: &str) -> String {
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let mut text = format!("| case | {default_name} | {} |\n", names.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(names.len()));
    for row in rows {
        let cells: Vec<String> = row
            .ratios
            .iter()
            .map(|ratio| ratio.map_or_else(str::to_owned, |ratio| ratio.text()))
            .collect();
        let _ = writeln!(text, "| {} | {} | {} |", row.case, row.figure, cells.join(" | "));
    }
    let told = told(rows);
    let means: Vec<String> = (0..names.len())
        .map(|n| mean(&told, n).map_or_else(|| "-".into(), |mean| format!("**{mean:.2}**")))
        .collect();
    let of = told.len();
    let _ = writeln!(text, "| **geometric mean of {of}** | | {} |", means.join(" | "));
    text
}

/// The instructions of an operation, the median of several counts: a row for each variant, a column
/// for each case, and in parentheses how many more or fewer than Toft as it is.
pub fn instructions(counts: &[Report], variants: &[&Variant]) -> String {
    let Some(first) = counts.first() else { return String::new() };
    let cases: Vec<&str> =
        first.measured.iter().map(|result| result.job.case.name.as_str()).collect();
    let mut text = format!("| | {} |\n|---|{}\n", cases.join(" | "), "---|".repeat(cases.len()));
    let median = |case: usize, variant: &Variant| {
        let one = |report: &Report| {
            let peer = place(report, &variant.peer())?;
            Some(report.measured.get(case)?.summary(peer, &INSTRUCTIONS)?.median)
        };
        Summary::of(&counts.iter().map(one).collect::<Option<Vec<f64>>>()?)
    };
    let default = Variant::default_build();
    for variant in [&default].into_iter().chain(variants.iter().copied()) {
        let cell = |case: usize| match (median(case, variant), median(case, &default)) {
            (Some(own), Some(_)) if variant.group.is_empty() => plain(own.median),
            (Some(own), Some(of_default)) => {
                format!("{} ({:+.1})", plain(own.median), own.median - of_default.median)
            }
            _ => "failed".into(),
        };
        let cells: Vec<String> = (0..cases.len()).map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", title(variant), cells.join(" | "));
    }
    text
}

/// A variant's name where those of other groups stand beside it.
fn title(variant: &Variant) -> String {
    match variant.at {
        _ if variant.group.is_empty() => "Toft as it is".into(),
        Some(_) => format!("{}: {}", variant.group, variant.name),
        None => variant.name.clone(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::peers::Peer;
    use crate::runner::choose;

    /// A report of Toft as it is and two variants of a group.
    pub fn report(cases: &[(&str, &str, [&[f64]; 3])]) -> Report {
        let text = crate::report::tests::TEXT;
        let mut report = Report::parse(text).unwrap();
        let names = ["toft", "ideas-a", "ideas-b"];
        report.peers = names
            .map(|name| Peer { name: name.into(), library: None, version: String::new() })
            .into();
        let series = |key: &str, samples: &[f64]| {
            if samples.is_empty() {
                return Err("signal: 6".to_owned());
            }
            Ok(samples.iter().map(|value| Outcome::default().with(key, *value)).collect())
        };
        report.measured = cases
            .iter()
            .map(|(case, key, samples)| Measured {
                job: choose(&[(*case).to_owned()]).unwrap()[0],
                series: samples.iter().map(|samples| series(key, samples)).collect(),
            })
            .collect();
        report
    }

    pub fn variants() -> Vec<Variant> {
        ["a", "b"]
            .map(|name| Variant { name: name.into(), group: "ideas".into(), ..Variant::default() })
            .into()
    }

    #[test]
    fn times_are_ratios_rates_are_inverted_and_failures_are_named() {
        let report = report(&[
            ("pair-64", "ns", [&[4.0, 8.0], &[5.0, 10.0], &[]]),
            ("handover-2", "mops", [&[50.0, 50.0], &[40.0, 40.0], &[100.0, 100.0]]),
        ]);
        let variants = variants();
        let variants: Vec<&Variant> = variants.iter().collect();
        let rows = rows(&report, &variants, About::Time);
        let text = table(&rows, &variants, "Toft");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| case | Toft | a | b |");
        assert_eq!(lines[2], "| pair-64 | 6.00 ±33% ns/op | 1.25 | failed |");
        assert_eq!(lines[3], "| handover-2 | 50.0 Mops | 1.25 | 0.50 |");
        assert_eq!(lines[4], "| **geometric mean of 1** | | **1.25** | **0.50** |");
    }

    #[test]
    fn how_sure_a_ratio_is_is_said() {
        let report = report(&[(
            "pair-64",
            "ns",
            [&[10.0, 10.0, 10.0], &[10.2, 9.9, 10.1], &[12.0, 12.1, 12.2]],
        )]);
        let variants = variants();
        let rows = rows(&report, &variants.iter().collect::<Vec<_>>(), About::Time);
        let texts: Vec<String> = rows[0].ratios.iter().map(|ratio| ratio.unwrap().text()).collect();
        assert_eq!(texts, ["1.01 ±4 %?", "1.21 ±2 %"]);
        let wild: [&[f64]; 3] = [&[10.0, 10.0], &[10.0, 30.0], &[11.0]];
        let report = tests::report(&[("pair-64", "ns", wild)]);
        let rows = super::rows(&report, &variants.iter().collect::<Vec<_>>(), About::Time);
        assert_eq!(rows[0].ratios[0].unwrap().text(), "(1.73)");
        // A single round has no interval.
        assert_eq!(rows[0].ratios[1].unwrap().text(), "(1.10)");
        assert!(told(&rows).is_empty(), "a mean of what tells nothing");
    }

    #[test]
    fn memory_is_of_cases_that_compare_it_only() {
        let report = report(&[
            ("pair-64", "peak_mb", [&[4.0; 2], &[5.0; 2], &[6.0; 2]]),
            ("replace-100k", "peak_mb", [&[10.0; 2], &[20.0; 2], &[30.0; 2]]),
        ]);
        let variants = variants();
        let rows = rows(&report, &variants.iter().collect::<Vec<_>>(), About::Memory);
        assert_eq!(rows.len(), 1);
        assert!((mean(&told(&rows), 1).unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(rows[0].figure, "10.0 MB peak");
    }

    #[test]
    fn instructions_are_told_with_their_difference() {
        let report = report(&[("pair-64", "instructions", [&[80.0], &[70.5], &[]])]);
        let variants = variants();
        let others = [[82.0, 70.5], [79.0, 60.0]].map(|[default, a]| {
            tests::report(&[("pair-64", "instructions", [&[default], &[a], &[9.0]])])
        });
        let counts: Vec<Report> = others.into_iter().chain([report]).collect();
        let text = instructions(&counts, &variants.iter().collect::<Vec<_>>());
        assert!(
            text.contains("| Toft as it is | 80.0 |\n| a | 70.5 (-9.5) |\n| b | failed |"),
            "{text}"
        );
    }
}
