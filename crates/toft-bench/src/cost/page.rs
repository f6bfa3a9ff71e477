//! The page `cost.md`: its figures stand between marks and are replaced, its words are left alone.
//! And the plots beside it.

use super::figures::{About, Row, instructions, mean, rows, table, told};
use super::{Experiment, Group, Variant};
use crate::marks::{place, replaced};
use crate::report::Report;
use crate::report::chart::{Chart, Line};
use crate::report::dots::{Dot, Dots};
use crate::stats::Summary;
use std::path::{Path, PathBuf};

/// The page as it is.
pub struct Page {
    folder: PathBuf,
    text: String,
}

/// The name of the page's file.
const FILE: &str = "cost.md";

/// Every mark that the page has to have.
fn marks(experiment: &Experiment) -> Vec<String> {
    let groups = experiment.groups.iter().flat_map(|group| {
        [About::Time, About::Memory].map(|about| format!("{}-{}", group.name, about.word()))
    });
    ["place".to_owned(), "instructions".to_owned()].into_iter().chain(groups).collect()
}

impl Page {
    /// Reads it, and verifies that it has every mark.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let page = Self { folder: folder.to_owned(), text };
        for mark in marks(super::experiment()) {
            replaced(&page.text, FILE, &mark, "")?;
        }
        Ok(page)
    }

    /// Writes it with new figures, and the plots; gives the tables.
    pub fn write(
        mut self,
        experiment: &Experiment,
        timed: &Report,
        counted: &[Report],
    ) -> Result<Vec<String>, String> {
        let mut tables = vec![place(timed)];
        self.text = replaced(&self.text, FILE, "place", &tables[0])?;
        for group in &experiment.groups {
            let variants: Vec<&Variant> = experiment.of(group).collect();
            for about in [About::Time, About::Memory] {
                let rows = rows(timed, &variants, about);
                let name = format!("{}-{}", group.name, about.word());
                let default = match group.default_at {
                    Some(at) => format!("Toft ({at})"),
                    None => "Toft".to_owned(),
                };
                let drawn = table(&rows, &variants, &default);
                self.text = replaced(&self.text, FILE, &name, &drawn)?;
                tables.push(drawn);
                write(
                    &self.folder.join(format!("cost-{name}.svg")),
                    &plot(group, about, &variants, &rows),
                )?;
            }
        }
        let counts = instructions(counted, &experiment.variants.iter().collect::<Vec<_>>());
        self.text = replaced(&self.text, FILE, "instructions", &counts)?;
        tables.push(counts);
        write(&self.folder.join(FILE), &self.text)?;
        Ok(tables)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn plot(group: &Group, about: About, variants: &[&Variant], rows: &[Row]) -> String {
    let what = match about {
        About::Time => "Time",
        About::Memory => "Peak memory",
    };
    let hint = "times that of Toft as it is; less is better; what is too noisy to tell is left out"
        .to_owned();
    match (&group.across, group.default_at) {
        (Some(across), Some(default_at)) => {
            chart(format!("{what} over {across}"), hint, across, default_at, variants, rows).svg()
        }
        _ => Dots {
            title: format!("{what} without one idea, case by case"),
            hint,
            names: variants.iter().map(|variant| variant.name.clone()).collect(),
            rows: rows.iter().map(|row| (row.case.to_owned(), dots(row))).collect(),
        }
        .svg(),
    }
}

/// The ratios that tell something.
fn dots(row: &Row) -> Vec<Dot> {
    let dot = |of: usize| {
        let interval = row.ratios[of].ok().filter(|ratio| !ratio.noisy())?.interval;
        Some(Dot { of, at: interval.ratio, low: interval.low, high: interval.high })
    };
    (0..row.ratios.len()).filter_map(dot).collect()
}

fn chart(
    title: String,
    hint: String,
    across: &str,
    default_at: u32,
    variants: &[&Variant],
    rows: &[Row],
) -> Chart {
    let exactly = |value| Summary { median: value, min: value, max: value };
    // Toft as it is lies on the axis, too: there every ratio is 1.
    let with_default = |mut points: Vec<(f64, Summary)>| {
        points.push((f64::from(default_at), exactly(1.0)));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let at = |n: usize| variants[n].at.map(f64::from);
    let told = told(rows);
    let of_row = |(place, row): (usize, &Row)| {
        let point =
            |dot: Dot| Some((at(dot.of)?, Summary { median: dot.at, min: dot.low, max: dot.high }));
        Line {
            name: row.case.to_owned(),
            colour: format!("c{}", place % 9),
            points: with_default(dots(row).into_iter().filter_map(point).collect()),
        }
    };
    let of_means = Line {
        name: "geometric mean".into(),
        colour: "ours".into(),
        points: with_default(
            (0..variants.len()).filter_map(|n| Some((at(n)?, exactly(mean(&told, n)?)))).collect(),
        ),
    };
    let mut lines: Vec<Line> =
        [of_means].into_iter().chain(rows.iter().enumerate().map(of_row)).collect();
    // Of Toft as it is alone there is nothing to see.
    lines.retain(|line| line.points.len() > 1);
    let at = variants.iter().filter_map(|variant| variant.at).chain([default_at]);
    let mut at: Vec<f64> = at.map(f64::from).collect();
    at.sort_by(f64::total_cmp);
    Chart { title, hint, across: across.to_owned(), at, ratios: true, lines }
}

#[cfg(test)]
mod tests {
    use super::super::experiment;
    use super::super::figures::tests::{report, variants};
    use super::*;

    #[test]
    fn the_page_of_this_repository_has_every_mark_and_every_plot() {
        let folder = super::super::root().join("docs/experiments");
        let page = Page::read(&folder).unwrap();
        assert_eq!(marks(experiment()).len(), 8);
        for mark in &marks(experiment())[2..] {
            let file = format!("cost-{mark}.svg");
            assert!(page.text.contains(&format!("]({file})")), "{file} is not shown");
            assert!(folder.join(&file).is_file(), "{file} is not there");
        }
        let figures = page.text.split("<!-- figures: ideas-time -->").nth(1).unwrap();
        assert!(figures.contains("| pair-64 | "), "no figures");
    }

    #[test]
    fn the_default_lies_on_the_axis_where_every_line_is_1() {
        let report = report(&[("pair-64", "ns", [&[4.0, 8.0], &[5.0, 10.0], &[2.0, 4.0]])]);
        let mut variants = variants();
        (variants[0].at, variants[1].at) = (Some(1), Some(256));
        let variants: Vec<&Variant> = variants.iter().collect();
        let rows = rows(&report, &variants, About::Time);
        let chart = chart("t".into(), "h".into(), "partitions", 64, &variants, &rows);
        assert_eq!(chart.at, [1.0, 64.0, 256.0]);
        for line in &chart.lines {
            let medians: Vec<f64> = line.points.iter().map(|(_, s)| s.median).collect();
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(near(medians[0], 1.25) && medians[1] == 1.0 && near(medians[2], 0.5));
        }
    }

    #[test]
    fn the_place_says_what_a_figure_must_carry() {
        let report = report(&[("pair-64", "ns", [&[4.0, 8.0], &[5.0, 10.0], &[]])]);
        let said = place(&report);
        for part in [
            "2 x A CPU",
            "Linux 6.1",
            "never",
            "2.36",
            "abc",
            "2026-01-31",
            "2 interleaved",
            "quick",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
