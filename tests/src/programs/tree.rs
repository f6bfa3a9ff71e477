//! A process and its descendants as the kernel sees them: their memory and processor time.

use std::time::Duration;

/// The process and all its descendants that are alive.
#[must_use]
pub fn members(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(children(parent));
        next += 1;
    }
    found
}

fn children(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Proportional resident bytes of the processes, so that shared pages count once.
#[must_use]
pub fn memory(root: u32) -> u64 {
    members(root)
        .into_iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok())
        .filter_map(|text| kilobytes(&text, "Pss:"))
        .sum::<u64>()
        * 1024
}

/// Processor time of the processes, and of the children that they have waited for.
#[must_use]
pub fn processor_time(root: u32) -> Duration {
    let ticks: u64 = members(root)
        .into_iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .filter_map(|text| ticks(&text))
        .sum();
    // SAFETY: a plain question to the C library.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// utime, stime, cutime and cstime: fields 14 to 17; the second one is a name in parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_kernels_texts_are_read() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1";
        assert_eq!(ticks(stat), Some(100));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert_eq!(kilobytes("Rss:  9 kB\nPss:      12 kB\n", "Pss:"), Some(12));
    }

    #[test]
    fn grandchildren_are_members() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 600 & echo; wait' & wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let found = members(shell.id());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(memory(shell.id()) > memory(found[2]));
        for pid in found {
            // SAFETY: a plain system call on processes that this test has started.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
        shell.wait().unwrap();
    }
}
