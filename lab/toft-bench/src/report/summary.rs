//! What the page begins with: where it was measured, what failed, and how the peers stand over all.

use super::Report;
use crate::releases;
use crate::standing::{Against, Standing, WORSE, is_ours};
use crate::table::failures;
use maud::{Markup, html};

/// The title of the page.
pub(super) fn title(report: &Report) -> String {
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
pub(super) fn machine(report: &Report) -> Markup {
    let machine = &report.machine;
    let rounds = report.rounds();
    html! {
        dl.machine {
            dt { "date" } dd { @if report.date.is_empty() { "not recorded" } @else { (report.date) } }
            dt { "processor" } dd { (machine.cpus) " × " (machine.cpu) }
            dt { "kernel" } dd { "Linux " (machine.kernel) ", transparent huge pages: " (machine.thp) }
            dt { "libc" } dd { "glibc " (machine.libc) }
            dt { "revision" } dd { (machine.revision) @if machine.revision.ends_with('+') { " (with changes)" } }
            dt { "rounds" } dd {
                (rounds) ", interleaved"
                @match report.quick {
                    Some(true) => ", quick",
                    Some(false) => ", at full length",
                    None => ", quick or not is not recorded",
                }
            }
            dt { "peers" } dd {
                @for (peer, named) in report.peers.iter().enumerate() {
                    span { b.(if report.is_ours(peer) { "ours" } else { "" }) { (named.name) } " " span.dim { (releases::version(named)) ", " (releases::released(named)) } }
                }
            }
        }
    }
}

/// What a reader must know before the figures.
pub(super) fn notices(report: &Report) -> Markup {
    let failed = failures(&report.measured, &report.peers);
    html! {
        @if report.quick == Some(true) {
            div.notice { p { b { "A quick run." } " Its cases are too short for claims: a look, no more." } }
        }
        @if !failed.is_empty() {
            div.notice.failures {
                p { b { "Failed, and in no mean: " (failed.len()) } }
                @if failed.len() > 6 {
                    details { summary { "which" } (list(&failed)) }
                } @else { (list(&failed)) }
            }
        }
        @if !report.unknown.is_empty() {
            div.notice { p { "Not shown, since this program does not know them: " (report.unknown.join(", ")) } }
        }
    }
}

fn list(lines: &[String]) -> Markup {
    html! { ul { @for line in lines { li { (line) } } } }
}

/// The means in figures, the fastest first.
pub(super) fn means(report: &Report, standing: &Standing) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table.sortable.means {
                thead {
                    tr {
                        th scope="col" { "allocator" }
                        th scope="col" { "time × " (standing.base) }
                        th scope="col" { "× best" }
                        th scope="col" { "above " (WORSE) }
                        th.text scope="col" { "worst" }
                        th scope="col" { "peak memory × " (standing.base) }
                        th scope="col" { "× tightest" }
                        th scope="col" { "above " (WORSE) }
                        th.text scope="col" { "worst" }
                        th scope="col" { "failed" }
                    }
                }
                tbody {
                    @for one in standing.fastest_first() {
                        tr.(if is_ours(&one.name) { "ours" } else { "" }) {
                            td data-key=(one.name) {
                                (one.name) " " span.hint { (version(report, &one.name)) }
                            }
                            (mean(one.time.as_ref()))
                            (against(one.time_to_best.as_ref()))
                            (mean(one.memory.as_ref()))
                            (against(one.memory_to_tightest.as_ref()))
                            td.(if one.failed > 0 { "failed" } else { "" }) data-key=(one.failed) { (one.failed) }
                        }
                    }
                }
            }
        }
    }
}

/// The time of each peer against the base, family by family.
pub(super) fn by_family(standing: &Standing) -> Markup {
    html! {
        details {
            summary { "Time × " (standing.base) ", family by family" }
            div.scroll tabindex="0" {
                table.sortable {
                    thead {
                        tr {
                            th scope="col" { "family" }
                            th scope="col" { "cases" }
                            @for peer in &standing.peers { th scope="col" { (peer.name) } }
                        }
                    }
                    tbody {
                        @for row in &standing.families {
                            tr {
                                td data-key=(row.family) { (row.family) }
                                td data-key=(row.cases) { (row.cases) }
                                @for time in &row.time {
                                    @match time {
                                        Some(time) => td data-key=(time) { (format!("{time:.2}")) },
                                        None => td.dim { "–" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn version(report: &Report, name: &str) -> String {
    let found = report.peers.iter().find(|peer| peer.name == name);
    let text = |peer| format!("{}, {}", releases::version(peer), releases::released(peer));
    found.map_or_else(String::new, text)
}

fn mean(mean: Option<&Against>) -> Markup {
    html! {
        @match mean {
            Some(mean) => td data-key=(mean.mean) {
                (mean.text()) " " span.hint { "of " (mean.families) }
            },
            None => td.dim { "–" },
        }
    }
}

/// A mean, how many cases are worse than they should be, and the worst of them.
fn against(best: Option<&Against>) -> Markup {
    html! {
        (mean(best))
        @match best {
            Some(best) => {
                td data-key=(best.worse) { (best.worse) }
                td.text data-key=(best.worst.ratio) { (best.worst.text()) }
            }
            None => { td.dim { "–" } td.dim { "–" } },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

    #[test]
    fn the_header_says_what_the_rules_ask_for() {
        let mut report = Report::parse(TEXT).unwrap();
        assert_eq!(title(&report), "toft and 2 other allocators on 1 case");
        let drawn = machine(&report).into_string();
        for part in [
            "2 × A CPU",
            "Linux 6.1",
            "never",
            "glibc 2.36",
            "abc",
            "2, interleaved, quick",
            "2026-01-31",
            "0.1",
        ] {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
        report.machine.revision = "abc+".into();
        report.quick = Some(false);
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
        (calm.quick, calm.unknown) = (Some(false), Vec::new());
        calm.measured.clear();
        assert_eq!(notices(&calm).into_string(), "");
    }

    #[test]
    fn the_means_begin_with_the_fastest_and_count_failures() {
        let report = Report::parse(TEXT).unwrap();
        let drawn = means(&report, &Standing::first(&report.measured, &report.peers)).into_string();
        let at = |part: &str| drawn.find(part).unwrap_or_else(|| panic!("{part} in {drawn}"));
        assert!(at(">toft ") < at(">0.58 ") && at(">0.58 ") < at(">glibc "));
        assert!(at(">glibc ") < at(r#"<td class="failed" data-key="1">1<"#));
    }
}
