//! Page sharing between ranges of addresses, while the program's threads run.
//!
//! ```text
//! stop     writes to the range wait (reads do not): userfaultfd, write protection
//! copy     what is needed goes to where the range's pages will be
//! replace  one mmap or mremap puts the new pages in the place of the old
//! wake     the writers that have waited write to the new pages
//! ```
//!
//! A range is private anonymous memory at first. It becomes a view of a *store*, and private again
//! later. A store is a part of a memory file without a name or a descriptor. Only the kernel can
//! stop writers. These include its own writes for the program, such as `read` into a block. If the
//! kernel does not allow it, ranges are changed only in a program that has no other thread.

use super::process::Status;
use super::syscall::syscall;
use super::userfaultfd::{self, REGISTER, UNREGISTER, WAKE, check, control};
use super::{Error, hooks, keys, process};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;
use core::ffi::c_int;

/// `MFD_NOEXEC_SEAL`, Linux 6.3.
const MFD_NOEXEC_SEAL: usize = 8;

const WRITEPROTECT: usize = 0xC018_AA06;
/// `UFFDIO_REGISTER_MODE_WP` and `UFFDIO_WRITEPROTECT_MODE_WP`.
const REGISTER_WRITES: u64 = 2;
const PROTECT: u64 = 1;
/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP` (5.7) and `UFFD_FEATURE_WP_HUGETLBFS_SHMEM` (5.19).
const FEATURES: u64 = 1 | 1 << 12;

/// The lowest number of our descriptors, above those that programs check.
pub(super) const DESCRIPTOR_LEAST: usize = 700;

/// The resources for changes of ranges. `Os::begin_sharing` makes it, and `Os::end_sharing` takes
/// it.
#[derive(Debug)]
pub struct Sharing {
    /// The descriptor that stops writers, or `None` if there are no other threads.
    watch: Option<c_int>,
    /// The descriptor of a memory file plus one, the address of its mapping, and its length. All
    /// are zero if there is no file.
    file: usize,
    store: usize,
    bytes: usize,
}

/// Blocks all signals of the calling thread. Returns its previous mask.
pub fn block_signals() -> u64 {
    set_mask(u64::MAX)
}

/// Sets the calling thread's signal mask, and returns the previous one.
pub fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let args =
        [libc::SIG_SETMASK as usize, (&raw const mask).addr(), (&raw mut before).addr(), 8, 0, 0];
    // SAFETY: (1) the kernel reads and writes one word each.
    unsafe { syscall(libc::SYS_rt_sigprocmask, args) };
    before
}

/// Makes a system call and converts its result.
///
/// # Safety
/// 1. As for [`syscall`].
unsafe fn call(number: i64, args: [usize; 6]) -> Result<usize, Error> {
    // SAFETY: (1) the caller's duty 1.
    check(unsafe { syscall(number, args) })
}

/// Returns the number of threads of the process, and true if the calling thread has a filter of
/// system calls.
pub fn threads_and_filter() -> Option<(u32, bool)> {
    let status = Status::of_thread().ok().filter(|status| status.threads != 0)?;
    Some((status.threads as u32, status.filtered.unwrap_or(false)))
}

impl Sharing {
    /// Prepares for changes of ranges. `own` is the number of Toft's threads beside the calling
    /// one. `None` means that the program has other threads. If `bytes` is not zero, makes a store
    /// of that size as well. `kept` keeps a descriptor, plus one, from call to call. A program that
    /// has given up its rights could not get another one.
    pub(super) fn begin(
        own: Option<u32>,
        kept: &AtomicU32,
        bytes: usize,
    ) -> Result<Sharing, Error> {
        // A device may write to a block whose page would move.
        if bytes != 0 && hooks::are_there() {
            return Err(Error::Unsupported);
        }
        let (threads, filter) = threads_and_filter().ok_or(Error::Unsupported)?;
        let alone = own.is_some_and(|own| threads <= own.saturating_add(1));
        if filter && (!alone || bytes != 0) {
            return Err(Error::Unsupported);
        }
        let mut sharing = Sharing { watch: None, file: 0, store: 0, bytes: 0 };
        let made = sharing.equip(alone, kept, bytes);
        if made.is_err() {
            sharing.end();
        }
        made.map(|()| sharing)
    }

    fn equip(&mut self, alone: bool, kept: &AtomicU32, bytes: usize) -> Result<(), Error> {
        if !alone {
            self.watch = Some(watch(kept)?);
        }
        if bytes == 0 {
            return Ok(());
        }
        let name = c"toft".as_ptr().expose_provenance();
        let cloexec = libc::MFD_CLOEXEC as usize;
        // SAFETY: (1) a new file; the kernel reads the name.
        let file = unsafe {
            call(libc::SYS_memfd_create, [name, cloexec | MFD_NOEXEC_SEAL, 0, 0, 0, 0])
                .or_else(|_| call(libc::SYS_memfd_create, [name, cloexec, 0, 0, 0, 0]))
        }?;
        self.file = file + 1;
        let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: (1) the file's length, and a new mapping of it.
        unsafe {
            call(libc::SYS_ftruncate, [file, bytes, 0, 0, 0, 0])?;
            let args = [0, bytes, both, libc::MAP_SHARED as usize, file, 0];
            self.store = call(libc::SYS_mmap, args)?;
        }
        self.bytes = bytes;
        // If the program has locked all its memory, the store is full of pages already, and sharing
        // saves nothing.
        let mut there = 0u8;
        // SAFETY: (1) a query about one page of the mapping; the kernel writes one byte.
        unsafe {
            call(libc::SYS_madvise, [self.store, bytes, libc::MADV_NOHUGEPAGE as usize, 0, 0, 0])
                .ok();
            call(libc::SYS_mincore, [self.store, 4096, (&raw mut there).addr(), 0, 0, 0])?;
        }
        if there & 1 == 0 { Ok(()) } else { Err(Error::Unsupported) }
    }

    /// Ends the preparation. Views of the store stay views.
    pub(super) fn end(&mut self) {
        // SAFETY: (1) our own mapping, which no other thread knows, and our own descriptor.
        unsafe {
            if self.bytes != 0 {
                syscall(libc::SYS_munmap, [self.store, self.bytes, 0, 0, 0, 0]);
            }
        }
        if let Some(file) = self.file.checked_sub(1) {
            process::close(file as i32);
        }
    }

    /// Makes a private range a view of the store from `offset` on. `copy` gets the address to which
    /// it must copy the needed contents. No thread writes to the range meanwhile.
    ///
    /// # Safety
    /// 1. The range is private memory of ours, whole pages; what `copy` does not copy is not
    ///    needed.
    /// 2. No other view uses that part of the store.
    pub(super) unsafe fn move_to_store(
        &self,
        offset: usize,
        address: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        let file = self.file.checked_sub(1).ok_or(Error::Unsupported)?;
        self.stop_unhooked(address, len)?;
        copy(self.store + offset);
        let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
        // SAFETY: (1) duty 1: a range of ours, whose contents have just been copied.
        let done = unsafe { call(libc::SYS_mmap, [address, len, both, flags, file, offset]) };
        // A child that is created without the C library would share the pages, so it must not get
        // them.
        // SAFETY: (1) the range is a view of the store by now, or it is unchanged.
        unsafe {
            if done.is_ok() {
                syscall(libc::SYS_madvise, [address, len, libc::MADV_DONTFORK as usize, 0, 0, 0]);
            }
        }
        self.wake(address, len, done.is_ok());
        done.map(drop)
    }

    /// Makes a private range a view of the same pages as the range at `with`. `copy` is as in
    /// `move_to_store`.
    ///
    /// # Safety
    /// 1. The range is private memory of ours, whole pages; what `copy` does not copy is not
    ///    needed.
    /// 2. `with` is a view of a store, of the same length, and no slab uses what `copy` writes
    ///    there.
    pub(super) unsafe fn join(
        &self,
        with: usize,
        address: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        self.stop_unhooked(address, len)?;
        copy(with);
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        // An old length of zero makes a second view.
        // SAFETY: (1) the duties of this function.
        let done = unsafe { call(libc::SYS_mremap, [with, 0, len, flags, address, 0]) };
        self.wake(address, len, done.is_ok());
        done.map(drop)
    }

    /// Makes views private again. `copy` is as in `move_to_store`. A hook is called before writers
    /// are stopped, because it may write to the range.
    ///
    /// # Safety
    /// 1. The range consists of views; what `copy` does not copy is not needed.
    pub(super) unsafe fn make_private(
        &self,
        address: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: (1) a new mapping.
        let place = unsafe { call(libc::SYS_mmap, [0, len, both, kind, usize::MAX, 0]) }?;
        let _ = hooks::announce(address, len, keys::NONE);
        let done = self.stop(address, len).and_then(|()| {
            copy(place);
            let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
            // SAFETY: (1) duty 1; `place` is ours.
            let done = unsafe { call(libc::SYS_mremap, [place, len, len, flags, address, 0]) };
            self.wake(address, len, done.is_ok());
            done
        });
        if done.is_err() {
            // SAFETY: (1) the mapping is still where it was.
            unsafe { syscall(libc::SYS_munmap, [place, len, 0, 0, 0, 0]) };
        }
        done.map(drop)
    }

    /// Fails if a hook has come meanwhile, which would not see that pages move.
    fn stop_unhooked(&self, address: usize, len: usize) -> Result<(), Error> {
        if hooks::are_there() { Err(Error::Unsupported) } else { self.stop(address, len) }
    }

    fn stop(&self, address: usize, len: usize) -> Result<(), Error> {
        let Some(watch) = self.watch else { return Ok(()) };
        // A missing page cannot be protected. A read makes it present.
        for page in (address..address + len).step_by(4096) {
            // SAFETY: the range is mapped. A byte that other threads may write can be read, because
            // its value is not used.
            unsafe { core::ptr::with_exposed_provenance::<u8>(page).read_volatile() };
        }
        let mut register = [address as u64, len as u64, REGISTER_WRITES, 0];
        control(watch, REGISTER, &mut register)?;
        let mut protect = [address as u64, len as u64, PROTECT];
        let done = control(watch, WRITEPROTECT, &mut protect).map(drop);
        if done.is_err() {
            self.wake(address, len, false);
        }
        done
    }

    /// Lets writers go on. If the range was not replaced, unregisters it first.
    fn wake(&self, address: usize, len: usize, replaced: bool) {
        let Some(watch) = self.watch else { return };
        let mut range = [address as u64, len as u64];
        if !replaced {
            // This also removes the protection.
            let _ = control(watch, UNREGISTER, &mut range);
        }
        let _ = control(watch, WAKE, &mut range);
    }
}

/// Makes an unused range of pages private, zero and new.
///
/// # Safety
/// 1. The range is ours, and its contents are not needed.
pub(super) unsafe fn renew(address: usize, len: usize) -> Result<(), Error> {
    hooks::announce(address, len, keys::NONE)?;
    let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as usize;
    // SAFETY: (1) duty 1.
    unsafe { call(libc::SYS_mmap, [address, len, both, kind, usize::MAX, 0]) }.map(drop)
}

/// Releases the pages of the store that a range is a view of. All views read as zero there. Fails
/// in a process with hooks, which would see one of the views only.
///
/// # Safety
/// 1. The range is a view of ours, and the contents are needed in none of the views.
pub(super) unsafe fn empty(address: usize, len: usize) -> Result<(), Error> {
    if hooks::are_there() {
        return Err(Error::Unsupported);
    }
    // SAFETY: (1) duty 1.
    unsafe { call(libc::SYS_madvise, [address, len, libc::MADV_REMOVE as usize, 0, 0, 0]) }
        .map(drop)
}

/// Returns a descriptor that stops writers: the kept one, or a new one.
fn watch(kept: &AtomicU32) -> Result<c_int, Error> {
    let known = kept.load(Relaxed).checked_sub(1).map(u32::cast_signed);
    if let Some(watch) = known.filter(|&watch| userfaultfd::is_open(watch)) {
        return Ok(watch);
    }
    let watch = userfaultfd::open(libc::O_NONBLOCK, FEATURES, DESCRIPTOR_LEAST)?;
    kept.store(watch as u32 + 1, Relaxed);
    Ok(watch)
}

/// Closes the kept descriptor in the child of a fork, where it refers to the parent's memory.
pub fn forget(kept: &AtomicU32) {
    if let Some(watch) = kept.swap(0, Relaxed).checked_sub(1) {
        process::close(watch as i32);
    }
}

#[cfg(test)]
mod tests;
