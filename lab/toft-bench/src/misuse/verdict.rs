//! How a program of the corpus ended, and what that says of the allocator.

use crate::child::{End, not_preloaded};
use serde::{Deserialize, Serialize};
use std::os::unix::process::ExitStatusExt;

/// What became of a misuse, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The process died at the misuse, or in the call that ought to name it.
    Caught,
    /// It died in some later call.
    Late,
    /// It went on, and the misuse had no effect that the program could see.
    Prevented,
    /// It went on, and memory of the program or the allocator was harmed, or shown.
    Missed,
}

/// All of them, in the order of the tables.
pub(crate) const VERDICTS: [Verdict; 4] =
    [Verdict::Caught, Verdict::Late, Verdict::Prevented, Verdict::Missed];

impl Verdict {
    /// The word in the tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Late => "late",
            Self::Prevented => "prevented",
            Self::Missed => "missed",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        VERDICTS.into_iter().find(|verdict| verdict.word() == word)
    }
}

/// What a run with the fault came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// A verdict, and how the process ended.
    Judged(Verdict, String),
    /// The C library has no such call.
    NoSuchCall,
    /// The program did not come as far as its fault.
    Failed(String),
}

/// The statuses by which a program tells its own outcome; `corpus.h` has the same.
const PREVENTED: i32 = 80;
const MISSED: i32 = 81;
const NO_SUCH_CALL: i32 = 82;
const BROKEN: i32 = 83;

fn has(end: &End, line: &str) -> bool {
    end.output.lines().any(|said| said == line)
}

/// What the program announced under a name.
fn announced<'a>(end: &'a End, name: &str) -> Option<&'a str> {
    let mut lines = end.output.lines().filter_map(|line| line.split_once('='));
    lines.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The line that Toft names a misuse by.
pub(crate) fn named(said: &str) -> Option<&str> {
    said.lines().find(|line| line.starts_with("toft: "))
}

fn first_words(end: &End) -> String {
    let line = named(&end.said).or_else(|| end.said.lines().find(|line| !line.trim().is_empty()));
    line.map_or_else(String::new, |line| format!(": {}", line.trim()))
}

pub(crate) fn of_fault(end: &End) -> Ending {
    if let Some(line) = not_preloaded(&end.said) {
        return Ending::Failed(line.to_owned());
    }
    let status = match end.status {
        Some(status) if status.code() == Some(NO_SUCH_CALL) => return Ending::NoSuchCall,
        Some(status) if has(end, "begin") => status,
        None if has(end, "begin") => {
            return Ending::Judged(Verdict::Missed, "it did not end".to_owned());
        }
        Some(status) => return Ending::Failed(format!("{status}{}", first_words(end))),
        None => return Ending::Failed("it did not end".to_owned()),
    };
    let done = has(end, "end");
    let share = announced(end, "share").map_or_else(String::new, |share| format!("{share} %"));
    match status.code() {
        Some(PREVENTED) if done => Ending::Judged(Verdict::Prevented, share),
        Some(MISSED) if done => Ending::Judged(Verdict::Missed, share),
        // What the program relies on does not hold any more, and the allocator has not said so.
        Some(BROKEN) => {
            let what = announced(end, "broken").unwrap_or("it could not go on");
            Ending::Judged(Verdict::Missed, what.to_owned())
        }
        _ => {
            let verdict = if done { Verdict::Late } else { Verdict::Caught };
            let how = match status.signal() {
                Some(signal) => signal_name(signal),
                None => status.to_string(),
            };
            Ending::Judged(verdict, how + &first_words(end))
        }
    }
}

/// Judges the run without the fault: it has to end well. Of `ours` it also has to be silent.
pub(crate) fn of_twin(end: &End, ours: bool) -> Result<(), String> {
    match end.status {
        None => Err("it did not end".to_owned()),
        Some(status) if status.code() == Some(NO_SUCH_CALL) => Ok(()),
        Some(status) if !status.success() => {
            let what = announced(end, "broken").unwrap_or_default();
            Err(format!("{status} {what}{}", first_words(end)))
        }
        Some(_) if not_preloaded(&end.said).is_some() || (ours && !end.said.is_empty()) => {
            Err(format!("it said{}", first_words(end)))
        }
        Some(_) => Ok(()),
    }
}

/// The name of a signal that ends a process.
fn signal_name(signal: i32) -> String {
    let known = [
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::ended as shell;

    /// As one that was killed because the time was up.
    fn endless(script: &str) -> End {
        End { status: None, ..shell(script) }
    }

    fn verdict(script: &str) -> Verdict {
        verdict_of(&shell(script))
    }

    fn verdict_of(end: &End) -> Verdict {
        match of_fault(end) {
            Ending::Judged(verdict, _) => verdict,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_lines_that_a_program_wrote_tell_when_it_died() {
        assert_eq!(verdict("echo begin; kill -ABRT $$"), Verdict::Caught);
        assert_eq!(verdict("echo begin; exit 7"), Verdict::Caught);
        assert_eq!(verdict("echo begin; echo end; kill -SEGV $$"), Verdict::Late);
        assert_eq!(verdict("echo begin; echo end; exit 80"), Verdict::Prevented);
        assert_eq!(verdict("echo begin; echo end; exit 81"), Verdict::Missed);
        assert_eq!(verdict("echo begin; echo broken=x; exit 83"), Verdict::Missed);
        assert_eq!(verdict_of(&endless("echo begin")), Verdict::Missed);
        // A status is a verdict only of a program that came to its end.
        assert_eq!(verdict("echo begin; exit 80"), Verdict::Caught);
    }

    #[test]
    fn what_comes_before_the_fault_is_no_verdict() {
        for script in ["kill -ABRT $$", "exit 81", "true"] {
            assert!(matches!(of_fault(&shell(script)), Ending::Failed(_)), "{script}");
        }
        assert!(matches!(of_fault(&endless("true")), Ending::Failed(_)));
        assert_eq!(of_fault(&shell("exit 82")), Ending::NoSuchCall);
        let script = "echo begin; echo end; echo 'ERROR: x cannot be preloaded' >&2; exit 80";
        assert!(matches!(of_fault(&shell(script)), Ending::Failed(_)));
    }

    #[test]
    fn how_it_died_comes_with_it() {
        let script = "echo begin; echo other >&2; echo 'toft: double free: x' >&2; kill -ABRT $$";
        let wanted = Ending::Judged(Verdict::Caught, "SIGABRT: toft: double free: x".to_owned());
        assert_eq!(of_fault(&shell(script)), wanted);
        let script = "echo share=72; echo begin; echo end; exit 81";
        assert_eq!(of_fault(&shell(script)), Ending::Judged(Verdict::Missed, "72 %".to_owned()));
    }

    #[test]
    fn a_twin_has_to_end_well_and_ours_in_silence() {
        assert_eq!(of_twin(&shell("exit 0"), true), Ok(()));
        assert_eq!(of_twin(&shell("exit 82"), true), Ok(()));
        assert_eq!(of_twin(&shell("echo warning >&2"), false), Ok(()));
        assert!(of_twin(&shell("echo warning >&2"), true).unwrap_err().contains("warning"));
        for script in ["exit 80", "kill -ABRT $$", "echo cannot be preloaded >&2"] {
            assert!(of_twin(&shell(script), false).is_err(), "{script}");
        }
        assert!(of_twin(&endless("true"), false).is_err());
        let error = of_twin(&shell("echo broken=p; exit 83"), false).unwrap_err();
        assert!(error.contains("83") && error.contains('p'), "{error}");
    }
}
