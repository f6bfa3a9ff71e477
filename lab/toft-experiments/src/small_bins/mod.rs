//! What it is worth to send freed small chunks straight to their bins.
//!
//! | file | what |
//! |---|---|
//! | `plan.rs` | the cases, the ideas, and what the authors of the patch published |
//! | `libraries.rs` | builds a library for each variant of `toft-small-bins` |
//! | `measure.rs` | runs each case on each allocator, round by round |
//! | `counts.rs` | counts what the variants do, which no machine changes |
//! | `tables.rs`, `bars.rs`, `plot.rs` | what is said of it |
//! | `page.rs` | the page of the repository |

mod bars;
mod counts;
mod libraries;
mod measure;
mod page;
mod plan;
mod plot;
mod tables;

use crate::Arguments;
use measure::{Measured, Scale};
use std::process::ExitCode;

/// A part of the page, and of what is printed.
#[derive(Clone, Debug)]
struct Section {
    /// The name of its marks on the page.
    name: &'static str,
    title: &'static str,
    /// A table in Markdown.
    text: String,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    // A page without its marks should be named before minutes of measuring.
    let page = (!arguments.quick).then(page::read).transpose()?;
    let scale = Scale { quick: arguments.quick, rounds: rounds(arguments) };
    let peers = libraries::peers()?;
    let measured = measure::run(&peers, scale)?;
    let (sections, met) = sections(&measured);
    for section in &sections {
        println!("\n{}\n\n{}", section.title, section.text);
    }
    match page {
        Some(page) => page::write(&page, &sections, &plot::all(&measured))?,
        None => println!("A quick run is too short for claims. The page is left as it is."),
    }
    // A quick run judges nothing.
    Ok(if met || arguments.quick { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rounds(arguments: &Arguments) -> usize {
    arguments.runs.unwrap_or(if arguments.quick { 3 } else { 7 }).max(1)
}

/// Every table, and whether all bars are met.
fn sections(measured: &Measured) -> (Vec<Section>, bool) {
    let (bars, met) = bars::judge(measured);
    let mut sections = tables::sections(measured);
    sections.push(counts::section());
    sections.push(bars);
    (sections, met)
}
