//! Starts the target with the library in front and stays beside it until it ends.
//!
//! One thread and one loop: signals arrive through a descriptor, the library's report through a
//! pipe. The target stays in our process group and on our terminal, so that job control works as if
//! we were not there.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, pipe2};

use crate::report::Report;
use crate::sys::{self, BeforeExec, Change, Usage};

/// How long a target may take from its start to the library's sign of life. The loader runs the
/// library's start code before any other, so that only a machine in deep trouble takes longer.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Signals that are meant for the target when another process sends them to us.
const PASSED_ON: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

pub struct Launch {
    pub program: PathBuf,
    /// Its `argv[0]`.
    pub name: OsString,
    pub arguments: Vec<OsString>,
    /// What to set in its environment, on top of ours.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether its output goes nowhere (the doctor's self-test).
    pub silent: bool,
}

pub struct Outcome {
    pub status: i32,
    pub usage: Usage,
    /// From before the fork to after the end.
    pub wall: Duration,
    pub report: Report,
}

/// Runs the target to its end. `overdue` is called once if no sign of life comes in time.
pub fn run(launch: &Launch, mut overdue: impl FnMut()) -> io::Result<Outcome> {
    let mut handled = SigSet::empty();
    PASSED_ON.into_iter().for_each(|which| handled.add(which));
    handled.add(Signal::SIGCHLD);
    // If our caller has SIGCHLD ignored, the kernel would throw the child's status away.
    let ignore_child = sys::set_default(Signal::SIGCHLD);
    let mask = SigSet::thread_get_mask()?;
    handled.thread_block()?;
    let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;

    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // Room for a whole report, so that the target's exit need not wait for us. A refusal costs only
    // that.
    let _ = fcntl(&reader, FcntlArg::F_SETPIPE_SZ(1 << 20));
    let report_end = report_end(&reader, writer)?;

    let mut command = Command::new(&launch.program);
    command
        .arg0(&launch.name)
        .args(&launch.arguments)
        .envs(launch.environment.iter().map(|(k, v)| (k, v)));
    command.env("TOFT_REPORT_FD", report_end.as_raw_fd().to_string());
    if launch.silent {
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
    }
    let before_exec = BeforeExec { report: report_end.as_raw_fd(), mask, ignore_child };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; that is all that
    // apply makes.
    unsafe { command.pre_exec(move || before_exec.apply()) };

    let started = Instant::now();
    let child = command.spawn();
    drop(report_end);
    let child = match child {
        Ok(child) => child,
        Err(e) => {
            mask.thread_set_mask()?;
            return Err(e);
        }
    };
    let pid = child.id().cast_signed();
    let mut beside = Beside { pid, signals, pipe: Some(reader.into()), report: Report::of(pid) };
    let ended = beside.stay(started, &mut overdue);
    let wall = started.elapsed();
    beside.drain();
    mask.thread_set_mask()?;
    let (status, usage) = ended?;
    Ok(Outcome { status, usage, wall, report: beside.report })
}

/// The end of the pipe that the target gets, at a number out of its way.
///
/// It is opened for reading too: a process that outlives us would otherwise die by SIGPIPE when the
/// library in it reports. And it never blocks, or such processes would one day wait for ever on the
/// full pipe.
fn report_end(reader: &OwnedFd, writer: OwnedFd) -> io::Result<OwnedFd> {
    let both_ways = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", reader.as_raw_fd()));
    // Without /proc, the plain end serves every process that does not outlive us.
    let end = both_ways.map_or(writer, OwnedFd::from);
    sys::duplicate_high(&end)
}

/// The state of the loop.
struct Beside {
    pid: i32,
    signals: SignalFd,
    pipe: Option<File>,
    report: Report,
}

impl Beside {
    fn stay(&mut self, started: Instant, overdue: &mut impl FnMut()) -> io::Result<(i32, Usage)> {
        let mut waiting = true;
        loop {
            if waiting && (self.report.ready.is_some() || started.elapsed() >= PATIENCE) {
                waiting = false;
                if self.report.ready.is_none() {
                    overdue();
                }
            }
            let timeout = if waiting {
                // One more millisecond than is left, or the last wait would be cut to zero and
                // spin.
                let left = PATIENCE.saturating_sub(started.elapsed()).as_millis() as u16 + 1;
                PollTimeout::from(left)
            } else {
                PollTimeout::NONE
            };
            self.wait(timeout)?;
            self.drain();
            if let Some(end) = self.take_signals()? {
                return Ok(end);
            }
        }
    }

    fn wait(&self, timeout: PollTimeout) -> io::Result<()> {
        let mut on = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        on.extend(self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        match poll(&mut on, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads what is in the pipe and never waits: a process that the target left behind may hold it
    /// open for ever.
    fn drain(&mut self) {
        let mut chunk = [0; 16 * 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.report.feed(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    fn take_signals(&mut self) -> io::Result<Option<(i32, Usage)>> {
        while let Some(info) = self.signals.read_signal()? {
            let which = Signal::try_from(info.ssi_signo.cast_signed())?;
            if which == Signal::SIGCHLD {
                match sys::poll_child(self.pid)? {
                    Change::Running => {}
                    Change::Stopped => self.stop_too(),
                    Change::Ended(status, usage) => return Ok(Some((status, usage))),
                }
                continue;
            }
            // What the terminal sends goes to the whole group: the target has it already. And what
            // it sent itself (`kill 0`) it has too.
            let from_terminal = info.ssi_code == libc::SI_KERNEL;
            if !from_terminal && info.ssi_pid.cast_signed() != self.pid {
                // It may have ended in the meantime, which the next turn will tell.
                let _ = kill(Pid::from_raw(self.pid), which);
            }
        }
        Ok(None)
    }

    /// The target stopped, so our shell must see us stop; when the shell continues us, the target
    /// goes on.
    fn stop_too(&self) {
        let _ = raise(Signal::SIGSTOP);
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGCONT);
    }
}
