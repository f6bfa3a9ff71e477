//! What one run of a case reports.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Write};

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Operations done, by the workload's own definition of one.
    #[serde(default)]
    pub ops: u64,
    /// A figure for each metric key; also some that no table shows.
    pub metrics: BTreeMap<String, f64>,
}

impl Outcome {
    /// An outcome of `ops` operations in `seconds`: sets `ns`, `mops` and `seconds`.
    pub(crate) fn timed(ops: u64, seconds: f64) -> Self {
        let mut outcome = Self { ops, metrics: BTreeMap::new() };
        outcome.set("ns", seconds * 1e9 / ops as f64);
        outcome.set("mops", ops as f64 / seconds / 1e6);
        outcome.set("seconds", seconds);
        outcome
    }

    pub(crate) fn set(&mut self, key: &str, value: f64) {
        self.metrics.insert(key.to_owned(), value);
    }

    /// [`Outcome::set`], chained.
    pub(crate) fn with(mut self, key: &str, value: f64) -> Self {
        self.set(key, value);
        self
    }
}

/// Kilobytes of the kernel (1024 B) as the megabytes (10^6 B) of the tables.
pub(crate) fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

/// What `look` finds in the status of a process, or of a thread as `self/task/NUMBER`. Asks
/// `malloc` for nothing.
pub(crate) fn with_status<R>(of: impl Display, look: impl FnOnce(&str) -> R) -> Option<R> {
    let (mut path, mut text) = ([0; 64], [0; 8192]);
    let mut rest = &mut path[..];
    write!(rest, "/proc/{of}/status").expect("the path is short");
    let left = rest.len();
    let path = std::str::from_utf8(&path[..path.len() - left]).ok()?;
    let count = File::open(path).ok()?.read(&mut text).ok()?;
    std::str::from_utf8(&text[..count]).ok().map(look)
}

/// A field of the status of a process in KiB, e.g. `VmHWM`; 0 when the kernel does not say.
pub(crate) fn status_kib(pid: &str, field: &str) -> u64 {
    with_status(pid, |status| status_field(status, field)).unwrap_or(0)
}

/// A field of the text of a `status` file, in KiB.
pub(crate) fn status_field(status: &str, field: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_agree() {
        let outcome = Outcome::timed(2_000_000, 0.5);
        assert_eq!(outcome.metrics["ns"], 250.0);
        assert_eq!(outcome.metrics["mops"], 4.0);
    }

    #[test]
    fn status_fields_are_found_by_their_whole_name() {
        let text = "VmHWMx:\t9 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 77 kB\n";
        assert_eq!(status_field(text, "VmHWM"), 1234);
        assert_eq!(status_field(text, "VmRSS"), 77);
        assert_eq!(status_field(text, "Vm"), 0);
        assert!(status_kib("self", "VmHWM") > 100);
    }
}
