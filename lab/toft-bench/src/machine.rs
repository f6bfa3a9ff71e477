//! What a figure must carry: where and on what it was measured.

use crate::peers::{Peer, libc_version};
use crate::releases;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// The machine and the sources.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many processors this process may use.
    pub cpus: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The transparent huge page setting.
    pub thp: String,
    /// The C library's version.
    pub libc: String,
    /// The revision of the sources, with `+` when they were changed since.
    pub revision: String,
}

impl Machine {
    /// Asks this machine.
    #[must_use]
    pub fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let thp = read("/sys/kernel/mm/transparent_hugepage/enabled");
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            thp: bracketed(&thp).unwrap_or("unknown").to_owned(),
            libc: libc_version(),
            revision: revision(),
        }
    }

    /// The header of the tables.
    pub fn header(&self, peers: &[Peer], runs: usize, quick: bool) -> String {
        format!(
            "{} x {}, Linux {}, THP {}, glibc {}, revision {}\npeers: {}\n{runs} interleaved {}{}",
            self.cpus,
            self.cpu,
            self.kernel,
            self.thp,
            self.libc,
            self.revision,
            releases::line(peers),
            if runs == 1 { "round" } else { "rounds" },
            if quick { ", quick (too short for claims)" } else { "" },
        )
    }
}

fn field(cpuinfo: &str, name: &str) -> String {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_once(':'))
        .map_or_else(|| "unknown processor".to_owned(), |(_, value)| value.trim().to_owned())
}

fn bracketed(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

fn revision() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(crate::FOLDER).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(hash) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = git(&["status", "--porcelain"]).is_some_and(|lines| !lines.is_empty());
    format!("{hash}{}", if changed { "+" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(
            field("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n", "model name"),
            "A CPU @ 2 GHz"
        );
        assert_eq!(bracketed("always [madvise] never"), Some("madvise"));
        assert_eq!(bracketed("none"), None);
    }
}
