//! One script on one allocator.

use super::measure::{Figures, Follower};
use super::{Script, folder};
use crate::directives::Ending;
use crate::library::{scratch_dir, workspace};
use crate::process::{Finished, command, hide_cargo, open_folder, run_followed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use toft_bench::peers::Peer;

/// The descriptor on which processes report that they run on Toft: high enough that no script uses
/// it.
const REPORT: &str = "180";

/// What a run gave.
#[derive(Debug)]
pub struct Run {
    finished: Finished,
    /// What processes reported on [`REPORT`].
    report: String,
    /// Its figures.
    pub figures: Figures,
    /// What was wrong when `toft` looked at the processes.
    wrong: Vec<String>,
}

/// Whether the allocator is a build of Toft.
#[must_use]
pub fn is_toft(peer: &Peer) -> bool {
    peer.name.starts_with("toft")
}

/// The command `toft`: the one of `TOFT_TEST_COMMAND`, or built once.
///
/// # Errors
/// There is none.
pub fn toft() -> Result<&'static Path, String> {
    static TOFT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        if let Some(path) = std::env::var_os("TOFT_TEST_COMMAND") {
            return Some(PathBuf::from(path)).filter(|path| path.is_file());
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "toft-cli"]).current_dir(workspace());
        let path = crate::library::target_dir().join("debug/toft");
        (build.status().is_ok_and(|status| status.success()) && path.is_file()).then_some(path)
    };
    TOFT.get_or_init(build).as_deref().ok_or_else(|| "there is no command toft".into())
}

/// Runs the script on the allocator, with `times` as many requests as a quick run.
///
/// # Errors
/// What kept the script from starting.
pub fn run(script: &Script, peer: &Peer, times: u32) -> Result<Run, String> {
    // A path with a colon is two in a list of folders.
    let allocator = peer.name.replace([':', '@'], "-");
    let dir = scratch_dir("programs").join(format!("{}-{allocator}", script.name));
    let said = |e: std::io::Error| format!("{}: {e}", dir.display());
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(said)?;
    }
    std::fs::create_dir_all(dir.join("work")).map_err(said)?;
    let report = dir.join("report");
    // Sockets are bound in the temporary folder (Chromium does), and a socket's path has room for
    // 108 bytes: the folder is a short one, wherever the clone is. Servers that refuse to run as
    // root run as another user, who can enter it.
    let temporary = open_folder().map_err(said)?;
    let library = match &peer.library {
        Some(library) => {
            let copy = temporary.path().join(library.file_name().ok_or("a library has a name")?);
            std::fs::copy(library, &copy).map_err(said)?;
            copy
        }
        None => PathBuf::new(),
    };
    let follower = Follower::start(&dir, is_toft(peer).then(toft).transpose()?.map(Into::into))
        .map_err(said)?;
    // The first shell opens the report before the library is in any process.
    let start = format!(
        "exec {REPORT}>>\"$REPORT_FILE\"; unset REPORT_FILE; \
         if [ -n \"$PRELOAD\" ]; then export LD_PRELOAD=\"$PRELOAD\"; fi; \
         if [ -n \"$IS_TOFT\" ]; then export TOFT_REPORT_FD={REPORT}; fi; \
         unset PRELOAD IS_TOFT; exec bash -eu -o pipefail \"$1\""
    );
    let (events, answers) = follower.pipes();
    let mut command: Command = command("bash");
    command
        .args(["--norc", "-c", &start, "start"])
        .arg(&script.path)
        .current_dir(dir.join("work"))
        .env("REPORT_FILE", &report)
        .env("PRELOAD", &library)
        .env("IS_TOFT", if is_toft(peer) { "1" } else { "" })
        .env("ALLOCATOR", &peer.name)
        .env("TIMES", times.to_string())
        .env("EVENTS", events)
        .env("ANSWERS", answers)
        .env("PROGRAMS", folder())
        .env("HOME", dir.join("work"))
        .env("TMPDIR", temporary.path())
        .env("PYTHONHASHSEED", "0")
        .env("TZ", "UTC")
        .envs(peer.settings());
    hide_cargo(&mut command);
    // With a new home, rustup and cargo would no longer find what is installed in the old one.
    if let Some(home) = std::env::var_os("HOME") {
        for (key, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            if std::env::var_os(key).is_none() {
                command.env(key, Path::new(&home).join(folder));
            }
        }
    }
    let (mut finished, usage) =
        run_followed(command, &[], script.timeout, |pid| follower.started(pid));
    let (mut figures, wrong) = follower.end();
    if figures.requests == 1 {
        figures.processor = usage.as_secs_f64();
    }
    for place in [dir.as_path(), temporary.path()] {
        finished.stdout = finished.stdout.replace(&place.display().to_string(), "DIR");
    }
    let report = std::fs::read_to_string(&report).unwrap_or_default();
    Ok(Run { finished, report, figures, wrong })
}

impl Run {
    /// Checks a run on libc, with which the others are compared.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_plain(&self, script: &Script) -> Result<(), String> {
        self.in_time(script)?;
        if self.finished.ending != Ending::Exit(0) {
            return Err(self.finished.describe("fails on libc"));
        }
        if self.finished.stdout.is_empty() {
            return Err(self.finished.describe("prints nothing that could be compared"));
        }
        Ok(())
    }

    /// Checks a run on another allocator against the one on libc.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, script: &Script, peer: &Peer, plain: &Run) -> Result<(), String> {
        self.in_time(script)?;
        let finished = &self.finished;
        let on = &peer.name;
        if finished.ending != plain.finished.ending {
            return Err(finished.describe(&format!("ends differently on {on}")));
        }
        if finished.stdout != plain.finished.stdout {
            let libc = &plain.finished.stdout;
            return Err(
                finished.describe(&format!("prints on {on} what it does not on libc:\n{libc}"))
            );
        }
        if !is_toft(peer) {
            return Ok(());
        }
        let harmless = |line: &str| {
            ["toft: verified ", "toft: TOFT_LIMIT refused "].iter().any(|own| line.starts_with(own))
        };
        if finished.stderr.lines().any(|line| line.starts_with("toft:") && !harmless(line)) {
            return Err(finished.describe(&format!("{on} complained")));
        }
        if !script.untouched && !self.report.contains("toft-ready ") {
            return Err(finished.describe(&format!("no process reported that it runs on {on}")));
        }
        // What a script cannot do on this machine is shown even though the test passes.
        for line in finished.stderr.lines().filter(|line| line.starts_with("left out: ")) {
            eprintln!("{} on {on}: {line}", script.name);
        }
        match self.wrong.first() {
            Some(wrong) => Err(finished.describe(&format!("on {on}: {wrong}"))),
            None => Ok(()),
        }
    }

    fn in_time(&self, script: &Script) -> Result<(), String> {
        match self.finished.timed_out {
            true => {
                let limit = script.timeout.as_secs();
                Err(self.finished.describe(&format!("not done after {limit} s")))
            }
            false => Ok(()),
        }
    }
}
