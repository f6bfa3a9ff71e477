//! Running one command: its output is shown as it comes and read for results, and it may not take
//! for ever.

use crate::tally::{Reader, Suite};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long output may still come from what a command has left running.
const GRACE: Duration = Duration::from_secs(5);

/// How long all steps of this process may take together: what hangs ends, however many steps it is.
const ALL: Duration = Duration::from_secs(60 * 150);

/// When the first step began.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How long a step may take that begins when `gone` of `ALL` is over. One that may take longer than
/// all others together is not of those that CI runs.
fn allowance(limit: Duration, gone: Duration) -> Duration {
    if limit > ALL { limit } else { limit.min(ALL.saturating_sub(gone)) }
}

/// Runs a command and shows its output; gives the suites that it ran.
pub fn run(title: &str, command: &mut Command, limit: Duration) -> Vec<Suite> {
    println!("\n==> {title}");
    let (suites, end) = run_with(title, command, limit, |line| println!("{line}"));
    println!("{end}");
    suites
}

/// Runs a command beside others, and shows its output when it has ended.
pub fn run_beside(title: &str, command: &mut Command, limit: Duration) -> Vec<Suite> {
    let mut output = format!("\n==> {title}\n");
    let (suites, end) = run_with(title, command, limit, |line| {
        output.push_str(line);
        output.push('\n');
    });
    println!("{output}{end}");
    suites
}

/// Runs a command, and passes its output on by lines. Returns the suites that it ran, and a last
/// line: why the command failed or "done", and its time.
fn run_with(
    title: &str,
    command: &mut Command,
    limit: Duration,
    mut show: impl FnMut(&str),
) -> (Vec<Suite>, String) {
    let limit = allowance(limit, BEGAN.elapsed());
    let started = Instant::now();
    let mut reader = Reader::new(title);
    let mut processors = Duration::ZERO;
    let wrong = match stream(command, limit, &mut processors, |line| {
        show(line);
        reader.line(line);
    }) {
        Ok(None) => None,
        Ok(Some(why)) => Some(why),
        Err(error) => Some(format!("{}: {error}", words(command))),
    };
    note(Time { title: title.to_owned(), wall: started.elapsed(), processors });
    let how = wrong.as_deref().unwrap_or("done");
    let end = format!("==> {title}: {how}, {} s", started.elapsed().as_secs());
    (reader.end(wrong), end)
}

/// Runs a check that has no tests: nothing if it is well, a failure if not.
pub fn check(title: &str, command: &mut Command, limit: Duration) -> Option<Suite> {
    run(title, command, limit).into_iter().find(|suite| suite.failed > 0)
}

/// The time that a part of the work took.
#[derive(Debug)]
struct Time {
    title: String,
    wall: Duration,
    /// Processor time of all processes that were started.
    processors: Duration,
}

/// The parts that are timed, in the order of their ends.
static TIMES: Mutex<Vec<Time>> = Mutex::new(Vec::new());

fn note(time: Time) {
    TIMES.lock().unwrap_or_else(PoisonError::into_inner).push(time);
}

/// Does a part of the work that runs commands, with nothing beside it, and notes its time.
pub fn timed<R>(title: &str, work: impl FnOnce() -> R) -> R {
    let (began, before) = (Instant::now(), processor_time());
    let result = work();
    note(Time {
        title: title.to_owned(),
        wall: began.elapsed(),
        processors: processor_time().saturating_sub(before),
    });
    result
}

/// Returns the processor time of a child that has ended, and of all that it has waited for. Returns
/// `None` while it runs.
fn time_of_ended(child: &Child) -> Option<Duration> {
    /// The kernel's ticks, which are the same on every machine with Linux.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // After the name, which may have spaces: the state, and from the twelfth field on the ticks.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<u32>().ok());
    (fields.first() == Some(&"Z")).then(|| TICK * ticks.sum::<u32>())
}

/// Returns the processor time of all processes that this one has started and that have ended.
fn processor_time() -> Duration {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let micros = [usage.user_time(), usage.system_time()]
            .map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs())
    })
}

/// Prints the parts that took a second or more, the slowest first.
pub fn print_times() {
    let times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    println!("\n==> wall time, and processor time: {}", slowest_first(&times));
}

fn slowest_first(times: &[Time]) -> String {
    let mut times: Vec<&Time> = times.iter().filter(|time| time.wall.as_secs() > 0).collect();
    times.sort_by_key(|time| std::cmp::Reverse(time.wall));
    let line = |time: &&Time| {
        format!("{} {} s ({} s)", time.title, time.wall.as_secs(), time.processors.as_secs())
    };
    times.iter().map(line).collect::<Vec<_>>().join(", ")
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", words(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", words(command))) }
}

/// Runs a command that must succeed, and returns what it prints.
pub fn text(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", words(command)))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let wrong = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}\n{printed}{wrong}", words(command), output.status))
}

/// A command as it would be typed.
fn words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command in place of this one.
pub fn passed_on(command: &mut Command) -> Result<ExitCode, String> {
    let status = command.status().map_err(|error| format!("{}: {error}", words(command)))?;
    Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)))
}

/// Feeds each line to `each`, and stores the processor time. Returns why the command failed, or
/// nothing if it did not.
fn stream(
    command: &mut Command,
    limit: Duration,
    processors: &mut Duration,
    mut each: impl FnMut(&str),
) -> std::io::Result<Option<String>> {
    // One pipe for both, so that results stay with the names of their suites.
    let (from, to) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to);
    let mut child = command.spawn()?;
    // The command holds the pipe's other end, and this process would wait for itself.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let begin = Instant::now();
    let mut ended = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none()
            && let Some(time) = time_of_ended(&child)
        {
            *processors = time;
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|at| at.elapsed() > GRACE) {
            break;
        }
        if ended.is_none() && begin.elapsed() > limit {
            kill_tree(&mut child)?;
            return Ok(Some(format!("not done after {} s", limit.as_secs())));
        }
    }
    while ended.is_none() {
        if let Some(time) = time_of_ended(&child) {
            *processors = time;
            break;
        }
        if begin.elapsed() > limit {
            kill_tree(&mut child)?;
            return Ok(Some(format!("not done after {} s", limit.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = child.wait()?;
    Ok((!status.success()).then(|| status.to_string()))
}

/// Ends a child and everything it has started.
fn kill_tree(child: &mut Child) -> std::io::Result<()> {
    let mut found = vec![child.id()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(children(parent));
        next += 1;
    }
    for id in found {
        // One that has ended meanwhile is no error.
        let _ = kill(Pid::from_raw(id as i32), Signal::SIGKILL);
    }
    child.wait().map(drop)
}

fn children(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_are_read_in_order() {
        let mut lines = Vec::new();
        let (mut script, limit) = (sh("echo a; echo b >&2; echo c"), Duration::from_secs(60));
        let end = stream(&mut script, limit, &mut Duration::default(), |line| {
            lines.push(line.to_owned());
        });
        assert_eq!(end.unwrap(), None);
        assert_eq!(lines, ["a", "b", "c"]);
    }

    #[test]
    fn a_bad_end_is_told() {
        let suites = run("t", &mut sh("exit 3"), Duration::from_secs(60));
        assert_eq!(suites.len(), 1);
        assert!(suites[0].failures[0].contains('3'), "{suites:?}");
        assert_eq!(check("t", &mut sh("exit 0"), Duration::from_secs(60)), None);
    }

    #[test]
    fn the_slowest_part_comes_first_and_short_ones_are_left_out() {
        let time = |(title, wall, processors): (&str, u64, u64)| Time {
            title: title.into(),
            wall: Duration::from_millis(wall),
            processors: Duration::from_millis(processors),
        };
        let times = [("a", 3000, 4000), ("b", 700_000, 900_000), ("c", 900, 900)].map(time);
        assert_eq!(slowest_first(&times), "b 700 s (900 s), a 3 s (4 s)");
    }

    #[test]
    fn processor_time_is_that_of_what_was_started() {
        const WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        let before = processor_time();
        sh(WORK).status().unwrap();
        assert!(processor_time() > before);
        let used = |script: &str| {
            let mut time = Duration::ZERO;
            let limit = Duration::from_secs(60);
            assert_eq!(stream(&mut sh(script), limit, &mut time, |_| ()).unwrap(), None);
            time
        };
        assert!(used(WORK) > used("sleep 0.1"));
    }

    #[test]
    fn what_hangs_is_ended_with_all_it_has_started() {
        let limit = Duration::from_millis(400);
        let begin = Instant::now();
        let mut lines = Vec::new();
        let script = "sleep 600 & echo $!; wait";
        let end = stream(&mut sh(script), limit, &mut Duration::default(), |line| {
            lines.push(line.to_owned());
        })
        .unwrap();
        assert!(end.is_some_and(|why| why.starts_with("not done")));
        assert!(begin.elapsed() < Duration::from_secs(60));
        let stat =
            || std::fs::read_to_string(format!("/proc/{}/stat", lines[0])).unwrap_or_default();
        let gone = |stat: String| stat.is_empty() || stat.contains(") Z");
        // The signal is on its way, and may take its time on a busy machine.
        while !gone(stat()) && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(gone(stat()), "{}", stat());
    }

    #[test]
    fn all_steps_together_end_in_time() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert_eq!(allowance(minutes(60), minutes(0)), minutes(60));
        assert_eq!(allowance(minutes(60), minutes(110)), minutes(40));
        assert_eq!(allowance(minutes(60), minutes(160)), minutes(0));
        assert_eq!(allowance(minutes(360), minutes(160)), minutes(360));
    }

    #[test]
    fn a_command_that_is_not_there_is_a_failure() {
        let mut missing = Command::new("/nonexistent/program");
        assert_eq!(run("t", &mut missing, Duration::from_secs(1))[0].failed, 1);
    }
}
