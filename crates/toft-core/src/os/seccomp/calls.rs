//! The cheapest harmless form of each system call that Toft needs, made by the probing child.
//!
//! No call here changes anything that the parent can see, even if the memory is shared. Calls about
//! memory use the probe's own page. Calls about the process affect only the child. The other calls
//! get arguments that the kernel always refuses. A filter that answers "success" and does nothing
//! is therefore detected too: an error is missing, or an effect is.

use super::Outcome;
use crate::os::syscall::syscall;
use crate::os::{mapping_options, thread, userfaultfd};
use core::ffi::c_int;

const NOWHERE: usize = usize::MAX;

/// The result of a row's calls so far.
struct Row {
    outcome: Outcome,
}

impl Row {
    fn new() -> Row {
        Row { outcome: Outcome::Works }
    }

    fn note(&mut self, outcome: Outcome) {
        // Later calls do not change a lie. They do not turn a refusal into success either.
        if self.outcome != Outcome::Lies && outcome != Outcome::Works {
            self.outcome = outcome;
        }
    }

    /// Makes a call that succeeds if it is allowed, and returns its result.
    fn succeeds(&mut self, number: i64, args: [usize; 6]) -> Option<usize> {
        // SAFETY: (1) callers pass harmless arguments: see the head of this file.
        let code = unsafe { syscall(number, args) };
        if code < 0 {
            self.note(Outcome::Refused);
        }
        usize::try_from(code).ok()
    }

    /// Makes a call that the kernel refuses with this error if it is allowed.
    fn fails(&mut self, number: i64, args: [usize; 6], error: c_int) {
        // SAFETY: (1) callers pass arguments that the kernel refuses.
        let code = unsafe { syscall(number, args) };
        if code >= 0 {
            self.note(Outcome::Lies);
        } else if code != -(error as isize) {
            self.note(Outcome::Refused);
        }
    }

    /// Checks an effect of a call that returned success.
    fn ensure(&mut self, effect: bool) {
        if !effect && self.outcome == Outcome::Works {
            self.note(Outcome::Lies);
        }
    }
}

/// Tries a row, with a private page of `page` bytes and the end of a stack.
pub(super) fn attempt(row: usize, tried: usize, page: usize, thread_top: usize) -> Outcome {
    let mut all = Row::new();
    let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(tried);
    // SAFETY: the first byte of the probe's own page, which may be written.
    unsafe { byte.write_volatile(1) };
    // SAFETY: the first byte of the probe's own page.
    let now = || unsafe { byte.read_volatile() };
    let advise = |all: &mut Row, advice: c_int| {
        all.succeeds(libc::SYS_madvise, [tried, page, advice as usize, 0, 0, 0]).is_some()
    };
    let mut buffer = [0u8; 256];
    let into = buffer.as_mut_ptr().expose_provenance();
    match row {
        // There is no such child.
        0 => {
            let flags = (libc::WNOHANG | libc::__WALL) as usize;
            all.fails(libc::SYS_wait4, [NOWHERE, 0, flags, 0, 0, 0], libc::ECHILD);
        }
        1 => {
            advise(&mut all, libc::MADV_DONTNEED);
            all.ensure(now() == 0);
        }
        // The first command does not exist. The second is the one that is needed, which may need to
        // be requested first.
        2 => {
            all.fails(libc::SYS_membarrier, [1 << 30, 0, 0, 0, 0, 0], libc::EINVAL);
            // SAFETY: (1) no effect except the barrier.
            let code = unsafe { syscall(libc::SYS_membarrier, [thread::EXPEDITED, 0, 0, 0, 0, 0]) };
            if code < 0 && code != -(libc::EPERM as isize) {
                all.note(Outcome::Refused);
            }
        }
        3 => {
            // SAFETY: (1) the probe's stack for the thread, which no other child uses. The thread
            // ends with the child.
            if unsafe { thread::create_thread(thread_top, end_thread, 0, 0) } <= 0 {
                all.note(Outcome::Refused);
            }
        }
        4 => {
            let name = c"toft-probe".as_ptr().expose_provenance();
            all.succeeds(libc::SYS_prctl, [libc::PR_SET_NAME as usize, name, 0, 0, 0, 0]);
            let priority = 0i32;
            let usual = (&raw const priority).expose_provenance();
            let args = [0, libc::SCHED_OTHER as usize, usual, 0, 0, 0];
            all.succeeds(libc::SYS_sched_setscheduler, args);
            // There is no such policy, and no such version.
            let args = [0, 99, usual, 0, 0, 0];
            all.fails(libc::SYS_sched_setscheduler, args, libc::EINVAL);
            let mut header = [1u32, 0];
            let header = (&raw mut header).expose_provenance();
            all.fails(libc::SYS_capset, [header, 0, 0, 0, 0, 0], libc::EINVAL);
            let args = [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0];
            all.succeeds(libc::SYS_prctl, args);
        }
        5 => {
            all.fails(libc::SYS_pidfd_open, [0, 0, 0, 0, 0, 0], libc::EINVAL);
            let range = [tried, page];
            let range = (&raw const range).expose_provenance();
            let advise_by = |all: &mut Row, which: usize| {
                let args = [which, range, 1, libc::MADV_DONTNEED as usize, 0, 0];
                if all.succeeds(libc::SYS_process_madvise, args).is_some() {
                    all.ensure(now() == 0);
                }
            };
            // SAFETY: (1) a descriptor, which is closed with the child.
            let own = unsafe {
                let own = syscall(libc::SYS_getpid, [0; 6]) as usize;
                syscall(libc::SYS_pidfd_open, [own, 0, 0, 0, 0, 0])
            };
            advise_by(&mut all, own as usize);
        }
        6 => _ = advise(&mut all, MADV_POPULATE_WRITE),
        7 => {
            advise(&mut all, libc::MADV_HUGEPAGE);
            advise(&mut all, libc::MADV_NOHUGEPAGE);
        }
        8 => {
            advise(&mut all, libc::MADV_COLD);
            advise(&mut all, libc::MADV_PAGEOUT);
        }
        9 => {
            all.succeeds(libc::SYS_mincore, [tried, page, into, 0, 0, 0]);
            all.ensure(read(into) & 1 != 0);
        }
        10 => {
            let mut info = core::mem::MaybeUninit::<libc::sysinfo>::zeroed();
            let place = info.as_mut_ptr();
            all.succeeds(libc::SYS_sysinfo, [place.expose_provenance(), 0, 0, 0, 0, 0]);
            // SAFETY: zero bytes are one, and the kernel may have written another.
            all.ensure(unsafe { (&raw const (*place).totalram).read_volatile() } != 0);
        }
        11 => {
            all.fails(libc::SYS_rt_sigprocmask, [99, into, 0, 8, 0, 0], libc::EINVAL);
        }
        12 => {
            let path = c"/proc/self/maps".as_ptr().expose_provenance();
            let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
            let at = libc::AT_FDCWD as isize as usize;
            if let Some(file) = all.succeeds(libc::SYS_openat, [at, path, flags, 0, 0, 0]) {
                let got = all.succeeds(libc::SYS_read, [file, into, 1, 0, 0, 0]);
                all.ensure(got == Some(1));
                all.succeeds(libc::SYS_fstat, [file, into, 0, 0, 0, 0]);
                all.fails(libc::SYS_fstat, [NOWHERE, into, 0, 0, 0, 0], libc::EBADF);
                all.succeeds(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
            }
        }
        13 => {
            let (from, to) = ([tried, 1], [into, 1]);
            let (from, to) =
                ((&raw const from).expose_provenance(), (&raw const to).expose_provenance());
            // SAFETY: (1) queries the child's own number.
            let own = unsafe { syscall(libc::SYS_getpid, [0; 6]) } as usize;
            all.succeeds(libc::SYS_process_vm_readv, [own, to, 1, from, 1, 0]);
            all.ensure(read(into) == 1);
            // SAFETY: (1) queries the number of the child's first thread.
            let first = unsafe { syscall(libc::SYS_gettid, [0; 6]) } as usize;
            all.succeeds(libc::SYS_tgkill, [own, first, 0, 0, 0, 0]);
            all.succeeds(
                libc::SYS_clock_gettime,
                [libc::CLOCK_REALTIME as usize, into, 0, 0, 0, 0],
            );
        }
        14 => {
            // The first flag does not exist. The second call makes a descriptor, which is closed
            // with the child.
            all.fails(libc::SYS_userfaultfd, [1 << 30, 0, 0, 0, 0, 0], libc::EINVAL);
            let flags = (libc::O_CLOEXEC | userfaultfd::USER_MODE_ONLY) as usize;
            all.succeeds(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]);
            all.fails(libc::SYS_ioctl, [NOWHERE, userfaultfd::API, 0, 0, 0, 0], libc::EBADF);
        }
        15 => {
            let name = c"toft".as_ptr().expose_provenance();
            all.fails(libc::SYS_memfd_create, [name, 1 << 30, 0, 0, 0, 0], libc::EINVAL);
            let cloexec = libc::MFD_CLOEXEC as usize;
            all.succeeds(libc::SYS_memfd_create, [name, cloexec, 0, 0, 0, 0]);
            all.fails(libc::SYS_ftruncate, [NOWHERE, 0, 0, 0, 0, 0], libc::EBADF);
        }
        16 => {
            let (set, kind) = (libc::PR_SET_VMA as usize, libc::PR_SET_VMA_ANON_NAME as usize);
            let name = c"toft probe".as_ptr().expose_provenance();
            all.succeeds(libc::SYS_prctl, [set, kind, tried, page, name, 0]);
        }
        17 => {
            // There is no such flag. No range begins there, and older kernels have no such advice.
            all.fails(libc::SYS_mlock2, [tried, page, 1 << 30, 0, 0, 0], libc::EINVAL);
            let advice = mapping_options::DONTNEED_LOCKED;
            all.fails(libc::SYS_madvise, [tried + 1, page, advice, 0, 0, 0], libc::EINVAL);
        }
        // There is no such flag, and no such key. A real key would also belong to the program.
        18 => {
            all.fails(libc::SYS_pkey_alloc, [1 << 30, 0, 0, 0, 0, 0], libc::EINVAL);
            let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            all.fails(libc::SYS_pkey_mprotect, [tried, page, rights, 99, 0, 0], libc::EINVAL);
        }
        19 => all.fails(libc::SYS_pread64, [NOWHERE, into, 1, 0, 0, 0], libc::EBADF),
        20 => {
            let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
            let place = usage.as_mut_ptr();
            let itself = libc::RUSAGE_SELF as usize;
            all.succeeds(libc::SYS_getrusage, [itself, place.expose_provenance(), 0, 0, 0, 0]);
            // SAFETY: zero bytes are one, and the kernel may have written another.
            all.ensure(unsafe { (&raw const (*place).ru_maxrss).read_volatile() } != 0);
        }
        _ => all.note(Outcome::Refused),
    }
    all.outcome
}

const MADV_POPULATE_WRITE: c_int = 23;

fn read(address: usize) -> u8 {
    // SAFETY: callers pass the first byte of their buffer, which the kernel may have written.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

unsafe extern "C" fn end_thread(_: usize, _: usize) -> ! {
    thread::end()
}
