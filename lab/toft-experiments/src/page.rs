//! The pages of `docs/experiments`: the sections that a command fills, and the plots beside them.

use crate::libraries::root;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use toft_bench::machine::Machine;
use toft_bench::marks;

/// A part of what an experiment prints.
#[derive(Clone, Debug)]
pub struct Section {
    /// The name of its marks, if the page has it.
    pub name: &'static str,
    pub title: &'static str,
    /// A table, or a line.
    pub text: String,
}

impl Section {
    pub fn new(name: &'static str, title: &'static str, text: String) -> Section {
        Section { name, title, text }
    }

    /// Returns the section that says where, when and how the figures of a page were measured.
    pub fn place(runs: usize, quick: bool) -> Section {
        let rounds = if runs == 1 { "1 round".to_owned() } else { format!("{runs} rounds") };
        let quick = if quick { "; a quick run, **too short for claims**" } else { "" };
        let text = format!("{}; {rounds}{quick}.", marks::machine(&Machine::here()));
        Section::new("place", "Where", text)
    }
}

/// What an experiment has found.
#[derive(Debug)]
pub struct Findings {
    pub sections: Vec<Section>,
    /// The name of each file, and its text.
    pub plots: Vec<(String, String)>,
    /// False if a run failed or a bar was missed.
    pub good: bool,
}

impl Findings {
    /// Returns the sections, with one that shows the plots.
    pub fn with_plots(&self) -> Vec<Section> {
        let shown = |(file, _): &(String, String)| {
            let about = file.trim_end_matches(".svg").replace('-', " ");
            format!("![{about}]({file})\n")
        };
        let plots: Vec<String> = self.plots.iter().map(shown).collect();
        let mut sections = self.sections.clone();
        sections.push(Section::new("plots", "Plots", plots.join("\n")));
        sections
    }
}

/// The page of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Its name in `docs/experiments`, without `.md`. Names of plots begin with it.
    pub name: &'static str,
    /// The names of the sections that it has. Others are only printed: a page is short.
    pub marks: &'static [&'static str],
}

/// Returns the folder of all pages.
pub fn folder() -> PathBuf {
    root().join("docs/experiments")
}

impl Page {
    /// Measures, prints, and writes the page if `writes` is true.
    pub fn run(
        &self,
        writes: bool,
        measure: impl FnOnce() -> Result<Findings, String>,
    ) -> Result<ExitCode, String> {
        if writes {
            // A page without its marks is named before minutes of measuring.
            self.filled(&self.read()?, &[])?;
        }
        let findings = measure()?;
        for section in &findings.sections {
            println!("\n{}\n\n{}", section.title, section.text.trim());
        }
        if writes {
            let page = self.filled(&self.read()?, &findings.with_plots())?;
            put(&self.file(), &page)?;
            findings.plots.iter().try_for_each(|(file, plot)| put(file, plot))?;
        } else {
            println!("\nThe page is left as it is.");
        }
        Ok(if findings.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn file(&self) -> String {
        format!("{}.md", self.name)
    }

    /// Reads the page.
    pub fn read(&self) -> Result<String, String> {
        let path = folder().join(self.file());
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns a page with new text between the marks of each section. The page must have the marks
    /// that it should have, and no others.
    pub fn filled(&self, page: &str, sections: &[Section]) -> Result<String, String> {
        let file = self.file();
        let mut filled = page.to_owned();
        for name in self.marks {
            let section = sections.iter().find(|section| section.name == *name);
            let text = section.map_or("", |section| section.text.trim());
            filled = marks::replaced(&filled, &file, name, &format!("\n{text}\n\n"))?;
        }
        match marks::count(page) {
            found if found == self.marks.len() => Ok(filled),
            found => {
                Err(format!("{file}: {found} parts with figures, and not {}", self.marks.len()))
            }
        }
    }
}

/// Measures, and prints how long that took. What is built before is not in it.
pub fn timed<T>(measure: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let began = Instant::now();
    let measured = measure()?;
    println!("measured for {} s", began.elapsed().as_secs());
    Ok(measured)
}

/// Writes a file beside the pages.
fn put(name: &str, text: &str) -> Result<(), String> {
    let path = folder().join(name);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}
