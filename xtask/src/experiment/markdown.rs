//! Tables and figures as the pages of experiments have them, and the marks between which they
//! stand.

use crate::place;
use toft_bench::machine::Machine;
use toft_bench::marks;
use toft_bench::stats::Summary;

/// A table with a row for each of `rows`.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule = vec!["---".to_owned(); head.len()];
    let rows: String = rows.iter().map(|row| line(row)).collect();
    // A rule without spaces, as the other pages have it.
    line(&head) + &line(&rule).replace(' ', "") + &rows
}

/// A figure with half the distance between its extremes.
pub fn figure(summary: Option<Summary>) -> String {
    let Some(summary) = summary else { return "".into() };
    format!("{} ±{}", short(summary.median), short((summary.max - summary.min) / 2.0))
}

/// A ratio, marked where the rounds disagree about who is better.
pub fn ratio(summary: Option<Summary>) -> String {
    let Some(summary) = summary else { return "".into() };
    let open = if summary.min < 1.0 && summary.max > 1.0 { "?" } else { "" };
    format!("{:.2}{open}", summary.median)
}

/// Three figures that say something.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Where and how it was measured.
pub fn head(machine: &Machine, runs: usize, quick: bool) -> String {
    format!(
        "{}; {runs} interleaved rounds, medians ± half of the distance between the extremes{}.\n",
        marks::machine(machine),
        if quick { "; a quick run, **too short for claims**" } else { "" }
    )
}

/// Writes each section between its marks on a page.
pub fn fill(page: &str, sections: &[(&str, String)]) -> Result<(), String> {
    let path = place::root().join(page);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{page}: {e}"))?;
    let text = sections.iter().try_fold(text, |text, (name, section)| {
        marks::replaced(&text, page, name, &format!("\n{}\n\n", section.trim()))
    })?;
    std::fs::write(&path, text).map_err(|e| format!("{page}: {e}"))
}
