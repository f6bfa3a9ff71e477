//! The sections of the page.

use super::measure::{About, Results, mean};
use crate::page::Section;
use crate::table::{figure, interval, row, short, table};

/// Returns every section.
pub fn sections(results: &Results, runs: usize, quick: bool) -> Vec<Section> {
    vec![
        Section::place(runs, quick),
        Section::new("time", "Time", ratios(results, About::Time)),
        Section::new("memory", "Peak memory", ratios(results, About::Memory)),
        Section::new("instructions", "Instructions", instructions(results)),
    ]
}

/// Returns a table of ratios: a row for each case, a column for each variant.
fn ratios(results: &Results, about: About) -> String {
    let rows = results.rows(about);
    let mut lines: Vec<Vec<String>> = rows
        .iter()
        .map(|it| {
            let cells = it.variants.iter().map(|variant| match variant {
                Some((_, ratio)) => interval(Some(*ratio)),
                None => "failed".into(),
            });
            let base = format!("{} {}", figure(Some(it.base)), it.unit);
            row(&it.case, [base].into_iter().chain(cells))
        })
        .collect();
    let means = (0..results.variants.len()).map(|variant| mean(&rows, variant));
    let (means, counts): (Vec<_>, Vec<_>) = means.unzip();
    let cells = means.into_iter().map(|it| it.map_or("-".into(), |it| format!("**{it:.2}**")));
    let of = counts.first().copied().unwrap_or(0);
    lines
        .push(row(format!("**geometric mean of {of}**"), [String::new()].into_iter().chain(cells)));
    table(&head(results), &lines)
}

fn head(results: &Results) -> Vec<&str> {
    ["case", "Toft"].into_iter().chain(results.variants.iter().map(String::as_str)).collect()
}

/// Returns the table of instructions: a row for each case, a column for each variant, with the
/// difference to the base.
fn instructions(results: &Results) -> String {
    let rows = results.rows(About::Instructions);
    if rows.is_empty() {
        return "Not counted: valgrind is not installed, or no run has ended.".into();
    }
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|it| {
            let cells = it.variants.iter().map(|variant| match variant {
                Some((count, _)) => {
                    format!("{} ({:+.1})", short(*count), count - it.base.median)
                }
                None => "failed".into(),
            });
            row(&it.case, [short(it.base.median)].into_iter().chain(cells))
        })
        .collect();
    table(&head(results), &lines)
}
