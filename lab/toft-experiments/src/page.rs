//! The pages of `docs/experiments`: where they are, and the sections that a command fills.

use std::path::{Path, PathBuf};
use toft_bench::machine::Machine;
use toft_bench::marks;
use toft_bench::stats::Summary;

/// A section of a page: its name, and the text between its marks.
pub type Section = (String, String);

/// Returns the root of the source tree that this program was built from.
pub fn root() -> &'static Path {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    lab.and_then(Path::parent).expect("the crate is in the folder `lab` of the tree")
}

/// Returns the folder for what an experiment builds.
pub fn build_folder(experiment: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("experiments").join(experiment)
}

/// Prints the sections. Writes them into the page `name` unless the run is quick.
pub fn publish(name: &str, sections: &[Section], quick: bool) -> Result<(), String> {
    for (section, text) in sections {
        println!("\n{section}\n\n{}", text.trim());
    }
    if quick {
        return Ok(());
    }
    let path = root().join("docs/experiments").join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let text = filled(&text, name, sections)?;
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\nwrote {}", path.display());
    Ok(())
}

/// Returns a page with new text between the marks of each section.
fn filled(page: &str, name: &str, sections: &[Section]) -> Result<String, String> {
    sections.iter().try_fold(page.to_owned(), |page, (section, text)| {
        marks::replaced(&page, name, section, &format!("\n{}\n\n", text.trim()))
    })
}

/// Fails if a page lacks the marks of a section. Called before an experiment measures anything.
pub fn check(name: &str, sections: &[&str]) -> Result<(), String> {
    let path = root().join("docs/experiments").join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let empty: Vec<Section> = sections.iter().map(|name| (name.to_string(), "".into())).collect();
    filled(&text, name, &empty).map(drop)
}

/// Returns the line that says where, when and how the figures of a page were measured.
pub fn head(runs: usize, quick: bool) -> String {
    let rounds = if runs == 1 { "1 round".to_owned() } else { format!("{runs} rounds") };
    let quick = if quick { "; a quick run, **too short for claims**" } else { "" };
    format!("{}; {rounds}{quick}.", marks::machine(&Machine::here()))
}

/// Returns a table with a row for each of `rows`.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    line(&head) + &rule + &rows.iter().map(|row| line(row)).collect::<String>()
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
    fn only_the_named_sections_of_a_page_change() {
        let page = format!("a\n{}old\n{}\nb\n", marks::begin("one"), marks::END);
        let section = |name: &str| [(name.to_owned(), "new".to_owned())];
        let new = filled(&page, "page", &section("one")).unwrap();
        assert_eq!(new, page.replace("old", "\nnew\n"));
        assert!(filled(&page, "page", &section("two")).unwrap_err().contains("two"));
    }

    #[test]
    fn figures_say_how_far_rounds_differ() {
        let summary = |samples: &[f64]| Summary::of(samples);
        assert_eq!(figure(summary(&[9.0, 10.0, 12.0])), "10.0±1.50");
        assert_eq!((figure(summary(&[7.0])), figure(None)), ("7.00".into(), "-".into()));
        assert_eq!(ratio(summary(&[0.9, 0.95, 1.1])), "0.95?");
        assert_eq!(ratio(summary(&[0.9, 0.95, 0.99])), "0.95");
    }

    #[test]
    fn a_table_has_a_rule_below_its_head() {
        let rows = [vec!["1".to_owned(), "2".to_owned()]];
        assert_eq!(table(&["a", "b"], &rows), "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
