//! What an allocator costs a program that does nothing: `true`, started again and again.

use super::{HostWorkload, Stage};
use crate::child::{self, Limits};
use crate::outcome::{Outcome, megabytes, status_kib};
use crate::params::Params;
use crate::peers::Peer;
use crate::stats::Summary;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::time::Instant;

pub const WORKLOAD: HostWorkload = HostWorkload {
    name: "spawn",
    file: include_str!("../../workloads/spawn.toml"),
    prepare: |_| Stage::new(),
    run,
};

fn run(peer: &Peer, params: &Params, _: &Stage, _: Limits) -> Result<Outcome, String> {
    // First, since a library that cannot be loaded is seen here.
    let peak = peak_kib(peer)?;
    let count = params.get("count", 100);
    let mut program = program(peer);
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let status = program.status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("`true` ended with {status}"));
        }
        times.push(start.elapsed().as_secs_f64());
    }
    let total: f64 = times.iter().sum();
    let median = Summary::of(&times).ok_or("no processes")?.median;
    Ok(Outcome::timed(count, total).with("ms", median * 1e3).with("peak_mb", megabytes(peak)))
}

/// The program, with next to nothing in its environment.
fn program(peer: &Peer) -> Command {
    let mut program = Command::new("/bin/true");
    program.env_clear().envs([("LC_ALL", "C"), ("PATH", "/usr/bin:/bin")]);
    if let Some(library) = &peer.library {
        program.env("LD_PRELOAD", library);
    }
    program
}

/// The peak resident set of one such process, read from `/proc` while it is stopped at its exit.
/// `ru_maxrss` would not do: it also counts the image that the process was started from, which is
/// this program and larger than `true`. The loader goes on when it cannot load a library, so
/// whether it did is looked for there, too.
fn peak_kib(peer: &Peer) -> Result<u64, String> {
    let text = || io::Error::last_os_error().to_string();
    let mut program = program(peer);
    // What the loader complains of is said by us, once.
    program.stderr(Stdio::null());
    // SAFETY: between fork and exec only the one system call below is made.
    unsafe {
        program.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let child = program.spawn().map_err(|error| error.to_string())?;
    let pid = child.id().cast_signed();
    let (mut peak, mut loaded) = (0, true);
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a live local.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
            return Err(text());
        }
        if !libc::WIFSTOPPED(status) {
            return match (peak, loaded) {
                (0, _) => Err("`true` was not seen to exit".to_owned()),
                (_, false) => Err("the library was not loaded into `true`".to_owned()),
                _ => Ok(peak),
            };
        }
        if status >> 8 == libc::SIGTRAP | (libc::PTRACE_EVENT_EXIT << 8) {
            let pid = pid.to_string();
            peak = status_kib(&pid, "VmHWM");
            loaded = peer.library.iter().all(|library| child::is_loaded(&pid, library));
        } else {
            // SAFETY: the process is our tracee and stopped; the option is a plain number.
            unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_TRACEEXIT) };
        }
        // SAFETY: as above; no signal is passed on, the only stop before exit is that of exec.
        if unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, 0) } != 0 {
            return Err(text());
        }
    }
}
