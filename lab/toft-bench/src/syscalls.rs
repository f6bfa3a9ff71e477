//! How many system calls a program makes, in all or between two marks, counted from outside by
//! `ptrace`: of all its threads and children, those of an allocator included.
//!
//! To be stopped at each call takes time, so such a run is never one that is timed. A mark is a
//! system call itself, one that the kernel refuses: in a run without a tracer it does nothing, and
//! it is not counted.

use std::ffi::c_long;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::sync::mpsc;
use std::time::Duration;

/// The type of ptrace's first argument differs between C libraries.
#[cfg(target_env = "gnu")]
type Request = libc::c_uint;
#[cfg(not(target_env = "gnu"))]
type Request = libc::c_int;

/// ptrace's operation that tells of a system call, and its answer: the kernel's `struct
/// ptrace_syscall_info`.
const GET_SYSCALL_INFO: Request = 0x420e;

#[repr(C)]
#[derive(Default)]
struct SyscallInfo {
    operation: u8,
    padding: [u8; 3],
    machine: u32,
    instruction: u64,
    stack: u64,
    /// Of a thread that stands before a system call (`ENTRY`).
    number: u64,
    arguments: [u64; 6],
    /// The longest of the other parts has four bytes more.
    rest: u64,
}

impl SyscallInfo {
    const ENTRY: u8 = 1;
}

/// The ends of what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Begin,
    End,
}

impl Mark {
    /// The operation of `prctl` that stands for it; there is none of that number.
    const fn operation(self) -> u64 {
        match self {
            Self::Begin => 0x746f_6601,
            Self::End => 0x746f_6602,
        }
    }
}

/// Tells a tracer that this point was reached.
pub fn mark(mark: Mark) {
    // SAFETY: the kernel knows no such operation and refuses it.
    unsafe { libc::prctl(mark.operation() as i32, 0, 0, 0, 0) };
}

/// Runs a program to its end and counts the system calls between its marks.
pub fn between_marks(command: Command, timeout: Duration) -> Result<u64, String> {
    counted(command, timeout, Counter::default())
}

/// Runs a program to its end and counts all its system calls.
pub fn of_all(command: Command, timeout: Duration) -> Result<u64, String> {
    counted(command, timeout, Counter { begun: true, whole: true, ..Counter::default() })
}

fn counted(mut command: Command, timeout: Duration, counter: Counter) -> Result<u64, String> {
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    // SAFETY: between fork and exec only the one system call below is made.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let child = command.spawn().map_err(|error| format!("cannot be watched: {error}"))?;
    let group = child.id().cast_signed();
    // A thread that waits for a stop that does not come is freed by the end of the process.
    let (done, watchdog) = mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        let late = watchdog.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            // SAFETY: the group is that of the child, which `watch` has not seen the end of.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        late
    });
    let result = watch(group, counter);
    drop(done);
    if guard.join().unwrap_or(false) {
        return Err(format!("killed after {} s", timeout.as_secs()));
    }
    result
}

/// Follows a child that asked to be traced, with its threads and children, until it has ended.
fn watch(group: libc::pid_t, mut counter: Counter) -> Result<u64, String> {
    let mut started = false;
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a live local of the right type.
        let task = unsafe { libc::waitpid(-group, &raw mut status, libc::__WALL) };
        if task < 0 {
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(format!("cannot be watched: {error}")),
            }
        }
        if !libc::WIFSTOPPED(status) {
            match (task == group, libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0) {
                (false, _) => continue,
                (true, true) => return counter.result(),
                (true, false) => return Err(format!("ended with status {status:#x} when watched")),
            }
        }
        if !started {
            let options = libc::PTRACE_O_EXITKILL
                | libc::PTRACE_O_TRACECLONE
                | libc::PTRACE_O_TRACEFORK
                | libc::PTRACE_O_TRACEVFORK
                | libc::PTRACE_O_TRACESYSGOOD;
            request(libc::PTRACE_SETOPTIONS, task, options.into());
            started = true;
        }
        let signal = match libc::WSTOPSIG(status) {
            at if at == libc::SIGTRAP | 0x80 => {
                entered(task).into_iter().for_each(|(call, first)| counter.saw(call, first));
                0
            }
            // The exec, the birth of a thread or child, and its first stop.
            libc::SIGTRAP | libc::SIGSTOP => 0,
            signal => signal,
        };
        // A thread may have ended meanwhile; then its end is reported next.
        request(libc::PTRACE_SYSCALL, task, signal.into());
    }
}

/// Sends a request that has no address.
fn request(request: Request, task: libc::pid_t, data: c_long) {
    // SAFETY: these requests read and write no memory of ours.
    unsafe { libc::ptrace(request, task, null_mut::<u8>(), data) };
}

/// The number and the first argument of the system call that a thread stands before, or nothing
/// when it stands behind one.
fn entered(task: libc::pid_t) -> Option<(u64, u64)> {
    let mut info = SyscallInfo::default();
    // SAFETY: the kernel writes at most the given number of bytes, which is the size of the local.
    let size = unsafe { libc::ptrace(GET_SYSCALL_INFO, task, size_of_val(&info), &raw mut info) };
    (size > 0 && info.operation == SyscallInfo::ENTRY).then(|| (info.number, info.arguments[0]))
}

/// Counts what is between the marks, or all.
#[derive(Default)]
struct Counter {
    /// True if all is counted.
    whole: bool,
    begun: bool,
    ended: bool,
    calls: u64,
}

impl Counter {
    fn saw(&mut self, call: u64, first: u64) {
        let is = |mark: Mark| call == libc::SYS_prctl.cast_unsigned() && first == mark.operation();
        if is(Mark::Begin) {
            self.begun = true;
        } else if is(Mark::End) {
            self.ended = true;
        } else if self.begun && !self.ended {
            self.calls += 1;
        }
    }

    fn result(&self) -> Result<u64, String> {
        if self.ended || self.whole { Ok(self.calls) } else { Err("made no marks".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_counts() {
        let mut counter = Counter::default();
        assert!(counter.result().is_err());
        let prctl = libc::SYS_prctl.cast_unsigned();
        counter.saw(libc::SYS_mmap.cast_unsigned(), 0);
        counter.saw(prctl, Mark::Begin.operation());
        counter.saw(libc::SYS_madvise.cast_unsigned(), Mark::Begin.operation());
        counter.saw(prctl, 15);
        assert!(counter.result().is_err());
        counter.saw(prctl, Mark::End.operation());
        counter.saw(libc::SYS_munmap.cast_unsigned(), 0);
        assert_eq!(counter.result(), Ok(2));
    }

    #[test]
    fn of_a_whole_program_its_children_count_too() {
        let calls = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            of_all(command, Duration::from_secs(60)).unwrap()
        };
        let (none, one, two) =
            (calls(":"), calls("/bin/true; :"), calls("/bin/true; /bin/true; :"));
        // A program that does nothing is loaded and exits.
        assert!(none > 10 && one > none + 10 && two > one + 10, "{none} {one} {two}");
        assert_eq!(none, calls(":"));
    }

    #[test]
    fn a_program_without_marks_one_that_fails_and_one_that_hangs_are_errors() {
        let shell = |script: &str, timeout| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            between_marks(command, timeout).unwrap_err()
        };
        let minute = Duration::from_secs(60);
        assert_eq!(shell("true", minute), "made no marks");
        assert!(shell("exit 7", minute).contains("0x700"));
        assert!(shell("exec sleep 30", Duration::from_millis(100)).contains("killed"));
        let absent = between_marks(Command::new("no-such-program"), minute).unwrap_err();
        assert!(absent.contains("cannot be watched"), "{absent}");
    }
}
