//! What is asked of a running process's reclaimer: to give back everything that it can.
//!
//! The one place here that writes into another process, and into one word of bookkeeping that is
//! there for it. The program gets no signal and is not stopped; only the reclaimer's thread is
//! interrupted in its sleep, as a debugger does it, so that it reads the word.

use std::io::IoSlice;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::kernel::{Counts, Task, rollup, tasks};
use crate::memory::read_u64;
use crate::{Error, Process, find};

/// How long the process may take. One that is stopped does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process whose reclaimer has ended is watched for its own end.
const ENDING: Duration = Duration::from_secs(1);
/// The number of a thread that has returned what was idle, and has ended: `Control::ENDED` of the
/// core.
const ENDED: i32 = -1;
/// How often it is asked whether it is done.
const PAUSE: Duration = Duration::from_millis(2);

/// What a purge has done.
#[derive(Clone, Copy, Debug)]
pub struct Purged {
    /// What the kernel counts before.
    pub before: Counts,
    /// And after.
    pub after: Counts,
    /// Bytes of address space of which the allocator has discarded the pages. It does not know
    /// which of them were resident, and counts a page again that it discards twice.
    pub discarded: u64,
}

impl Purged {
    /// Bytes by which resident memory has fallen.
    pub fn fell(&self) -> u64 {
        self.before.rss.saturating_sub(self.after.rss)
    }
}

/// Lets a process give back everything of the allocator's that holds no live block, and waits until
/// it has.
pub fn purge(process: &Process) -> Result<Purged, Error> {
    let pid = crate::Memory::pid(process);
    let before = rollup(pid)?;
    let discarded = ask(process)?;
    Ok(Purged { before, after: rollup(pid)?, discarded })
}

fn ask(process: &Process) -> Result<u64, Error> {
    let pid = crate::Memory::pid(process);
    let root = find(process)?.root;
    let at = |word: u64| root.control + word;
    let read = |word: u64| read_u64(process, at(word)).ok_or(Error::Ended(pid));
    // Two numbers of 32 bits: the lower half is the one that is asked for. It is the number that
    // the thread has where it runs. In a container that is not its number here, where another
    // thread may have it.
    let own_number = || read(root.control_thread).map(|number| number as u32 as i32);
    let first = own_number()?;
    if first == ENDED {
        return Ok(0);
    }
    let thread = tasks(pid).into_iter().find(|task| task.own_number == first);
    let Some(Task { number: thread, .. }) = thread else {
        return Err(without_reclaimer(process, first != 0));
    };
    let asked = read(root.control_asked)? + 1;
    write(pid, at(root.control_asked), &asked.to_ne_bytes())?;
    write(pid, at(root.control_word), &1u32.to_ne_bytes())?;
    interrupt(pid, thread)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Another process may have asked meanwhile, and been answered for both.
        if read(root.control_answered)? >= asked {
            return read(root.control_given);
        }
        // It was about to end.
        if own_number()? == ENDED {
            return Ok(0);
        }
        if Instant::now() > deadline {
            return Err(Error::NoAnswer(pid));
        }
        sleep(PAUSE);
    }
}

/// Why the reclaimer's thread is not there. Where there was one, the process may be about to end:
/// its threads end one by one.
fn without_reclaimer(process: &Process, had_one: bool) -> Error {
    let deadline = Instant::now() + ENDING;
    while had_one && Instant::now() < deadline {
        if let Err(error) = crate::Memory::mappings(process) {
            return error;
        }
        sleep(PAUSE);
    }
    Error::NoReclaimer(crate::Memory::pid(process))
}

fn write(pid: i32, address: u64, bytes: &[u8]) -> Result<(), Error> {
    let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
    match process_vm_writev(Pid::from_raw(pid), &[IoSlice::new(bytes)], &remote) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) | Err(Errno::ESRCH) => Err(Error::Ended(pid)),
        Err(error) => Err(Error::Other(pid, format!("cannot write into it: {error}"))),
    }
}

/// Restarts a thread's sleep: it sees then that its word has changed.
fn interrupt(pid: i32, thread: i32) -> Result<(), Error> {
    let thread = Pid::from_raw(thread);
    let failed = |error| match error {
        Errno::ESRCH => Error::Ended(pid),
        // It is looked at by a debugger already.
        Errno::EPERM => Error::Traced(pid),
        error => Error::Other(pid, format!("cannot interrupt its reclaimer: {error}")),
    };
    ptrace::seize(thread, ptrace::Options::empty()).map_err(failed)?;
    let interrupted =
        ptrace::interrupt(thread).and_then(|()| waitpid(thread, Some(WaitPidFlag::__WALL)));
    let detached = ptrace::detach(thread, None);
    interrupted.map_err(failed)?;
    detached.map_err(failed)
}
