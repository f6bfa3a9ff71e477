//! What an allocator costs a program that does nothing: `true`, started again and again.

use super::{HostWorkload, Stage};
use crate::child::{self, Limits};
use crate::outcome::{Outcome, megabytes, status_kib};
use crate::params::Params;
use crate::peers::Peer;
use crate::stats::Summary;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;
use std::time::Instant;

/// The workload.
pub const WORKLOAD: HostWorkload = HostWorkload {
    name: "spawn",
    file: include_str!("../../workloads/spawn.toml"),
    prepare: |_| Stage::new(),
    run,
};

fn run(peer: &Peer, params: &Params, _: &Stage, _: Limits) -> Result<Outcome, String> {
    let program = c"/bin/true";
    let environment = environment(peer)?;
    // First, since a library that cannot be loaded is seen here.
    let peak = peak_kib(program, &environment, peer.library.as_deref())?;
    let count = params.get("count", 100);
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let pid = spawn(program, &environment).map_err(|error| error.to_string())?;
        wait(pid)?;
        times.push(start.elapsed().as_secs_f64());
    }
    let total: f64 = times.iter().sum();
    let median = Summary::of(&times).ok_or("no processes")?.median;
    Ok(Outcome::timed(count, total).with("ms", median * 1e3).with("peak_mb", megabytes(peak)))
}

fn environment(peer: &Peer) -> Result<Vec<CString>, String> {
    let mut words = vec![CString::from(c"LC_ALL=C"), CString::from(c"PATH=/usr/bin:/bin")];
    if let Some(library) = &peer.library {
        let word = [b"LD_PRELOAD=", library.as_os_str().as_bytes()].concat();
        words.push(CString::new(word).map_err(|error| error.to_string())?);
    }
    Ok(words)
}

fn pointers(words: &[CString]) -> Vec<*mut libc::c_char> {
    words.iter().map(|word| word.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
}

fn spawn(program: &std::ffi::CStr, environment: &[CString]) -> io::Result<libc::pid_t> {
    let arguments = [program.as_ptr().cast_mut(), std::ptr::null_mut()];
    let environment = pointers(environment);
    let mut pid = 0;
    // SAFETY: both vectors hold terminated strings and end in null, and outlive the call.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            null(),
            null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    if error == 0 { Ok(pid) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn wait(pid: libc::pid_t) -> Result<(), String> {
    let mut status = 0;
    // SAFETY: the pointer is to a live local.
    if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
        return Err(io::Error::last_os_error().to_string());
    }
    if status == 0 { Ok(()) } else { Err(format!("`true` ended with wait status {status:#x}")) }
}

/// The peak resident set of one such process, read from `/proc` while it is stopped at its exit.
/// `ru_maxrss` would not do: it also counts the image that the process was started from, which is
/// this program and larger than `true`. The loader goes on when it cannot load a library, so
/// whether it did is looked for there, too.
fn peak_kib(
    program: &std::ffi::CStr,
    environment: &[CString],
    library: Option<&Path>,
) -> Result<u64, String> {
    let text = || io::Error::last_os_error().to_string();
    let arguments = [program.as_ptr(), null()];
    let environment = pointers(environment);
    // SAFETY: this program has one thread here; the child makes only the calls below.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: system calls with terminated vectors; `_exit` where exec fails.
        unsafe {
            // What the loader complains of is said by us, once.
            libc::dup2(libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY), 2);
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr().cast());
            libc::_exit(127);
        }
    }
    if pid < 0 {
        return Err(text());
    }
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
            loaded = library.is_none_or(|library| child::is_loaded(&pid, library));
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
