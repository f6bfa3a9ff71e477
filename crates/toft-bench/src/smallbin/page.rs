//! A separate page, and the page of this repository: its figures stand between marks and are
//! replaced, its words are left alone.

use super::{NAME, Section, bars, plots, tables};
use crate::cost::root;
use crate::marks::{place, replaced};
use crate::report::Report;
use clap::Args;
use maud::{DOCTYPE, PreEscaped, html};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name of the page's file.
const FILE: &str = "small-bins.md";

/// What is run and where it is written.
#[derive(Args, Debug)]
pub struct Options {
    /// Rounds; with --quick 3, else 7, when not given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Fewer operations, for a quick look, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Other peers, beside the control groups and glibc
    #[arg(long, value_name = "NAMES")]
    peers: Option<String>,
    /// Measure nothing: write the page of the last run again
    #[arg(long)]
    again: bool,
    /// The folder with the page small-bins.md, whose figures are replaced, and the plots
    #[arg(long, value_name = "FOLDER", default_value_os_t = root().join("docs/experiments"))]
    into: PathBuf,
}

/// Measures, and writes the page.
///
/// # Errors
/// What kept it from being done.
pub fn run(options: &Options) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("experiments/small-bins");
    let json = folder.join("run.json");
    let path = options.into.join(FILE);
    let read =
        || std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    // A mark that the page does not have should be told before half an hour of measuring.
    filled(&read()?, &[])?;
    if !options.again {
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        measure(options, &json)?;
    }
    let report = Report::read(&json)?;
    let sections = sections(&report);
    // Read again, because the page may have been edited meanwhile.
    write(&path, &filled(&read()?, &sections)?)?;
    for (name, plot) in plots::all(&report) {
        write(&options.into.join(name), &plot)?;
    }
    for section in sections {
        crate::outln!("\n{}\n\n{}", section.title, section.text);
    }
    crate::outln!("written into {}", options.into.display());
    Ok(())
}

fn measure(options: &Options, json: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let runs = options.runs.unwrap_or(if options.quick { 3 } else { 7 }).to_string();
    let mut command = Command::new(program);
    command.args(["--workload", NAME, "--callgrind", "--runs", &runs, "--output"]).arg(json);
    command.args(options.quick.then_some("--quick"));
    if let Some(peers) = &options.peers {
        command.args(["--peers", peers]);
    }
    let status = command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the bench ended with {status}")) }
}

fn sections(report: &Report) -> Vec<Section> {
    let mut all = vec![Section { name: "place", title: "Where".to_owned(), text: place(report) }];
    all.extend(tables::sections(report));
    all.push(bars::judge(report).0);
    all
}

/// The page with these figures. Every mark has to be there, whether its figures are or not.
fn filled(page: &str, sections: &[Section]) -> Result<String, String> {
    let names =
        ["place", "variants", "steps", "times", "instructions", "glibc", "control", "bare", "bars"];
    for name in names {
        replaced(page, FILE, name, "")?;
    }
    sections.iter().try_fold(page.to_owned(), |page, section| {
        replaced(&page, FILE, section.name, &section.text)
    })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// All of it as one page that asks for nothing else.
#[must_use]
pub fn html(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "The small-bin experiment" }
                style { (PreEscaped(include_str!("../report/page.css"))) }
            }
            body {
                h1 { "The small-bin experiment" }
                @for (_, plot) in plots::all(report) { div { (PreEscaped(plot)) } }
                @for section in sections(report) {
                    h2 { (section.title) }
                    pre { (section.text) }
                }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::super::tables::tests::report;
    use super::*;

    #[test]
    fn the_page_of_this_repository_has_every_mark_and_every_plot() {
        let folder = root().join("docs/experiments");
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        let report = report(&["glibc"], &["uns-filler"], |_, _, _| 1.0);
        let filled = filled(&text, &sections(&report)).unwrap();
        assert_ne!(filled, text);
        assert_eq!(text.matches("<!-- figures: ").count(), sections(&report).len());
        for (name, _) in plots::all(&report) {
            assert!(text.contains(&format!("]({name})")), "{name} is not shown");
            assert!(folder.join(&name).is_file(), "{name} is not there");
        }
        let figures = text.split("<!-- figures: variants -->").nth(1).unwrap();
        assert!(figures.contains("| uns_filler | 1.19 | "), "no figures");
    }

    #[test]
    fn a_page_without_a_mark_is_refused() {
        assert!(filled("nothing", &[]).unwrap_err().contains("figures: place"));
    }

    #[test]
    fn the_page_for_a_browser_has_tables_and_plots() {
        let page = html(&report(&["glibc"], &["uns-filler"], |_, _, _| 1.0));
        assert_eq!(page.matches("<svg ").count(), 7);
        assert!(page.contains("| uns_filler | 1.19 |"));
    }
}
