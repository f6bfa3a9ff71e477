//! What the kernel counts of a process, in whole and by mapping.

use serde::Serialize;

use crate::process::read;
use crate::{Error, Mapping};

/// What the kernel counts, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Pages in memory.
    pub rss: u64,
    /// As `rss`, with what is shared divided by the number of processes that share it.
    pub pss: u64,
    /// Of `rss`, what belongs to no file.
    pub anonymous: u64,
    /// Of that, what the kernel may take when it needs memory: `MADV_FREE`.
    pub lazy_free: u64,
    /// Of that, what is in huge pages.
    pub anon_huge_pages: u64,
    /// On a swap device.
    pub swap: u64,
}

impl Counts {
    /// Takes a line such as `Rss:   12 kB`.
    fn take(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        let field = match name {
            "Rss" => &mut self.rss,
            "Pss" => &mut self.pss,
            "Anonymous" => &mut self.anonymous,
            "LazyFree" => &mut self.lazy_free,
            "AnonHugePages" => &mut self.anon_huge_pages,
            "Swap" => &mut self.swap,
            _ => return,
        };
        *field = kilobytes(value).unwrap_or(0);
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Counts) {
        self.rss += other.rss;
        self.pss += other.pss;
        self.anonymous += other.anonymous;
        self.lazy_free += other.lazy_free;
        self.anon_huge_pages += other.anon_huge_pages;
        self.swap += other.swap;
    }
}

fn kilobytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A mapping and what is counted of it.
#[derive(Clone, Debug)]
pub struct Area {
    /// The mapping.
    pub mapping: Mapping,
    /// Its pages.
    pub counts: Counts,
}

/// A thread of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number here.
    pub number: i32,
    /// Its number where it runs, which is another in a container.
    pub own_number: i32,
    /// Its name.
    pub name: String,
    /// What it does, as the kernel says it in a letter: `R` runs, `S` sleeps.
    pub state: char,
    /// Where its stack pointer was, if it sleeps.
    pub stack: Option<u64>,
}

impl Task {
    /// What it does, in a word.
    pub fn doing(&self) -> &'static str {
        match self.state {
            'R' => "runs",
            'S' | 'I' => "sleeps",
            'D' => "waits for a disk",
            'T' | 't' => "is stopped",
            _ => "ends",
        }
    }
}

/// What the kernel says of a process.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// The process's name.
    pub name: String,
    /// The most that was ever in memory.
    pub peak_rss: u64,
    /// Page tables, which are in no other figure.
    pub page_tables: u64,
    /// By mapping.
    pub areas: Vec<Area>,
    /// Threads.
    pub tasks: Vec<Task>,
}

impl Kernel {
    /// Reads the kernel's figures of a process.
    pub fn of(pid: i32) -> Result<Kernel, Error> {
        let status = read(pid, "status")?;
        let areas = areas(&read(pid, "smaps")?);
        let number = |name| field(&status, name).and_then(kilobytes).unwrap_or(0);
        Ok(Kernel {
            name: field(&status, "Name").unwrap_or("").to_owned(),
            peak_rss: number("VmHWM"),
            page_tables: number("VmPTE"),
            areas,
            tasks: tasks(pid),
        })
    }

    /// A process's name and its resident bytes, for which nothing of it has to wait.
    pub fn name_and_resident(pid: i32) -> Result<(String, Option<u64>), Error> {
        let status = read(pid, "status")?;
        let name = field(&status, "Name").unwrap_or("").to_owned();
        Ok((name, field(&status, "VmRSS").and_then(kilobytes)))
    }
}

/// The counts of a whole process.
pub fn rollup(pid: i32) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    read(pid, "smaps_rollup")?.lines().for_each(|line| counts.take(line));
    Ok(counts)
}

fn areas(smaps: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in smaps.lines() {
        // A name is followed by a colon; addresses come first otherwise.
        if let Some(mapping) = Mapping::of_line(line) {
            areas.push(Area { mapping, counts: Counts::default() });
        } else if let Some(area) = areas.last_mut() {
            area.counts.take(line);
        }
    }
    areas
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find(|line| line.split(':').next() == Some(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// The threads; one that has just ended is left out.
pub(crate) fn tasks(pid: i32) -> Vec<Task> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut tasks: Vec<Task> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|number| {
            let status = read(pid, &format!("task/{number}/status")).ok()?;
            let own = field(&status, "NSpid").and_then(|list| list.split_whitespace().last());
            Some(Task {
                number,
                own_number: own.and_then(|own| own.parse().ok()).unwrap_or(number),
                name: field(&status, "Name").unwrap_or("").to_owned(),
                state: field(&status, "State").and_then(|text| text.chars().next()).unwrap_or('?'),
                stack: read(pid, &format!("task/{number}/syscall")).ok().and_then(|l| stack(&l)),
            })
        })
        .collect();
    tasks.sort_by_key(|task| task.number);
    tasks
}

/// `number arguments stack-pointer program-counter`, or `running`.
fn stack(syscall: &str) -> Option<u64> {
    let words: Vec<&str> = syscall.split_whitespace().collect();
    let pointer = words.len().checked_sub(2).and_then(|place| words.get(place))?;
    u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 1                          /usr/bin/x y
Size:                  4 kB
Rss:                   4 kB
Pss:                   1 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
Rss:                8192 kB
Pss:                8192 kB
Anonymous:          8192 kB
LazyFree:             16 kB
AnonHugePages:      2048 kB
Swap:                 12 kB
";

    #[test]
    fn each_mapping_has_its_own_counts() {
        let areas = areas(SMAPS);
        assert_eq!(areas.len(), 2);
        assert_eq!(areas[0].mapping.path, "/usr/bin/x y");
        assert_eq!((areas[0].counts.rss, areas[0].counts.pss), (4096, 1024));
        let counts = areas[1].counts;
        assert_eq!((counts.rss, counts.anonymous), (8 << 20, 8 << 20));
        assert_eq!(
            (counts.lazy_free, counts.anon_huge_pages, counts.swap),
            (16384, 2 << 20, 12288)
        );
    }

    #[test]
    fn a_sleeping_threads_stack_is_known() {
        assert_eq!(stack("0 0x3 0x7f 0x400 0x0 0x0 0x0 0x7ffc1230 0x7f0012\n"), Some(0x7ffc1230));
        assert_eq!(stack("running\n"), None);
        assert_eq!(stack("-1 0x7ffc1230 0x7f0012"), Some(0x7ffc1230));
        assert_eq!(stack(""), None);
    }
}
