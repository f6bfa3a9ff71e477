//! Cache lines that move between the processors of threads: by simulation, so that a machine with
//! two processors can say how far an allocator scales.
//!
//! The workload `lines` runs again under valgrind, whose tool lackey prints every access to
//! memory ([`trace`]). Each thread counts as a processor with a cache ([`caches`]). Only what the
//! allocator does in the program's calls is simulated. The counts do not depend on the machine, so
//! one run is enough for all rounds.

mod caches;
mod trace;

use crate::host::with_tool;
use crate::measured::Measured;
use crate::metrics::{ACCESSES, LINES};
use crate::params::Params;
use crate::peers::Peer;
use crate::progress;
use crate::runner::{Plan, inside, numbers};
use crate::workloads::turns::{Cue, WORKLOAD};
use caches::{Caches, Moved};
use std::io::{BufRead, BufReader, pipe};
use std::os::fd::AsRawFd;
use std::path::Path;
use trace::Event;

/// Counts once for each case of the workload `lines` and each peer, and adds the counts to the
/// outcomes of all rounds. A case whose lines are not counted has failed. With the number `show=N`
/// it returns a line for each of the `N` instructions that move most.
pub fn add(measured: &mut [Measured], peers: &[Peer], plan: &Plan) -> Vec<String> {
    let of_lines = |result: &&mut Measured| result.job.workload() == WORKLOAD.name;
    let of_lines: Vec<&mut Measured> = measured.iter_mut().filter(of_lines).collect();
    let bar = progress::bar(of_lines.len() * peers.len());
    let mut shown = Vec::new();
    for Measured { job, series } in of_lines {
        let name = &job.case.name;
        let params = numbers(job.case, plan);
        for (peer, series) in peers.iter().zip(series) {
            let Ok(outcomes) = series else { continue };
            bar.set_message(format!("{name} on {}, simulating", peer.name));
            match count(peer, &params, plan) {
                Ok(counts) => {
                    for outcome in outcomes {
                        outcome.set(LINES.key, counts.per_call(counts.caches.moves));
                        outcome.set(ACCESSES.key, counts.per_call(counts.caches.accesses));
                    }
                    let most = counts.most(params.size("show", 0));
                    shown.extend(most.map(|line| format!("{name} on {}: {line}", peer.name)));
                }
                Err(why) => *series = Err(format!("its lines are not counted: {why}")),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    shown
}

/// Runs the workload under valgrind, and simulates what it prints while it runs.
fn count(peer: &Peer, params: &Params, plan: &Plan) -> Result<Simulation, String> {
    with_tool("valgrind", "valgrind", &["--version"])?;
    let text = |error: std::io::Error| error.to_string();
    let (reader, writer) = pipe().map_err(text)?;
    let log = format!("--log-file=/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
    let lackey = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--fair-sched=yes", log.as_str()];
    let mut command = plan.command(peer, &lackey, &WORKLOAD, params)?;
    // A thread of the allocator would run in the middle of calls.
    command.env("TOFT_RECLAIM", "off");
    let (ended, simulated) = std::thread::scope(|scope| {
        let simulation = scope.spawn(|| Simulation::of(BufReader::new(reader)));
        let ended = inside(command, plan, params.get("threads", 1));
        // Now the trace has an end for its reader.
        drop(writer);
        (ended, simulation.join())
    });
    ended?;
    let simulation = simulated.map_err(|_| "the simulation failed")?.map_err(text)?;
    if simulation.state != State::Ended || simulation.calls == 0 {
        return Err(format!("a trace of {} calls without an end", simulation.calls));
    }
    Ok(simulation)
}

/// What is simulated of a trace.
#[derive(Debug, Default)]
struct Simulation {
    caches: Caches,
    state: State,
    /// The calls that count.
    calls: u64,
    /// The thread whose call runs.
    caller: Option<usize>,
    instruction: u64,
    process: u32,
    /// The process's mappings while calls count: the kernel's text.
    mappings: String,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    Warm,
    Counting,
    Ended,
}

impl Simulation {
    /// Simulates a trace to its end.
    fn of(mut trace: impl BufRead) -> std::io::Result<Self> {
        let mut simulation = Self::default();
        let mut line = String::new();
        while trace.read_line(&mut line)? != 0 {
            if let Some(event) = Event::parse(&line).filter(|_| simulation.state != State::Ended) {
                simulation.step(event);
            }
            line.clear();
        }
        Ok(simulation)
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Process(number) => self.process = number,
            Event::Instruction(address) => self.instruction = address,
            Event::Access(access) => match (Cue::at(access.address), self.caller) {
                (Some(cue), _) => self.take(cue),
                (None, Some(caller)) => {
                    let counts = self.state == State::Counting;
                    self.caches.access(caller, self.instruction, access, counts);
                }
                (None, None) => {}
            },
        }
    }

    fn take(&mut self, cue: Cue) {
        match cue {
            Cue::Call(thread) => {
                self.caller = Some(thread);
                self.calls += u64::from(self.state == State::Counting);
            }
            Cue::Return => self.caller = None,
            Cue::Begin => {
                self.state = State::Counting;
                let maps = format!("/proc/{}/maps", self.process);
                // Without them an instruction is its address.
                self.mappings = std::fs::read_to_string(maps).unwrap_or_default();
            }
            Cue::End => self.state = State::Ended,
        }
    }

    fn per_call(&self, count: u64) -> f64 {
        count as f64 / self.calls as f64
    }

    /// A line for each of the instructions that move most.
    fn most(&self, count: usize) -> impl Iterator<Item = String> {
        let mut by: Vec<(&u64, &Moved)> = self.caches.by.iter().collect();
        by.sort_by_key(|(address, moved)| (u64::MAX - moved.moves, **address));
        by.into_iter().take(count).map(move |(address, Moved { moves, lines })| {
            let place = place(&self.mappings, *address);
            format!("{:.3} a call, of {} lines, by {place}", self.per_call(*moves), lines.len())
        })
    }
}

/// The file that an address is of and the address in it, as `addr2line` wants it.
fn place(mappings: &str, address: u64) -> String {
    let plain = || format!("{address:#x}");
    // A mapping's first address and end, the offset of its file, and the file.
    let mapping = |line: &str| -> Option<(u64, u64, u64, String)> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some((hex(start)?, hex(end)?, hex(offset)?, words.nth(2)?.to_owned()))
    };
    let all: Vec<_> = mappings.lines().filter_map(mapping).collect();
    let found = all.iter().find(|(start, end, ..)| (*start..*end).contains(&address));
    let Some((.., file)) = found else { return plain() };
    let first = all.iter().find(|(.., offset, other)| *offset == 0 && other == file);
    let Some((start, ..)) = first else { return plain() };
    let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    format!("{name}+{:#x}", address - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPINGS: &str = "\
7f10000-7f12000 r--p 00000000 08:01 77 /lib/libtoft.so
7f12000-7f20000 r-xp 00001000 08:01 77 /lib/libtoft.so
7f20000-7f21000 rw-p 00000000 00:00 0
7f30000-7f31000 r-xp 00002000 08:01 78 /lib/half.so
";

    #[test]
    fn an_instruction_is_named_by_its_file() {
        assert_eq!(place(MAPPINGS, 0x7f1_3456), "libtoft.so+0x3456");
        assert_eq!(place(MAPPINGS, 0x7f2_0010), "0x7f20010");
        assert_eq!(place(MAPPINGS, 0x7f3_0010), "0x7f30010");
        assert_eq!(place("", 0x10), "0x10");
    }

    /// Two threads write to one line in turn, and read others; the cues are stores.
    #[test]
    fn only_calls_between_the_marks_count_and_earlier_ones_fill_the_caches() {
        let mut trace = String::from("==7== Lackey\n");
        let page = 0x9_0000_0000_u64;
        let mut call = |thread: u64, accesses: &str| {
            trace += &format!(" S {:x},1\n{accesses}", page + thread);
            // Outside of a call nothing counts.
            trace += &format!(" S {:x},1\n S 1000,8\n", page + 64);
        };
        call(0, " S 1000,8\n");
        let begin = format!(" S {:x},1\n", page + 65);
        call(63, &begin);
        call(0, "I  50,4\n L 1000,8\n S 2000,8\n");
        call(1, "I  60,4\n S 1000,8\nI  70,4\n L 1038,4\n");
        call(0, "I  50,4\n M 1008,8\n");
        let end = format!(" S {:x},1\n", page + 66);
        call(63, &end);
        call(1, "I  50,4\n M 1008,8\n");
        let simulation = Simulation::of(trace.as_bytes()).unwrap();
        assert_eq!(simulation.state, State::Ended);
        assert_eq!((simulation.process, simulation.calls), (7, 4));
        assert_eq!((simulation.caches.accesses, simulation.caches.moves), (5, 2));
        let most: Vec<String> = simulation.most(9).collect();
        assert_eq!(
            most,
            ["0.250 a call, of 1 lines, by 0x50", "0.250 a call, of 1 lines, by 0x60"]
        );
    }

    #[test]
    fn a_trace_without_an_end_is_none() {
        let simulation = Simulation::of(" L 10,8\n".as_bytes()).unwrap();
        assert_eq!(simulation.state, State::Warm);
    }
}
