//! `cargo xtask experiment release`: gives memory back by each method, in pieces and batches of
//! several sizes, alone and beside another thread, and writes the tables of the page.
//!
//! | file | what |
//! |---|---|
//! | `measure.rs` | what is run, and running it in rounds |
//! | `tables.rs` | the tables |

mod measure;
mod tables;

use super::markdown;
use std::process::ExitCode;
use std::time::Instant;
use toft_bench::machine::Machine;

/// The page: prose by hand, and between marks what was measured.
const PAGE: &str = "docs/experiments/release.md";

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// Fewer sizes, shorter runs; for a quick look, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Rounds
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
}

/// Measures and writes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let begin = Instant::now();
    let quick = arguments.quick;
    let runs = arguments.runs.unwrap_or(if quick { 3 } else { 5 }).max(1);
    let results = measure::all(runs, quick)?;
    let head = markdown::head(&Machine::here(), runs, quick);
    let sections = [vec![("machine", head)], tables::sections(&results)].concat();
    markdown::fill(PAGE, &sections)?;
    println!("{PAGE} in {} s", begin.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toft_bench::marks;

    #[test]
    fn the_page_has_every_section_and_no_other() {
        let text = std::fs::read_to_string(crate::place::root().join(PAGE)).unwrap();
        let mut names = vec!["machine"];
        names.extend(tables::sections(&measure::Results::default()).iter().map(|s| s.0));
        for name in &names {
            assert_eq!(text.matches(&marks::begin(name)).count(), 1, "{name}");
        }
        assert_eq!(marks::count(&text), names.len());
    }
}
