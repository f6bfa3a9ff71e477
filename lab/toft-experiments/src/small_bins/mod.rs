//! What it is worth to send freed small chunks straight to their bins.
//!
//! | file | what |
//! |---|---|
//! | `plan.rs` | the cases, the ideas, and what the authors of the patch published |
//! | `libraries.rs` | builds a library for each variant of `toft-small-bins` |
//! | `measure.rs` | runs each case on each allocator, round by round |
//! | `counts.rs` | counts what the variants do, which no machine changes |
//! | `tables.rs`, `bars.rs`, `plot.rs` | what is said of it |

mod bars;
mod counts;
mod libraries;
mod measure;
mod plan;
mod plot;
mod tables;

use crate::Arguments;
use crate::page::{Findings, Page, timed};
use measure::Measured;
use std::process::ExitCode;

pub const PAGE: Page =
    Page { name: "small-bins", marks: &["place", "variants", "plots", "counts", "bars"] };

pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let (quick, rounds) = (arguments.quick, arguments.rounds(7, 3));
    PAGE.run(!quick, || {
        let peers = libraries::peers(quick)?;
        let measured = timed(|| measure::run(&peers, rounds, quick))?;
        Ok(findings(&measured, rounds, quick))
    })
}

fn findings(measured: &Measured, rounds: usize, quick: bool) -> Findings {
    let (bars, met) = bars::judge(measured);
    let mut sections = tables::sections(measured, rounds, quick);
    sections.push(counts::section());
    sections.push(bars);
    // A quick run judges nothing.
    Findings { sections, plots: plot::all(measured), good: met || quick }
}

/// The number of runs of a quick round.
#[cfg(test)]
pub fn quick_runs() -> usize {
    let all = toft_small_bins::variant::NAMES.len() + plan::SYSTEM.len();
    plan::CASES.iter().map(|case| if case.on.is_empty() { all } else { case.on.len() }).sum()
}

/// Findings with a figure in each cell.
#[cfg(test)]
pub fn made() -> Findings {
    findings(&measure::tests::made(|_, _, _| 10.0), 7, false)
}
