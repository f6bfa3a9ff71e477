//! `cargo xtask experiment look`: how long `toft heap` takes on a large heap, and what the
//! inspected process notices of it. Its own calls are timed one by one, without looks and while one
//! look follows the other.

use super::markdown;
use crate::place;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use toft_bench::machine::Machine;
use toft_bench::stats::{Summary, paired};

/// The page: prose by hand, and between marks what was measured.
const PAGE: &str = "docs/experiments/look.md";
/// What the page has between marks.
const SECTIONS: [&str; 3] = ["machine", "looks", "latency"];

/// How much is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// A heap of one GiB, short rounds; for a quick look: the page is not written
    #[arg(long)]
    quick: bool,
    /// Rounds
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// GiB of live blocks
    #[arg(long, value_name = "N")]
    gib: Option<f64>,
}

/// What the target says of one phase, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Latency {
    parts: [f64; 4],
}

/// Names of the parts.
const PARTS: [&str; 4] = ["median", "p99", "p99.9", "longest"];

struct Target {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Target {
    fn start(gib: f64) -> Result<(Target, String), String> {
        let program = place::target_dir().join("release/examples/watched");
        let mut command = Command::new(&program);
        command.arg(gib.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", program.display()))?;
        let orders = child.stdin.take().ok_or("no stdin")?;
        let lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        let target = Target { child, orders, answers };
        let ready = target.answers.recv().map_err(|_| "the target has ended".to_owned())?;
        Ok((target, ready))
    }

    /// Lets it measure for `seconds`, and inspects it meanwhile if it is `watched`. Adds to `looks`
    /// how long each inspection took.
    fn phase(
        &mut self,
        seconds: f64,
        watched: bool,
        looks: &mut Vec<f64>,
    ) -> Result<Latency, String> {
        let told = |_| "the target has ended".to_owned();
        writeln!(self.orders, "{seconds}").map_err(|e| e.to_string())?;
        let mut answer = None;
        while answer.is_none() {
            if watched {
                looks.push(look(self.child.id())?);
                answer = self.answers.try_recv().ok();
            } else {
                answer = Some(
                    self.answers.recv_timeout(Duration::from_secs(600)).map_err(|_| told(()))?,
                );
            }
        }
        let answer = answer.unwrap_or_default();
        let numbers: Vec<f64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [a, b, c, d, _] => Ok(Latency { parts: [a, b, c, d] }),
            _ => Err(format!("the target says {answer}")),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Seconds that one `toft heap` takes, from the command's start to its end.
fn look(pid: u32) -> Result<f64, String> {
    let toft = place::target_dir().join("release/toft");
    let begin = Instant::now();
    let mut command = Command::new(&toft);
    let output = command.args(["heap", &pid.to_string()]).output();
    let output = output.map_err(|e| format!("{}: {e}", toft.display()))?;
    if !output.status.success() || !output.stdout.windows(4).any(|word| word == b"live") {
        return Err(format!("toft heap: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(begin.elapsed().as_secs_f64())
}

fn build() -> Result<(), String> {
    for what in
        [["--package", "toft-cli", "--bin", "toft"], ["--package", "toft", "--example", "watched"]]
    {
        let status = place::cargo().args(["build", "--release"]).args(what).status();
        if !status.map_err(|e| e.to_string())?.success() {
            return Err(format!("{what:?} does not build"));
        }
    }
    Ok(())
}

/// Measures and writes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    build()?;
    let quick = arguments.quick;
    let gib = arguments.gib.unwrap_or(if quick { 1.0 } else { 10.0 });
    let (runs, seconds) =
        (arguments.runs.unwrap_or(if quick { 3 } else { 7 }).max(1), if quick { 1.0 } else { 5.0 });
    let (mut target, ready) = Target::start(gib)?;
    let [_, bytes, blocks] = ready.split(' ').collect::<Vec<_>>()[..] else { return Err(ready) };
    let what = format!(
        "{} bytes live in {} blocks, every page written to",
        grouped(bytes),
        grouped(blocks)
    );
    println!("{what}");
    let (mut looks, mut quiet, mut watched) = (Vec::new(), Vec::new(), Vec::new());
    // The first of each is warmer or colder than the others, and not counted.
    for round in 0..=runs {
        let mut none = Vec::new();
        let before = target.phase(seconds, false, &mut none)?;
        let beside =
            target.phase(seconds, true, if round == 0 { &mut none } else { &mut looks })?;
        if round > 0 {
            quiet.push(before);
            watched.push(beside);
        }
    }
    let looks_table = looks_table(&looks, &what);
    let latency = latency_table(&quiet, &watched);
    println!("{looks_table}\n{latency}");
    if !quick {
        let head = markdown::head(&Machine::here(), runs, false);
        markdown::fill(
            PAGE,
            &[(SECTIONS[0], head), (SECTIONS[1], looks_table), (SECTIONS[2], latency)],
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn looks_table(looks: &[f64], what: &str) -> String {
    let Some(all) = Summary::of(looks) else { return String::new() };
    format!(
        "The target has {what}. {} looks, one after the other: {} s in the median, {} at least, {} at most.\n",
        looks.len(),
        markdown::short(all.median),
        markdown::short(all.min),
        markdown::short(all.max)
    )
}

fn latency_table(quiet: &[Latency], watched: &[Latency]) -> String {
    let rows: Vec<Vec<String>> = PARTS
        .iter()
        .enumerate()
        .map(|(part, name)| {
            let of = |phases: &[Latency]| {
                phases.iter().map(|phase| phase.parts[part]).collect::<Vec<f64>>()
            };
            let (quiet, watched) = (of(quiet), of(watched));
            vec![
                (*name).to_owned(),
                markdown::figure(Summary::of(&quiet)),
                markdown::figure(Summary::of(&watched)),
                markdown::ratio(paired(&watched, &quiet)),
            ]
        })
        .collect();
    markdown::table(&["ns for malloc and free", "nobody looks", "toft heap looks", "×"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toft_bench::marks;

    #[test]
    fn the_page_has_every_section_and_no_other() {
        let text = std::fs::read_to_string(place::root().join(PAGE)).unwrap();
        for name in SECTIONS {
            assert_eq!(text.matches(&marks::begin(name)).count(), 1, "{name}");
        }
        assert_eq!(marks::count(&text), SECTIONS.len());
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(["1", "1000", "10737418240"].map(grouped), ["1", "1 000", "10 737 418 240"]);
    }
}
