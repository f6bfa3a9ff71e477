//! Starts a program on a peer and measures it from outside.

use crate::peers::Peer;
use crate::signals::default_in_children;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A child that is killed and waited for when this value is dropped.
pub struct Killed(pub Child);

impl Killed {
    /// Its number, as a word of a command line.
    pub fn pid(&self) -> String {
        self.id().to_string()
    }
}

impl Deref for Killed {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing left to stop.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a finished process cost.
#[derive(Debug)]
pub struct Ended {
    /// Wall time, from before the fork until it was reaped.
    pub seconds: f64,
    /// Processor time, of it and of the children that it waited for.
    pub cpu_seconds: f64,
    /// The largest resident set of it or of one of those children, in KiB.
    pub peak_kib: u64,
    /// Page faults that needed no disk, of it and of those children.
    pub minor_faults: u64,
    /// Its standard output.
    pub output: String,
    /// What it said on its standard error.
    pub said: String,
}

/// How to run programs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Programs that take longer are killed and count as failed.
    pub timeout: Duration,
    /// The processor to stay on.
    pub pin: Option<usize>,
}

/// What the variables of allocators begin with.
const OF_ALLOCATORS: &[&str] =
    &["MALLOC_", "MIMALLOC_", "TCMALLOC_", "TBB_MALLOC_", "SCUDO_OPTIONS", "GLIBC_TUNABLES"];

/// A command on a peer: its library preloaded, and nothing of other allocators in the environment.
pub fn on_peer(peer: &Peer, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (key, _) in std::env::vars_os() {
        let key_text = key.to_string_lossy();
        if OF_ALLOCATORS.iter().any(|p| key_text.starts_with(p)) {
            command.env_remove(&key);
        }
    }
    match &peer.library {
        Some(library) => command.env("LD_PRELOAD", library),
        None => command.env_remove("LD_PRELOAD"),
    };
    command.envs(peer.settings());
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// How a process ended, in whatever way.
#[derive(Debug)]
pub struct End {
    /// Its status; `None` when it was killed because the time was up.
    pub status: Option<ExitStatus>,
    /// What it and the children that it waited for used.
    pub usage: libc::rusage,
    /// Wall time, from before the fork until it was reaped.
    pub seconds: f64,
    /// Its standard output.
    pub output: String,
    /// What it said on its standard error.
    pub said: String,
}

/// A child that was started and not yet reaped.
pub(crate) struct Running {
    pid: libc::pid_t,
    handle: OwnedFd,
}

impl Running {
    fn of(pid: libc::pid_t) -> io::Result<Self> {
        // SAFETY: the call takes two numbers and returns a new descriptor or -1.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us.
        Ok(Self { pid, handle: unsafe { OwnedFd::from_raw_fd(raw as i32) } })
    }

    pub(crate) fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Waits until it ends; `false` when the time is up first.
    pub(crate) fn ends_within(&self, time: Duration) -> io::Result<bool> {
        let mut poll =
            libc::pollfd { fd: self.handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            // SAFETY: one valid pollfd, counted as one.
            match unsafe { libc::poll(&raw mut poll, 1, i32::try_from(left).unwrap_or(i32::MAX)) } {
                0 => return Ok(false),
                1 => return Ok(true),
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(io::Error::last_os_error()),
            }
        }
    }
}

/// Runs a command to its end, well or not.
pub(crate) fn end(command: Command, limits: Limits) -> io::Result<End> {
    end_or_give_up(command, limits.pin, |running| running.ends_within(limits.timeout))
}

/// Runs a command until it ends, or until `ends` says that it was waited for long enough.
pub(crate) fn end_or_give_up(
    mut command: Command,
    pin: Option<usize>,
    ends: impl FnOnce(&Running) -> io::Result<bool>,
) -> io::Result<End> {
    let mut stdout = memory_file()?;
    let mut stderr = memory_file()?;
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    prepare(&mut command, pin);
    let start = Instant::now();
    let child = command.spawn()?;
    let pid = child.id().cast_signed();
    let in_time = Running::of(pid).and_then(|running| ends(&running));
    if !matches!(in_time, Ok(true)) {
        // SAFETY: the group was made by `prepare` for this child, which has not been reaped.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
    let (status, usage) = reap(pid)?;
    let in_time = in_time?;
    let seconds = start.elapsed().as_secs_f64();
    let (output, said) = (contents(&mut stdout)?, contents(&mut stderr)?);
    Ok(End { status: in_time.then_some(status), usage, seconds, output, said })
}

/// Runs a command to its end.
///
/// # Errors
/// Says in one line how it failed: not started, killed after the timeout, ended by a signal or with
/// another status than 0, or the loader could not preload the peer.
pub fn run(command: Command, limits: Limits) -> Result<Ended, String> {
    let End { status, usage, seconds, output, said } =
        end(command, limits).map_err(|error| error.to_string())?;
    let Some(status) = status else {
        return Err(format!("killed after {} s", limits.timeout.as_secs()));
    };
    if !status.success() {
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
        return Err(format!("{status}: {last}"));
    }
    if let Some(line) = not_preloaded(&said) {
        return Err(line.to_owned());
    }
    Ok(Ended {
        seconds,
        cpu_seconds: processor_seconds(&usage),
        peak_kib: usage.ru_maxrss.cast_unsigned(),
        minor_faults: usage.ru_minflt.cast_unsigned(),
        output,
        said,
    })
}

/// What the loader says when it goes on without the library of a peer.
pub(crate) fn not_preloaded(said: &str) -> Option<&str> {
    said.lines().find(|line| line.contains("cannot be preloaded"))
}

/// Processor seconds and page faults without disk of all children that were waited for so far.
pub(crate) fn spent_by_children() -> (f64, u64) {
    // SAFETY: zero is a valid rusage, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local of the right type.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(result, 0, "getrusage takes these arguments");
    (processor_seconds(&usage), usage.ru_minflt.cast_unsigned())
}

/// What the peak of any child is at least, in KiB, since it begins as a copy of this process: the
/// peak of a child that does nothing. A program that stays below it cannot be told from it.
pub(crate) fn least_peak_kib() -> io::Result<u64> {
    // SAFETY: the child makes one call, which is allowed after a fork of any process.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    reap(pid).map(|(_, usage)| usage.ru_maxrss.cast_unsigned())
}

pub(crate) fn processor_seconds(usage: &libc::rusage) -> f64 {
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// Whether the library of a peer is mapped in a process.
pub(crate) fn is_loaded(pid: &str, library: &Path) -> bool {
    // A file in memory has no path to canonicalise, but its link says what the kernel calls it.
    let real = library
        .canonicalize()
        .or_else(|_| library.read_link())
        .unwrap_or_else(|_| library.to_owned());
    std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .is_ok_and(|maps| maps.lines().any(|line| line.ends_with(&*real.to_string_lossy())))
}

/// Its own process group (so that a timeout ends what it started, too), no life beyond ours, and
/// its processor. Having something to do between fork and exec also makes the standard library
/// fork instead of vfork: an image that starts out of a shared one inherits its peak memory.
fn prepare(command: &mut Command, pin: Option<usize>) {
    default_in_children();
    command.process_group(0);
    // SAFETY: between fork and exec only the two system calls below are made.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            if let Some(cpu) = pin {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut set);
                if libc::sched_setaffinity(0, size_of_val(&set), &raw const set) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

fn reap(pid: libc::pid_t) -> io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: zero is a valid rusage, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals of the right type.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } == pid {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a terminated string.
    let raw = unsafe { libc::memfd_create(c"output".as_ptr(), libc::MFD_CLOEXEC) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { File::from_raw_fd(raw) })
}

fn contents(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn duration(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{LIMITS, shell};

    #[test]
    fn output_and_cost_come_back() {
        let ended = run(shell("echo seen; sleep 0.05"), LIMITS).unwrap();
        assert_eq!(ended.output, "seen\n");
        assert!(ended.seconds >= 0.05 && ended.cpu_seconds < ended.seconds);
        assert!((200..100_000).contains(&ended.peak_kib), "{}", ended.peak_kib);
        assert!(ended.minor_faults > 20, "{}", ended.minor_faults);
    }

    #[test]
    fn what_children_spent_adds_up() {
        let before = spent_by_children();
        let ended =
            run(shell("i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"), LIMITS).unwrap();
        let after = spent_by_children();
        assert!(ended.cpu_seconds > 0.0);
        // Tests beside this one have children, too.
        assert!(after.0 - before.0 >= ended.cpu_seconds - 1e-5, "{before:?} {after:?} {ended:?}");
        assert!(after.1 - before.1 >= ended.minor_faults, "{before:?} {after:?} {ended:?}");
    }

    /// As `toft` does where it finds no place on disk for its library.
    #[test]
    fn a_library_in_memory_is_seen_to_be_loaded() {
        let file = memory_file().unwrap();
        file.set_len(4096).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        assert!(!is_loaded("self", Path::new(&path)));
        let (kind, protection) = (libc::MAP_PRIVATE, libc::PROT_READ);
        // SAFETY: a new mapping of a file, at a place of the kernel's choice.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), 4096, protection, kind, file.as_raw_fd(), 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        assert!(is_loaded("self", Path::new(&path)));
        // SAFETY: the mapping was made above, and nothing refers to it.
        unsafe { libc::munmap(map, 4096) };
    }

    #[test]
    fn the_least_peak_is_that_of_our_own_image() {
        let (least, own) = (least_peak_kib().unwrap(), crate::outcome::status_kib("self", "VmHWM"));
        assert!((50..=own).contains(&least), "{least} {own}");
        let ended = run(shell("true"), LIMITS).unwrap();
        assert!(ended.peak_kib + 64 >= least, "{ended:?} {least}");
    }

    #[test]
    fn failures_say_how() {
        let error = run(shell("echo why >&2; exit 7"), LIMITS).unwrap_err();
        assert!(error.contains('7') && error.contains("why"), "{error}");
        let error = run(shell("kill -SEGV $$"), LIMITS).unwrap_err();
        assert!(error.contains("signal: 11"), "{error}");
        let short = Limits { timeout: Duration::from_millis(50), pin: None };
        let error = run(shell("sleep 30"), short).unwrap_err();
        assert!(error.contains("killed"), "{error}");
    }
}
