//! The small-bin experiment, rerun: what it was worth to send freed small chunks straight to their
//! bins when glibc got that patch, and what each further idea is worth. `--workload smallbin` is
//! all of it: the workloads of the original, on the control groups that the arena is compiled for,
//! on glibc, and on any other peer.
//!
//! | file | what |
//! |---|---|
//! | `plan.rs` | which cases, which groups; what was published |
//! | `tables.rs` | ratios, times and instructions, as tables |
//! | `bars.rs` | what is required, and whether it is met |
//! | `plots.rs` | the plots |
//! | `page.rs` | a separate page; and the page of this repository |

mod bars;
mod page;
mod plan;
mod plots;
mod tables;

pub use page::{Options, html, run};
pub use plan::{CASES, COUNTED, NAME};

use crate::peers::{self, Peer};
use crate::report::Report;

/// Returns true if `workloads` names the experiment.
///
/// # Errors
/// It was asked for together with other workloads, of which it would be no part.
pub fn is_asked(workloads: &[String]) -> Result<bool, String> {
    match workloads.iter().filter(|name| *name == NAME).count() {
        0 => Ok(false),
        _ if workloads.len() == 1 => Ok(true),
        _ => Err(format!("{NAME} is a whole experiment: it runs alone")),
    }
}

/// The control groups, and beside them those that were chosen, or glibc as it is and in two other
/// ways.
///
/// # Errors
/// A peer of the experiment is not there.
pub fn peers(chosen: Vec<Peer>, asked: bool) -> Result<Vec<Peer>, String> {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut all = peers::choose(&names(&plan::groups()))?;
    all.extend(peers::choose(&names(plan::OTHERS))?);
    // What was not asked for is only Toft, where it has been built.
    let more = chosen.into_iter().filter(|peer| asked || peer.name == "toft");
    let new: Vec<Peer> =
        more.filter(|peer| all.iter().all(|known| known.name != peer.name)).collect();
    all.extend(new);
    Ok(all)
}

/// Every table, as text, and whether all bars are met.
#[must_use]
pub fn text(report: &Report) -> (String, bool) {
    let (bars, met) = bars::judge(report);
    let sections = tables::sections(report).into_iter().chain([bars]);
    let text = sections.map(|section| format!("\n{}\n\n{}", section.title, section.text));
    (text.collect(), met)
}

/// A part of the page.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Between which marks it stands.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// A table in Markdown.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiment_runs_alone() {
        let asked =
            |names: &[&str]| is_asked(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(asked(&["smallbin"]).unwrap());
        assert!(!asked(&["pair"]).unwrap() && !asked(&[]).unwrap());
        assert!(asked(&["smallbin", "pair"]).unwrap_err().contains("alone"));
    }

    #[test]
    fn groups_and_glibc_are_always_there_and_others_when_asked_for() {
        let peer = |name: &str| Peer { name: name.into(), library: None, version: String::new() };
        let names = |asked| -> Vec<String> {
            let chosen = vec![peer("toft"), peer("glibc"), peer("other")];
            peers(chosen, asked).unwrap().into_iter().map(|peer| peer.name).collect()
        };
        let (plain, asked) = (names(false), names(true));
        assert!(plain.contains(&"arena-original".into()) && plain.contains(&"glibc".into()));
        assert!(plain.contains(&"toft".into()) && !plain.contains(&"other".into()));
        assert_eq!(asked.len(), plain.len() + 1);
        assert_eq!(asked.iter().filter(|name| *name == "glibc").count(), 1);
    }
}
