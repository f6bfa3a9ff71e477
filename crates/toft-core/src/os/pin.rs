//! Releases pages that a thread may begin to use at any moment. A page is released only if it is
//! not used.
//!
//! The slots that a sleeping thread has claimed are free. But the thread may have read its claim
//! and stopped just there, which no other thread can know. The thread cannot be kept from the pages
//! while they are released. Instead:
//!
//! ```text
//! pin    a pipe refers to the pages: whatever happens, what is on them stays
//! free   MADV_FREE: from here on each write makes its page stay, by any thread
//! a barrier that every thread passes
//! check  a use begun before `free` is visible by now: its page is written to, and stays as it was
//! unpin
//! out    MADV_PAGEOUT: the kernel takes each page that was not written to since `free`
//! ```
//!
//! Nothing is lost, for these reasons. A block is marked as live before its user can write to it.
//! Needed contents that were written before `free` are therefore in a block that every thread sees
//! as live after the barrier. A write that changes nothing keeps the page, while the pipe still
//! refers to it. Until then the kernel could not have taken the page, even if short of memory. The
//! kernel also keeps all contents that are written after `free`: it checks the page table's dirty
//! bit with the entry taken out. The child of a fork has the same pages and the same pipe. It keeps
//! all of the pages ([`Pin::keep_pinned`]).
//!
//! The pinned page must be the page that a write changes. Each page is therefore written to before,
//! without a change of its contents. It is then neither the kernel's page of zeros nor a page that
//! is shared with a child. None of this is done if there is swap, because `free` would lose a page
//! that was swapped out just before. Nor is it done if the kernel takes pinned pages, which a test
//! finds out.

use super::filter::Permit;
use super::syscall::syscall;
use super::{Error, Linux, Memory, hooks, process, thread};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicI32, AtomicU8, AtomicU32, AtomicUsize, StoreChanged};

/// The largest number of pieces in one list.
pub const PIECES: usize = 64;
/// The largest piece, in bytes. A pipe holds at least that much, unless its user has too many
/// pipes.
pub const PIECE_BYTES: usize = 64 << 10;
/// The number of pages that one query of `resident_prefix` covers.
const PREFIX_PAGES: usize = 1024;
/// The capacity of the pipe that is requested, in bytes. The system allows it to every process.
const PIPE_BYTES: usize = 1 << 20;

/// The values of `Pinned::able`: not tested, the system keeps pinned pages, the system does not.
const UNTRIED: u32 = 0;
const ABLE: u32 = 1;
const UNABLE: u32 = 2;

/// The list of pages to release if they are not used. It begins as zero, and is at a place where
/// the child of a fork finds it. One thread at a time writes it.
#[derive(Debug)]
pub struct Pinned {
    /// The ends of the pipe. The kernel writes them before the child of a fork can have them. There
    /// is a pipe if they differ.
    pipe: [AtomicI32; 2],
    able: AtomicU32,
    count: AtomicU32,
    /// The number of pieces that are finished.
    done: AtomicU32,
    /// The address and length of each piece.
    pieces: [[AtomicUsize; 2]; PIECES],
}

impl Pinned {
    /// Returns an empty list.
    pub const fn new() -> Pinned {
        Pinned {
            pipe: [const { AtomicI32::new(0) }; 2],
            able: AtomicU32::new(UNTRIED),
            count: AtomicU32::new(0),
            done: AtomicU32::new(0),
            pieces: [const { [const { AtomicUsize::new(0) }; 2] }; PIECES],
        }
    }

    /// Adds whole pages, at most [`PIECE_BYTES`]. Returns false if the list is full.
    pub fn add(&self, address: usize, len: usize) -> bool {
        let count = self.count.load(Relaxed);
        let Some([at, bytes]) = self.pieces.get(count as usize) else { return false };
        at.store(address, Relaxed);
        bytes.store(len.min(PIECE_BYTES), Relaxed);
        // The number is stored last, for the child of a fork, in which there are no other threads.
        self.count.store(count + 1, Release);
        true
    }

    /// Returns true if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Returns the address and length of each piece that is not finished.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, usize)> {
        let (done, count) = (self.done.load(Relaxed) as usize, self.count.load(Acquire) as usize);
        let left = self.pieces.get(done..count.min(PIECES)).unwrap_or(&[]);
        left.iter().map(|[at, bytes]| (at.load(Relaxed), bytes.load(Relaxed)))
    }

    /// Empties the list.
    pub fn clear(&self) {
        self.count.store_changed(0, Relaxed);
        self.done.store_changed(0, Release);
    }

    fn mark_done(&self, number: usize) {
        self.done.store(self.done.load(Relaxed) + number as u32, Relaxed);
    }

    /// Returns the ends for reading and for writing, or `None` without a pipe.
    fn ends(&self) -> Option<[i32; 2]> {
        let [read, write] = &self.pipe;
        let ends = [read.load(Relaxed), write.load(Relaxed)];
        (read.load(Relaxed) != write.load(Relaxed)).then_some(ends)
    }

    /// Opens the pipe. Returns the number of bytes of pages that it holds.
    fn open(&self) -> Option<usize> {
        let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as usize;
        let args = [(&raw const self.pipe).expose_provenance(), flags, 0, 0, 0, 0];
        // SAFETY: (1) the kernel writes two descriptors, for which there is space.
        if unsafe { syscall(libc::SYS_pipe2, args) } != 0 {
            return None;
        }
        let [_, write] = self.ends()?;
        let call = |command: i32, argument| {
            let args = [write as usize, command as usize, argument, 0, 0, 0];
            // SAFETY: (1) a pipe of ours.
            unsafe { syscall(libc::SYS_fcntl, args) }
        };
        call(libc::F_SETPIPE_SZ, PIPE_BYTES);
        let size = usize::try_from(call(libc::F_GETPIPE_SZ, 0)).ok();
        size.filter(|&size| size >= PIECE_BYTES)
    }

    /// Closes the pipe, if there is one. Its pages are not pinned any more.
    fn close(&self) {
        if let Some(ends) = self.ends() {
            ends.into_iter().for_each(process::close);
            // These are cleared last, so that the child of a fork closes the rest.
            self.pipe.iter().for_each(|end| end.store(0, Relaxed));
        }
    }

    /// Pins a piece. Returns true if all of it is pinned.
    fn pin(&self, (address, len): (usize, usize), page: usize) -> bool {
        let Some([_, write]) = self.ends() else { return false };
        // A write would replace a page that was only read, or that is shared with a child.
        keep(address, len, page);
        let vector = [address, len];
        let nonblock = libc::SPLICE_F_NONBLOCK as usize;
        let args = [write as usize, (&raw const vector).addr(), 1, nonblock, 0, 0];
        // SAFETY: (1) the pipe refers to pages of ours, and does not change them.
        unsafe { syscall(libc::SYS_vmsplice, args) == len as isize }
    }

    /// Returns true if the system keeps pinned pages, which kernels before 5.18 do not. Tests it
    /// until there is an answer, and returns `None` before.
    fn is_able(&self, os: &Linux) -> Option<bool> {
        if self.able.load(Relaxed) == UNTRIED {
            let able = self.try_it(os)?;
            self.able.store(if able { ABLE } else { UNABLE }, Relaxed);
        }
        Some(self.able.load(Relaxed) == ABLE)
    }

    /// Tests whether a pinned page of ours survives. Returns `None` if that cannot be tested.
    fn try_it(&self, os: &Linux) -> Option<bool> {
        let page = os.page_size().max(1);
        let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: (1) a new mapping.
        let start = unsafe { syscall(libc::SYS_mmap, [0, page, both, flags, usize::MAX, 0]) };
        let start = usize::try_from(start).ok()?;
        // SAFETY: a byte of the mapping, which no other thread knows.
        let byte: &AtomicU8 = unsafe { &*core::ptr::with_exposed_provenance(start) };
        byte.store(1, Relaxed);
        let kept = self.open().map(|_| {
            let freed = self.pin((start, page), page) && advise((start, page), libc::MADV_FREE);
            freed && advise((start, page), libc::MADV_PAGEOUT) && byte.load(Relaxed) == 1
        });
        self.close();
        // SAFETY: (1) mapped above.
        unsafe { syscall(libc::SYS_munmap, [start, page, 0, 0, 0, 0]) };
        kept
    }
}

impl Default for Pinned {
    fn default() -> Pinned {
        Pinned::new()
    }
}

/// The part of [`super::Os`] for pinned pages.
///
/// # Safety
///
/// An implementation promises:
/// 1. `discard_unused` loses only what is on pages for which `is_unused` returns true, and was
///    written there before the call of `is_unused`.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Pin {
    /// Calls `each` with the resident parts of a range of whole pages, which has at most
    /// [`PIECE_BYTES`]. Returns true if they are known.
    fn resident_pieces(&self, addr: usize, len: usize, each: impl FnMut(usize, usize)) -> bool;

    /// Returns the bytes at the start of a range of whole pages that are in memory, up to the first
    /// missing page. Returns zero if they are not known. It makes one system call for each few MiB.
    fn resident_prefix(&self, addr: usize, len: usize) -> usize;

    /// Returns true if a page that is not in memory may be in swap.
    fn may_be_in_swap(&self) -> bool;

    /// Releases unused pages, and returns the number of bytes released.
    ///
    /// After a barrier that every thread passes, it calls `is_unused` with each piece's address and
    /// length. `is_unused` returns true if the earlier contents are not needed. The result is
    /// `NoMemory` if there is no pipe for some pieces, and `Unsupported` if the system cannot do
    /// it. Each unusual system call needs a permit. It closes its descriptors.
    ///
    /// # Safety
    /// 1. Each piece was mapped by `map` of this object, is private, and stays mapped.
    unsafe fn discard_unused<'a>(
        &self,
        pinned: &Pinned,
        permit: &dyn Fn() -> Option<Permit<'a>>,
        is_unused: impl FnMut(usize, usize) -> bool,
    ) -> Result<usize, Error>;

    /// Keeps, in the child of a fork, the pages that another thread had pinned.
    fn keep_pinned(&self, pinned: &Pinned);
}

// SAFETY: (1) the argument at the head of this file; (2) raw system calls, and writes that change
// nothing.
unsafe impl Pin for Linux {
    fn resident_pieces(&self, addr: usize, len: usize, mut each: impl FnMut(usize, usize)) -> bool {
        let page = self.page_size().max(1);
        let mut flags = [0u8; PIECE_BYTES / 4096];
        let len = len.min(PIECE_BYTES);
        let args = [addr, len, flags.as_mut_ptr().addr(), 0, 0, 0];
        // SAFETY: (1) the kernel writes one byte for each page of the query.
        let known = unsafe { syscall(libc::SYS_mincore, args) } == 0;
        let pages = flags.get(..len / page).unwrap_or(&[]);
        runs(pages, |first, count| each(addr + first * page, count * page));
        known
    }

    fn resident_prefix(&self, addr: usize, len: usize) -> usize {
        let page = self.page_size().max(1);
        let mut flags = [0u8; PREFIX_PAGES];
        let mut seen = 0;
        while seen < len {
            let some = (len - seen).min(PREFIX_PAGES * page);
            let args = [addr + seen, some, flags.as_mut_ptr().addr(), 0, 0, 0];
            // SAFETY: (1) the kernel writes one byte for each page of the query.
            if unsafe { syscall(libc::SYS_mincore, args) } != 0 {
                break;
            }
            let pages = flags.get(..some / page).unwrap_or(&[]);
            let present = pages.iter().take_while(|&&flag| flag & 1 != 0).count();
            seen += present * page;
            if present < pages.len() {
                break;
            }
        }
        seen
    }

    fn may_be_in_swap(&self) -> bool {
        has_any_swap()
    }

    unsafe fn discard_unused<'a>(
        &self,
        pinned: &Pinned,
        permit: &dyn Fn() -> Option<Permit<'a>>,
        mut is_unused: impl FnMut(usize, usize) -> bool,
    ) -> Result<usize, Error> {
        // No hook sees the calls below, and these pages may be in use as soon as it returns.
        if hooks::are_there() {
            return Err(Error::Unsupported);
        }
        let mut gone = 0;
        while pinned.pieces().next().is_some() {
            let some = {
                let Some(_permit) = permit() else { return Err(Error::Unsupported) };
                // MADV_FREE loses a page that was swapped out, pinned or not.
                if has_any_swap() || pinned.is_able(self) == Some(false) {
                    return Err(Error::Unsupported);
                }
                // An unknown answer means that no pipe can be opened.
                let room = pinned.is_able(self).and_then(|_| pinned.open()).unwrap_or(0);
                let some = self.pin_some(pinned, room);
                if some == 0 {
                    pinned.close();
                    return Err(Error::NoMemory);
                }
                some
            };
            // SAFETY: (1) the caller's duty; the pieces are pinned.
            gone += unsafe { self.discard_some(pinned, some, permit, &mut is_unused) };
            pinned.mark_done(some);
        }
        Ok(gone)
    }

    fn keep_pinned(&self, pinned: &Pinned) {
        if pinned.ends().is_some() {
            let page = self.page_size().max(1);
            pinned.pieces().for_each(|(address, len)| keep(address, len, page));
            pinned.close();
        }
        pinned.clear();
    }
}

impl Linux {
    /// Pins as many pieces as the pipe holds, and returns their number.
    fn pin_some(&self, pinned: &Pinned, mut room: usize) -> usize {
        let page = self.page_size().max(1);
        let fits = |&(address, len): &(usize, usize)| {
            let fits = len <= room && pinned.pin((address, len), page);
            room = room.saturating_sub(len);
            fits
        };
        pinned.pieces().take_while(fits).count()
    }

    /// Releases the unused pages of the first `some` pieces, which are pinned, and unpins the
    /// pieces. Returns the number of bytes released.
    ///
    /// # Safety
    /// 1. The pieces are pinned, private and ours.
    unsafe fn discard_some<'a>(
        &self,
        pinned: &Pinned,
        some: usize,
        permit: &dyn Fn() -> Option<Permit<'a>>,
        is_unused: &mut impl FnMut(usize, usize) -> bool,
    ) -> usize {
        let page = self.page_size().max(1);
        let pieces = || pinned.pieces().take(some);
        let mut goes = [false; PIECES];
        let seen = permit().is_some_and(|_permit| {
            for (goes, piece) in goes.iter_mut().zip(pieces()) {
                *goes = advise(piece, libc::MADV_FREE);
            }
            thread::barrier()
        });
        for (goes, (address, len)) in goes.iter_mut().zip(pieces()) {
            *goes &= seen && is_unused(address, len);
            if !*goes {
                keep(address, len, page);
            }
        }
        pinned.close();
        let mut gone = 0;
        for (goes, piece) in goes.iter().zip(pieces()) {
            if !*goes {
                continue;
            }
            match permit() {
                Some(_permit) if advise(piece, libc::MADV_PAGEOUT) => {
                    gone += piece.1;
                    self.resident_pieces(piece.0, piece.1, |_, stays| gone -= stays);
                }
                // The kernel may take the pages later, which loses nothing.
                _ => {}
            }
        }
        gone
    }
}

/// Returns true if the machine has swap, in use or not, or if that is not known.
fn has_any_swap() -> bool {
    let mut info = core::mem::MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: (1) the kernel writes the structure.
    let code = unsafe { syscall(libc::SYS_sysinfo, [info.as_mut_ptr().addr(), 0, 0, 0, 0, 0]) };
    // SAFETY: all zero at first, which is a value.
    code != 0 || unsafe { info.assume_init() }.totalswap != 0
}

/// Advises the kernel about a piece, and returns true if the kernel accepts. The pages are ours,
/// and the advice changes them only if they are not needed.
fn advise((address, len): (usize, usize), advice: i32) -> bool {
    // SAFETY: (1) pieces are ours: `Pin::discard_unused`, duty 1.
    unsafe { syscall(libc::SYS_madvise, [address, len, advice as usize, 0, 0, 0]) == 0 }
}

/// Writes to each page of a range, and changes nothing. It uses an exchange for the same value,
/// which compilers do not remove, unlike an addition of zero. Tests check that it is a write.
fn keep(address: usize, len: usize, page: usize) {
    for at in (address..address + len).step_by(page) {
        // SAFETY: a byte of a mapped page. Other threads may use it meanwhile. To the processor the
        // exchange is one step, which leaves the byte as it is.
        let byte: &AtomicU8 = unsafe { &*core::ptr::with_exposed_provenance(at) };
        let mut seen = byte.load(Relaxed);
        while let Err(now) = byte.compare_exchange(seen, seen, Relaxed, Relaxed) {
            seen = now;
        }
    }
}

/// Calls `each` with every run of set flags: the index of the first, and the number.
fn runs(flags: &[u8], mut each: impl FnMut(usize, usize)) {
    let mut count = 0;
    for (number, flag) in flags.iter().chain(&[0]).enumerate() {
        if flag & 1 != 0 {
            count += 1;
        } else if count != 0 {
            each(number - count, count);
            count = 0;
        }
    }
}

#[cfg(test)]
mod tests;
