//! The sections of the page.

use super::measure::{About, Ratio, Results, mean};
use super::plot;
use crate::page::{self, Section, figure, short, table};

/// The names of the sections.
pub const SECTIONS: [&str; 4] = ["place", "time", "memory", "instructions"];

/// Returns every section with its text.
pub fn sections(results: &Results, runs: usize, quick: bool) -> Vec<Section> {
    let texts = [
        page::head(runs, quick),
        ratios(results, About::Time),
        ratios(results, About::Memory),
        instructions(results),
    ];
    let plot = |about: About| {
        format!(
            "\n![{} without one idea, case by case]({})\n",
            plot::title(about),
            plot::file(about)
        )
    };
    let mut sections: Vec<Section> = SECTIONS.into_iter().map(str::to_owned).zip(texts).collect();
    if !quick {
        sections[1].1 += &plot(About::Time);
        sections[2].1 += &plot(About::Memory);
    }
    sections
}

/// Returns a table of ratios: a row for each case, a column for each variant.
fn ratios(results: &Results, about: About) -> String {
    let rows = results.rows(about);
    let mut lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let cells = row.variants.iter().map(|variant| match variant {
                Some((_, ratio)) => text(ratio),
                None => "failed".into(),
            });
            let base = format!("{} {}", figure(Some(row.base)), row.unit);
            [row.case.clone(), base].into_iter().chain(cells).collect()
        })
        .collect();
    let means = (0..results.variants.len()).map(|variant| mean(&rows, variant));
    let (means, counts): (Vec<_>, Vec<_>) = means.unzip();
    let cells = means.into_iter().map(|it| it.map_or("-".into(), |it| format!("**{it:.2}**")));
    let of = counts.first().copied().unwrap_or(0);
    let title = [format!("**geometric mean of {of}**"), String::new()];
    lines.push(title.into_iter().chain(cells).collect());
    table(&head(results, &["case", "Toft"]), &lines)
}

fn head<'a>(results: &'a Results, first: &[&'a str]) -> Vec<&'a str> {
    first.iter().copied().chain(results.variants.iter().map(String::as_str)).collect()
}

/// Returns a ratio as `1.03±1%`, with `?` if the interval contains 1. A ratio that tells nothing
/// is in parentheses.
fn text(ratio: &Ratio) -> String {
    let Some((low, high)) = ratio.ends.filter(|_| !ratio.noisy) else {
        return format!("({:.2})", ratio.mean);
    };
    let half = 50.0 * (high - low) / ratio.mean;
    let spread = if half >= 0.5 { format!("±{half:.0}%") } else { String::new() };
    let open = if low < high && low <= 1.0 && high >= 1.0 { "?" } else { "" };
    format!("{:.2}{spread}{open}", ratio.mean)
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
        .map(|row| {
            let cells = row.variants.iter().map(|variant| match variant {
                Some((count, _)) => {
                    format!("{} ({:+.1})", short(*count), count - row.base.median)
                }
                None => "failed".into(),
            });
            [row.case.clone(), short(row.base.median)].into_iter().chain(cells).collect()
        })
        .collect();
    table(&head(results, &["case", "Toft"]), &lines)
}
