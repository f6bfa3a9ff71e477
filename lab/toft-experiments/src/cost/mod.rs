//! `cargo experiment cost`: builds the library as it is and once without each of four ideas, and
//! compares all builds on cases of the laboratory, by time, peak memory and instructions.
//!
//! | file | what |
//! |---|---|
//! | `variants.rs` | the patches, and copies of the tree with one patch each |
//! | `measure.rs` | the run of the laboratory, and what its record says of a case |
//! | `tables.rs` | the sections of the page |
//! | `plot.rs` | the plots |

mod measure;
mod plot;
mod tables;
mod variants;

use crate::Arguments;
use crate::page::{Findings, Page, timed};
use measure::Results;
use std::process::ExitCode;
use variants::{BASE, VARIANTS};

pub const PAGE: Page =
    Page { name: "cost", marks: &["place", "time", "memory", "plots", "instructions"] };

/// The base library under a second name. Its ratios are the noise of the method.
const AGAIN: &str = "again";

/// The cases of a full run and of a quick run.
const CASES: [&str; 10] = [
    "pair-64",
    "pair-16ki",
    "replace-1k",
    "replace-100k",
    "replace-100k-32sites",
    "local-2",
    "larson-2",
    "cfrac",
    "espresso",
    "churn",
];
const QUICK_CASES: [&str; 2] = ["pair-64", "replace-100k"];

/// The variants of a quick run, which has no time to build all.
const QUICK_VARIANTS: [&str; 1] = ["no-partitions"];

/// Builds, measures, and writes the page.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let (quick, runs) = (arguments.quick, arguments.rounds(7, 2));
    let (names, cases) =
        if quick { (&QUICK_VARIANTS[..], &QUICK_CASES[..]) } else { (&VARIANTS[..], &CASES[..]) };
    PAGE.run(!quick, || {
        let base = variants::build(BASE, quick)?;
        let mut libraries = vec![(BASE, base.clone()), (AGAIN, base)];
        for &name in names {
            libraries.push((name, variants::build(name, quick)?));
        }
        let results = timed(|| measure::all(&libraries, cases, runs, quick))?;
        Ok(findings(&results, runs, quick))
    })
}

fn findings(results: &Results, runs: usize, quick: bool) -> Findings {
    Findings {
        sections: tables::sections(results, runs, quick),
        plots: plot::all(results),
        // A run that failed is in the tables as `failed`.
        good: results.is_complete(),
    }
}

/// The number of runs of a quick round. The base has two names.
#[cfg(test)]
pub fn quick_runs() -> usize {
    QUICK_CASES.len() * (2 + QUICK_VARIANTS.len())
}

#[cfg(test)]
pub mod tests;
