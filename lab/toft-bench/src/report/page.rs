//! The page: one file that asks for nothing else, and is read without a script.

use super::{Report, bars, lines, scatter, summary, sweeps, table};
use crate::family::Scope;
use crate::measured::Measured;
use crate::metrics::About;
use crate::runner::Of;
use crate::standing::Standing;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Draws it.
pub(super) fn draw(report: &Report) -> String {
    let title = summary::title(report);
    let groups = Standing::all(&report.measured, &report.peers);
    let sweeps = sweeps::of(report);
    let workloads = by_workload(report);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(include_str!("plot.css"))) (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    h1 { (title) }
                    (summary::machine(report))
                    (summary::notices(report))
                }
                nav {
                    a href="#summary" { "summary" }
                    @if !sweeps.is_empty() { a href="#sweeps" { "threads and sizes" } }
                    a href="#cases" { "every case" }
                    a href="#table" { "the whole table" }
                }
                @if !report.peers.is_empty() {
                    h2 #summary { "Over all" }
                    p.dim {
                        "Geometric means over families, each with one vote, the mean of its cases. The interval "
                        "of 95 % is over families, whose number follows. Time is over the cases that are about "
                        "speed, memory over all, by the peak of the process. × best is relative to whichever "
                        "other allocator is best on each case, × tightest to whichever other fast one uses the "
                        "least there. More than 1 is a loss."
                    }
                    @if let Some(plot) = groups.first().and_then(scatter::draw) { div.halves { (plot) } }
                    @for standing in &groups {
                        h3 { (standing.title()) }
                        (summary::means(report, standing))
                        @if !matches!(standing.over, Scope::Programs | Scope::Classic) {
                            (summary::by_family(standing))
                        }
                    }
                    (standings(report))
                }
                @if !sweeps.is_empty() {
                    h2 #sweeps { "Over threads and sizes" }
                    p.dim { "Medians, with a line from the least sample to the largest." }
                    div.halves { @for sweep in &sweeps { (lines::draw(report, sweep)) } }
                }
                h2 #cases { "Every case" }
                p.dim {
                    "A bar is the median, its whisker goes from the least sample to the largest, and ± is "
                    "half of that. The best is first."
                }
                nav { @for (name, _) in &workloads { a href={ "#workload-" (name) } { (name) } } }
                @for (name, results) in &workloads {
                    h3 id={ "workload-" (name) } { (name) }
                    p.dim { (about(results[0])) }
                    div.cards { @for result in results { (card(report, result)) } }
                }
                h2 #table { "The whole table" }
                p.dim {
                    "Medians, ± half the distance between the extremes, and how many times the cost of the "
                    "best of the row that is, so that more than 1 is worse for rates too. Ratios are medians "
                    "of the ratios of single rounds; ? says that the rounds disagree about who is better. "
                    "Noisy: the ratios of the row vary by more than 15 %. Moved: the machine changed under "
                    "the measurement."
                }
                (table::draw(report))
                script { (PreEscaped(include_str!("sort.js"))) }
            }
        }
    };
    page.into_string()
}

/// Where our peer stands against the best of the others; nothing when it was not run.
fn standings(report: &Report) -> Markup {
    let Some(ours) = report.ours() else { return html! {} };
    let name = &report.peers[ours].name;
    let speed = bars::standings(report, ours, "Time", |metric| metric.about == About::Speed);
    let other =
        bars::standings(report, ours, "Memory and the rest", |metric| metric.about != About::Speed);
    html! {
        h3 { (name) " against the best of the others" }
        p.dim {
            "How many times the cost of whichever other is best on that row; the worst row is first. A rate "
            "counts as the time that it takes."
        }
        div.halves { @for plot in [speed, other].into_iter().flatten() { (plot) } }
    }
}

/// The workloads in the order of the cases, each with its cases.
fn by_workload(report: &Report) -> Vec<(&'static str, Vec<&Measured>)> {
    let mut workloads: Vec<(&'static str, Vec<&Measured>)> = Vec::new();
    for result in &report.measured {
        let name = result.job.workload();
        match workloads.iter_mut().find(|(known, _)| *known == name) {
            Some((_, results)) => results.push(result),
            None => workloads.push((name, vec![result])),
        }
    }
    workloads
}

fn about(result: &Measured) -> &'static str {
    match result.job.of {
        Of::Inside(workload) => &workload.listed().about,
        Of::Host(workload) => &workload.listed().about,
        Of::Program(_) => "the program that was given, from its start to its end",
    }
}

fn card(report: &Report, result: &Measured) -> Markup {
    html! {
        section.card {
            h4 { (result.job.case.name) }
            @for metric in &result.job.case.metrics { (bars::medians(report, result, metric)) }
            (bars::failures(report, result))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

    #[test]
    fn the_page_asks_for_nothing() {
        let page = draw(&Report::parse(TEXT).unwrap());
        for outside in ["http://", "https://", "src=", "url(", "@import", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_name_with_signs_of_html_stays_a_name() {
        let page = draw(&Report::parse(TEXT).unwrap());
        assert!(!page.contains("<x>"), "{page}");
        assert!(page.contains("&lt;x&gt;&amp;&quot;"), "{page}");
        let style = TEXT.replace("A CPU", "</style><script>alert(1)</script>");
        let page = draw(&Report::parse(&style).unwrap());
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn a_report_of_nothing_is_still_a_page() {
        let mut report = Report::parse(TEXT).unwrap();
        report.measured.clear();
        assert!(draw(&report).contains("on 0 cases"));
        report.peers.clear();
        assert!(draw(&report).ends_with("</html>"));
    }
}
