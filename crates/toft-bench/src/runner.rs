//! Runs cases on peers, interleaved: A B C, A B C, A B C.

use crate::cases::Case;
use crate::child::{self, Limits};
use crate::host::{self, HostWorkload};
use crate::measured::{Measured, Series, moved};
use crate::outcome::Outcome;
use crate::params::Params;
use crate::peers::Peer;
use crate::workloads::{self, Workload};
use indicatif::{ProgressBar, ProgressStyle};

/// A case and what runs it.
#[derive(Clone, Copy)]
pub struct Job {
    /// The row.
    pub case: &'static Case,
    /// Its workload.
    pub of: Of,
}

/// The two kinds of workloads.
#[derive(Clone, Copy)]
pub enum Of {
    /// Runs inside a process of this program.
    Inside(&'static Workload),
    /// Runs other programs.
    Host(&'static HostWorkload),
}

impl Job {
    /// The name of its workload.
    #[must_use]
    pub fn workload(&self) -> &'static str {
        match self.of {
            Of::Inside(workload) => workload.name,
            Of::Host(workload) => workload.name,
        }
    }
}

/// Every job, in the order of the table.
#[must_use]
pub fn jobs() -> Vec<Job> {
    let inside = workloads::ALL.iter().flat_map(|workload| {
        workload.listed().cases.iter().map(move |case| Job { case, of: Of::Inside(workload) })
    });
    let host = host::ALL.iter().flat_map(|workload| {
        workload.listed().cases.iter().map(move |case| Job { case, of: Of::Host(workload) })
    });
    inside.chain(host).collect()
}

/// The jobs whose case or workload is called one of `names`; all when no names are given.
///
/// # Errors
/// Names the first that is neither.
pub fn choose(names: &[String]) -> Result<Vec<Job>, String> {
    let all = jobs();
    if let Some(unknown) = names
        .iter()
        .find(|name| !all.iter().any(|job| job.case.name == **name || job.workload() == **name))
    {
        return Err(format!(
            "no workload or case is called {unknown}; `toft-bench list` names them"
        ));
    }
    let wanted =
        |job: &Job| names.iter().any(|name| &job.case.name == name || job.workload() == name);
    Ok(all.into_iter().filter(|job| names.is_empty() || wanted(job)).collect())
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rounds.
    pub runs: usize,
    /// Smaller numbers.
    pub quick: bool,
    /// Keep single processes on one processor.
    pub pin: bool,
    /// Kill what takes longer.
    pub timeout: std::time::Duration,
    /// Numbers that replace those of every case.
    pub numbers: Params,
    /// Draw the progress.
    pub progress: bool,
}

/// Runs every job on every peer.
#[must_use]
pub fn run(jobs: &[Job], peers: &[Peer], plan: &Plan) -> Vec<Measured> {
    let steps = jobs.len() * plan.runs * peers.len();
    let bar = if plan.progress { ProgressBar::new(steps as u64) } else { ProgressBar::hidden() };
    bar.set_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} eta {eta}  {msg}")
            .expect("the template is constant"),
    );
    let measured = jobs.iter().map(|job| run_job(*job, peers, plan, &bar)).collect();
    bar.finish_and_clear();
    measured
}

/// Runs a case once on a peer.
type Once<'a> = dyn Fn(&Peer) -> Result<Outcome, String> + 'a;

fn run_job(job: Job, peers: &[Peer], plan: &Plan, bar: &ProgressBar) -> Measured {
    let params = numbers(job.case, plan);
    let once: Box<Once> = match job.of {
        Of::Inside(workload) => Box::new(move |peer| inside(workload, peer, &params, plan)),
        Of::Host(workload) => match (workload.prepare)(&params) {
            Ok(stage) => {
                Box::new(move |peer| (workload.run)(peer, &params, &stage, limits(plan, 2)))
            }
            Err(error) => Box::new(move |_| Err(error.clone())),
        },
    };
    let mut series: Vec<Series> = peers.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..plan.runs {
        // A host may move its processors while we run, and the way between two of them then
        // costs three times as much or as little: such a round compares nothing.
        for _ in 0..3 {
            run_round(&mut series, peers, round, |peer| {
                bar.set_message(format!("{} on {}", job.case.name, peer.name));
                once(peer)
            });
            if !moved(&series, round) {
                break;
            }
        }
        bar.inc(peers.len() as u64);
    }
    Measured { job, series }
}

/// One round: every peer that has not failed, once. A round that was run before is replaced.
fn run_round(
    series: &mut [Series],
    peers: &[Peer],
    round: usize,
    once: impl Fn(&Peer) -> Result<Outcome, String>,
) {
    for (peer, series) in peers.iter().zip(series) {
        let Ok(outcomes) = series else { continue };
        outcomes.truncate(round);
        match once(peer) {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => *series = Err(error),
        }
    }
}

/// The numbers of a case under a plan.
fn numbers(case: &Case, plan: &Plan) -> Params {
    let full = case.full.clone();
    let sized = if plan.quick { full.with(&case.quick) } else { full };
    sized.with(&plan.numbers)
}

/// Threads that were pinned together would take turns, so only single ones are.
fn limits(plan: &Plan, threads: u64) -> Limits {
    let pin = (plan.pin && threads == 1).then_some(0);
    Limits { timeout: plan.timeout, pin }
}

fn inside(
    workload: &Workload,
    peer: &Peer,
    params: &Params,
    plan: &Plan,
) -> Result<Outcome, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = child::on_peer(peer, program);
    command.arg("work").arg(workload.name).args(params.words());
    let ended = child::run(command, limits(plan, params.get("threads", 1)))?;
    let mut outcome: Outcome = serde_json::from_str(&ended.output)
        .map_err(|error| format!("unreadable outcome {:?}: {error}", ended.output))?;
    outcome.set("cpu_seconds", ended.cpu_seconds);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_names_and_numbers_of_all_cases_are_sound() {
        let mut names = BTreeSet::new();
        for job in jobs() {
            assert!(names.insert(&job.case.name), "two cases are called {}", job.case.name);
            assert!(!job.case.metrics.is_empty(), "{} measures nothing", job.case.name);
            for word in job.case.quick.words() {
                let key = word.split('=').next().unwrap();
                assert_ne!(job.case.full.get(key, u64::MAX), u64::MAX, "{}: {key}", job.case.name);
            }
        }
    }

    #[test]
    fn cases_and_whole_workloads_can_be_chosen() {
        let names = |names: &[&str]| {
            choose(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map(|jobs| jobs.iter().map(|job| job.case.name.as_str()).collect::<Vec<_>>())
        };
        assert_eq!(names(&["replace-1k"]).unwrap(), ["replace-1k"]);
        assert!(names(&["replace"]).unwrap().len() > 2);
        assert!(names(&["nothing"]).unwrap_err().contains("nothing"));
    }

    #[test]
    fn a_round_on_a_machine_that_moved_is_run_again_and_replaces_the_first() {
        let peers: Vec<Peer> = ["a", "b"]
            .map(|name| Peer { name: name.into(), library: None, version: String::new() })
            .into();
        let mut series: Vec<Series> = vec![Ok(Vec::new()), Ok(Vec::new())];
        let on = |link: [f64; 2]| {
            move |peer: &Peer| {
                Ok(Outcome::default().with("link_ns", link[usize::from(peer.name == "b")]))
            }
        };
        run_round(&mut series, &peers, 0, on([30.0, 100.0]));
        assert!(moved(&series, 0));
        run_round(&mut series, &peers, 0, on([100.0, 101.0]));
        assert!(!moved(&series, 0));
        assert!(series.iter().all(|series| series.as_ref().unwrap().len() == 1));
        run_round(&mut series, &peers, 1, |_| Err("crashed".into()));
        assert!(series.iter().all(Result::is_err));
    }
}
