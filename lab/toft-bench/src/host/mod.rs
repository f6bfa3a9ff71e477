//! The workloads that are other programs, started on a peer and watched from outside.

mod programs;
mod redis;
pub mod scripted;
mod spawn;
mod start;

pub(crate) use programs::with_tool;

use crate::cases::{Listed, listed};
use crate::child::Limits;
use crate::files;
use crate::outcome::Outcome;
use crate::params::Params;
use crate::peers::Peer;
use std::path::PathBuf;

/// A workload of other programs.
pub struct HostWorkload {
    pub name: &'static str,
    /// The text of its file in `workloads/`.
    pub file: &'static str,
    /// Makes the files that it works on, once for all peers.
    pub prepare: fn(&Params) -> Result<Stage, String>,
    /// Runs it once on a peer.
    pub run: fn(&Peer, &Params, &Stage, Limits) -> Result<Outcome, String>,
}

impl HostWorkload {
    pub fn listed(&self) -> &'static Listed {
        listed(self.file)
    }
}

/// Every workload of other programs, in the order of the table.
pub const ALL: &[HostWorkload] = &[
    spawn::WORKLOAD,
    programs::PYTHON,
    programs::GCC,
    programs::GIT,
    scripted::SQLITE,
    scripted::LUA,
    scripted::PERL,
    scripted::NODE,
    scripted::GHOSTSCRIPT,
    redis::WORKLOAD,
    start::WORKLOAD,
    scripted::FORK_PYTHON,
];

/// A folder that is removed in the end.
pub struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// A fresh folder for the process's temporary files.
    pub fn new() -> Result<Self, String> {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("toft-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).map_err(files::at(&folder))?;
        Ok(Self { folder })
    }

    /// The path of a file or folder in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        files::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("toft-bench: {} was not removed: {error}", self.folder.display());
        }
    }
}
