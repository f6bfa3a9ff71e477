//! What a process's resident memory is made of, and its limit, for the page.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::Rss;

/// A part of the resident memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// A limit of the process's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// Who sets it, and what counts.
    pub name: String,
    /// The limit in bytes.
    pub bytes: u64,
}

/// The resident memory of a process by what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// The parts, whose sum is the resident memory.
    pub parts: Vec<Part>,
    /// The limits that the process has.
    pub limits: Vec<MemoryLimit>,
}

impl Breakdown {
    /// Returns the parts of a process's resident memory, and reads its limits.
    pub fn of(rss: &Rss) -> Breakdown {
        let (account, others) = (&rss.account, &rss.others);
        let slabs = &account.slabs;
        let free = slabs.free() + slabs.uncollected + account.empty_slabs;
        let tables = account.descriptors + account.heaps + account.tables;
        let mut parts = vec![
            ("live blocks", slabs.live + account.large_live),
            ("free, kept by Toft", free + account.large_kept + account.large_slack),
            ("Toft's tables", tables + slabs.lent + slabs.quarantined + slabs.reserved),
            ("program and libraries", others.programs + others.files),
            ("stacks", others.stacks),
        ];
        let known: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
        parts.push(("other mappings", rss.counts.rss.saturating_sub(known)));
        let part = |(name, bytes): (&str, u64)| Part { name: name.to_owned(), bytes };
        let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0).map(part).collect();
        Breakdown { parts, limits: limits(rss) }
    }
}

/// The limits of a process: its own, and that of its group.
fn limits(rss: &Rss) -> Vec<MemoryLimit> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let group = read(&format!("/proc/{}/cgroup", rss.pid));
    let group = group.and_then(|text| of_group(&text, &read));
    let limit = |name: &str, bytes: Option<u64>| {
        bytes.map(|bytes| MemoryLimit { name: name.to_owned(), bytes })
    };
    let own = limit("TOFT_LIMIT, for Toft's memory", rss.limit);
    own.into_iter().chain(limit("cgroup, for all its processes", group)).collect()
}

/// Returns the least limit of the group that `/proc/PID/cgroup` names, and of those above it.
fn of_group(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    /// The value that v1 writes for "no limit" is a little less than 2^63.
    const NO_LIMIT: u64 = 1 << 60;
    let of_line = |line: &str| -> Option<u64> {
        let (controllers, mut path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            all if all.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let mut least = None;
        loop {
            path = path.trim_end_matches('/');
            let limit = read(&format!("{root}{path}/{file}"));
            let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
            let limit = limit.filter(|&limit| limit < NO_LIMIT);
            least = least.into_iter().chain(limit).min();
            let Some((above, _)) = path.rsplit_once('/') else { break least };
            path = above;
        }
    };
    text.lines().filter_map(of_line).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_a_group_and_those_above_counts() {
        let read = |path: &str| -> Option<String> {
            let text = match path {
                "/sys/fs/cgroup/a/b/memory.max" => "max\n",
                "/sys/fs/cgroup/a/memory.max" => "2000000\n",
                "/sys/fs/cgroup/memory.max" => "3000000\n",
                "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => "9223372036854771712\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "5000000\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        for (text, limit) in [
            ("0::/a/b\n", Some(2_000_000)),
            ("0::/\n", Some(3_000_000)),
            ("5:cpu:/x\n4:memory:/c\n", Some(5_000_000)),
            ("5:cpu:/x\n", None),
            ("", None),
        ] {
            assert_eq!(of_group(text, &read), limit, "{text}");
        }
    }
}
