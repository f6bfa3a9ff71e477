//! The page: prose by hand, and between marks what was measured.

/// Where the page and its plots are.
pub const FOLDER: &str = "docs/experiments";
/// The page.
pub const PAGE: &str = "docs/experiments/parallel.md";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place;
    use toft_bench::marks::{begin, count};

    #[test]
    fn the_page_has_every_section_and_no_other_and_every_plot() {
        let text = std::fs::read_to_string(place::root().join(PAGE)).unwrap();
        let results = super::super::measure::Results::default();
        let mut names = vec!["machine", "programs", "sizes"];
        names.extend(super::super::tables::sections(&results).iter().map(|section| section.0));
        names.extend(super::super::bars::section(&results, 2).iter().map(|section| section.0));
        for name in &names {
            assert_eq!(text.matches(&begin(name)).count(), 1, "{name}");
        }
        assert_eq!(count(&text), names.len());
        for plot in ["contention", "no-contention", "arenas", "classes", "caches"] {
            let name = format!("parallel-{plot}.svg");
            assert!(text.contains(&format!("]({name})")), "{name}");
            assert!(place::root().join(FOLDER).join(&name).is_file(), "{name}");
        }
    }
}
