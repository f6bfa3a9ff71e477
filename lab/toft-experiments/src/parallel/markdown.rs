//! Tables and figures as the page has them.

use toft_bench::stats::Summary;

/// A table with a row for each of `rows`.
pub fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let rows: String = rows.iter().map(|row| line(row)).collect();
    line(head) + &rule + &rows
}

/// The cells of a head.
pub fn head(cells: &[&str]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

/// A figure, with half the distance between its extremes unless that is small.
pub fn figure(summary: Option<Summary>) -> String {
    let Some(summary) = summary else { return String::new() };
    let around = (summary.max - summary.min) / 2.0;
    if around < 0.05 * summary.median {
        short(summary.median)
    } else {
        format!("{} ±{}", short(summary.median), short(around))
    }
}

/// A ratio, marked if the rounds disagree about which is larger.
pub fn ratio(summary: Option<Summary>) -> String {
    let Some(summary) = summary else { return String::new() };
    let open = if summary.min < 1.0 && summary.max > 1.0 { "?" } else { "" };
    format!("{:.2}{open}", summary.median)
}

/// A count for each call.
pub fn count(summary: Option<Summary>) -> String {
    match summary.map(|summary| summary.median) {
        None => String::new(),
        Some(0.0) => "0".into(),
        Some(v) if v >= 0.1 => format!("{v:.2}"),
        Some(v) if v >= 0.000_1 => format!("{v:.4}"),
        Some(_) => "< 0.0001".into(),
    }
}

/// Three digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_ratios_and_counts_are_short() {
        let of = |values: &[f64]| Summary::of(values);
        assert_eq!(figure(of(&[10.0, 12.0, 30.0])), "12.0 ±10.0");
        assert_eq!(figure(of(&[100.0, 101.0])), "100");
        assert_eq!(figure(None), "");
        assert_eq!(
            (ratio(of(&[0.9, 1.1, 1.2])), ratio(of(&[1.1]))),
            ("1.10?".into(), "1.10".into())
        );
        assert_eq!(
            [1.0, 0.012_34, 0.000_02, 0.0].map(|v| count(of(&[v]))),
            ["1.00", "0.0123", "< 0.0001", "0"]
        );
    }

    #[test]
    fn a_table_has_a_rule_below_its_head() {
        let text = table(&head(&["a", "b"]), &[head(&["1", "2"])]);
        assert_eq!(text, "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
