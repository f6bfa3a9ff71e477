//! Mappings of memory: made at exact addresses, released, moved and made inaccessible.

use super::filter::Permit;
use super::release::{Piece, Release};
use super::syscall::{result, syscall};
use super::{Error, Linux, hooks, keys, probes, process};
use core::ops::Range;

/// `MADV_GUARD_INSTALL`, Linux 6.13: guard pages that need no separate mapping.
const MADV_GUARD_INSTALL: usize = 102;
/// `MADV_GUARD_REMOVE`.
const MADV_GUARD_REMOVE: usize = 103;

/// `MADV_POPULATE_WRITE`, Linux 5.14.
const MADV_POPULATE_WRITE: usize = 23;

/// The part of [`super::Os`] for mappings of memory.
///
/// # Safety
///
/// An implementation promises:
/// 1. after `map(a, n)` succeeds, the `n` bytes at `a` are readable, writable, zero, and were not
///    mapped before the call;
/// 2. `unmap`, `discard`, `discard_all`, `guard`, `unguard`, `forbid`, `allow`, `open_table`,
///    `relocate` and `transfer` touch exactly the ranges they are given;
/// 3. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Memory {
    /// Returns the number of bytes in a page, which is a power of two and at least 4096.
    fn page_size(&self) -> usize;

    /// Returns true if the program has hooks in the functions of libc that take pages away. Calls
    /// that take pages away then fail in Toft's own thread. In other threads the hooks see them.
    fn has_hooks(&self) -> bool {
        false
    }

    /// Returns the addresses to try first. They begin with a page, and their number is a power of
    /// two.
    fn address_space(&self) -> Range<usize>;

    /// Maps `len` bytes at exactly `addr`, readable, writable and zero, and never over anything
    /// else.
    fn map(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Reserves `len` bytes where the system finds room, without access. Returns their address. The
    /// range counts as mapped by `map`, and `PageSharing::renew` makes pages of it usable.
    fn reserve(&self, len: usize) -> Result<usize, Error>;

    /// Makes a range of `reserve` readable, writable and zero, for tables of the allocator.
    ///
    /// # Safety
    /// 1. The range was reserved by `reserve` of this object, and is not in use.
    unsafe fn open_table(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Unmaps a range.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object and nothing refers into it any more.
    unsafe fn unmap(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Releases the pages of a range, which reads as zero afterwards.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object and its contents are not needed any more.
    unsafe fn discard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Releases the pages of many ranges, and sets `done` for each range that reads as zero now.
    /// The contents of the other ranges are unknown. With a permit it uses the method of `release`.
    /// Without one it makes a usual call for each range. It takes some time, so do not use it on a
    /// path that the program waits for.
    ///
    /// # Safety
    /// 1. Each range was mapped by `map` of this object and its contents are not needed any more.
    ///    No thread writes to it before this returns.
    unsafe fn discard_all(
        &self,
        release: &mut Release,
        pieces: &mut [Piece],
        permit: Option<&Permit<'_>>,
    );

    /// Makes the pages of a mapped range present, before its first use. Fails if the system cannot.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object.
    unsafe fn populate(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range fault on every access without splitting its mapping.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn guard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Ends `guard`: the range is zero, and may be used again.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn unguard(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range fault on every access, by a separate mapping. It is for systems without
    /// guard pages. One range costs the process two mappings.
    ///
    /// # Safety
    /// 1. As for `discard`.
    unsafe fn forbid(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Makes a mapped range readable, writable and nothing else, even if the program changed its
    /// protection.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object, and holds no guards.
    unsafe fn allow(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Extends a mapped range in place, with zeros, never over anything else.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object.
    unsafe fn extend(&self, addr: usize, old_len: usize, new_len: usize) -> Result<(), Error>;

    /// Moves the pages of `[old, old + old_len)` to `new`. Extends them with zeros to `new_len`, or
    /// releases the part that does not fit. After a failure, the part that does not fit may be
    /// gone.
    ///
    /// # Safety
    /// 1. The old range was mapped by `map` of this object, and nothing refers into it afterwards.
    /// 2. The new range belongs to the caller and does not overlap the old one.
    unsafe fn relocate(
        &self,
        old: usize,
        old_len: usize,
        new: usize,
        new_len: usize,
    ) -> Result<(), Error>;

    /// Moves the pages of `[from, from + len)` to `[to, to + len)`, whose own pages are lost. Both
    /// stay mapped, and `from` reads as zero. After `Unsupported` nothing has changed. After any
    /// other error `to` is not mapped any more.
    ///
    /// # Safety
    /// 1. Both ranges were mapped by `map` of this object, each is part of one mapping, and they do
    ///    not overlap.
    /// 2. What is in `to` is not needed, and no thread uses `from` meanwhile.
    unsafe fn transfer(&self, from: usize, to: usize, len: usize) -> Result<(), Error>;
}

// SAFETY: (1) MAP_FIXED_NOREPLACE of private anonymous memory is exact, zero and never over another
// mapping. If an older kernel returns a different address, that mapping is undone below; (2) the
// ranges are passed on unchanged; (3) a raw system call does none of it.
unsafe impl Memory for Linux {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn has_hooks(&self) -> bool {
        hooks::are_there()
    }

    fn address_space(&self) -> Range<usize> {
        0..1 << if cfg!(target_arch = "x86_64") { 47 } else { 48 }
    }

    fn map(&self, addr: usize, len: usize) -> Result<(), Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: (1) NOREPLACE changes no existing mapping.
        let got = result(unsafe {
            syscall(libc::SYS_mmap, [addr, len, protection, flags as usize, usize::MAX, 0])
        })?;
        if got == addr {
            if self.key() != 0 && self.is_in_tables(addr) && !keys::put(addr, len, self.key()) {
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

    fn reserve(&self, len: usize) -> Result<usize, Error> {
        process::reserve(len).ok_or(Error::NoMemory)
    }

    unsafe fn open_table(&self, addr: usize, len: usize) -> Result<(), Error> {
        let opened = if self.key() == keys::NONE {
            process::allow(addr, len)
        } else {
            keys::put(addr, len, self.key())
        };
        if opened { Ok(()) } else { Err(Error::NoMemory) }
    }

    unsafe fn unmap(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) the caller's duty 1.
        unsafe { hooks::unmap(addr, len, self.key()) }?;
        if probes::wants_unmappings() {
            probes::unmapped(addr, len);
        }
        Ok(())
    }

    unsafe fn discard(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: (1) the caller's duty 1.
        unsafe { hooks::discard(addr, len, self.key()) }
    }

    unsafe fn discard_all(
        &self,
        release: &mut Release,
        pieces: &mut [Piece],
        permit: Option<&Permit<'_>>,
    ) {
        if hooks::are_there() {
            for piece in pieces {
                // SAFETY: (1) the caller's duty 1.
                let discard = || unsafe { self.discard(piece.address, piece.len) }.is_ok();
                piece.done = piece.is_exact(self.page_size) && discard();
            }
            return;
        }
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
        let code = unsafe {
            hooks::discard_before(addr, len, self.key())?;
            syscall(libc::SYS_madvise, [addr, len, MADV_GUARD_INSTALL, 0, 0, 0])
        };
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
        result(unsafe {
            hooks::discard_before(addr, len, self.key())?;
            syscall(libc::SYS_mmap, args)
        })
        .map(drop)
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
        hooks::announce(old, old_len, self.key())?;
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
        hooks::announce(from, len, self.key())?;
        // SAFETY: (1) the caller's duties 1 and 2.
        let moved = unsafe {
            // The contents of the target are not needed, whether it is then moved to or not.
            hooks::discard_before(to, len, self.key()).map_err(|_| Error::Unsupported)?;
            syscall(libc::SYS_mremap, [from, len, len, flags, to, 0])
        };
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
}
