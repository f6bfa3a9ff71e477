//! How many arenas, which locks, and whether thread caches pay.
//!
//! | file | what |
//! |---|---|
//! | `subjects.rs` | the allocators that are compared, and their libraries |
//! | `plan.rs` | what is run: driver, threads, arenas, allocator |
//! | `measure.rs` | runs it, in rounds, and checks what each run says |
//! | `article.rs`, `tables.rs`, `bars.rs`, `plots.rs` | what is made of it |
//! | `markdown.rs`, `page.rs` | figures as the page has them; the page |

mod article;
mod bars;
mod markdown;
mod measure;
mod page;
mod plan;
mod plots;
mod subjects;
mod tables;

use crate::Arguments;
use measure::Results;
use std::process::ExitCode;
use std::time::Instant;
use subjects::Subjects;
use toft_bench::machine::Machine;
use toft_bench::marks;

/// How much is measured, and beside which other allocators.
#[derive(clap::Args, Clone, Debug)]
pub struct Asked {
    #[command(flatten)]
    arguments: Arguments,
    /// Other allocators, as `toft-bench` names them; prints and leaves the page as it is
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<String>,
}

/// A part of the page, and of what is printed.
#[derive(Clone, Debug)]
struct Section {
    /// The name of its marks on the page.
    name: &'static str,
    title: &'static str,
    /// A table, or a line.
    text: String,
}

pub fn run(asked: &Asked) -> Result<ExitCode, String> {
    let Asked { arguments: Arguments { quick, runs }, peers } = asked;
    let runs = runs.unwrap_or(3).max(1);
    // The page is of the subjects that are always compared.
    let page = (!quick && peers.is_empty()).then(page::read).transpose()?;
    if let Some(page) = &page {
        // A page without its marks is named before minutes of measuring.
        page::filled(
            page,
            &all_sections(&Results::default(), &Subjects::default(), runs, false).0,
        )?;
    }
    let subjects = Subjects::make(peers)?;
    let begin = Instant::now();
    let groups = plan::groups(*quick, subjects.peers.len());
    let results = measure::all(&groups, &subjects, runs, *quick)?;
    let (sections, met) = all_sections(&results, &subjects, runs, *quick);
    for section in &sections {
        println!("\n{}\n\n{}", section.title, section.text);
    }
    match page {
        Some(page) => {
            page::write(&page::filled(&page, &sections)?, &plots::all(&results, &subjects))?;
        }
        None => println!("The page is left as it is."),
    }
    println!("measured in {} s", begin.elapsed().as_secs());
    // A quick run judges nothing.
    Ok(if met || *quick { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every section, and whether all bars are met.
fn all_sections(
    results: &Results,
    subjects: &Subjects,
    runs: usize,
    quick: bool,
) -> (Vec<Section>, bool) {
    let machine = Machine::here();
    let (bars, met) = bars::section(results, subjects, machine.cpus);
    let text = format!(
        "{}; {runs} interleaved rounds, medians ± half of the distance between the extremes{}.",
        marks::machine(&machine),
        if quick { "; a quick run, too short for claims" } else { "" }
    );
    let mut sections = vec![Section { name: "machine", title: "The machine", text }];
    sections.push(article::section(results, subjects));
    sections.extend(tables::sections(results, subjects));
    sections.push(bars);
    (sections, met)
}
