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

use crate::{Arguments, page};
use std::process::ExitCode;

/// The page, in `docs/experiments`.
const PAGE: &str = "release.md";

/// The rounds of a full run and of a quick run.
const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 2;

/// Checks the engines, measures, and writes the page.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let quick = arguments.quick;
    if !quick {
        page::check(PAGE, &tables::SECTIONS)?;
    }
    let refused = equal::check()?;
    let runs = arguments.runs.unwrap_or(if quick { QUICK_ROUNDS } else { ROUNDS });
    let results = measure::all(refused, runs, quick)?;
    page::publish(PAGE, &tables::sections(&results, runs, quick), quick)?;
    Ok(ExitCode::SUCCESS)
}
