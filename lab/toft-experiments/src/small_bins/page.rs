//! The page of the repository: its figures are between marks, and are replaced; its prose stays.

use super::Section;
use super::libraries::root;
use std::path::PathBuf;
use toft_bench::marks::{count, replaced};

const FILE: &str = "small-bins.md";

/// The names of all marks. Other sections are only printed: the page is short.
const MARKS: [&str; 4] = ["place", "variants", "counts", "bars"];

fn folder() -> PathBuf {
    root().join("docs/experiments")
}

/// Reads the page, which must have every mark.
pub fn read() -> Result<String, String> {
    let path = folder().join(FILE);
    let page =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    whole(&page)?;
    Ok(page)
}

/// An error if a page has not exactly the marks that it should have.
fn whole(page: &str) -> Result<(), String> {
    for name in MARKS {
        replaced(page, FILE, name, "")?;
    }
    match count(page) {
        found if found == MARKS.len() => Ok(()),
        found => Err(format!("{FILE}: {found} parts with figures, and not {}", MARKS.len())),
    }
}

fn filled(page: &str, sections: &[Section]) -> Result<String, String> {
    let mut shown = sections.iter().filter(|section| MARKS.contains(&section.name));
    shown.try_fold(page.to_owned(), |page, section| {
        replaced(&page, FILE, section.name, &section.text)
    })
}

/// Writes the page with these figures, and the plots beside it.
pub fn write(
    page: &str,
    sections: &[Section],
    plots: &[(&'static str, String)],
) -> Result<(), String> {
    let put = |name: &str, text: &str| {
        let path = folder().join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    put(FILE, &filled(page, sections)?)?;
    plots.iter().try_for_each(|(name, plot)| put(name, plot))
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::super::{plot, sections};
    use super::*;

    #[test]
    fn the_page_has_every_mark_and_every_plot_and_no_other() {
        let page = read().unwrap();
        let measured = made(|_, _, _| 10.0);
        let (sections, _) = sections(&measured);
        let shown = sections.iter().map(|section| section.name);
        assert!(shown.filter(|name| MARKS.contains(name)).eq(MARKS));
        let filled = filled(&page, &sections).unwrap();
        assert!(filled.contains("| uns_filler | 1.186 | 1.00 ±0%"), "{filled}");
        let plots = plot::all(&measured);
        for (name, _) in &plots {
            assert!(page.contains(&format!("]({name})")), "{name} is not shown");
        }
        let own = |name: &str| name.starts_with("small-bins-") && name.ends_with(".svg");
        for entry in std::fs::read_dir(folder()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!own(&name) || plots.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn the_page_is_short() {
        let (sections, _) = sections(&made(|_, _, _| 10.0));
        let words = filled(&read().unwrap(), &sections).unwrap().split_whitespace().count();
        assert!(words <= 1200, "{words} words");
    }

    #[test]
    fn a_page_with_other_marks_is_refused() {
        assert!(whole("nothing").unwrap_err().contains("figures: place"));
        let page = read().unwrap();
        let more = format!("{page}\n<!-- figures: more -->\n<!-- /figures -->\n");
        assert!(whole(&more).unwrap_err().contains("5 parts"));
    }
}
