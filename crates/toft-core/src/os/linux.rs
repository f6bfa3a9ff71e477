//! Linux, by raw system calls.

use super::filter::{ModeFinder, Permit};
use super::keys::KeyNumber;
use super::release::{Piece, Release};
use super::seccomp::{self, Answers};
use super::syscall::syscall;
use super::{Error, Group, Os, Sharing, cgroup, keys, probes, process, share, thread};
use crate::sync::AtomicU32;
use core::ops::Range;

/// The running Linux kernel.
#[derive(Clone, Copy, Debug)]
pub struct Linux {
    page_size: usize,
    /// The protection key of the allocator's tables, or zero if they have none.
    key: KeyNumber,
    /// The first address of the tables, and their end.
    tables: (usize, usize),
}

/// `MADV_GUARD_INSTALL`, Linux 6.13: guard pages that need no separate mapping.
const MADV_GUARD_INSTALL: usize = 102;
/// `MADV_GUARD_REMOVE`.
const MADV_GUARD_REMOVE: usize = 103;

/// `MADV_POPULATE_WRITE`, Linux 5.14.
const MADV_POPULATE_WRITE: usize = 23;

fn result(code: isize) -> Result<usize, Error> {
    if (-4095..0).contains(&code) {
        return Err(match -code as i32 {
            libc::EEXIST => Error::Occupied,
            libc::EINVAL | libc::ENOSYS | libc::EPERM => Error::Unsupported,
            _ => Error::NoMemory,
        });
    }
    Ok(code as usize)
}

impl Linux {
    /// Returns the running kernel, with its page size read from the auxiliary vector.
    pub fn detect() -> Linux {
        Linux { page_size: process::page_size(), key: 0, tables: (0, 0) }
    }

    /// Gives the allocator's tables a protection key.
    pub fn with_key(self, key: KeyNumber) -> Linux {
        Linux { key, ..self }
    }

    /// Returns the protection key: zero if there is none, [`keys::UNKNOWN`] before detection.
    #[inline(always)]
    pub fn key(&self) -> KeyNumber {
        self.key
    }

    /// Returns true if an address is in the allocator's tables.
    pub fn is_in_tables(&self, address: usize) -> bool {
        (self.tables.0..self.tables.1).contains(&address)
    }

    /// Returns a value for use before detection, for a static that is not used yet.
    pub const fn undetected() -> Linux {
        Linux { page_size: 4096, key: keys::UNKNOWN, tables: (0, 0) }
    }
}

// SAFETY: (1) MAP_FIXED_NOREPLACE of private anonymous memory is exact, zero and never over another
// mapping. If an older kernel returns a different address, that mapping is undone below; (2) the
// ranges are passed on unchanged; (3) a raw system call does none of it.
unsafe impl Os for Linux {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn address_space(&self) -> Range<usize> {
        0..1 << if cfg!(target_arch = "x86_64") { 47 } else { 48 }
    }

    fn with_tables(self, tables: Range<usize>) -> Linux {
        Linux { tables: (tables.start, tables.end), ..self }
    }

    fn map(&self, addr: usize, len: usize) -> Result<(), Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: (1) NOREPLACE changes no existing mapping.
        let got = result(unsafe {
            syscall(libc::SYS_mmap, [addr, len, protection, flags as usize, usize::MAX, 0])
        })?;
        if got == addr {
            if self.key != 0 && self.is_in_tables(addr) && !keys::put(addr, len, self.key) {
                // SAFETY: (1) this call has just made the mapping, and no other thread knows it.
                unsafe { syscall(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]) };
                return Err(Error::NoMemory);
            }
            if probes::wants_mappings() {
                probes::mapped(addr, len);
            }
            return Ok(());
        }
        // A kernel before 4.17 uses the address only as a hint.
        // SAFETY: (1) this call has just made the mapping, and no other thread knows it.
        unsafe { syscall(libc::SYS_munmap, [got, len, 0, 0, 0, 0]) };
        Err(Error::Occupied)
    }

    unsafe fn unmap(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) the caller's duty 1.
        result(unsafe { syscall(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]) })?;
        if probes::wants_unmappings() {
            probes::unmapped(addr, len);
        }
        Ok(())
    }

    unsafe fn discard(&self, addr: usize, len: usize) -> Result<(), Error> {
        let advice = libc::MADV_DONTNEED as usize;
        // SAFETY: (1) the caller's duty 1.
        result(unsafe { syscall(libc::SYS_madvise, [addr, len, advice, 0, 0, 0]) }).map(drop)
    }

    unsafe fn discard_all(
        &self,
        release: &mut Release,
        pieces: &mut [Piece],
        permit: Option<&Permit<'_>>,
    ) {
        // SAFETY: (1) the caller's duty 1; (2) the kernel guarantees it.
        unsafe { release.discard_all(self.page_size, pieces, permit) }
    }

    unsafe fn populate(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) the caller's duty 1; the effect is that of writing its own contents to each
        // page.
        let code = unsafe { syscall(libc::SYS_madvise, [addr, len, MADV_POPULATE_WRITE, 0, 0, 0]) };
        result(code).map(drop)
    }

    unsafe fn guard(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) the caller's duty 1.
        let code = unsafe { syscall(libc::SYS_madvise, [addr, len, MADV_GUARD_INSTALL, 0, 0, 0]) };
        result(code).map(drop)
    }

    unsafe fn unguard(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) the caller's duty 1.
        let code = unsafe { syscall(libc::SYS_madvise, [addr, len, MADV_GUARD_REMOVE, 0, 0, 0]) };
        result(code).map(drop)
    }

    unsafe fn forbid(&self, addr: usize, len: usize) -> Result<(), Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let args = [addr, len, libc::PROT_NONE as usize, flags as usize, usize::MAX, 0];
        // This does not use `mprotect`, because a filter that was made for a malloc that only maps
        // may forbid it.
        // SAFETY: (1) the caller's duty 1.
        result(unsafe { syscall(libc::SYS_mmap, args) }).map(drop)
    }

    unsafe fn allow(&self, addr: usize, len: usize) -> Result<(), Error> {
        if process::allow(addr, len) { Ok(()) } else { Err(Error::NoMemory) }
    }

    unsafe fn extend(&self, addr: usize, old_len: usize, new_len: usize) -> Result<(), Error> {
        // This does not map a second range after the first. Pages that were moved here before have
        // another offset. The two mappings would stay separate, and could not be moved together.
        // SAFETY: (1) the caller's duty; without MAYMOVE nothing else is changed.
        let code = unsafe { syscall(libc::SYS_mremap, [addr, old_len, new_len, 0, 0, 0]) };
        result(code)?;
        if probes::wants_mappings()
            && let Some(more) = new_len.checked_sub(old_len)
        {
            probes::mapped(addr.wrapping_add(old_len), more);
        }
        Ok(())
    }

    unsafe fn relocate(
        &self,
        old: usize,
        old_len: usize,
        new: usize,
        new_len: usize,
    ) -> Result<(), Error> {
        // MREMAP_FIXED replaces any mapping at its target. The target is therefore mapped first, so
        // that only a mapping of ours is replaced.
        self.map(new, new_len)?;
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        // SAFETY: (1) the caller's duties 1 and 2; the target was mapped by the call above.
        let moved =
            result(unsafe { syscall(libc::SYS_mremap, [old, old_len, new_len, flags, new, 0]) });
        if let Err(error) = moved {
            // SAFETY: (1) the target was mapped above; after the failure it may or may not be
            // there.
            unsafe { syscall(libc::SYS_munmap, [new, new_len, 0, 0, 0, 0]) };
            return Err(error);
        }
        if probes::wants_unmappings() {
            probes::unmapped(old, old_len);
        }
        Ok(())
    }

    unsafe fn transfer(&self, from: usize, to: usize, len: usize) -> Result<(), Error> {
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) as usize;
        // SAFETY: (1) the caller's duties 1 and 2.
        let moved = unsafe { syscall(libc::SYS_mremap, [from, len, len, flags, to, 0]) };
        // A kernel before 5.7 does not know DONTUNMAP, and has changed nothing.
        if moved == -(libc::EINVAL as isize) {
            return Err(Error::Unsupported);
        }
        result(moved).map(drop).map_err(|error| {
            // The target may or may not be mapped any more. A hole can be unmapped in any case. If
            // the unmapping fails, at the limit of mappings, the target is still there.
            // SAFETY: (1) the caller's duty 1; the contents of the target are not needed.
            let gone = unsafe { syscall(libc::SYS_munmap, [to, len, 0, 0, 0, 0]) } == 0;
            if gone { error } else { Error::Unsupported }
        })
    }

    fn ticks(&self) -> u32 {
        process::ticks()
    }

    fn counter(&self) -> u64 {
        process::counter()
    }

    fn process(&self) -> u32 {
        process::pid() as u32
    }

    unsafe fn spawn(&self, run: unsafe extern "C" fn(usize) -> !, argument: usize) -> Option<u32> {
        thread::spawn(run, argument)
    }

    fn settle_in(&self) {
        thread::settle_in(c"toft-reclaimer");
    }

    fn barrier(&self) -> bool {
        thread::barrier()
    }

    fn sleep_on(&self, word: &AtomicU32, value: u32, milliseconds: u32) {
        thread::sleep_on(word, value, milliseconds);
    }

    fn wake(&self, word: &AtomicU32) {
        thread::wake(word);
    }

    fn is_filtered(&self) -> Option<bool> {
        let mut finder = ModeFinder::default();
        // The pieces are small, because a signal handler may call this on a stack of 8 KiB.
        let pieces = &mut [0u8; 512];
        let status = c"/proc/thread-self/status";
        match process::read_file_with(status, pieces, |piece| finder.take(piece)) {
            Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => None,
            Ok(()) | Err(_) => Some(!finder.says_none()),
        }
    }

    fn probe_filter(&self, cloned: bool) -> Option<Answers> {
        seccomp::probe(self.page_size, cloned)
    }

    fn shut_out_signals(&self) -> u64 {
        share::shut_out_signals()
    }

    fn let_in_signals(&self, before: u64) {
        share::set_mask(before);
    }

    fn begin_sharing(
        &self,
        own: Option<u32>,
        kept: &AtomicU32,
        bytes: usize,
    ) -> Result<Sharing, Error> {
        Sharing::begin(own, kept, bytes)
    }

    fn end_sharing(&self, mut sharing: Sharing) {
        sharing.end();
    }

    fn forget_sharing(&self, kept: &AtomicU32) {
        share::forget(kept);
    }

    unsafe fn share(
        &self,
        sharing: &Sharing,
        offset: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        // SAFETY: the caller's duties 1 and 2.
        unsafe { sharing.move_to_store(offset, addr, len, copy) }
    }

    unsafe fn share_with(
        &self,
        sharing: &Sharing,
        with: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        // SAFETY: the caller's duties 1 and 2.
        unsafe { sharing.join(with, addr, len, copy) }
    }

    unsafe fn unshare(
        &self,
        sharing: &Sharing,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        // SAFETY: the caller's duty 1.
        unsafe { sharing.make_private(addr, len, copy) }
    }

    unsafe fn renew(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: the caller's duty 1.
        unsafe { share::renew(addr, len) }
    }

    unsafe fn empty_store(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: the caller's duty 1.
        unsafe { share::empty(addr, len) }
    }

    fn group<'a>(&self, permit: &dyn Fn() -> Option<Permit<'a>>) -> Group {
        cgroup::group(permit)
    }

    fn memory_there_is(&self) -> Option<usize> {
        cgroup::memory_there_is()
    }

    fn random(&self) -> Result<u64, Error> {
        let mut word = 0u64;
        let mut filled = 0;
        while filled < 8 {
            let target = (&raw mut word as usize) + filled;
            // SAFETY: (1) the kernel writes at most the rest of `word`.
            let code = unsafe { syscall(libc::SYS_getrandom, [target, 8 - filled, 0, 0, 0, 0]) };
            if code == -(libc::EINTR as isize) {
                continue;
            }
            filled += result(code)?;
        }
        Ok(word)
    }

    fn wait_briefly(&self) {
        // This waits on a futex that is never woken. Of the calls that let time pass, it is the one
        // that a filter made for malloc allows.
        let word = 0u32;
        let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let args = [&raw const word as usize, wait, 0, &raw const time as usize, 0, 0];
        // SAFETY: (1) the kernel only reads the word and the time.
        unsafe { syscall(libc::SYS_futex, args) };
    }

    fn report(&self, line: &[u8]) {
        process::write_all(libc::STDERR_FILENO, line);
    }

    fn abort(&self) -> ! {
        process::abort()
    }
}
