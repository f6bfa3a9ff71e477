//! The section of a README that a run makes: the plot, how every peer stands over all cases, and
//! where Toft is worst and where it is best. Nobody writes it by hand: a test makes it again.

use super::Report;
use crate::marks::Marks;
use crate::measured::Measured;
use crate::metrics::{Metric, PEAK};
use crate::record::{Record, SeriesRecord};
use crate::standing::{Against, Standing, WORSE, is_ours};
use crate::table::plain;
use std::fmt::Write;

/// The marks between which the section stands.
const MARKS: Marks<'static> = Marks {
    begin: "<!-- figures",
    begin_line: "<!-- figures: made by `cargo xtask readme`, do not edit -->",
    end: "<!-- /figures -->",
};

/// The rows at each end of the comparison.
const ENDS: usize = 8;

/// The digits of a figure that is kept; more would be noise.
const DIGITS: usize = 4;

/// The run with what the section needs and nothing else: of each sample the figure that says how
/// fast the case is, its peak, and what says whether the machine was the same.
#[must_use]
pub fn kept(record: &Record, report: &Report) -> Record {
    let mut kept = record.clone();
    // It would be that of the figures before they were rounded.
    kept.summary = None;
    let known = |name: &str| report.measured.iter().find(|result| result.job.case.name == name);
    // What this program does not know any more it cannot draw.
    kept.cases.retain(|case| known(&case.case).is_some());
    for case in &mut kept.cases {
        let pace = known(&case.case).and_then(|result| result.job.case.pace());
        let wanted = |key: &str| {
            key == PEAK.key || key == "link_ns" || pace.is_some_and(|pace| pace.key == key)
        };
        case.ratios.clear();
        for series in case.peers.values_mut() {
            let SeriesRecord::Samples(outcomes) = series else { continue };
            for outcome in outcomes {
                outcome.metrics.retain(|key, _| wanted(key));
                for figure in outcome.metrics.values_mut() {
                    *figure = rounded(*figure);
                }
            }
        }
    }
    kept
}

fn rounded(figure: f64) -> f64 {
    format!("{figure:.*e}", DIGITS - 1).parse().unwrap_or(figure)
}

/// A text with the section in place of the one that it has.
///
/// # Errors
/// When there is no place for it.
pub fn placed(text: &str, section: &str) -> Result<String, String> {
    MARKS.placed(text, section)
}

/// The section that a text has.
///
/// # Errors
/// When it has none.
pub fn section_of(text: &str) -> Result<&str, String> {
    MARKS.section_of(text)
}

/// The section; `folder` is where the plots are.
#[must_use]
pub fn section(report: &Report, folder: &str) -> String {
    let standing = Standing::of(&report.measured, &report.peers);
    let mut text = format!("{}\n{}\n", MARKS.begin_line, provenance(report, &standing));
    let _ = writeln!(
        text,
        "![Time and peak memory of every allocator, relative to {}]({folder}/peers.svg)\n",
        standing.base
    );
    text.push_str(&means(&standing));
    if let Some(ours) = report.ours() {
        let name = &report.peers[ours].name;
        let _ = writeln!(
            text,
            "\nWhere {name} is worst and where it is best against whichever other allocator is best on that \
             case, of all cases ([every case]({folder}/cases.svg)):\n"
        );
        text.push_str(&ends(report, ours, "time", &|result| result.job.case.pace()));
        text.push('\n');
        text.push_str(&ends(report, ours, "peak memory", &|_| Some(PEAK)));
    }
    text.push_str(MARKS.end);
    text
}

fn provenance(report: &Report, standing: &Standing) -> String {
    let machine = &report.machine;
    let versions: Vec<String> = report
        .peers
        .iter()
        .map(|peer| format!("{} {}", peer.name, peer.version).trim().to_owned())
        .collect();
    let changed = if machine.revision.ends_with('+') { " with changes" } else { "" };
    let quick = match report.quick {
        Some(true) => "\n**A quick run: its cases are too short for claims.**\n",
        _ => "",
    };
    format!(
        "{} cases, {} interleaved round{} on {} × {}: Linux {}, transparent huge pages {}, glibc {}; \
         revision {}{changed}, {}. Less is better; a mean is geometric, over the cases that both \
         allocators ended, whose number stands beside it. *Time* is relative to {base}, *peak memory* is \
         that of the process, as the kernel counts it. *Best* and *tightest* are whichever other \
         allocator is best on each single case, and whichever other fast one uses the least there.\n\n\
         Versions: {}.\n{quick}",
        report.measured.len(),
        report.rounds(),
        if report.rounds() == 1 { "" } else { "s" },
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.thp,
        machine.libc,
        machine.revision.trim_end_matches('+'),
        if report.date.is_empty() { "not dated" } else { &report.date },
        versions.join(", "),
        base = standing.base,
    )
}

fn means(standing: &Standing) -> String {
    let base = &standing.base;
    let mut text = format!(
        "| | time, × {base} | × best | above {WORSE} | worst | peak memory, × {base} | × tightest | \
         above {WORSE} | worst | failed |\n|---|---|---|---|---|---|---|---|---|---|\n"
    );
    let mean = |against: Option<&Against>| {
        against.map_or("–".to_owned(), |a| format!("{:.2} ({})", a.mean, a.cases))
    };
    let rest = |against: Option<&Against>| match against {
        Some(a) => format!("{} | {} | {}", mean(against), a.worse, a.worst.text()),
        None => "– | – | –".to_owned(),
    };
    for one in standing.fastest_first() {
        let name = if is_ours(&one.name) { format!("**{}**", one.name) } else { one.name.clone() };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} |",
            mean(one.time.as_ref()),
            rest(one.time_to_best.as_ref()),
            mean(one.memory.as_ref()),
            rest(one.memory_to_tightest.as_ref()),
            one.failed,
        );
    }
    text
}

/// The cases at both ends of a comparison, the worst first.
fn ends(
    report: &Report,
    ours: usize,
    what: &str,
    metric: &dyn Fn(&Measured) -> Option<Metric>,
) -> String {
    let rivals = || (0..report.peers.len()).filter(|&peer| !report.is_ours(peer));
    let mut rows: Vec<(f64, String)> = report
        .measured
        .iter()
        .filter_map(|result| {
            let metric = metric(result)?;
            let best = result.best(rivals(), &metric)?;
            let cost = result.cost(ours, best, &metric)?.median;
            let figure = |peer| Some(plain(result.summary(peer, &metric)?.median));
            let row = format!(
                "| {} | {} {} | {} {} | {cost:.2} |",
                result.job.case.name,
                figure(ours)?,
                metric.unit.trim_end_matches(" peak"),
                figure(best)?,
                report.peers[best].name
            );
            (cost.is_finite() && cost > 0.0).then_some((cost, row))
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text =
        format!("| {what} | {} | best other | × |\n|---|---|---|---|\n", report.peers[ours].name);
    let left = rows.len().saturating_sub(2 * ENDS);
    for (place, (_, row)) in rows.iter().enumerate() {
        if left > 0 && place == ENDS {
            let _ = writeln!(text, "| *{left} cases between* | | | |");
        }
        if left == 0 || place < ENDS || place >= rows.len() - ENDS {
            let _ = writeln!(text, "{row}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

    #[test]
    fn a_figure_keeps_four_digits() {
        for (figure, kept) in
            [(4.757_425_4, 4.757), (0.000_123_46, 0.000_123_5), (123_456.0, 123_500.0), (0.0, 0.0)]
        {
            assert_eq!(rounded(figure), kept);
        }
    }

    #[test]
    fn the_section_says_where_it_was_measured_and_shows_losses_first() {
        let report = Report::parse(TEXT).unwrap();
        let text = section(&report, "docs");
        for part in [
            "2 interleaved rounds on 2 × A CPU",
            "Linux 6.1, transparent huge pages never, glibc 2.36",
            "revision abc, 2026-01-31 12:00 UTC",
            "toft 0.1, glibc 2.36",
            "A quick run",
            "| **toft** | 0.58 (1) | 0.58 (1) | 0 | 0.58 x glibc, pair-64 | – | – | – | – | 0 |",
            "| glibc | 1.00 (1) | 1.75 (1) | 1 | 1.75 x toft, pair-64 |",
            "| pair-64 | 7.00 ns/op | 12.0 glibc | 0.58 |",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(text.starts_with(MARKS.begin_line) && text.ends_with(MARKS.end));
    }

    #[test]
    fn as_many_of_the_worst_as_of_the_best_are_named() {
        let mut report = Report::parse(TEXT).unwrap();
        let one = report.measured[0].clone();
        report.measured = (1..=20)
            .map(|n| {
                let mut result = one.clone();
                let outcomes = result.series[0].as_mut().unwrap();
                outcomes.iter_mut().for_each(|outcome| outcome.set("ns", f64::from(n)));
                result
            })
            .collect();
        let text = ends(&report, 0, "time", &|result| result.job.case.pace());
        assert_eq!(text.lines().count(), 2 + 8 + 1 + 8, "{text}");
        assert!(text.contains("*4 cases between*"), "{text}");
        let first = text.lines().nth(2).unwrap();
        let last = text.lines().last().unwrap();
        assert!(first.contains("| 20.0 ns/op |") && last.contains("| 1.00 ns/op |"), "{text}");
        report.measured.truncate(16);
        let text = ends(&report, 0, "time", &|result| result.job.case.pace());
        assert!(text.lines().count() == 2 + 16 && !text.contains("between"), "{text}");
    }

    #[test]
    fn the_section_replaces_the_one_that_is_there() {
        let text = format!("before\n{} old -->\nold\n{}\nafter\n", MARKS.begin, MARKS.end);
        let placed = placed(&text, "new").unwrap();
        assert_eq!(placed, "before\nnew\nafter\n");
        assert!(section_of(&placed).unwrap_err().contains("figures"));
        assert!(
            super::placed(&format!("{} -->", MARKS.begin), "x").unwrap_err().contains(MARKS.end)
        );
    }

    #[test]
    fn what_is_kept_draws_the_same() {
        let report = Report::parse(TEXT).unwrap();
        let mut record: Record = serde_json::from_str(TEXT).unwrap();
        let SeriesRecord::Samples(outcomes) = record.cases[0].peers.get_mut("toft").unwrap() else {
            panic!()
        };
        outcomes[0].set("cpu_seconds", 1.0);
        let text = kept(&record, &report).lines().unwrap();
        assert!(!text.contains("cpu_seconds") && text.contains("\"ns\""), "{text}");
        let again = Report::parse(&text).unwrap();
        assert!(again.unknown.is_empty() && again.measured.len() == 1);
        assert_eq!(section(&again, "docs"), section(&report, "docs"));
    }
}
