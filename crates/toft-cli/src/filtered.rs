//! What a filter of system calls (seccomp), as containers have, switches off: features, what that
//! costs, and the variable that each is governed by. For `toft rss` and `toft doctor`.

use toft_core::os::filter::{FilterState, Words};
use toft_core::os::seccomp::{Answers, Calls};

/// A feature: what it calls, what it is, what is lost without, and its variable, if it has one.
type Feature = (Calls, &'static str, &'static str, &'static str);

const BACKGROUND: &str = "idle memory stays resident until malloc or free is called";

/// What every program has.
const USUAL: [Feature; 6] = [
    (Calls::RECLAIMER, "reclaimer thread", BACKGROUND, "TOFT_RECLAIM"),
    (
        Calls::BARRIER,
        "sweeps of running threads",
        "their free pages wait for their calls",
        "TOFT_RECLAIM",
    ),
    (Calls::POPULATE, "prefault", "a fault for each page", ""),
    (Calls::HUGE, "huge-page control", "the kernel decides", "TOFT_HUGE"),
    (Calls::BATCH, "batched release", "a system call for each range", "TOFT_RECLAIM"),
    (Calls::REPORT, "full reports", "one line, without stacks of files", "TOFT_REPORT"),
];

/// What a program has whose user asks for it.
const ASKED_FOR: [(Calls, &str); 6] = [
    (Calls::COLD, "TOFT_COLD"),
    (Calls::SHARING, "TOFT_COMPACT"),
    (Calls::FAULTS, "TOFT_GUARDED=uninit"),
    (Calls::LOCK, "TOFT_MAPPINGS=lock"),
    (Calls::NAMES, "TOFT_MAPPINGS=names"),
    (Calls::KEYS, "TOFT_PKEY"),
];

/// One line: what is off under a filter that was probed; `None` where nothing is.
pub fn off(found: Answers) -> Option<String> {
    let mut parts: Vec<String> = USUAL
        .iter()
        .filter(|(calls, ..)| !found.works.has(*calls))
        .map(|(_, name, cost, variable)| match *variable {
            "" => format!("{name} ({cost})"),
            variable => format!("{name} ({cost}; {variable})"),
        })
        .collect();
    let without: Vec<&str> = ASKED_FOR
        .iter()
        .filter(|(calls, _)| !found.works.has(*calls))
        .map(|(_, name)| *name)
        .collect();
    if !without.is_empty() {
        parts.push(format!("no effect of {}", without.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// One line: what is off in a process; `None` where there is no filter.
pub fn line_of(words: &Words, pid: i32) -> Option<String> {
    let filtered = || {
        let status = toft_profile::read(pid, "status").unwrap_or_default();
        !status.lines().any(|line| line == "Seccomp:\t0")
    };
    line(words).filter(|_| words.state() != FilterState::Unknown || filtered())
}

fn line(words: &Words) -> Option<String> {
    let all = format!("reclaimer thread, prefault, huge-page control, full reports ({BACKGROUND}");
    match (words.state(), words.answers) {
        (FilterState::None, _) => None,
        (FilterState::Inherited, Some(found)) => Some(match off(found) {
            Some(off) => format!("inherited filter; off: {off}"),
            None => "inherited filter; everything works".into(),
        }),
        (FilterState::Inherited, None) => {
            Some(format!("inherited filter, not probed; off: {all}; TOFT_RECLAIM=thread)"))
        }
        (FilterState::Unknown, _) => {
            Some("a filter, not probed yet: Toft probes it when the program has 16 MiB".into())
        }
        (FilterState::Installed, _) => {
            Some(format!("filter installed by the program; off: {all}; no variable changes it)"))
        }
        (FilterState::Unwatched, _) => Some(format!(
            "filters are not watched (watch_filters); off: {all}; TOFT_RECLAIM=thread)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(calls: Calls) -> Answers {
        let works = Calls::from_bits(Answers::ALL.works.bits() & !calls.bits());
        Answers { works, ..Answers::ALL }
    }

    #[test]
    fn what_is_off_is_named_with_its_variable() {
        assert_eq!(off(Answers::ALL), None);
        let text = off(without(Calls::THREAD)).unwrap();
        assert!(
            text.starts_with("reclaimer thread (idle memory") && text.ends_with("; TOFT_RECLAIM)"),
            "{text}"
        );
        let text = off(without(Calls::FAULTS)).unwrap();
        assert_eq!(text, "no effect of TOFT_COLD, TOFT_COMPACT, TOFT_GUARDED=uninit");
        let text = off(Answers::default()).unwrap();
        for (_, name, cost, variable) in USUAL {
            assert!(
                text.contains(name) && text.contains(cost) && text.contains(variable),
                "{text}"
            );
        }
    }

    #[test]
    fn each_state_has_a_line_but_none() {
        let words =
            |installed, watched, inherited| Words { installed, watched, inherited, answers: None };
        assert_eq!(line(&words(0, 1, 1)), None);
        assert!(line(&words(1, 1, 1)).unwrap().starts_with("filter installed by the program"));
        assert!(line(&words(0, 1, 2)).unwrap().contains("not probed"));
        assert!(line(&words(0, 0, 2)).unwrap().contains("watch_filters"));
        assert!(line(&words(0, 1, 0)).unwrap().contains("not probed yet"));
        let probed = Words { answers: Some(Answers::ALL), ..words(0, 1, 2) };
        assert_eq!(line(&probed).unwrap(), "inherited filter; everything works");
    }
}
