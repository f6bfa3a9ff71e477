//! Running one program: its own process group, a deadline, both outputs kept.

use crate::directives::{Ending, Limit};
use crate::programs::tree::processor_time;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use toft_bench::signals::default_in_children;

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Finished {
    /// The command line, for the report.
    pub what: String,
    /// Exit status or signal.
    pub ending: Ending,
    /// Whether the deadline killed it.
    pub timed_out: bool,
    /// What its threads were doing at the deadline.
    pub stuck: String,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(3000);
    let from = (from..text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len());
    &text[from..]
}

impl Finished {
    /// A report of what was run and what came of it.
    pub fn describe(&self, wrong: &str) -> String {
        let mut out = format!("{wrong}\n$ {}\n-> {:?}\n", self.what, self.ending);
        for (name, text) in
            [("stdout", &self.stdout), ("stderr", &self.stderr), ("stuck", &self.stuck)]
        {
            if !text.is_empty() {
                let _ = write!(out, "--- {name}\n{}\n", tail(text));
            }
        }
        out
    }
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What every thread of a process is waiting in, for a report on a hang.
fn threads_of(pid: u32) -> String {
    let mut out = String::new();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return out;
    };
    for task in tasks.flatten().take(40) {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let _ = writeln!(
            out,
            "{} wchan={} syscall={}",
            task.file_name().to_string_lossy(),
            read("wchan").trim(),
            read("syscall").trim()
        );
    }
    out
}

fn kill_group(pid: u32) {
    // SAFETY: a plain system call; the group is the one this module made for the child.
    unsafe { libc::kill(-(pid as libc::pid_t), libc::SIGKILL) };
}

/// Whether the child has exited; it stays to be waited for.
fn has_exited(child: &Child) -> bool {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let how = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    // SAFETY: the pointer is to a live local.
    let answer = unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut info, how) };
    assert_eq!(answer, 0, "the child can be waited for");
    // SAFETY: waitid has filled the structure, or left it zero.
    unsafe { info.si_pid() != 0 }
}

/// Waits to the end or to the deadline: the status, what its threads did at the deadline, and the
/// processor time of the child and of the children it has waited for.
fn wait(child: &mut Child, timeout: Duration) -> (ExitStatus, Option<String>, Duration) {
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_micros(500);
    let mut stuck = None;
    while !has_exited(child) {
        if stuck.is_none() && Instant::now() > deadline {
            stuck = Some(threads_of(child.id()));
            kill_group(child.id());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    let spent = processor_time(child.id());
    (child.wait().expect("the child can be waited for"), stuck, spent)
}

/// A command with a clean environment in which only `LD_PRELOAD` is for the caller to add.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("TOFT_") {
            command.env_remove(key);
        }
    }
    command.env_remove("LD_PRELOAD").env("LC_ALL", "C.UTF-8");
    command
}

/// Hides the cargo that runs these tests from a program that may start another.
pub fn hide_cargo(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO") && name != "CARGO_HOME" || name == "RUSTFLAGS" {
            command.env_remove(&key);
        }
    }
}

/// A temporary folder with a short path, which other users can enter.
pub fn open_folder() -> std::io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("toft-").tempdir()?;
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Runs to the end or to the deadline. Whatever the program left running in its group is killed.
pub fn run(command: Command, limits: &[Limit], timeout: Duration) -> Finished {
    run_followed(command, limits, timeout, |_| ()).0
}

/// Runs to the end or to the deadline, and gives the processor time of the program and of the
/// children it has waited for. `started` learns the process as soon as it is there.
pub fn run_followed(
    mut command: Command,
    limits: &[Limit],
    timeout: Duration,
    started: impl FnOnce(u32),
) -> (Finished, Duration) {
    let what = format!("{command:?}");
    let limits = limits.to_vec();
    default_in_children();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // SAFETY: between fork and exec the closure makes one async-signal-safe call and allocates
    // nothing.
    unsafe {
        command.pre_exec(move || {
            for limit in &limits {
                let both = libc::rlimit { rlim_cur: limit.value, rlim_max: limit.value };
                // SAFETY: the pointer is to a live local.
                if libc::setrlimit(limit.resource, &both) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        })
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            let failed = Finished {
                what,
                ending: Ending::Exit(127),
                timed_out: false,
                stuck: String::new(),
                stdout: String::new(),
                stderr: format!("did not start: {e}"),
            };
            return (failed, Duration::ZERO);
        }
    };
    started(child.id());
    let stdout = reader(child.stdout.take().expect("piped"));
    let stderr = reader(child.stderr.take().expect("piped"));
    let (status, stuck, spent) = wait(&mut child, timeout);
    // A grandchild that survives would keep the pipes open and the readers waiting.
    kill_group(child.id());
    let ending = match status.code() {
        Some(code) => Ending::Exit(code),
        None => Ending::Signal(status.signal().unwrap_or(0)),
    };
    let finished = Finished {
        what,
        ending,
        timed_out: stuck.is_some(),
        stuck: stuck.unwrap_or_default(),
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    };
    (finished, spent)
}
