//! Tables in Markdown, and figures as their cells.

use std::fmt::Display;
use toft_bench::interval::Interval;
use toft_bench::stats::Summary;

/// Returns a table with a row for each of `rows`.
pub fn table<T: Display>(head: &[T], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    line(&head) + &rule + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// Returns a row: the name of what it is about, and its cells.
pub fn row(name: impl Display, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    [name.to_string()].into_iter().chain(cells).collect()
}

/// Returns a figure with half the distance between its extremes.
pub fn figure(summary: Option<Summary>) -> String {
    let Some(summary) = summary else { return "-".into() };
    let half = (summary.max - summary.min) / 2.0;
    let spread = if half > 0.0 { format!("±{}", short(half)) } else { String::new() };
    short(summary.median) + &spread
}

/// Returns a ratio, marked if the rounds disagree about the direction.
pub fn ratio(summary: Option<Summary>) -> String {
    let Some(summary) = summary else { return "-".into() };
    let open = if summary.min < 1.0 && summary.max > 1.0 { "?" } else { "" };
    format!("{:.2}{open}", summary.median)
}

/// Returns a ratio as `1.03±1%`, with `?` if the interval contains 1. A ratio whose interval is too
/// wide to tell anything is in parentheses.
pub fn interval(interval: Option<Interval>) -> String {
    let Some(interval) = interval else { return "-".into() };
    if interval.too_wide() {
        return format!("({:.2})", interval.ratio);
    }
    let half = 50.0 * interval.width();
    let spread = if half >= 0.5 { format!("±{half:.0}%") } else { String::new() };
    let open = if interval.open() { "?" } else { "" };
    format!("{:.2}{spread}{open}", interval.ratio)
}

/// Returns a figure with three digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_say_how_far_rounds_differ() {
        let summary = |samples: &[f64]| Summary::of(samples);
        assert_eq!(figure(summary(&[9.0, 10.0, 12.0])), "10.0±1.50");
        assert_eq!((figure(summary(&[7.0])), figure(None)), ("7.00".into(), "-".into()));
        assert_eq!(ratio(summary(&[0.9, 0.95, 1.1])), "0.95?");
        assert_eq!((ratio(summary(&[0.9, 0.95, 0.99])), ratio(None)), ("0.95".into(), "-".into()));
    }

    #[test]
    fn a_ratio_shows_how_sure_it_is() {
        let of = |ratio, low, high| interval(Some(Interval { ratio, low, high }));
        assert_eq!(of(1.05, 1.03, 1.07), "1.05±2%");
        assert_eq!(of(1.05, 0.99, 1.11), "1.05±6%?");
        assert_eq!(of(1.05, 0.8, 1.3), "(1.05)");
        assert_eq!(of(1.0, 0.0, f64::INFINITY), "(1.00)");
        assert_eq!((of(2.0, 2.0, 2.0), interval(None)), ("2.00".into(), "-".into()));
    }

    #[test]
    fn a_table_has_a_rule_below_its_head() {
        let text = table(&["a", "b"], &[row(1, ["2".to_owned()])]);
        assert_eq!(text, "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
