//! `cargo experiment release`: returns pages to the kernel by three engines, in pieces and batches
//! of several sizes, alone and beside a thread that uses memory.
//!
//! | file | what |
//! |---|---|
//! | `engine.rs` | madvise and process_madvise, and what all engines have in common |
//! | `ring.rs` | io_uring |
//! | `area.rs` | memory whose pages are written, released and checked |
//! | `equal.rs` | the check that all engines have the same result |
//! | `measure.rs` | what is measured, and measuring it in rounds |
//! | `tables.rs` | the sections of the page |

mod area;
mod engine;
mod equal;
mod measure;
mod ring;
mod tables;

use crate::Arguments;
use crate::page::{Findings, Page, timed};
use measure::Results;
use std::process::ExitCode;

pub const PAGE: Page = Page {
    name: "release",
    marks: &[
        "place",
        "engines",
        "alone-scattered",
        "alone-contiguous",
        "processor",
        "touching-scattered",
        "touching-contiguous",
        "lost",
    ],
};

/// Checks the engines, measures, and writes the page.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let (quick, runs) = (arguments.quick, arguments.rounds(5, 2));
    PAGE.run(!quick, || {
        let refused = equal::check()?;
        let results = timed(|| measure::all(refused, runs, quick))?;
        Ok(findings(&results, runs, quick))
    })
}

fn findings(results: &Results, runs: usize, quick: bool) -> Findings {
    let sections = tables::sections(results, runs, quick);
    Findings { sections, plots: Vec::new(), good: true }
}

/// The number of runs of a quick round.
#[cfg(test)]
pub fn quick_runs() -> usize {
    measure::points(true).len()
}

/// Findings with a figure in each cell.
#[cfg(test)]
pub fn made() -> Findings {
    findings(&measure::tests::made(), 5, false)
}
