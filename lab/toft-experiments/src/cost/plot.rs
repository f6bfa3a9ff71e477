//! The plots: a row for each case, a dot for each variant, the ratio across.

use super::measure::{About, Results};
use crate::plot::Dots;

/// The name of each plot, what it is about, and its title.
const PLOTS: [(&str, About, &str); 2] = [
    ("cost-time.svg", About::Time, "Time without one idea"),
    ("cost-memory.svg", About::Memory, "Peak memory without one idea"),
];

/// Returns the name of each plot, and its text.
pub fn all(results: &Results) -> Vec<(String, String)> {
    let plot =
        |(name, about, title): (&str, _, &str)| (name.to_owned(), drawn(results, about, title));
    PLOTS.into_iter().map(plot).collect()
}

fn drawn(results: &Results, about: About, title: &str) -> String {
    let rows = results.rows(about);
    let dots = Dots {
        title,
        hint: "a multiple of Toft; to the left is better",
        names: results.variants.iter().map(String::as_str).collect(),
        rows: rows
            .iter()
            .map(|row| (&*row.case, row.variants.iter().map(|it| Some(it.as_ref()?.1)).collect()))
            .collect(),
    };
    dots.svg()
}
