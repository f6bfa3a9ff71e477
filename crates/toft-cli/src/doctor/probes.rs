//! Asks the kernel by doing: every probe is the real system call, on a page or descriptor of this
//! process.
//!
//! `doctor` turns the answers into rows. A probe never trusts a version number, because containers
//! forbid calls that the kernel has.

use std::io;
use std::ptr;

/// The answer to one probe: it works, or the error that says why not.
pub type Answer = Result<(), io::Error>;

/// Guard ranges that cost no mapping, since Linux 6.13. Not yet in every libc.
pub const MADV_GUARD_INSTALL: i32 = 102;
/// Handles faults of user code only, which an unprivileged process may.
const UFFD_USER_MODE_ONLY: i32 = 1;

/// A private anonymous mapping that is given back when it goes out of scope.
struct Mapping {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn new(length: usize) -> io::Result<Mapping> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: no address is asked for, so that nothing mapped can be replaced.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Mapping { start, length })
        }
    }

    /// Two pages that have been written to.
    fn pages() -> io::Result<Mapping> {
        let pages = Mapping::new(2 * toft_core::os::process::page_size())?;
        // SAFETY: the mapping is ours alone, readable and writable, and two pages long.
        unsafe { ptr::write_bytes(pages.start.cast::<u8>(), 1, pages.length) };
        Ok(pages)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that mmap returned, and no reference into it is left.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

fn check(result: i64) -> io::Result<i64> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Closes a descriptor that a probe opened.
fn close(result: i64) -> Answer {
    let fd = check(result)? as i32;
    // SAFETY: the probe opened the descriptor, and no other code knows it.
    unsafe { libc::close(fd) };
    Ok(())
}

/// A fixed address that does not replace what is there.
pub fn fixed_noreplace() -> Answer {
    let taken = Mapping::pages()?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the range is our own mapping: a kernel with the flag refuses, one without takes the
    // address as a hint.
    let again = unsafe { libc::mmap(taken.start, taken.length, libc::PROT_NONE, flags, -1, 0) };
    if again == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EEXIST) { Ok(()) } else { Err(error) };
    }
    drop(Mapping { start: again, length: taken.length });
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// `madvise` on two pages of our own.
pub fn advise(advice: i32) -> Answer {
    let pages = Mapping::pages()?;
    // SAFETY: the range is our own mapping, whose contents are not read after this.
    check(unsafe { libc::madvise(pages.start, pages.length, advice) }.into()).map(drop)
}

/// A barrier that every running thread passes.
pub fn membarrier() -> Answer {
    // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, Linux 4.14.
    // SAFETY: takes integers, and asks for a right.
    check(unsafe { libc::syscall(libc::SYS_membarrier, 1 << 4, 0, 0) }).map(drop)
}

/// Many ranges released in one call, on oneself.
pub fn process_madvise() -> Answer {
    let pages = Mapping::pages()?;
    let range = libc::iovec { iov_base: pages.start, iov_len: pages.length };
    // SAFETY: pidfd_open takes integers; process_madvise reads one iovec that lives here and drops
    // pages that are ours.
    unsafe {
        let process = check(libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0))?;
        let advised = check(libc::syscall(
            libc::SYS_process_madvise,
            process,
            &range,
            1,
            libc::MADV_DONTNEED,
            0,
        ));
        close(process)?;
        advised.map(drop)
    }
}

/// Growth by moving page tables.
pub fn mremap() -> Answer {
    let mut pages = Mapping::pages()?;
    // SAFETY: the range is our own mapping; the kernel says where it is afterwards and Mapping
    // takes note.
    unsafe {
        let moved = libc::mremap(pages.start, pages.length, 2 * pages.length, libc::MREMAP_MAYMOVE);
        if moved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        pages.start = moved;
        pages.length *= 2;
    }
    Ok(())
}

/// Names in `/proc/PID/maps`.
pub fn mapping_names() -> Answer {
    let pages = Mapping::pages()?;
    let name = c"toft doctor";
    // SAFETY: names our own mapping; the name is a C string that outlives the call.
    let named = unsafe {
        libc::prctl(
            libc::PR_SET_VMA,
            libc::PR_SET_VMA_ANON_NAME,
            pages.start,
            pages.length,
            name.as_ptr(),
        )
    };
    check(named.into()).map(drop)
}

pub fn protection_keys() -> Answer {
    // SAFETY: both calls take integers, and the key is freed before anybody could use it.
    unsafe {
        let key = check(libc::syscall(libc::SYS_pkey_alloc, 0, 0))?;
        check(libc::syscall(libc::SYS_pkey_free, key)).map(drop)
    }
}

/// Page faults handled by the program.
pub fn userfaultfd() -> Answer {
    // SAFETY: takes flags only, and the descriptor is closed again.
    close(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY) })
}

/// Randomness at any time.
pub fn random() -> Answer {
    let mut bytes = [0u8; 16];
    // SAFETY: writes at most the length of the buffer.
    let got =
        unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    check(got as i64).map(drop)
}
