//! The system calls that no safe crate wraps, each behind a safe function. All `unsafe` of the
//! launcher is in this file and in the three lines of `launch` that run between fork and exec; the
//! doctor's probes have their own.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// What the kernel counted for a child that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// The highest resident set, in bytes.
    pub max_rss: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// News of a child.
#[derive(Debug)]
pub enum Change {
    Running,
    /// Stopped by job control.
    Stopped,
    /// Ended: the raw wait status, and what it used.
    Ended(i32, Usage),
}

/// Asks without waiting what became of the child.
pub fn poll_child(pid: i32) -> io::Result<Change> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live locals of the types that wait4 fills.
    let got = unsafe {
        libc::wait4(pid, &mut status, libc::WNOHANG | libc::WUNTRACED, usage.as_mut_ptr())
    };
    match got {
        0 => Ok(Change::Running),
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {
            Ok(Change::Running)
        }
        -1 => Err(io::Error::last_os_error()),
        _ if libc::WIFSTOPPED(status) => Ok(Change::Stopped),
        _ => {
            // SAFETY: zeroed, which is a valid rusage (all integers), and wait4 succeeded.
            let usage = unsafe { usage.assume_init() };
            Ok(Change::Ended(status, usage.into()))
        }
    }
}

impl From<libc::rusage> for Usage {
    fn from(raw: libc::rusage) -> Usage {
        let time = |t: libc::timeval| {
            Duration::new(t.tv_sec.unsigned_abs(), t.tv_usec.unsigned_abs() as u32 * 1000)
        };
        Usage {
            user: time(raw.ru_utime),
            system: time(raw.ru_stime),
            max_rss: raw.ru_maxrss.unsigned_abs() * 1024,
            minor_faults: raw.ru_minflt.unsigned_abs(),
            major_faults: raw.ru_majflt.unsigned_abs(),
        }
    }
}

static PIPE_IGNORED_AT_START: AtomicBool = AtomicBool::new(false);

/// Records SIGPIPE before the Rust runtime sets it to "ignore", so that the target gets what our
/// caller meant for it.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_SIGPIPE: extern "C" fn() = {
    extern "C" fn record() {
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: with no new action given, sigaction only writes the present one to the local,
        // which was zeroed.
        let ignored = unsafe {
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), now.as_mut_ptr());
            now.assume_init().sa_sigaction == libc::SIG_IGN
        };
        PIPE_IGNORED_AT_START.store(ignored, Ordering::Relaxed);
    }
    record
};

pub fn pipe_ignored_at_start() -> bool {
    PIPE_IGNORED_AT_START.load(Ordering::Relaxed)
}

/// Sets a signal to its default action; returns true if it was ignored before.
pub fn set_default(which: Signal) -> bool {
    // SAFETY: SIG_DFL installs no handler, so there is no code that could run at a wrong moment.
    let before = unsafe { signal(which, SigHandler::SigDfl) };
    matches!(before, Ok(SigHandler::SigIgn))
}

/// The part that runs in the new process between fork and exec: async-signal-safe calls only, and
/// no allocation.
#[derive(Clone, Copy)]
pub struct BeforeExec {
    /// Stays open across the exec.
    pub report: RawFd,
    /// The signal mask our caller gave us.
    pub mask: SigSet,
    /// Whether SIGCHLD was ignored when we started.
    pub ignore_child: bool,
}

impl BeforeExec {
    /// Gives the target the descriptors and signal settings it would have had without us.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: plain system calls on integers and on a mask that lives in self; all of them
        // async-signal-safe.
        unsafe {
            if libc::fcntl(self.report, libc::F_SETFD, 0) == -1 {
                return Err(io::Error::last_os_error());
            }
            if pipe_ignored_at_start() {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            if self.ignore_child {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            if libc::sigprocmask(libc::SIG_SETMASK, self.mask.as_ref(), std::ptr::null_mut()) == -1
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// Duplicates a descriptor to a high number, where programs that number their own from 3 will not
/// meet it.
pub fn duplicate_high(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // A low RLIMIT_NOFILE forbids the high numbers.
    for least in [198, 90, 40, 10, 3] {
        // SAFETY: F_DUPFD_CLOEXEC takes an integer and touches no memory.
        let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
        if copy >= 0 {
            // SAFETY: fcntl just made this descriptor, and nothing else knows of it.
            return Ok(unsafe { OwnedFd::from_raw_fd(copy) });
        }
    }
    Err(io::Error::last_os_error())
}

/// Ends this process by the signal that ended the child, so that our caller sees the same. Only the
/// child dumps core.
pub fn die_by(number: i32) -> ! {
    // Best effort all the way: if the signal does not kill us, the exit status says it.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // Where core_pattern is a pipe, the limit of 0 alone does not keep the kernel from dumping.
    let _ = nix::sys::prctl::set_dumpable(false);
    if let Ok(which) = Signal::try_from(number) {
        set_default(which);
        let mut only = SigSet::empty();
        only.add(which);
        let _ = only.thread_unblock();
        let _ = nix::sys::signal::raise(which);
    } else {
        // SAFETY: a real-time signal: raise takes any number and touches no memory.
        unsafe { libc::raise(number) };
    }
    std::process::exit(128 + number)
}

/// Whether the file carries capabilities (`setcap`).
pub fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings end in NUL; size 0 asks for the length only, so nothing is written.
    unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0
    }
}
