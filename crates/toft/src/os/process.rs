//! What the allocator needs of the process it lives in: the auxiliary vector, the environment,
//! thread-exit and fork notices, writing a line, and the end.
//!
//! The few libc functions named here are those that neither allocate nor take a lock that
//! allocation needs (`pthread_setspecific` may allocate for late keys: it is called when the
//! thread's heap is already in place, so that the re-entry is an ordinary call).

use super::syscall::syscall;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

unsafe extern "C" {
    fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        dso: *mut c_void,
    ) -> c_int;
    static mut environ: *mut *mut u8;
}

/// Bytes in a page, from the auxiliary vector.
pub fn page_size() -> usize {
    // SAFETY: getauxval reads a table that the loader has filled before any code of ours ran.
    let size = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    if size.is_power_of_two() && size >= 4096 { size } else { 4096 }
}

/// Whether the kernel asks for secure execution (setuid, file capabilities): then the environment
/// is an attacker's and no address goes to stderr.
pub fn is_secure() -> bool {
    // SAFETY: as in `page_size`.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The environment block: an array of pointers to `NAME=value`, ended by null; may be null early on.
pub fn environment() -> *mut *mut u8 {
    // SAFETY: a plain read of a pointer that libc owns; only start-up code calls this.
    unsafe { environ }
}

/// Writes all of `bytes`; says whether the descriptor took them. One that is full for the moment is
/// waited for, a second at most.
pub fn write_all(descriptor: c_int, mut bytes: &[u8]) -> bool {
    let mut patience = 100;
    while !bytes.is_empty() {
        let args = [descriptor as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
        // SAFETY: the kernel only reads `bytes`.
        let code = unsafe { syscall(libc::SYS_write, args) };
        if code == -(libc::EINTR as isize) {
            continue;
        }
        if code == -(libc::EAGAIN as isize) && patience > 0 {
            patience -= 1;
            wait_writable(descriptor);
            continue;
        }
        if code <= 0 {
            return false;
        }
        bytes = bytes.get(code as usize..).unwrap_or(&[]);
    }
    true
}

/// Waits up to ten milliseconds for a descriptor to take more.
fn wait_writable(descriptor: c_int) {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let args = [&raw mut poll as usize, 1, &raw const timeout as usize, 0, 0, 0];
    // SAFETY: the kernel reads the time and writes to `poll` alone.
    unsafe { syscall(libc::SYS_ppoll, args) };
}

/// Whether a descriptor is open and a pipe or a socket: something that is read as it is written.
pub fn is_pipe(descriptor: c_int) -> bool {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let args = [descriptor as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `stat`, which on this platform is libc's.
    if unsafe { syscall(libc::SYS_fstat, args) } != 0 {
        return false;
    }
    // SAFETY: written, as the code says.
    let mode = unsafe { status.assume_init() }.st_mode;
    mode & libc::S_IFMT == libc::S_IFIFO || mode & libc::S_IFMT == libc::S_IFSOCK
}

/// Closes a descriptor.
pub fn close(descriptor: c_int) {
    // SAFETY: callers own the descriptor.
    unsafe { syscall(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Keeps a descriptor out of programs that this process will execute.
pub fn close_on_exec(descriptor: c_int) {
    let (set, flag) = (libc::F_SETFD as usize, libc::FD_CLOEXEC as usize);
    // SAFETY: changes a flag of the descriptor only.
    unsafe { syscall(libc::SYS_fcntl, [descriptor as usize, set, flag, 0, 0, 0]) };
}

/// Reads a file in pieces and hands each to `each`; silently nothing where it cannot be opened.
pub fn read_file(path: &core::ffi::CStr, each: impl FnMut(&[u8])) {
    let _ = read_file_with(path, &mut [0u8; 4096], each);
}

/// The same in pieces as large as a buffer, for where the stack may be short. The kernel's number where
/// it was not read to its end.
pub fn read_file_with(
    path: &core::ffi::CStr,
    buffer: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<(), c_int> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let at = libc::AT_FDCWD as isize as usize;
    // SAFETY: the path is a C string and the kernel only reads it.
    let file = unsafe { syscall(libc::SYS_openat, [at, path.as_ptr() as usize, flags, 0, 0, 0]) };
    if file < 0 {
        return Err(-file as c_int);
    }
    let end = loop {
        let args = [file as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most the buffer.
        let got = unsafe { syscall(libc::SYS_read, args) };
        match got {
            0 => break Ok(()),
            1.. => each(buffer.get(..got as usize).unwrap_or(&[])),
            _ if got == -(libc::EINTR as isize) => {}
            _ => break Err(-got as c_int),
        }
    };
    close(file as c_int);
    end
}

/// Reads a whole regular file into memory that stays for as long as the process lives; of one that grows meanwhile, what
/// it had. The reason, where it is none, cannot be read, or has more than so many bytes.
pub fn read_whole(path: &core::ffi::CStr, most: usize) -> Result<&'static [u8], &'static str> {
    // Without waiting for whoever writes to a pipe.
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY) as usize;
    let at = libc::AT_FDCWD as isize as usize;
    // SAFETY: the path is a C string and the kernel only reads it.
    let file = unsafe { syscall(libc::SYS_openat, [at, path.as_ptr() as usize, flags, 0, 0, 0]) };
    if file == -(libc::ENOENT as isize) {
        return Err("there is no such file");
    }
    if file < 0 {
        return Err("it cannot be opened");
    }
    let text = read_open(file as c_int, most);
    close(file as c_int);
    text
}

fn read_open(file: c_int, most: usize) -> Result<&'static [u8], &'static str> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let args = [file as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `stat`, which on this platform is libc's.
    if unsafe { syscall(libc::SYS_fstat, args) } != 0 {
        return Err("it cannot be read");
    }
    // SAFETY: written, as the code says.
    let status = unsafe { status.assume_init() };
    if status.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err("it is no regular file");
    }
    let bytes = usize::try_from(status.st_size).unwrap_or(usize::MAX);
    if bytes > most {
        return Err("it is too large");
    }
    let address = scratch(bytes.max(1)).ok_or("there is no memory for it")?;
    let mut len = 0;
    while len < bytes {
        let args = [file as usize, address + len, bytes - len, 0, 0, 0];
        // SAFETY: the kernel writes at most to what was mapped above.
        let got = unsafe { syscall(libc::SYS_read, args) };
        if got == -(libc::EINTR as isize) {
            continue;
        }
        if got < 0 {
            give_back(address, bytes.max(1));
            return Err("it cannot be read");
        }
        if got == 0 {
            break;
        }
        len += got as usize;
    }
    let first = core::ptr::with_exposed_provenance(address);
    // SAFETY: mapped above, as many bytes at least, for nobody else; written by nobody any more, and never unmapped.
    Ok(unsafe { core::slice::from_raw_parts(first, len) })
}

/// Maps a file for as long as `body` looks at it. Nothing, where that is not possible.
pub fn with_file(path: &core::ffi::CStr, body: impl FnOnce(&[u8])) {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) as usize;
    let at = libc::AT_FDCWD as isize as usize;
    // SAFETY: the path is a C string and the kernel only reads it.
    let file = unsafe { syscall(libc::SYS_openat, [at, path.as_ptr() as usize, flags, 0, 0, 0]) };
    if file < 0 {
        return;
    }
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let args = [file as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one `stat`, which on this platform is libc's.
    let known = unsafe { syscall(libc::SYS_fstat, args) } == 0;
    // SAFETY: written, as the code says.
    let bytes = if known { unsafe { status.assume_init() }.st_size as usize } else { 0 };
    let (read, private) = (libc::PROT_READ as usize, libc::MAP_PRIVATE as usize);
    // SAFETY: a new mapping changes none that is there.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, read, private, file as usize, 0]) };
    close(file as c_int);
    if got <= 0 {
        return;
    }
    let start = core::ptr::with_exposed_provenance(got as usize);
    // SAFETY: mapped by the call above, and unmapped below. The files that are looked at are mapped as code of
    // this process: who cuts one short ends the process in any case.
    body(unsafe { core::slice::from_raw_parts(start, bytes) });
    // SAFETY: nobody has kept anything of it: `body` is handed a reference that ends with it.
    unsafe { syscall(libc::SYS_munmap, [got as usize, bytes, 0, 0, 0, 0]) };
}

/// Bytes of a line that are kept.
pub const LINE: usize = 512;

/// Reads a text file and hands each line to `each`, without its end, and no more than its first half
/// kilobyte; a last line without end is left out.
pub fn read_lines(path: &core::ffi::CStr, each: impl FnMut(&[u8])) {
    read_lines_by::<4096>(path, each);
}

/// The same, read in pieces of so many bytes, for where the stack may be short.
pub fn read_lines_by<const BYTES: usize>(path: &core::ffi::CStr, each: impl FnMut(&[u8])) {
    read_lines_with(path, (&mut [0u8; BYTES], &mut [0u8; LINE]), each);
}

/// The same with a buffer for the pieces and one for a line, for where there is no stack to spare.
pub fn read_lines_with(
    path: &core::ffi::CStr,
    (buffer, line): (&mut [u8], &mut [u8; LINE]),
    mut each: impl FnMut(&[u8]),
) {
    let mut len = 0;
    let _ = read_file_with(path, buffer, |chunk| {
        for &byte in chunk {
            if byte == b'\n' {
                each(line.get(..len).unwrap_or(&[]));
                len = 0;
            } else if let Some(place) = line.get_mut(len) {
                *place = byte;
                len += 1;
            }
        }
    });
}

/// Opens a file to write behind what it has, for the owner alone where it is new.
pub fn open_to_append(path: &core::ffi::CStr) -> Option<c_int> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY;
    let at = libc::AT_FDCWD as isize as usize;
    let args = [at, path.as_ptr() as usize, flags as usize, 0o600, 0, 0];
    // SAFETY: the path is a C string and the kernel only reads it.
    let file = unsafe { syscall(libc::SYS_openat, args) };
    (file >= 0).then_some(file as c_int)
}

/// Opens a file to write anew, for the owner alone where it was not there.
pub fn open_to_replace(path: &core::ffi::CStr) -> Option<c_int> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOCTTY;
    let at = libc::AT_FDCWD as isize as usize;
    let args = [at, path.as_ptr() as usize, flags as usize, 0o600, 0, 0];
    // SAFETY: the path is a C string and the kernel only reads it.
    let file = unsafe { syscall(libc::SYS_openat, args) };
    (file >= 0).then_some(file as c_int)
}

/// Copies memory of this process that may not be there; says how many bytes were.
pub fn peek(address: usize, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: into.len() };
    let args = [pid(), &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: the kernel writes to `into` alone, and reads what is mapped.
    let got = unsafe { syscall(libc::SYS_process_vm_readv, args) };
    if got < 0 { 0 } else { got as usize }
}

/// So many bytes of zeros, mapped where the kernel likes, until [`give_back`]. Only what is touched takes
/// memory, and nothing is set aside for the rest.
pub fn scratch(bytes: usize) -> Option<usize> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping changes none that is there.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (got > 0).then_some(got as usize)
}

/// Gives back what [`scratch`] gave.
pub fn give_back(address: usize, bytes: usize) {
    // SAFETY: callers own the range, and nobody uses it any more.
    unsafe { syscall(libc::SYS_munmap, [address, bytes, 0, 0, 0, 0]) };
}

/// So many bytes of addresses, none of which can be reached.
pub fn reserve(bytes: usize) -> Option<usize> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let protection = libc::PROT_NONE as usize;
    // SAFETY: a new mapping changes none that is there.
    let got = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (got > 0).then_some(got as usize)
}

/// Lets pages that [`reserve`] gave be read and written; zero at first. Says whether that was possible.
pub fn allow(address: usize, bytes: usize) -> bool {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: callers own the range, and nobody is harmed by more rights.
    unsafe { syscall(libc::SYS_mprotect, [address, bytes, protection, 0, 0, 0]) == 0 }
}

/// Takes that back, and with it what the pages hold.
pub fn forbid(address: usize, bytes: usize) {
    let advice = libc::MADV_DONTNEED as usize;
    // SAFETY: callers own the range, and nobody may use it any more. That its mapping cannot be split, where
    // there are too many, leaves it reachable and empty.
    unsafe {
        syscall(libc::SYS_madvise, [address, bytes, advice, 0, 0, 0]);
        syscall(libc::SYS_mprotect, [address, bytes, libc::PROT_NONE as usize, 0, 0, 0]);
    }
}

/// Takes the rights to pages away, and leaves what they hold; says whether that was possible.
pub fn shut(address: usize, bytes: usize) -> bool {
    let protection = libc::PROT_NONE as usize;
    // SAFETY: callers own the range; who reaches it meanwhile faults, and is let in again.
    unsafe { syscall(libc::SYS_mprotect, [address, bytes, protection, 0, 0, 0]) == 0 }
}

/// The process's number.
pub fn pid() -> usize {
    // SAFETY: no arguments, no effects.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as usize }
}

/// Sets `errno` of the calling thread.
#[cold]
pub fn set_errno(code: c_int) {
    // SAFETY: libc's errno is a thread-local int that always exists.
    unsafe { *libc::__errno_location() = code };
}

/// Makes pages of the library's own data read-only for the rest of the process's life.
///
/// # Safety
/// 1. Nothing writes to the range afterwards, and it is whole pages.
pub unsafe fn seal(addr: usize, len: usize) -> bool {
    let read = libc::PROT_READ as usize;
    // SAFETY: duty 1.
    unsafe { syscall(libc::SYS_mprotect, [addr, len, read, 0, 0, 0]) == 0 }
}

/// The calling thread's number.
pub fn thread_number() -> u32 {
    // SAFETY: no arguments, no effects.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Whether a thread of this process still runs.
pub fn thread_runs(number: u32) -> bool {
    let args = [pid(), number as usize, 0, 0, 0, 0];
    // SAFETY: signal 0 only asks.
    unsafe { syscall(libc::SYS_tgkill, args) != -(libc::ESRCH as isize) }
}

/// Asks to be told in the child of every fork. No prepare handler: nothing is held across a fork.
pub fn on_fork_child(handler: unsafe extern "C" fn()) -> bool {
    // SAFETY: the handler lives as long as the process: the library is never unloaded (NODELETE).
    unsafe { __register_atfork(None, None, Some(handler), core::ptr::null_mut()) == 0 }
}

/// Asks to be told before every fork, and after it in the parent; says whether that will be so. The handler is
/// called before the C library takes locks of its own, and after the program's.
pub fn on_fork(prepare: unsafe extern "C" fn(), parent: unsafe extern "C" fn()) -> bool {
    // SAFETY: as in `on_fork_child`.
    unsafe { __register_atfork(Some(prepare), Some(parent), None, core::ptr::null_mut()) == 0 }
}

/// Takes one thread key whose destructor tells of a thread's end; `None` when the program holds all.
pub fn thread_exit_key(destructor: unsafe extern "C" fn(*mut c_void)) -> Option<u32> {
    let mut key = MaybeUninit::<libc::pthread_key_t>::uninit();
    // SAFETY: libc writes the key on success.
    let code = unsafe { libc::pthread_key_create(key.as_mut_ptr(), Some(destructor)) };
    // SAFETY: written, as the code says.
    (code == 0).then(|| unsafe { key.assume_init() })
}

/// Arms the destructor for the calling thread.
pub fn arm_thread_exit(key: u32, value: usize) {
    // SAFETY: the key was made by `thread_exit_key`; libc keeps the value without following it.
    unsafe { libc::pthread_setspecific(key, core::ptr::with_exposed_provenance(value)) };
}

/// What the calling thread's destructor would be armed with; zero, if with nothing.
pub fn thread_value(key: u32) -> usize {
    // SAFETY: the key was made by `thread_exit_key`; libc returns what it keeps.
    unsafe { libc::pthread_getspecific(key) }.expose_provenance()
}

/// Time in ticks of 10 to 40 milliseconds, by the processor's own counter.
pub fn ticks() -> u32 {
    // Of 1.7 to 6.7 GHz; no x86-64 processor's counter is far from that.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    let ticks = unsafe { core::arch::x86_64::_rdtsc() } >> 26;
    #[cfg(target_arch = "aarch64")]
    let ticks = {
        let (count, frequency): (u64, u64);
        // SAFETY: Linux lets programs read both registers.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack));
            core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack));
        }
        count / (frequency >> 6).max(1)
    };
    ticks as u32
}

/// Seconds since 1970.
pub fn seconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [libc::CLOCK_REALTIME as usize, &raw mut now as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one time.
    unsafe { syscall(libc::SYS_clock_gettime, args) };
    now.tv_sec as u64
}

/// Lets a function handle a signal, calls that it interrupts going on; says whether that was possible. The function
/// makes only such calls as a handler may.
pub fn on_signal(number: c_int, handler: extern "C" fn(c_int)) -> bool {
    // SAFETY: a structure of integers, and a handler that lives as long as the process.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(number, &raw const action, core::ptr::null_mut()) == 0
    }
}

/// Dies by SIGABRT; a handler may run, but the process does not go on after it.
pub fn abort() -> ! {
    // Block everything else, restore the default action, raise, and unblock: a handler installed
    // for SIGABRT must not be able to longjmp out and continue on a heap known to be misused.
    // SAFETY: plain kernel calls on zeroed, properly sized kernel structures of this thread.
    unsafe {
        let default_action = [0usize; 4];
        let abort = libc::SIGABRT as usize;
        let action = &raw const default_action as usize;
        syscall(libc::SYS_rt_sigaction, [abort, action, 0, 8, 0, 0]);
        let unblock = 1u64 << (libc::SIGABRT - 1);
        let how = libc::SIG_UNBLOCK as usize;
        syscall(libc::SYS_rt_sigprocmask, [how, &raw const unblock as usize, 0, 8, 0, 0]);
        let process = syscall(libc::SYS_getpid, [0; 6]) as usize;
        let thread = syscall(libc::SYS_gettid, [0; 6]) as usize;
        syscall(libc::SYS_tgkill, [process, thread, abort, 0, 0, 0]);
        loop {
            syscall(libc::SYS_exit_group, [134, 0, 0, 0, 0, 0]);
        }
    }
}
