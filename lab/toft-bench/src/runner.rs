//! Runs cases on peers, interleaved: A B C, A B C, A B C.

use crate::cases::{Case, Listed};
use crate::child::{self, Ended, Limits};
use crate::family::{Group, Scope};
use crate::host::{self, HostWorkload};
use crate::measured::{Measured, Series, moved};
use crate::metrics::{CALLS_PER_ROUND, Metric};
use crate::outcome::Outcome;
use crate::params::Params;
use crate::peers::Peer;
use crate::program::Program;
use crate::progress;
use crate::syscalls;
use crate::workloads::{self, Workload};
use indicatif::ProgressBar;
use std::process::Command;

/// A case and what runs it.
#[derive(Clone, Copy)]
pub struct Job {
    pub case: &'static Case,
    pub of: Of,
}

/// The kinds of workloads.
#[derive(Clone, Copy)]
pub enum Of {
    /// Runs inside a process of this program.
    Inside(&'static Workload),
    Host(&'static HostWorkload),
    /// Is any program, from the command line.
    Program(&'static Program),
}

impl Of {
    pub fn listed(self) -> Option<&'static Listed> {
        match self {
            Self::Inside(workload) => Some(workload.listed()),
            Self::Host(workload) => Some(workload.listed()),
            Self::Program(_) => None,
        }
    }
}

impl Job {
    pub fn workload(&self) -> &'static str {
        match self.of {
            Of::Inside(workload) => workload.name,
            Of::Host(workload) => workload.name,
            Of::Program(_) => "program",
        }
    }

    /// The family that it votes in.
    pub fn family(&self) -> &'static str {
        self.case.family.as_deref().unwrap_or_else(|| self.workload())
    }

    pub fn group(&self) -> Group {
        let whole = self.of.listed().map_or(Group::Program, |listed| listed.group);
        self.case.group.unwrap_or(whole)
    }

    /// This job with `more` after its metrics. The rows are few and live as long as the program.
    pub fn showing(self, more: &[Metric]) -> Self {
        let mut case = self.case.clone();
        case.metrics.extend(more.iter().filter(|metric| !self.case.metrics.contains(metric)));
        Self { case: Box::leak(Box::new(case)), ..self }
    }
}

/// Every job, in the order of the table.
pub fn jobs() -> Vec<Job> {
    let inside = workloads::ALL.iter().flat_map(|workload| {
        workload.listed().cases.iter().map(move |case| Job { case, of: Of::Inside(workload) })
    });
    let host = host::ALL.iter().flat_map(|workload| {
        workload.listed().cases.iter().map(move |case| Job { case, of: Of::Host(workload) })
    });
    inside.chain(host).collect()
}

/// The jobs whose case or workload is called one of `names`, or that are part of a scope that is;
/// all when no names are given.
pub fn choose(names: &[String]) -> Result<Vec<Job>, String> {
    let all = jobs();
    let is = |job: &Job, name: &str| {
        job.case.name == name
            || job.workload() == name
            || Scope::named(name).is_some_and(|scope| scope.contains(job.group()))
    };
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|job| is(job, name))) {
        return Err(format!(
            "no workload or case is called {unknown}; the command `list` names them"
        ));
    }
    let wanted = |job: &Job| names.is_empty() || names.iter().any(|name| is(job, name));
    Ok(all.into_iter().filter(wanted).collect())
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub runs: usize,
    pub quick: bool,
    /// Keep single processes on one processor.
    pub pin: bool,
    /// Kill what takes longer.
    pub timeout: std::time::Duration,
    /// Numbers that replace those of every case.
    pub numbers: Params,
}

impl Plan {
    /// This program on a peer, as a process that runs a workload, under the tool of these words.
    pub fn command(
        &self,
        peer: &Peer,
        tool: &[&str],
        workload: &Workload,
        params: &Params,
    ) -> Result<Command, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = match tool {
            [] => child::on_peer(peer, program),
            [tool, words @ ..] => {
                let mut command = child::on_peer(peer, tool);
                command.args(words).arg(program);
                command
            }
        };
        command.args(self.words(workload, params));
        Ok(command)
    }

    /// The words that make this program run a workload with these numbers.
    pub fn words(&self, workload: &Workload, params: &Params) -> Vec<String> {
        let own = ["work".to_owned(), workload.name.to_owned()];
        own.into_iter().chain(params.words()).collect()
    }
}

/// Runs every job on every peer.
pub fn run(jobs: &[Job], peers: &[Peer], plan: &Plan) -> Vec<Measured> {
    let bar = progress::bar(jobs.len() * plan.runs * peers.len());
    let measured = jobs.iter().map(|job| run_job(*job, peers, plan, &bar)).collect();
    bar.finish_and_clear();
    measured
}

/// Runs a case once on a peer.
type Once<'a> = dyn Fn(&Peer) -> Result<Outcome, String> + 'a;

fn run_job(job: Job, peers: &[Peer], plan: &Plan, bar: &ProgressBar) -> Measured {
    let params = numbers(job.case, plan);
    let once: Box<Once> = match job.of {
        Of::Inside(workload) => Box::new(move |peer| {
            let command = || plan.command(peer, &[], workload, &params);
            let (mut outcome, _) = inside(command()?, plan, threads(&params))?;
            if job.case.metrics.contains(&CALLS_PER_ROUND) {
                count_calls(&mut outcome, command()?, plan)?;
            }
            Ok(outcome)
        }),
        Of::Host(workload) => match (workload.prepare)(&params) {
            Ok(stage) => Box::new(move |peer| {
                with_spent(|| (workload.run)(peer, &params, &stage, limits(plan, 2)))
            }),
            Err(error) => Box::new(move |_| Err(error.clone())),
        },
        Of::Program(program) => Box::new(move |peer| program.run(peer, limits(plan, 2))),
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

/// Adds what all processes of a run together spent, unless the run itself says it better.
fn with_spent(run: impl FnOnce() -> Result<Outcome, String>) -> Result<Outcome, String> {
    let before = child::spent_by_children();
    let mut outcome = run()?;
    let after = child::spent_by_children();
    let mut fill = |key: &str, value| {
        outcome.metrics.entry(key.to_owned()).or_insert(value);
    };
    fill("cpu_seconds", after.0 - before.0);
    fill("minor_faults", (after.1 - before.1) as f64);
    Ok(outcome)
}

/// The numbers of a case under a plan.
pub fn numbers(case: &Case, plan: &Plan) -> Params {
    let full = case.full.clone();
    let sized = if plan.quick { full.with(&case.quick) } else { full };
    sized.with(&plan.numbers)
}

/// Threads that were pinned together would take turns, so only single ones are.
fn limits(plan: &Plan, threads: u64) -> Limits {
    let pin = (plan.pin && threads == 1).then_some(0);
    Limits { timeout: plan.timeout, pin }
}

/// Runs a process that `Plan::command` made; `threads` run in it at the same time.
pub fn inside(command: Command, plan: &Plan, threads: u64) -> Result<(Outcome, Ended), String> {
    let ended = child::run(command, limits(plan, threads))?;
    let mut outcome: Outcome = serde_json::from_str(&ended.output)
        .map_err(|error| format!("unreadable outcome {:?}: {error}", ended.output))?;
    outcome.set("cpu_seconds", ended.cpu_seconds);
    outcome.set("minor_faults", ended.minor_faults as f64);
    Ok((outcome, ended))
}

/// Runs a workload that marks its rounds a second time, only to count the system calls of a round.
fn count_calls(outcome: &mut Outcome, command: Command, plan: &Plan) -> Result<(), String> {
    // A metric that was asked for may be none of this workload's.
    let Some(rounds) = outcome.metrics.get("marked_rounds") else { return Ok(()) };
    let calls = syscalls::between_marks(command, plan.timeout)
        .map_err(|why| format!("its system calls are not counted: it {why}"))?;
    outcome.set(CALLS_PER_ROUND.key, calls as f64 / rounds);
    Ok(())
}

/// How many threads of a workload run at the same time.
pub fn threads(params: &Params) -> u64 {
    params.get("threads", 1) + params.get("bursts", 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{job, peers, shell};
    use std::collections::BTreeSet;

    #[test]
    fn groups_are_chosen_by_name() {
        let number = |name: &str| choose(&[name.into()]).unwrap().len();
        assert_eq!(number("programs") + number("classic"), number("headline"));
        assert_eq!(number("headline") + number("own"), jobs().len());
        assert!(jobs().iter().all(|job| Scope::named(&job.case.name).is_none()));
        assert!(jobs().iter().all(|job| Scope::named(job.workload()).is_none()));
    }

    #[test]
    fn the_names_and_numbers_of_all_cases_are_sound() {
        let mut names = BTreeSet::new();
        for job in jobs() {
            assert!(names.insert(&job.case.name), "two cases are called {}", job.case.name);
            assert!(!job.case.metrics.is_empty(), "{} measures nothing", job.case.name);
            for (key, _) in job.case.quick.iter() {
                assert!(job.case.full.has(key), "{}: {key}", job.case.name);
            }
        }
    }

    /// How much a case does: its operations, or what else it counts, times its rounds.
    fn effort(params: &Params) -> u64 {
        let counts = ["ops", "requests", "repeat", "batches", "functions", "count", "pages"];
        let others = ["files", "rows", "array", "bodies", "times"];
        let most = counts.iter().chain(&others).copied().find(|key| params.has(key));
        most.map_or(1, |key| params.get(key, 1)) * params.get("rounds", 1)
    }

    /// Seven peers and three rounds must end in three minutes, so of a case there are some 300
    /// milliseconds for all of them. Times depend on the machine; the requested work does not.
    #[test]
    fn a_quick_run_does_a_fraction_of_the_work() {
        let quick = |job: &Job| effort(&job.case.full.clone().with(&job.case.quick));
        for job in jobs() {
            let (quick, full) = (quick(&job), effort(&job.case.full));
            assert!(quick <= full && quick <= 20_000_000, "{}: {quick} of {full}", job.case.name);
            // What is long must become shorter, and only what waits or lasts is left out.
            assert!(full < 2_000_000 || 3 * quick <= full, "{}: {quick} of {full}", job.case.name);
        }
        let sum = |effort: &dyn Fn(&Job) -> u64| jobs().iter().map(effort).sum::<u64>();
        let (all, full) = (sum(&quick), sum(&|job| effort(&job.case.full)));
        assert!(all < 250_000_000 && 5 * all < full, "{all} of {full}");
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
    fn metrics_are_added_once_and_after_those_of_the_case() {
        use crate::metrics::{CPU, FAULTS, NS};
        let job = job("pair-64");
        assert_eq!(job.case.metrics[0], NS);
        let keys: Vec<&str> =
            job.showing(&[FAULTS, NS, CPU]).case.metrics.iter().map(|metric| metric.key).collect();
        assert_eq!(keys[keys.len() - 2..], ["minor_faults", "cpu_seconds"]);
        assert_eq!(keys.iter().filter(|key| **key == "ns").count(), 1);
    }

    #[test]
    fn a_run_that_says_what_it_spent_is_believed_and_others_are_filled_in() {
        let told = with_spent(|| Ok(Outcome::default().with("cpu_seconds", 77.0))).unwrap();
        assert_eq!(told.metrics["cpu_seconds"], 77.0);
        let filled = with_spent(|| {
            let status = shell("true").status();
            status.map(|_| Outcome::default()).map_err(|error| error.to_string())
        });
        let filled = filled.unwrap();
        assert!(filled.metrics["minor_faults"] > 10.0, "{filled:?}");
        assert!(filled.metrics["cpu_seconds"] >= 0.0);
    }

    #[test]
    fn a_round_on_a_machine_that_moved_is_run_again_and_replaces_the_first() {
        let peers = peers(&["a", "b"]);
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
