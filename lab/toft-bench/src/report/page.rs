//! The page: one file that asks for nothing else, and is read without a script.

use super::{Report, ratios, scatter};
use crate::releases;
use crate::standing::Standing;
use crate::table::{self, failures, legend};
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(super) fn draw(report: &Report) -> String {
    let title = title(report);
    let standings = Standing::all(&report.measured, &report.peers);
    let means = standings.first().and_then(|standing| scatter::picture(report, standing));
    let table = table::draw(&report.measured, &report.peers, table::ours(&report.peers));
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
                    (machine(report))
                    (notices(report))
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
                    @if let Some(plot) = means { (figure(&plot)) }
                    @for standing in &standings {
                        h3 { (standing.title()) }
                        (standing.means(Some(&report.peers)).html())
                        @if standing.over.is_whole() {
                            details {
                                summary { "Time × " (standing.base) ", family by family" }
                                (standing.by_family(|row| &row.time, Some(&report.peers)).html())
                            }
                        }
                    }
                }
                @if !report.measured.is_empty() {
                    h2 #cases { "Case by case" }
                    (figure(&ratios::draw(report)))
                }
                h2 #table { "The whole table" }
                p.dim {
                    "Medians, and ± half the distance between the extremes. Ratios are medians of the ratios "
                    "of single rounds, with their 95 % intervals."
                }
                (table.html())
                ul { @for line in legend(&table.to_string()) { li { (line) } } }
                script { (PreEscaped(include_str!("sort.js"))) }
            }
        }
    };
    page.into_string()
}

/// A plot that is a separate file elsewhere. In a page it needs no address of its language.
fn figure(plot: &str) -> Markup {
    let plot = plot.replacen(r#" xmlns="http://www.w3.org/2000/svg""#, "", 1);
    html! { figure.plot { (PreEscaped(plot)) } }
}

fn title(report: &Report) -> String {
    let plural =
        |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let cases = plural(report.measured.len(), "case");
    match report.ours() {
        Some(ours) => {
            let others = plural(report.peers.len() - 1, "other allocator");
            format!("{} and {others} on {cases}", report.peers[ours].name)
        }
        None => format!("{} on {cases}", plural(report.peers.len(), "allocator")),
    }
}

/// Everything that a figure must carry.
fn machine(report: &Report) -> Markup {
    let machine = &report.machine;
    html! {
        dl.machine {
            dt { "date" } dd { @if report.date.is_empty() { "not recorded" } @else { (report.date) } }
            dt { "processor" } dd { (machine.cpus) " × " (machine.cpu) }
            dt { "kernel" } dd { "Linux " (machine.kernel) ", transparent huge pages: " (machine.thp) }
            dt { "libc" } dd { "glibc " (machine.libc) }
            dt { "revision" } dd { (machine.revision) @if machine.revision.ends_with('+') { " (with changes)" } }
            dt { "rounds" } dd {
                (report.rounds()) ", interleaved, " @if report.quick { "quick" } @else { "at full length" }
            }
            dt { "peers" } dd { @for peer in &report.peers { span { (releases::named(peer)) } } }
        }
    }
}

/// What a reader must know before the figures.
fn notices(report: &Report) -> Markup {
    let failed = failures(&report.measured, &report.peers);
    html! {
        @if report.quick {
            div.notice { p { b { "A quick run." } " Its cases are too short for claims: a look, no more." } }
        }
        @if !failed.is_empty() {
            details.notice.failures open[failed.len() <= 6] {
                summary { "Failed, and in no mean: " (failed.len()) }
                ul { @for line in &failed { li { (line) } } }
            }
        }
        @if !report.unknown.is_empty() {
            div.notice { p { "Not shown, since this program does not know them: " (report.unknown.join(", ")) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

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

    #[test]
    fn the_header_says_what_the_rules_ask_for() {
        let mut report = Report::parse(TEXT).unwrap();
        assert_eq!(title(&report), "toft and 2 other allocators on 1 case");
        let drawn = machine(&report).into_string();
        for part in
            ["2 × A CPU", "Linux 6.1", "never", "glibc 2.36", "abc", "2, interleaved, quick"]
        {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
        report.machine.revision = "abc+".into();
        report.quick = false;
        let drawn = machine(&report).into_string();
        assert!(drawn.contains("abc+ (with changes)") && drawn.contains("full length"), "{drawn}");
    }

    #[test]
    fn quick_runs_failures_and_unknown_cases_are_named() {
        let drawn = notices(&Report::parse(TEXT).unwrap()).into_string();
        for part in
            ["too short for claims", "no mean: 1<", "pair-64 on &lt;x&gt;&amp;", "no-such-case"]
        {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
        let mut calm = Report::parse(TEXT).unwrap();
        (calm.quick, calm.unknown) = (false, Vec::new());
        calm.measured.clear();
        assert_eq!(notices(&calm).into_string(), "");
    }
}
