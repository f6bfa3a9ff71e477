//! A running process: `/proc` and `process_vm_readv`, with the permission of a debugger and without
//! being one.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::{Pid, geteuid};

use crate::{Error, Mapping, Memory, Run, pagemap, text_of_bytes};

/// Bytes that are asked for in one call, so that a page that has gone costs little.
const PIECE: usize = 1 << 20;

/// A running process.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    pagemap: File,
    /// Whether the kernel knows how to list pages; found out at the first try.
    lists_pages: Cell<bool>,
}

impl Process {
    /// The process of a number, if it can be looked into.
    pub fn open(pid: i32) -> Result<Process, Error> {
        // The name may have any bytes, so the state is what follows the last bracket.
        let stat = fs::read(format!("/proc/{pid}/stat")).map_err(|_| Error::NoProcess(pid))?;
        let stat = String::from_utf8_lossy(&stat);
        if matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('Z' | 'X'))
        {
            return Err(Error::Zombie(pid));
        }
        let mappings = mappings(pid)?;
        if mappings.is_empty() {
            // One that is just ending has none either. The seventh field tells: PF_KTHREAD.
            let flags =
                stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(6)?.parse().ok());
            let is_kernels = flags.is_some_and(|flags: u64| flags & 0x0020_0000 != 0);
            return Err(if is_kernels { Error::KernelThread(pid) } else { Error::Ended(pid) });
        }
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(|e| failed(pid, &e))?;
        let process = Process { pid, pagemap, lists_pages: Cell::new(true) };
        let readable = mappings.iter().find(|m| m.readable && m.path != "[vvar]");
        if let Some(mapping) = readable {
            process.try_read(mapping.start, &mut [0]).map_err(|error| match error {
                Errno::EPERM | Errno::ENOSYS => refused(pid),
                Errno::ESRCH => Error::Ended(pid),
                error => Error::Other(pid, format!("cannot read its memory: {error}")),
            })?;
        }
        Ok(process)
    }

    /// Does as on a kernel that cannot list pages.
    pub fn read_pages_one_by_one(&self) {
        self.lists_pages.set(false);
    }

    fn try_read(&self, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let remote = [RemoteIoVec { base: address as usize, len: into.len() }];
        process_vm_readv(Pid::from_raw(self.pid), &mut [IoSliceMut::new(into)], &remote)
    }
}

impl Memory for Process {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        // It had some when it was opened: what has none any more is a zombie.
        let mappings = mappings(self.pid)?;
        if mappings.is_empty() { Err(Error::Ended(self.pid)) } else { Ok(mappings) }
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        for piece in into.chunks_mut(PIECE) {
            let Some(at) = address.checked_add(done as u64) else { break };
            match self.try_read(at, piece) {
                Ok(count) if count == piece.len() => done += count,
                Ok(count) => return done + count,
                Err(_) => break,
            }
        }
        done
    }

    fn pages(&self, start: u64, end: u64) -> Result<Vec<Run>, Error> {
        if self.lists_pages.get() {
            match pagemap::list(&self.pagemap, start, end) {
                Ok(runs) => return Ok(runs),
                // A kernel before 6.7.
                Err(Errno::ENOTTY | Errno::EINVAL) => self.lists_pages.set(false),
                Err(Errno::ESRCH) => return Err(Error::Ended(self.pid)),
                Err(error) => return Err(Error::Other(self.pid, format!("pagemap: {error}"))),
            }
        }
        pagemap::one_by_one(&self.pagemap, start, end)
            .map_err(|error| Error::Other(self.pid, format!("pagemap: {error}")))
    }
}

fn mappings(pid: i32) -> Result<Vec<Mapping>, Error> {
    Ok(disjoint(read(pid, "maps")?.split('\n').filter_map(Mapping::of_line)))
}

/// Cuts off what earlier mappings have. The kernel lists mappings piece by piece: one that grows
/// downwards or is merged between two pieces is listed with addresses that are listed already.
fn disjoint(mappings: impl Iterator<Item = Mapping>) -> Vec<Mapping> {
    let mut listed = 0;
    let mut kept = Vec::new();
    for mut mapping in mappings {
        let cut = listed.max(mapping.start) - mapping.start;
        mapping.start += cut;
        mapping.offset = mapping.offset.saturating_add(cut);
        if mapping.start < mapping.end {
            listed = mapping.end;
            kept.push(mapping);
        }
    }
    kept
}

/// A file of `/proc/PID`, with octal numbers for bytes that are not UTF-8.
pub fn read(pid: i32, name: &str) -> Result<String, Error> {
    fs::read(format!("/proc/{pid}/{name}"))
        .map(|bytes| text_of_bytes(&bytes))
        .map_err(|error| failed(pid, &error))
}

fn failed(pid: i32, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => refused(pid),
        Some(libc::ENOENT | libc::ESRCH) => Error::Ended(pid),
        _ => Error::Other(pid, error.to_string()),
    }
}

fn refused(pid: i32) -> Error {
    let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|about| about.uid());
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    let scope = scope.and_then(|text| text.trim().parse().ok());
    Error::Refused(pid, why_refused(owner, geteuid().as_raw(), scope))
}

/// The likeliest reason, and the way out.
fn why_refused(owner: Option<u32>, own: u32, scope: Option<u32>) -> String {
    let root = "`sudo toft` may";
    match (owner, scope) {
        (_, Some(3)) => {
            "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the next start of \
                         the machine"
                .into()
        }
        (Some(owner), _) if owner != own && own != 0 => {
            format!("it belongs to another user, or has changed who it is; {root}")
        }
        (_, Some(1..)) if own != 0 => format!(
            "kernel.yama.ptrace_scope is {}: only a process's parents may; {root}, or \
             `sudo sysctl kernel.yama.ptrace_scope=0` lets every user look into his own",
            scope.unwrap_or(1)
        ),
        _ if own == 0 => {
            "this root has no right to (CAP_SYS_PTRACE): in a container, start it with \
                          --cap-add=SYS_PTRACE, or look from outside of it"
                .into()
        }
        _ => format!("it does not let anybody (not dumpable, or a sandbox's filter); {root}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_way_out() {
        let why = |owner, own, scope| why_refused(Some(owner), own, scope);
        assert!(why(1000, 1000, Some(1)).contains("kernel.yama.ptrace_scope is 1: only"));
        assert!(why(1000, 1000, Some(1)).contains("sudo sysctl kernel.yama.ptrace_scope=0"));
        assert!(why(1000, 1000, Some(2)).contains("ptrace_scope is 2"));
        assert!(why(1000, 1000, Some(3)).contains("forbids it to everybody"));
        assert!(why(0, 1000, Some(0)).contains("another user"));
        assert!(why(0, 1000, None).contains("`sudo toft` may"));
        assert!(why(0, 0, None).contains("CAP_SYS_PTRACE"));
        assert!(why(1000, 1000, Some(0)).contains("not dumpable"));
    }

    #[test]
    fn this_process_can_be_read_and_its_end_is_seen() {
        let process = Process::open(std::process::id() as i32).unwrap();
        let word = 0x1234_5678_9abc_def0u64;
        let at = (&raw const word) as u64;
        assert_eq!(crate::memory::read_u64(&process, at), Some(word));
        let mut bytes = [0; 64];
        assert_eq!(process.read(8, &mut bytes), 0, "nothing is mapped there");
        assert_eq!(Process::open(i32::MAX).unwrap_err(), Error::NoProcess(i32::MAX));
    }

    #[test]
    fn mappings_that_overlap_are_cut() {
        let read = |text: &str| disjoint(text.lines().filter_map(Mapping::of_line));
        let places =
            |text| read(text).iter().map(|m| (m.start, m.end, m.offset)).collect::<Vec<_>>();
        let apart = "1000-2000 rw-p 0 0:0 0\n3000-5000 rw-p 100 0:0 0\n";
        assert_eq!(places(apart), [(0x1000, 0x2000, 0), (0x3000, 0x5000, 0x100)]);
        // The second line was merged with the first, the third is within the second.
        let merged = "1000-2000 rw-p 0 0:0 0\n1000-4000 rw-p 100 0:0 0\n2000-3000 rw-p 0 0:0 0\n";
        assert_eq!(places(merged), [(0x1000, 0x2000, 0), (0x2000, 0x4000, 0x1100)]);
    }

    #[test]
    fn a_process_may_have_any_bytes_for_a_name() {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::process::CommandExt;
        let folder = std::env::temp_dir().join(format!("toft-profile-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let name = folder.join(std::ffi::OsStr::from_bytes(b"\xff\xfe) Z"));
        std::os::unix::fs::symlink("/bin/sleep", &name).unwrap();
        let mut child = std::process::Command::new(&name).arg0("sleep").arg("60").spawn().unwrap();
        let opened = Process::open(child.id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(opened.is_ok(), "{opened:?}");
    }
}
