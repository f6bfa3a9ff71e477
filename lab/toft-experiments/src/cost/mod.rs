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

use crate::{Arguments, page};
use std::process::ExitCode;
use variants::{BASE, VARIANTS};

/// The page, in `docs/experiments`.
const PAGE: &str = "cost.md";

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

/// The rounds of a full run and of a quick run.
const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 2;

/// Builds, measures, and writes the page.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let quick = arguments.quick;
    if !quick {
        page::check(PAGE, &tables::SECTIONS)?;
    }
    let (names, cases) =
        if quick { (&QUICK_VARIANTS[..], &QUICK_CASES[..]) } else { (&VARIANTS[..], &CASES[..]) };
    let runs = arguments.runs.unwrap_or(if quick { QUICK_ROUNDS } else { ROUNDS });
    if quick {
        println!(
            "a quick run: {} of {} variants, {} of {} cases, built with 16 codegen units",
            names.len(),
            VARIANTS.len(),
            cases.len(),
            CASES.len()
        );
    }
    let base = variants::build(BASE, quick)?;
    let mut libraries = vec![(BASE, base.clone()), (AGAIN, base)];
    for &name in names {
        libraries.push((name, variants::build(name, quick)?));
    }
    let results = measure::all(&libraries, cases, runs, quick)?;
    page::publish(PAGE, &tables::sections(&results, runs, quick), quick)?;
    if !quick {
        for about in [measure::About::Time, measure::About::Memory] {
            plot::write(&results, about)?;
        }
    }
    // A run that failed is in the tables as `failed`.
    Ok(if results.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests;
