//! What is measured while a script runs: the script tells of itself by events, and its processes
//! are watched from outside.
//!
//! | event | the runner |
//! |---|---|
//! | `server PID` | watches that process and its descendants from now on, instead of the script |
//! | `begin` | takes the time and the processor time |
//! | `end N` | takes them again; `N` requests were answered |
//! | `idle` | waits, measures memory, runs `toft heap`, `rss`, `top` on server and one child |

use super::tree;
use crate::process::command;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two samples of memory.
const SAMPLE: Duration = Duration::from_millis(50);

/// How long a server rests before its idle memory is measured.
const REST: Duration = Duration::from_secs(2);

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Seconds of the load, or of the script if it has none.
    pub seconds: f64,
    /// Processor seconds in that time.
    pub processor: f64,
    /// Requests that the load made; 1 for a script without one.
    pub requests: u64,
    /// Peak of the memory, in bytes.
    pub peak: u64,
    /// Memory of the idle server, in bytes.
    pub idle: Option<u64>,
}

/// What the watching and the following thread share. Each field has one writer, and the values are
/// only read for figures: relaxed.
#[derive(Debug, Default)]
struct Shared {
    root: AtomicU32,
    peak: AtomicU64,
}

/// Follows one run of a script.
#[derive(Debug)]
pub struct Follower {
    events: PathBuf,
    answers: PathBuf,
    thread: JoinHandle<(Figures, Vec<String>)>,
}

impl Follower {
    /// Makes both pipes in `dir`. `toft` is the command to inspect the processes with, if they run
    /// on Toft.
    ///
    /// # Errors
    /// What the system said.
    pub fn start(dir: &Path, toft: Option<PathBuf>) -> std::io::Result<Follower> {
        let (events, answers) = (dir.join("events"), dir.join("answers"));
        for path in [&events, &answers] {
            let made = Command::new("mkfifo").arg(path).status()?;
            if !made.success() {
                return Err(std::io::Error::other("mkfifo failed"));
            }
        }
        // Open for both directions: neither end waits for the other, and none sees an end.
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let (lines, to) = (BufReader::new(open(&events)?), open(&answers)?);
        let thread = std::thread::spawn(move || follow(lines, to, toft.as_deref()));
        Ok(Follower { events, answers, thread })
    }

    /// The pipe for events and the one for answers.
    #[must_use]
    pub fn pipes(&self) -> (&Path, &Path) {
        (&self.events, &self.answers)
    }

    /// Tells that the script runs, as this process.
    pub fn started(&self, pid: u32) {
        self.say(&format!("script {pid}"));
    }

    /// Ends the following: the figures, and what was wrong with the inspections.
    #[must_use]
    pub fn end(self) -> (Figures, Vec<String>) {
        self.say("ended");
        self.thread.join().unwrap_or_else(|_| (Figures::default(), vec!["not followed".into()]))
    }

    fn say(&self, line: &str) {
        let pipe = OpenOptions::new().read(true).write(true).open(&self.events);
        let said = pipe.and_then(|mut pipe| writeln!(pipe, "{line}"));
        said.expect("the pipe for events can be written");
    }
}

fn follow(
    lines: BufReader<File>,
    mut answers: File,
    toft: Option<&Path>,
) -> (Figures, Vec<String>) {
    let shared = std::sync::Arc::new(Shared::default());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watcher = {
        let (shared, stop) = (shared.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                sample(&shared);
                std::thread::sleep(SAMPLE);
            }
        })
    };
    let mut figures = Figures { requests: 1, ..Figures::default() };
    let mut wrong = Vec::new();
    let mut begin = (Instant::now(), Duration::ZERO);
    let mut loaded = false;
    for line in lines.lines().map_while(Result::ok) {
        let (event, value) = line.split_once(' ').unwrap_or((&line, ""));
        let root = || shared.root.load(Ordering::Relaxed);
        let mut take = |begin: &(Instant, Duration)| {
            figures.seconds = begin.0.elapsed().as_secs_f64();
            let spent = tree::processor_time(root()).saturating_sub(begin.1);
            figures.processor = spent.as_secs_f64();
        };
        match (event, value.parse::<u64>()) {
            ("script", Ok(pid)) => {
                shared.root.store(pid as u32, Ordering::Relaxed);
                begin.0 = Instant::now();
                continue;
            }
            ("ended", _) => {
                if !loaded {
                    figures.seconds = begin.0.elapsed().as_secs_f64();
                }
                break;
            }
            ("server", Ok(pid)) => {
                // What the script has done before is not the server's.
                shared.root.store(pid as u32, Ordering::Relaxed);
                shared.peak.store(0, Ordering::Relaxed);
            }
            ("begin", _) => begin = (Instant::now(), tree::processor_time(root())),
            ("end", Ok(requests)) => {
                take(&begin);
                figures.requests = requests.max(1);
                loaded = true;
                sample(&shared);
            }
            ("idle", _) => {
                std::thread::sleep(REST);
                figures.idle = Some(tree::memory(root()));
                if let Some(toft) = toft {
                    let members = tree::members(root());
                    let chosen = members.iter().take(1).chain(members.iter().skip(1).next_back());
                    wrong.extend(chosen.flat_map(|&pid| inspect(toft, pid)));
                }
            }
            _ => wrong.push(format!("the script tells of an unknown event: {line}")),
        }
        if writeln!(answers, "ok").is_err() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let _ = watcher.join();
    figures.peak = shared.peak.load(Ordering::Relaxed);
    (figures, wrong)
}

fn sample(shared: &Shared) {
    let root = shared.root.load(Ordering::Relaxed);
    if root != 0 {
        shared.peak.fetch_max(tree::memory(root), Ordering::Relaxed);
    }
}

/// Runs the verbs on a process: each ends well and shows memory.
fn inspect(toft: &Path, pid: u32) -> Vec<String> {
    // A worker of the server may exit at any time.
    let alive = || Path::new(&format!("/proc/{pid}/maps")).exists();
    let verbs: [(&[&str], &str); 3] = [
        (&["heap"], "live"),
        (&["rss"], "resident"),
        (&["top", "--count", "2", "--interval", "0.2", "--json"], "bytes"),
    ];
    let mut wrong = Vec::new();
    for (arguments, shows) in verbs {
        let run = command(toft).args(arguments).arg(pid.to_string()).output();
        let said = match run {
            Ok(out) if out.status.success() => {
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                if text.contains(shows) { continue } else { format!("shows no {shows}:\n{text}") }
            }
            Ok(out) => format!("{}: {}", out.status, String::from_utf8_lossy(&out.stderr)),
            Err(error) => error.to_string(),
        };
        if alive() {
            wrong.push(format!("toft {} {pid}: {said}", arguments.join(" ")));
        }
    }
    wrong
}
