//! Tables and figures as the pages of experiments have them, and the marks between which they stand.

use crate::place;
use toft_bench::machine::Machine;
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

const END: &str = "<!-- end -->";

/// What stands before a section on the page.
pub fn mark(name: &str) -> String {
    format!("<!-- measured: {name} -->")
}

/// Where and how it was measured.
pub fn head(machine: &Machine, runs: usize, quick: bool) -> String {
    format!(
        "{} x {}, Linux {}, glibc {}, revision {}; {runs} interleaved rounds, medians ± half of the distance \
         between the extremes{}.\n",
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.libc,
        machine.revision,
        if quick { "; a quick run, **too short for claims**" } else { "" }
    )
}

/// Writes each section between its marks on a page.
pub fn fill(page: &str, sections: &[(&str, String)]) -> Result<(), String> {
    let path = place::root().join(page);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{page}: {e}"))?;
    std::fs::write(&path, filled(page, &text, sections)?).map_err(|e| format!("{page}: {e}"))
}

fn filled(page: &str, text: &str, sections: &[(&str, String)]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (name, section) in sections {
        let missing = || format!("{page} has no {} ... {END}", mark(name));
        let start = text.find(&mark(name)).ok_or_else(missing)? + mark(name).len();
        let end = start + text[start..].find(END).ok_or_else(missing)?;
        text.replace_range(start..end, &format!("\n\n{}\n\n", section.trim()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_replace_what_was_there_and_nothing_else() {
        let text =
            "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y --><!-- end -->c";
        let sections = [("x", "new\n".to_owned()), ("y", "| t |".to_owned())];
        let once = filled("p", text, &sections).unwrap();
        assert_eq!(
            once,
            "a\n<!-- measured: x -->\n\nnew\n\n<!-- end -->\nb\n<!-- measured: y -->\n\n| t |\n\n<!-- end -->c"
        );
        assert_eq!(filled("p", &once, &sections).unwrap(), once);
        assert!(filled("p", text, &[("z", String::new())]).is_err());
    }
}
