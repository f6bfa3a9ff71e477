//! What a program has allocated, by call site: its tables are read when it is about to end, and
//! nothing was given back yet. The kernel stops it there for the tracer.

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::Command;
use toft_core::slab::Slab;
use toft_profile::{Mapping, Memory, Process, Tables, find};

/// What was read.
pub struct Taken {
    /// For each slab and large block its call site, and bytes: of slots, each time that one was
    /// handed out; of large blocks, those of the end.
    pub bytes: Vec<(u64, u64)>,
    /// Partitions that have anything.
    pub partitions: usize,
    /// Call sites with a separate partition, and those that share; none where they are hashed.
    pub own: usize,
    /// See `own`.
    pub merged: usize,
    /// Which files lay where.
    pub files: Vec<Mapping>,
}

/// Runs a command to its end; `started` is told its number.
pub fn at_end(mut command: Command, started: impl FnOnce(i32)) -> Result<Taken, String> {
    let trace_me = || ptrace::traceme().map_err(std::io::Error::from);
    // SAFETY: one system call, between fork and exec.
    unsafe { command.pre_exec(trace_me) };
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let number = child.id().cast_signed();
    let pid = Pid::from_raw(number);
    let taken = follow(pid, || started(number));
    if taken.is_err() {
        // It may have ended already.
        let _ = child.kill();
    }
    // `follow` has seen the end, or it was killed just now.
    let _ = waitpid(pid, None);
    taken
}

fn follow(pid: Pid, started: impl FnOnce()) -> Result<Taken, String> {
    let wrong = |error: nix::Error| format!("tracing: {error}");
    waitpid(pid, None).map_err(wrong)?;
    ptrace::setoptions(pid, Options::PTRACE_O_TRACEEXIT | Options::PTRACE_O_EXITKILL)
        .map_err(wrong)?;
    ptrace::cont(pid, None).map_err(wrong)?;
    started();
    let mut taken = Err("it has ended, and was not stopped".to_owned());
    loop {
        let pass = match waitpid(pid, None).map_err(wrong)? {
            WaitStatus::PtraceEvent(..) => {
                taken = read(pid.as_raw());
                None
            }
            WaitStatus::Stopped(_, Signal::SIGTRAP) => None,
            WaitStatus::Stopped(_, signal) => Some(signal),
            WaitStatus::Exited(_, 0) => return taken,
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                return Err("it has failed".to_owned());
            }
            _ => None,
        };
        ptrace::cont(pid, pass).map_err(wrong)?;
    }
}

fn read(pid: i32) -> Result<Taken, String> {
    let wrong = |error: toft_profile::Error| error.to_string();
    let process = Process::open(pid).map_err(wrong)?;
    let files = process.mappings().map_err(wrong)?;
    let tables = Tables { root: find(&process).map_err(wrong)?.root };
    let sites = tables.sites(&process).map_err(wrong)?;
    let mut bytes = Vec::new();
    let mut partitions = std::collections::BTreeSet::new();
    tables
        .for_each_descriptor(&process, &files, |slab| {
            let [start, credit, frees, absorbed] =
                Slab::COUNTS.map(|(offset, size)| slab.number(offset, size));
            let spent = start.wrapping_sub(credit) & u64::from(u32::MAX);
            let blocks = frees + absorbed + spent + slab.live();
            if blocks > 0 {
                partitions.insert(slab.partition());
                bytes.push((slab.site(), blocks * slab.size));
            }
        })
        .map_err(wrong)?;
    for block in tables.blocks(&process, &files).map_err(wrong)?.0 {
        partitions.insert(block.partition);
        bytes.push((block.site, block.usable));
    }
    let own = sites.iter().filter(|site| site.own).count();
    let (partitions, merged) = (partitions.len(), sites.len() - own);
    Ok(Taken { bytes, partitions, own, merged, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_library_is_told_and_one_that_fails_too() {
        let mut command = Command::new("true");
        command.env_remove("LD_PRELOAD");
        assert!(at_end(command, |pid| assert!(pid > 0)).is_err());
        assert!(at_end(Command::new("false"), |_| {}).is_err());
        assert!(at_end(Command::new("/no/such/program"), |_| {}).is_err());
    }
}
