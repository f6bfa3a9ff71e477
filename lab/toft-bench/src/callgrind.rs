//! Instructions per operation, counted by valgrind's callgrind: the same on a busy machine and on
//! an idle one, so that a difference of a few instructions can be seen.
//!
//! Each workload runs twice on a peer, the second time with twice the operations. The difference is
//! what the operations cost; start-up, filling and draining are in both and drop out.

use crate::child::Ended;
use crate::measured::Measured;
use crate::metrics::INSTRUCTIONS;
use crate::params::Params;
use crate::peers::Peer;
use crate::progress;
use crate::runner::{Job, Of, Plan, inside, numbers, threads};
use crate::workloads::Workload;
use std::process::Command;

/// The numbers that make a workload longer; of a case, the first that it has.
const LENGTHS: &[&str] = &["ops", "repeat", "batches", "functions", "count", "rounds"];

const CALLGRIND: [&str; 3] = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// To count one in this many operations of a timed run is enough.
const SHARE: u64 = 100;

pub fn is_there() -> Result<(), String> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("--callgrind needs valgrind, which is not there: apt-get install valgrind".into()),
    }
}

/// The job with the instructions after its own metrics, if they can be counted.
pub fn job(job: Job, plan: &Plan) -> Job {
    if countable(&job, plan).is_ok() { job.showing(&[INSTRUCTIONS]) } else { job }
}

/// Counts once for each case and peer, and adds the count to the outcomes of all rounds, since it
/// is the same in each. Gives a line for each case that cannot be counted, and each count that
/// failed.
pub fn add(measured: &mut [Measured], peers: &[Peer], plan: &Plan) -> Vec<String> {
    let bar = progress::bar(measured.len() * peers.len());
    let mut lines = Vec::new();
    for Measured { job, series } in measured {
        let name = &job.case.name;
        bar.inc(peers.len() as u64);
        let (workload, once, twice) = match countable(job, plan) {
            Ok(found) => found,
            Err(why) => {
                lines.push(format!("{name} is not counted: {why}"));
                continue;
            }
        };
        for (peer, series) in peers.iter().zip(series) {
            let Ok(outcomes) = series else { continue };
            bar.set_message(format!("{name} on {}, counting", peer.name));
            match difference(workload, peer, (&once, &twice), plan) {
                Ok(count) => outcomes.iter_mut().for_each(|one| one.set(INSTRUCTIONS.key, count)),
                Err(why) => lines.push(format!("{name} on {} is not counted: {why}", peer.name)),
            }
        }
    }
    bar.finish_and_clear();
    lines
}

/// The workload of a job and its numbers, once and with twice the operations, or why its
/// instructions tell nothing.
fn countable(job: &Job, plan: &Plan) -> Result<(&'static Workload, Params, Params), String> {
    let Of::Inside(workload) = job.of else {
        return Err("it runs other programs".to_owned());
    };
    let params = numbers(job.case, plan);
    if threads(&params) > 1 {
        return Err("its threads wait for each other, and waiting is instructions".to_owned());
    }
    // Of the case's own numbers: one that was given by hand may be of another workload.
    let key = LENGTHS.iter().find(|key| job.case.full.has(key));
    let key = key.ok_or("no number makes it longer")?;
    // Who gives the number by hand means it.
    let by_hand = plan.numbers.get(key, 0);
    let length = if by_hand > 0 { by_hand } else { (params.get(key, 1) / SHARE).max(1) };
    let with = |length: u64| -> Result<Params, String> {
        let word = format!("{key}={length}");
        Ok(params.clone().with(&Params::parse([word.as_str()])?))
    };
    Ok((workload, with(length)?, with(2 * length)?))
}

/// The instructions of an operation.
fn difference(
    workload: &Workload,
    peer: &Peer,
    (once, twice): (&Params, &Params),
    plan: &Plan,
) -> Result<f64, String> {
    let count = |params: &Params| {
        let command = plan.command(peer, &CALLGRIND, workload, params)?;
        let (outcome, Ended { said, .. }) = inside(command, plan, threads(params))?;
        let count = collected(&said).ok_or_else(|| format!("callgrind said {said:?}"))?;
        Ok::<_, String>((outcome.ops, count))
    };
    let ((few, few_instructions), (many, many_instructions)) = (count(once)?, count(twice)?);
    if many <= few || many_instructions <= few_instructions {
        return Err(format!(
            "{many} operations took {many_instructions} instructions, and {few} took \
             {few_instructions}"
        ));
    }
    Ok((many_instructions - few_instructions) as f64 / (many - few) as f64)
}

/// The number of instructions, from callgrind's last words.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().rev().find_map(|line| line.split_once("Collected : "))?;
    line.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use std::time::Duration;

    fn plan(words: &[&str]) -> Plan {
        Plan {
            runs: 1,
            quick: true,
            pin: false,
            timeout: Duration::from_secs(60),
            numbers: Params::parse(words.iter().copied()).unwrap(),
        }
    }

    #[test]
    fn the_second_run_has_twice_the_operations_and_all_other_numbers() {
        let job = fixtures::job("replace-100k");
        let (workload, once, twice) = countable(&job, &plan(&[])).unwrap();
        assert_eq!(workload.name, "replace");
        let quick = numbers(job.case, &plan(&[])).get("ops", 0);
        assert_eq!((once.get("ops", 0), twice.get("ops", 0)), (quick / 100, quick / 50));
        assert_eq!((once.get("slots", 0), twice.get("slots", 0)), (100_000, 100_000));
        let (_, once, twice) = countable(&job, &plan(&["ops=700"])).unwrap();
        assert_eq!((once.get("ops", 0), twice.get("ops", 0)), (700, 1400));
    }

    #[test]
    fn a_number_of_another_workload_makes_nothing_longer() {
        let job = fixtures::job("batch-fifo");
        let (_, once, twice) = countable(&job, &plan(&["ops=700"])).unwrap();
        assert_eq!(once.get("ops", 0), twice.get("ops", 0));
        assert_eq!(2 * once.get("repeat", 0), twice.get("repeat", 0));
    }

    #[test]
    fn what_cannot_be_counted_says_why() {
        let reason = |name: &str| {
            let job = fixtures::job(name);
            countable(&job, &plan(&[])).err().unwrap()
        };
        assert!(reason("handover-2").contains("threads"));
        assert!(reason("cfrac").contains("longer"));
        assert!(reason("spawn-true").contains("other programs"));
    }

    #[test]
    fn the_count_is_read_from_callgrinds_last_words() {
        let said = "==7== Callgrind\n==7== Events    : Ir\n==7== Collected : 1234567\n==7== \n";
        assert_eq!(collected(said), Some(1_234_567));
        assert_eq!(collected("==7== Collected : x"), None);
        assert_eq!(collected("valgrind: failed"), None);
    }
}
