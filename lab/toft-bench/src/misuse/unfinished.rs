//! What a run of the corpus has done so far, in a file, so that one that is stopped goes on from
//! there.
//!
//! The first line says what is run: the programs, the allocators as they are on disk, and how. A
//! file whose first line is another one is another run's. Each line after it is one case on one
//! allocator, written when it is done. A line that was cut off by a stop is passed over.

use super::class::{Class, HEADER, SOURCES};
use super::trial::{ALIKE, Job, Outcome};
use crate::machine::Machine;
use crate::peer_cache::try_locked;
use crate::peers::Peer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file, open for what is done from now on.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    file: File,
}

#[derive(Serialize, Deserialize)]
struct Line {
    job: String,
    outcome: Outcome,
}

/// What was done before, by the names of the jobs.
pub type Done = BTreeMap<String, Outcome>;

/// All that an outcome depends on, on a line.
pub fn plan(classes: &[Class], peers: &[Peer], patience: Duration) -> String {
    let mut programs = DefaultHasher::new();
    (SOURCES, HEADER, super::expect::MESSAGES_TEXT).hash(&mut programs);
    let numbers: Vec<u32> = classes.iter().map(|class| class.number).collect();
    let peer = |peer: &Peer| {
        let library = peer.library.as_ref().map(|path| {
            let there =
                fs::metadata(path).map(|of| (of.ino(), of.len(), of.mtime(), of.mtime_nsec()));
            (path.clone(), there.ok())
        });
        (peer.name.clone(), peer.version.clone(), library)
    };
    let peers: Vec<_> = peers.iter().map(peer).collect();
    let Machine { cpu, cpus, kernel, libc, .. } = Machine::here();
    let made_of = (numbers, peers, (cpu, cpus, kernel, libc), (programs.finish(), ALIKE, patience));
    serde_json::to_string(&made_of).expect("strings and numbers alone")
}

impl Unfinished {
    /// The file for a plan in a folder, with what it has; `None` where another process goes through
    /// the same plan.
    pub fn open(folder: &Path, plan: &str) -> Result<Option<(Self, Done)>, String> {
        let mut name = DefaultHasher::new();
        plan.hash(&mut name);
        let path = folder.join(format!("unfinished-{:016x}.jsonl", name.finish()));
        let wrong = |error: io::Error| format!("{}: {error}", path.display());
        let open = File::options().create(true).append(true).read(true).open(&path);
        let mut file = open.map_err(wrong)?;
        if !try_locked(&file).map_err(wrong)? {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(wrong)?;
        let mut lines = text.lines();
        let mut done = Done::new();
        if lines.next() == Some(plan) {
            let known = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
            done.extend(known.map(|line| (line.job, line.outcome)));
            if !text.ends_with('\n') {
                file.write_all(b"\n").map_err(wrong)?;
            }
        } else {
            file.set_len(0).and_then(|()| writeln!(file, "{plan}")).map_err(wrong)?;
        }
        Ok(Some((Self { path, file }, done)))
    }

    /// Forgets what was done before.
    pub fn begin_anew(&self, plan: &str) -> Result<(), String> {
        let anew = self.file.set_len(0).and_then(|()| writeln!(&self.file, "{plan}"));
        anew.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Writes what a job came to.
    pub fn keep(&self, job: &Job, outcome: &Outcome) -> Result<(), String> {
        let line = Line { job: job.to_string(), outcome: outcome.clone() };
        let text = serde_json::to_string(&line).expect("strings and numbers alone") + "\n";
        // One call for a line, and at the end of the file: threads do not write into each other's.
        let written = (&self.file).write_all(text.as_bytes());
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All is done: the file has served.
    pub fn finish(self) {
        // One that cannot be removed is found to be complete by the next run, no more.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Stage;
    use crate::misuse::class::classes;
    use crate::misuse::verdict::{Ending, Verdict};

    /// Opens a file that was open in this process. While a test beside this one starts a process,
    /// the child holds its lock for a moment, too.
    fn again(folder: &Path, plan: &str) -> (Unfinished, Done) {
        for _ in 0..60_000 {
            if let Some(opened) = Unfinished::open(folder, plan).unwrap() {
                return opened;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("its lock is still held");
    }

    fn outcome(how: &str) -> Outcome {
        let runs = vec![Ending::Judged(Verdict::Caught, how.to_owned())];
        Outcome { runs, twin: Ok(()), deviations: Vec::new() }
    }

    fn glibc() -> Peer {
        Peer::without_library("glibc", "2.36")
    }

    #[test]
    fn what_was_done_is_there_again_but_for_a_line_that_was_cut_off() {
        let stage = Stage::new().unwrap();
        let (folder, classes, peer) = (stage.path(""), classes(), glibc());
        let cases = classes[0].cases();
        let job = |n: usize| Job { class: &classes[0], case: &cases[n], peer: &peer };
        let (file, done) = Unfinished::open(&folder, "a plan").unwrap().unwrap();
        assert!(done.is_empty());
        file.keep(&job(0), &outcome("first")).unwrap();
        file.keep(&job(1), &outcome("second")).unwrap();
        // Stopped in the middle of a line.
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), &text[..text.len() - 9]).unwrap();
        drop(file);
        let (file, done) = again(&folder, "a plan");
        assert_eq!(done, Done::from([(job(0).to_string(), outcome("first"))]));
        file.keep(&job(1), &outcome("again")).unwrap();
        drop(file);
        let (file, done) = again(&folder, "a plan");
        assert_eq!(done.len(), 2);
        assert_eq!(done[&job(1).to_string()], outcome("again"));
        file.finish();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn another_plan_is_another_file_and_one_that_is_in_use_is_left_alone() {
        let stage = Stage::new().unwrap();
        let folder = stage.path("");
        let (first, _) = Unfinished::open(&folder, "a plan").unwrap().unwrap();
        assert!(Unfinished::open(&folder, "a plan").unwrap().is_none());
        let (other, _) = Unfinished::open(&folder, "another").unwrap().unwrap();
        assert_ne!(first.path(), other.path());
        // One of that name with something else in it is started afresh.
        let path = other.path().to_owned();
        drop(other);
        fs::write(&path, "nonsense\n{}\n").unwrap();
        let (other, done) = again(&folder, "another");
        assert!(done.is_empty());
        assert_eq!(fs::read_to_string(other.path()).unwrap(), "another\n");
    }

    #[test]
    fn a_plan_changes_with_all_that_an_outcome_depends_on() {
        let (classes, second) = (classes(), Duration::from_secs(1));
        let stage = Stage::new().unwrap();
        let own = stage.write("own.so", "a library").unwrap();
        let peer = Peer { name: "mine".into(), library: Some(own.clone()), version: String::new() };
        let of = |peers: &[Peer]| plan(&classes, peers, second);
        let first = of(std::slice::from_ref(&peer));
        assert_eq!(first, of(std::slice::from_ref(&peer)));
        assert!(!first.contains('\n'));
        assert_ne!(first, of(&[peer.clone(), glibc()]));
        assert_ne!(first, plan(&classes[1..], std::slice::from_ref(&peer), second));
        assert_ne!(first, plan(&classes, std::slice::from_ref(&peer), 2 * second));
        fs::write(&own, "another library").unwrap();
        assert_ne!(first, of(&[peer]));
    }
}
