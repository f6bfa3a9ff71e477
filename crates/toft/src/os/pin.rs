//! Giving back pages that a thread may begin to use at any moment: they go on condition that it has
//! not.
//!
//! What a sleeping thread has claimed is free. But the thread may have read its claim already, and
//! have stopped right there; no other thread can know. So its pages cannot be kept from it while
//! they go. Instead:
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
//! Why nothing is lost. A block is marked as live before its user can write to it. So what was
//! written before `free`, and is needed, is in a block that every thread sees as live after the
//! barrier. Its page is kept, by a write that changes nothing, while the pipe still refers to it:
//! even short of memory, the kernel could not have taken it. The kernel keeps what is written after
//! `free`: it checks the page table's dirty bit with the entry taken out. The child of a fork has
//! the same pages, and the same pipe: it keeps them all ([`Pin::keep_pinned`]).
//!
//! What is pinned must be the page that a write goes to: each is written to before, without
//! changing it, so that it is neither the kernel's page of zeros nor one that is shared with a
//! child. Where there is swap nothing of this is done: a page that was swapped out just before
//! `free` would be lost by it. Nor where the kernel takes what is pinned, which is tried.

use super::filter::Permit;
use super::syscall::syscall;
use super::{Error, Linux, Os, process, thread};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicI32, AtomicU8, AtomicU32, AtomicUsize};

/// Pieces of pages that are pinned at a time, and bytes in one: the least that a pipe holds, unless
/// its user has too many.
pub const PIECES: usize = 64;
/// Bytes of one piece, at most.
pub const PIECE_BYTES: usize = 64 << 10;
/// Pages that `resident_prefix` asks about at once.
const PREFIX_PAGES: usize = 1024;
/// Bytes that a pipe is asked to hold: what the system allows every process.
const PIPE_BYTES: usize = 1 << 20;

/// What `Pinned::able` says: not tried yet; the system keeps what is pinned; it does not.
const UNTRIED: u32 = 0;
const ABLE: u32 = 1;
const UNABLE: u32 = 2;

/// Pages that are to go if they are not used. All zero at first; where the child of a fork finds
/// it. Written by one thread at a time.
#[derive(Debug)]
pub struct Pinned {
    /// The ends of the pipe, which the kernel writes before the child of a fork can have them.
    /// There is one where they differ.
    pipe: [AtomicI32; 2],
    able: AtomicU32,
    count: AtomicU32,
    /// Pieces that were dealt with.
    done: AtomicU32,
    /// Address and length.
    pieces: [[AtomicUsize; 2]; PIECES],
}

impl Pinned {
    /// Nothing.
    pub const fn new() -> Pinned {
        Pinned {
            pipe: [const { AtomicI32::new(0) }; 2],
            able: AtomicU32::new(UNTRIED),
            count: AtomicU32::new(0),
            done: AtomicU32::new(0),
            pieces: [const { [const { AtomicUsize::new(0) }; 2] }; PIECES],
        }
    }

    /// Adds whole pages, of [`PIECE_BYTES`] at most; no, where there is no room.
    pub fn add(&self, address: usize, len: usize) -> bool {
        let count = self.count.load(Relaxed);
        let Some([at, bytes]) = self.pieces.get(count as usize) else { return false };
        at.store(address, Relaxed);
        bytes.store(len.min(PIECE_BYTES), Relaxed);
        // For the child of a fork, in which there are no other threads: the number comes last.
        self.count.store(count + 1, Release);
        true
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// What was added and not dealt with, by address and length.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, usize)> {
        let (done, count) = (self.done.load(Relaxed) as usize, self.count.load(Acquire) as usize);
        let left = self.pieces.get(done..count.min(PIECES)).unwrap_or(&[]);
        left.iter().map(|[at, bytes]| (at.load(Relaxed), bytes.load(Relaxed)))
    }

    /// Forgets it.
    pub fn clear(&self) {
        self.count.store(0, Relaxed);
        self.done.store(0, Release);
    }

    fn deal_with(&self, number: usize) {
        self.done.store(self.done.load(Relaxed) + number as u32, Relaxed);
    }

    /// The ends for reading and for writing.
    fn ends(&self) -> Option<[i32; 2]> {
        let [read, write] = &self.pipe;
        let ends = [read.load(Relaxed), write.load(Relaxed)];
        (read.load(Relaxed) != write.load(Relaxed)).then_some(ends)
    }

    /// Opens the pipe; returns the bytes of pages that it holds.
    fn open(&self) -> Option<usize> {
        let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as usize;
        let args = [(&raw const self.pipe).expose_provenance(), flags, 0, 0, 0, 0];
        // SAFETY: (1) the kernel writes two descriptors where there is place for them.
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

    /// Closes the pipe, if there is one: what it refers to is not pinned any more.
    fn close(&self) {
        if let Some(ends) = self.ends() {
            ends.into_iter().for_each(process::close);
            // Last, so that the child of a fork closes what is left.
            self.pipe.iter().for_each(|end| end.store(0, Relaxed));
        }
    }

    /// Pins a piece; returns true if all of it is pinned.
    fn pin(&self, (address, len): (usize, usize), page: usize) -> bool {
        let Some([_, write]) = self.ends() else { return false };
        // A page that was only read, or is shared with a child, would be another one after a write.
        keep(address, len, page);
        let vector = [address, len];
        let nonblock = libc::SPLICE_F_NONBLOCK as usize;
        let args = [write as usize, (&raw const vector).addr(), 1, nonblock, 0, 0];
        // SAFETY: (1) pages of ours are referred to, and not changed.
        unsafe { syscall(libc::SYS_vmsplice, args) == len as isize }
    }

    /// Whether the system keeps what is pinned: kernels before 5.18 do not. Tried until it is
    /// known.
    fn is_able(&self, os: &Linux) -> Option<bool> {
        if self.able.load(Relaxed) == UNTRIED {
            let able = self.try_it(os)?;
            self.able.store(if able { ABLE } else { UNABLE }, Relaxed);
        }
        Some(self.able.load(Relaxed) == ABLE)
    }

    /// Frees a page of our own that is pinned, and has it taken. Nothing, where that cannot be
    /// tried.
    fn try_it(&self, os: &Linux) -> Option<bool> {
        let page = os.page_size().max(1);
        let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: (1) a new mapping.
        let start = unsafe { syscall(libc::SYS_mmap, [0, page, both, flags, usize::MAX, 0]) };
        let start = usize::try_from(start).ok()?;
        // SAFETY: a byte of it, which no other thread knows.
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

/// Part of [`super::Os`].
///
/// # Safety
///
/// An implementation promises:
/// 1. `discard_unused` loses only what is on pages for which `is_unused` returns true, and was
///    written there before the call asks.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Pin {
    /// Names the resident parts of a range of whole pages, of [`PIECE_BYTES`] at most. Returns true
    /// if it can.
    fn resident_pieces(&self, addr: usize, len: usize, each: impl FnMut(usize, usize)) -> bool;

    /// Bytes of a range of whole pages that are in memory, up to the first page that is not; none
    /// where it cannot say. A call for each few MiB of them.
    fn resident_prefix(&self, addr: usize, len: usize) -> usize;

    /// Whether a page that is not in memory may be in swap.
    fn may_be_in_swap(&self) -> bool;

    /// Gives back unused pages; returns the bytes given back. After a barrier that every thread
    /// passes, `is_unused` returns for each piece, by address and length, whether what was there
    /// before is not needed. `NoMemory` where there is no pipe for some of them, `Unsupported`
    /// where the system cannot do it. Each call of an unusual kind is made with a permit. Closes
    /// its descriptors.
    ///
    /// # Safety
    /// 1. Each piece was mapped by `map` of this object, is private, and stays mapped.
    unsafe fn discard_unused<'a>(
        &self,
        pinned: &Pinned,
        permit: &dyn Fn() -> Option<Permit<'a>>,
        is_unused: impl FnMut(usize, usize) -> bool,
    ) -> Result<usize, Error>;

    /// In the child of a fork: what another thread had pinned stays.
    fn keep_pinned(&self, pinned: &Pinned);
}

// SAFETY: (1) see above; (2) raw system calls, and writes that change nothing.
unsafe impl Pin for Linux {
    fn resident_pieces(&self, addr: usize, len: usize, mut each: impl FnMut(usize, usize)) -> bool {
        let page = self.page_size().max(1);
        let mut flags = [0u8; PIECE_BYTES / 4096];
        let len = len.min(PIECE_BYTES);
        let args = [addr, len, flags.as_mut_ptr().addr(), 0, 0, 0];
        // SAFETY: (1) the kernel writes one byte for each page asked about.
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
            // SAFETY: (1) the kernel writes one byte for each page asked about.
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
        let mut gone = 0;
        while pinned.pieces().next().is_some() {
            let some = {
                let Some(_permit) = permit() else { return Err(Error::Unsupported) };
                // What was swapped out is lost by MADV_FREE, pinned or not.
                if has_any_swap() || pinned.is_able(self) == Some(false) {
                    return Err(Error::Unsupported);
                }
                // Not known means that there is no pipe to be had.
                let room = pinned.is_able(self).and_then(|_| pinned.open()).unwrap_or(0);
                let some = self.pin_some(pinned, room);
                if some == 0 {
                    pinned.close();
                    return Err(Error::NoMemory);
                }
                some
            };
            // SAFETY: (1) the caller's; what is freed is pinned.
            gone += unsafe { self.discard_some(pinned, some, permit, &mut is_unused) };
            pinned.deal_with(some);
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
    /// Pins as many pieces as there is room for; returns their number.
    fn pin_some(&self, pinned: &Pinned, mut room: usize) -> usize {
        let page = self.page_size().max(1);
        let fits = |&(address, len): &(usize, usize)| {
            let fits = len <= room && pinned.pin((address, len), page);
            room = room.saturating_sub(len);
            fits
        };
        pinned.pieces().take_while(fits).count()
    }

    /// Gives back what is not used of the first `some` pieces, which are pinned; unpins them;
    /// returns the bytes given back.
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
                // The kernel may take it later: nothing is lost by that.
                _ => {}
            }
        }
        gone
    }
}

/// Whether the machine has swap, in use or not. Or whether that is not known.
fn has_any_swap() -> bool {
    let mut info = core::mem::MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: (1) the kernel writes the structure.
    let code = unsafe { syscall(libc::SYS_sysinfo, [info.as_mut_ptr().addr(), 0, 0, 0, 0, 0]) };
    // SAFETY: all zero at first, which is a value.
    code != 0 || unsafe { info.assume_init() }.totalswap != 0
}

/// Advises the kernel about a piece; returns true if it accepts. For pages of ours, which change by
/// it only where they are not needed.
fn advise((address, len): (usize, usize), advice: i32) -> bool {
    // SAFETY: (1) pieces are ours: `Pin::discard_unused`, duty 1.
    unsafe { syscall(libc::SYS_madvise, [address, len, advice as usize, 0, 0, 0]) == 0 }
}

/// Writes to each page of a range, and changes nothing. An exchange for the same value is one that
/// compilers leave alone, unlike an addition of zero; tests see whether it is a write.
fn keep(address: usize, len: usize, page: usize) {
    for at in (address..address + len).step_by(page) {
        // SAFETY: a byte of a page that is mapped. Beside other threads that use it: to the
        // processor this is one step, by which the byte stays what it is.
        let byte: &AtomicU8 = unsafe { &*core::ptr::with_exposed_provenance(at) };
        let mut seen = byte.load(Relaxed);
        while let Err(now) = byte.compare_exchange(seen, seen, Relaxed, Relaxed) {
            seen = now;
        }
    }
}

/// Names runs of flags that are set: the first and how many.
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
