//! Where figures are from: one process for as long as it runs, or several, which may come and go.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use toft_profile::format::{Format, OfProcess, Scrape, View, pprof_together, prometheus, together};
use toft_profile::{Error, Figures, Kernel, Process, Profile, take_with_figures};

use super::interrupt;
use crate::profile::{NO_STACKS, Names};
use crate::verb::{SymbolFolders, sees_same_files};
use crate::watch::Watched;

/// The processes that figures are wanted of, and what was read of their files.
pub struct Source<'a> {
    pids: Vec<i32>,
    pattern: Option<&'a str>,
    known: HashMap<i32, Target>,
    top: usize,
    symbols: &'a SymbolFolders,
    /// What was read of the files of processes that see the same files as this command.
    names: Names,
}

struct Target {
    process: Watched,
    names: Names,
    /// The numbers of allocated and freed blocks that were last read. A count that a thread is
    /// changing may be read too large, and counters must not fall.
    counted: [u64; 2],
}

struct Reading {
    profile: Profile,
    figures: Figures,
    seconds: f64,
}

impl<'a> Source<'a> {
    /// The processes of these numbers, and those with a name that matches the pattern, found again
    /// at each reading.
    pub fn new(
        pids: &[i32],
        pattern: Option<&'a str>,
        top: usize,
        symbols: &'a SymbolFolders,
    ) -> Source<'a> {
        let mut numbers = pids.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let (known, names) = (HashMap::new(), symbols.names());
        let mut source = Source { pids: numbers, pattern, known, top, symbols, names };
        pids.iter().for_each(|&pid| source.add(pid));
        source
    }

    /// The only process: then its end is the end of the watch, and no figure says of which process
    /// it is.
    fn single(&self) -> Option<i32> {
        match (self.pids.as_slice(), self.pattern) {
            (&[pid], None) => Some(pid),
            _ => None,
        }
    }

    fn add(&mut self, pid: i32) {
        let names = || match sees_same_files(pid) {
            true => self.names.clone().with_generated(pid),
            false => self.symbols.names_of(pid),
        };
        let target = || Target { process: Watched::of(pid), names: names(), counted: [0; 2] };
        self.known.entry(pid).or_insert_with(target);
    }

    /// Whether to go on: no interrupt came, and a process that is the only one is still there.
    pub fn is_running(&self) -> bool {
        let ended =
            |pid: i32| self.known.get(&pid).is_some_and(|target| target.process.has_ended());
        !interrupt::arrived() && !self.single().is_some_and(ended)
    }

    pub fn end_reason(&self) -> String {
        match self.single().and_then(|pid| self.known.get(&pid)) {
            Some(target) if !interrupt::arrived() => target.process.ended(),
            _ => "interrupted".into(),
        }
    }

    /// The processes that are there now, in order.
    fn present(&mut self) -> Vec<i32> {
        let matching = self.pattern.map(matching).unwrap_or_default();
        // Another process may have the number of one that has ended.
        let named = &self.pids;
        self.known.retain(|pid, target| named.contains(pid) || !target.process.has_ended());
        matching.iter().for_each(|&pid| self.add(pid));
        let ended = |pid: &i32| self.known[pid].process.has_ended();
        let mut present: Vec<i32> = self.pids.iter().copied().filter(|pid| !ended(pid)).collect();
        present.extend(matching);
        present.sort_unstable();
        present.dedup();
        present
    }

    fn read(&mut self, pid: i32) -> Result<Reading, String> {
        let Some(target) = self.known.get_mut(&pid) else {
            return Err(Error::Ended(pid).to_string());
        };
        let scan = || -> Result<Reading, Error> {
            let start = Instant::now();
            let (mut profile, figures) = take_with_figures(&Process::open(pid)?)?;
            (profile.name, profile.resident) = Kernel::name_and_resident(pid)?;
            Ok(Reading { profile, figures, seconds: start.elapsed().as_secs_f64() })
        };
        if target.process.has_ended() {
            return Err(target.process.ended());
        }
        let mut reading = scan().map_err(|error| target.process.explain(&error))?;
        target.names.give(&mut reading.profile);
        let Figures { allocations, frees, .. } = &mut reading.figures;
        for (counted, now) in target.counted.iter_mut().zip([allocations, frees]) {
            *counted = (*counted).max(*now);
            *now = *counted;
        }
        Ok(reading)
    }

    /// Every process that can be read. All whose numbers were given must be, the first time.
    fn read_all(&mut self) -> Vec<(i32, Reading)> {
        let present = self.present();
        present.into_iter().filter_map(|pid| Some((pid, self.read(pid).ok()?))).collect()
    }

    /// The reason why there is nothing to read yet: a number that is no process on Toft, or a name
    /// that no such process has.
    pub fn check(&mut self) -> Result<(), String> {
        for pid in self.pids.clone() {
            self.read(pid)?;
        }
        let pattern = self.pattern.filter(|_| self.pids.is_empty());
        if let Some(pattern) = pattern
            && self.read_all().is_empty()
        {
            return Err(format!(
                "no process that can be read and runs on Toft is called {pattern}"
            ));
        }
        Ok(())
    }

    /// The figures as Prometheus reads them.
    pub fn text(&mut self) -> Result<String, String> {
        let top = self.top;
        let page = |Reading { profile, figures, seconds }: &Reading| {
            prometheus(&Scrape { profile, figures, top, seconds: *seconds })
        };
        if let Some(pid) = self.single() {
            return self.read(pid).map(|reading| page(&reading));
        }
        let readings = self.read_all();
        let pages = readings.iter().map(|(pid, reading)| OfProcess {
            pid: *pid,
            name: reading.profile.name.clone(),
            page: page(reading),
        });
        Ok(together(&pages.collect::<Vec<_>>()))
    }

    /// One object, or of several processes a list of them.
    pub fn object(&mut self) -> Result<Value, String> {
        let top = self.top;
        match self.single() {
            Some(pid) => self.read(pid).map(|reading| object(&reading, top)),
            None => {
                let readings = self.read_all();
                let all: Vec<_> =
                    readings.iter().map(|(_, reading)| object(reading, top)).collect();
                Ok(json!({ "processes": all }))
            }
        }
    }

    /// The heap for pprof: live memory by call site, or the sampled stacks. Of one process, or with
    /// labels of all that can be read. Processes without stacks are left out of those. Each has its
    /// four values alone: Grafana Alloy takes no more of a profile named `memory`.
    pub fn pprof(&mut self, pid: Option<i32>, stacks: bool) -> Result<Vec<u8>, String> {
        let view = View { stacks, full: false };
        let has = |profile: &Profile| !stacks || profile.sampled.is_some();
        let part = |profile: Profile| match stacks {
            true => Profile { rows: Vec::new(), ..profile },
            false => Profile { sampled: None, ..profile },
        };
        if let Some(pid) = pid.or(self.single()) {
            if !self.present().contains(&pid) {
                return Err(format!("process {pid} is not one of those that are served"));
            }
            let profile = self.read(pid)?.profile;
            return match has(&profile) {
                true => Ok(Format::Pprof.write_view(&part(profile), view)),
                false => Err(NO_STACKS.into()),
            };
        }
        let all: Vec<_> = self.read_all().into_iter().map(|(_, reading)| reading.profile).collect();
        if all.is_empty() {
            return Err("no process is there that can be read".into());
        }
        let profiles: Vec<_> = all.into_iter().filter(has).map(part).collect();
        if profiles.is_empty() {
            return Err(NO_STACKS.into());
        }
        Ok(pprof_together(&profiles, view))
    }
}

/// The processes of which the name, or that of the program's file, matches.
fn matching(pattern: &str) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_called = |pid: &i32| {
        // A name is cut off after 15 letters, and a file is not to be seen by every user.
        let name = toft_profile::read(*pid, "comm").unwrap_or_default();
        let file = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let file = file.file_name().map(Path::new).unwrap_or(Path::new("")).to_string_lossy();
        matches(pattern, name.trim_end()) || matches(pattern, &file)
    };
    numbers.filter(|pid| *pid != own).filter(is_called).collect()
}

/// Whether a name is that of the pattern, in which `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

fn object(reading: &Reading, top: usize) -> Value {
    let Reading { profile, figures, seconds } = reading;
    let places = profile.by_place();
    let sites = places.iter().take(top).map(|row| {
        json!({ "site": row.location.place(), "file": row.location.module, "bytes": row.bytes, "blocks": row.objects })
    });
    let others = places.iter().skip(top);
    let (bytes, blocks) =
        others.fold((0, 0), |(bytes, blocks), row| (bytes + row.bytes, blocks + row.objects));
    json!({
        "pid": profile.pid, "process": profile.name, "version": profile.toft, "seconds": seconds,
        "live_bytes": profile.bytes, "live_blocks": profile.objects,
        "large_live_bytes": figures.large_live_bytes, "large_blocks": figures.large_blocks,
        "free_slab_bytes": figures.slot_bytes - figures.slot_live_bytes,
        "empty_slab_bytes": figures.empty_slab_bytes, "free_large_bytes": figures.large_kept_bytes,
        "free_slab_resident_bytes": figures.free_resident[0],
        "empty_slab_resident_bytes": figures.free_resident[1],
        "free_large_resident_bytes": figures.free_resident[2],
        "allocations": figures.allocations, "frees": figures.frees,
        "misuses": figures.misuses, "returned_bytes": figures.returned_bytes,
        "slabs": figures.slabs, "empty_slabs": figures.empty_slabs,
        "threads": figures.threads, "ended_threads": figures.ended_threads,
        "resident": profile.resident, "partitions": profile.partitions,
        "descriptors": figures.descriptors, "doubts": profile.doubts,
        "sites": sites.collect::<Vec<_>>(), "other_sites": { "bytes": bytes, "blocks": blocks },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        for (pattern, name) in [
            ("redis", "redis"),
            ("redis*", "redis"),
            ("*", ""),
            ("a*b*c", "axbxbc"),
            ("*-server", "a-server"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("redis", "redis-server"),
            ("redis*", "xredis"),
            ("a*b*c", "ac"),
            ("*a", "ab"),
            ("ab*ba", "aba"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
