//! The sections of the page.

use super::engine::Kind;
use super::measure::{BATCHES, Beside, Figure, Layout, PAGES, Point, Results};
use crate::page::Section;
use crate::table::{figure, ratio, short, table};

/// Returns every section.
pub fn sections(results: &Results, runs: usize, quick: bool) -> Vec<Section> {
    use {Beside::*, Layout::*};
    let section = |name, title, at, of: Figure, calls| {
        Section::new(name, title, compared(results, at, of, calls))
    };
    let (alone, touching) = ((Alone, Scattered), (Touching, Scattered));
    vec![
        Section::place(runs, quick),
        Section::new("engines", "Engines", engines(results)),
        section("alone-scattered", "Time, scattered", alone, |it| it.time, true),
        section("alone-contiguous", "Time, contiguous", (Alone, Contiguous), |it| it.time, false),
        section("processor", "Processor time, scattered", alone, |it| it.processor, false),
        section("touching-scattered", "Beside a thread, scattered", touching, |it| it.time, false),
        section(
            "touching-contiguous",
            "Beside a thread, contiguous",
            (Touching, Contiguous),
            |it| it.time,
            false,
        ),
        section("lost", "What the other thread loses, scattered", touching, |it| it.lost, false),
    ]
}

fn engines(results: &Results) -> String {
    let row = |kind: Kind| {
        let refused = results.refused.iter().find(|(refused, _)| *refused == kind);
        let result = match refused {
            Some((_, why)) => format!("left out: {why}"),
            None => "the named pages are gone, and no others".into(),
        };
        vec![format!("`{}`", kind.name()), result]
    };
    table(&["engine", "result"], &Kind::ALL.map(row))
}

/// Returns a table of a figure: a row for each size of piece and of batch, and for each engine the
/// figure, with its ratio to `madvise`. With `calls` also the system calls of a batch.
fn compared(
    results: &Results,
    (beside, layout): (Beside, Layout),
    of: Figure,
    calls: bool,
) -> String {
    let mut head = vec!["pages", "batch"];
    for kind in Kind::ALL {
        head.push(kind.name());
        head.extend(calls.then_some("calls"));
    }
    let mut rows = Vec::new();
    for (pages, batch) in PAGES.into_iter().flat_map(|pages| BATCHES.map(|batch| (pages, batch))) {
        let point = |kind| Point { beside, layout, pages, batch, kind };
        if results.summary(point(Kind::Madvise), of).is_none() {
            continue;
        }
        let mut row = vec![pages.to_string(), batch.to_string()];
        for point in Kind::ALL.map(point) {
            let to = results.ratio(point, of).filter(|_| point.kind != Kind::Madvise);
            let to = to.map_or(String::new(), |it| format!(" ({})", ratio(Some(it))));
            row.push(figure(results.summary(point, of)) + &to);
            if calls {
                let each = results.summary(point, |it| it.calls);
                row.push(each.map_or("-".into(), |it| whole(it.median * batch as f64)));
            }
        }
        rows.push(row);
    }
    table(&head, &rows)
}

/// Returns a count without digits after the point, if it has none.
fn whole(count: f64) -> String {
    let near = (count - count.round()).abs() < 1e-6;
    if near { format!("{count:.0}") } else { short(count) }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Sample;
    use super::*;

    #[test]
    fn a_row_has_figures_ratios_and_the_calls_of_a_batch() {
        let mut results = Results::default();
        for (kind, time, calls) in
            [(Kind::Madvise, 1000.0, 1.0), (Kind::ProcessMadvise, 250.0, 0.125)]
        {
            let (beside, layout) = (Beside::Alone, Layout::Scattered);
            let point = Point { beside, layout, pages: 1, batch: 8, kind };
            results.add(point, Sample { time, processor: time / 2.0, lost: 0.0, calls });
        }
        results.refused.push((Kind::IoUring, "io_uring_setup: refused".into()));
        let all = sections(&results, 1, false);
        let of = |name: &str| &all.iter().find(|section| section.name == name).unwrap().text;
        let row = "| 1 | 8 | 1000 | 8 | 250 (0.25) | 1 | - | - |";
        assert!(of("alone-scattered").contains(row), "{}", of("alone-scattered"));
        assert!(of("processor").contains("| 1 | 8 | 500 | 125 (0.25) | - |"));
        assert!(of("engines").contains("| `io_uring` | left out: io_uring_setup: refused |"));
        assert!(!of("lost").contains("| 1 |"), "nothing was measured there");
    }
}
