//! Whether a run ended and spoke as it had to.
//!
//! What may stand in braces in a line of expected standard error says [`pattern`].
//!
//! Lines of a report after its first (they begin with `DETAIL`) depend on where the program is
//! linked to and how it was compiled. They are judged where one of them is expected or none may be,
//! and else taken away.

use crate::directives::{Source, Stderr};
use crate::platform::{Platform, platform};
use crate::process::Finished;
use toft_bench::misuse::pattern::pattern;

/// What a line of a report but its first begins with: the library's `report::DETAIL`.
const DETAIL: &str = "toft:   ";

fn lines_differ(expected: &[String], no_details: bool, finished: &Finished) -> Option<String> {
    let all = no_details || expected.iter().any(|line| line.starts_with(DETAIL));
    // The emulator says of each program that a signal ends it.
    let emulators =
        |line: &str| platform() == Platform::Aarch64 && line.starts_with("qemu: uncaught target");
    let lines = finished.stderr.lines().filter(|line| !emulators(line));
    let said: Vec<&str> = lines.filter(|line| all || !line.starts_with(DETAIL)).collect();
    if said.len() != expected.len() {
        return Some(format!("{} lines on stderr, {} expected", said.len(), expected.len()));
    }
    expected.iter().zip(said).find_map(|(line, said)| match pattern(line, &finished.stdout) {
        Ok(re) if re.is_match(said) => None,
        Ok(_) => Some(format!("stderr line\n  expected: {line}\n  said:     {said}")),
        Err(e) => Some(e),
    })
}

/// Says what is wrong with a run, or nothing.
pub fn judge(source: &Source, finished: &Finished) -> Result<(), String> {
    let mut wrong = Vec::new();
    if finished.timed_out {
        wrong.push(format!("not done after {} s", source.timeout.as_secs()));
    } else if finished.ending != source.ending {
        wrong.push(format!("ended with {:?}, expected {:?}", finished.ending, source.ending));
    }
    if let Stderr::Lines(lines) = &source.stderr {
        wrong.extend(lines_differ(lines, source.no_details, finished));
    }
    if wrong.is_empty() { Ok(()) } else { Err(finished.describe(&wrong.join("\n"))) }
}
