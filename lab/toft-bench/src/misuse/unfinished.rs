//! What a run of the corpus has done so far, in a file, so that one that is stopped goes on from
//! there.
//!
//! Its name is made of what is run: the programs, the allocators as they are on disk, and how. Each
//! line is one case on one allocator, written when it is done. A line that was cut off by a stop is
//! passed over.

use super::class::{Class, HEADER, SOURCES};
use super::trial::{ALIKE, Job, Outcome};
use crate::files;
use crate::machine::Machine;
use crate::peers::Peer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
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
    /// The file for a plan in a folder, with what it has.
    pub fn open(folder: &Path, plan: &str) -> Result<(Self, Done), String> {
        let mut name = DefaultHasher::new();
        plan.hash(&mut name);
        let path = folder.join(format!("unfinished-{:016x}.jsonl", name.finish()));
        let open = File::options().create(true).append(true).read(true).open(&path);
        let mut file = open.map_err(files::at(&path))?;
        let text = files::read(&path)?;
        let known = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let done = known.map(|line| (line.job, line.outcome)).collect();
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").map_err(files::at(&path))?;
        }
        Ok((Self { path, file }, done))
    }

    pub fn begin_anew(&self) -> Result<(), String> {
        self.file.set_len(0).map_err(files::at(&self.path))
    }

    pub fn keep(&self, job: &Job, outcome: &Outcome) -> Result<(), String> {
        let line = Line { job: job.to_string(), outcome: outcome.clone() };
        let text = serde_json::to_string(&line).expect("strings and numbers alone") + "\n";
        // One call for a line, and at the end of the file: threads do not write into each other's.
        (&self.file).write_all(text.as_bytes()).map_err(files::at(&self.path))
    }

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
        let open = || Unfinished::open(&folder, "a plan").unwrap();
        let (file, done) = open();
        assert!(done.is_empty());
        let (another, _) = Unfinished::open(&folder, "another plan").unwrap();
        assert_ne!(file.path(), another.path());
        another.finish();
        file.keep(&job(0), &outcome("first")).unwrap();
        file.keep(&job(1), &outcome("second")).unwrap();
        // Stopped in the middle of a line.
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), &text[..text.len() - 9]).unwrap();
        let (file, done) = open();
        assert_eq!(done, Done::from([(job(0).to_string(), outcome("first"))]));
        file.keep(&job(1), &outcome("again")).unwrap();
        let (file, done) = open();
        assert_eq!(done.len(), 2);
        assert_eq!(done[&job(1).to_string()], outcome("again"));
        file.finish();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
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
