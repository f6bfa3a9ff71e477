//! The page of the repository: its figures are between marks, and are replaced; its prose stays.

use super::Section;
use super::subjects::root;
use std::path::PathBuf;
use toft_bench::marks::replaced;

const FILE: &str = "parallel.md";

fn folder() -> PathBuf {
    root().join("docs/experiments")
}

/// Reads the page.
pub fn read() -> Result<String, String> {
    let path = folder().join(FILE);
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The page with these figures.
pub fn filled(page: &str, sections: &[Section]) -> Result<String, String> {
    sections.iter().try_fold(page.to_owned(), |page, section| {
        let text = format!("\n{}\n\n", section.text.trim());
        replaced(&page, FILE, section.name, &text)
    })
}

/// Writes the page, and the plots beside it.
pub fn write(page: &str, plots: &[(&'static str, String)]) -> Result<(), String> {
    let put = |name: &str, text: &str| {
        let path = folder().join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    put(FILE, page)?;
    plots.iter().try_for_each(|(name, plot)| put(name, plot))
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::super::subjects::Subjects;
    use super::super::{all_sections, plots};
    use super::*;
    use toft_bench::marks::{begin, count};

    #[test]
    fn the_page_has_every_mark_and_every_plot_and_no_other() {
        let page = read().unwrap();
        let results = made(|_| 10.0);
        let (sections, _) = all_sections(&results, &Subjects::default(), 3, false);
        for section in &sections {
            assert_eq!(page.matches(&begin(section.name)).count(), 1, "{}", section.name);
        }
        assert_eq!(count(&page), sections.len());
        assert!(filled(&page, &sections).unwrap().contains("| lock per arena | 10.0 |"));
        let plots = plots::all(&results, &Subjects::default());
        for (name, _) in &plots {
            assert!(page.contains(&format!("]({name})")), "{name} is not shown");
        }
        for entry in std::fs::read_dir(folder()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let own = name.starts_with("parallel-") && name.ends_with(".svg");
            assert!(!own || plots.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    /// The prose, and the figures with it as far as they are words.
    #[test]
    fn the_page_is_short() {
        let page = read().unwrap();
        let words = page.lines().filter(|line| !line.starts_with('|'));
        let words = words.flat_map(str::split_whitespace).count();
        assert!(words <= 1200, "{words} words");
    }
}
