//! Giving back pages that somebody may begin to use at any moment: they go on condition that nobody has.
//!
//! What a sleeping thread has claimed is free, but the thread may have read its claim already, and stand
//! still just there; nobody else can know. So its pages cannot be kept from it while they go. Instead:
//!
//! ```text
//! pin    a pipe refers to the pages: whatever happens, what is on them stays
//! free   MADV_FREE: from here on each write makes its page stay, whoever writes
//! a barrier that every thread passes
//! look   whoever had begun to use a page before `free` is seen by now: it is written to, and stays as it was
//! unpin
//! out    MADV_PAGEOUT: the kernel takes each page that was not written to since `free`
//! ```
//!
//! Why nothing is lost. A block is marked as live before its user can write to it. So what was written
//! before `free`, and is needed, lies in a block that the barrier lets everybody see is live: its page is
//! kept, by a write that changes nothing, while the pipe still refers to it, so that the kernel, were it
//! short of memory at this very moment, could not have taken it. What is written after `free` the kernel
//! keeps: it looks at the page table's dirty bit with the entry taken out. The child of a fork has the
//! same pages, and the same pipe: it keeps them all ([`Pin::keep_pinned`]).

use super::syscall::syscall;
use super::{Error, Linux, process, thread};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU8, AtomicU32, AtomicUsize};

/// Pieces of pages that are pinned at a time, and bytes in one: the least that a pipe holds.
pub const PIECES: usize = 64;
/// Bytes of one piece, at most.
pub const PIECE_BYTES: usize = 64 << 10;
/// Bytes that a pipe is asked to hold: what the system allows everybody.
const PIPE_BYTES: usize = 1 << 20;

/// Pages that are to go if they are not used. All zero at first; where the child of a fork finds it.
/// Written by one thread at a time.
#[derive(Debug)]
pub struct Pinned {
    /// The ends of the pipe, each plus one; zero without.
    pipe: [AtomicU32; 2],
    count: AtomicU32,
    /// Address and length.
    pieces: [[AtomicUsize; 2]; PIECES],
}

impl Pinned {
    /// Nothing.
    pub const fn new() -> Pinned {
        Pinned {
            pipe: [const { AtomicU32::new(0) }; 2],
            count: AtomicU32::new(0),
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

    /// What was added.
    pub fn pieces(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + ExactSizeIterator {
        let count = self.count.load(Acquire) as usize;
        let all = self.pieces.get(..count.min(PIECES)).unwrap_or(&[]);
        all.iter().map(|[at, bytes]| (at.load(Relaxed), bytes.load(Relaxed)))
    }

    /// Forgets it.
    pub fn clear(&self) {
        self.count.store(0, Release);
    }

    fn end(&self, number: usize) -> Option<usize> {
        let end = self.pipe.get(number).map_or(0, |end| end.load(Relaxed));
        end.checked_sub(1).map(|end| end as usize)
    }

    /// Opens the pipe; says how many bytes of pages it holds.
    fn open(&self) -> Option<usize> {
        let mut ends = [0i32; 2];
        let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as usize;
        // SAFETY: (1) the kernel writes two descriptors.
        let code = unsafe { syscall(libc::SYS_pipe2, [(&raw mut ends).addr(), flags, 0, 0, 0, 0]) };
        if code != 0 {
            return None;
        }
        for (place, end) in self.pipe.iter().zip(ends) {
            place.store(end as u32 + 1, Relaxed);
        }
        let set = libc::F_SETPIPE_SZ as usize;
        let get = libc::F_GETPIPE_SZ as usize;
        let write = self.end(1)?;
        // SAFETY: (1) a pipe of ours.
        let size = unsafe {
            syscall(libc::SYS_fcntl, [write, set, PIPE_BYTES, 0, 0, 0]);
            syscall(libc::SYS_fcntl, [write, get, 0, 0, 0, 0])
        };
        usize::try_from(size).ok().filter(|&size| size >= PIECE_BYTES)
    }

    /// Closes the pipe: what it refers to is not pinned any more.
    fn close(&self) {
        for place in &self.pipe {
            if let Some(end) = place.swap(0, Relaxed).checked_sub(1) {
                process::close(end as i32);
            }
        }
    }

    /// Pins a piece; says whether all of it is.
    fn pin(&self, address: usize, len: usize) -> bool {
        let Some(write) = self.end(1) else { return false };
        let vector = [address, len];
        let nonblock = libc::SPLICE_F_NONBLOCK as usize;
        let args = [write, (&raw const vector).addr(), 1, nonblock, 0, 0];
        // SAFETY: (1) pages of ours are referred to, and not changed.
        unsafe { syscall(libc::SYS_vmsplice, args) == len as isize }
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
/// 1. `discard_unused` loses nothing but what lies on pages of which `is_unused` says yes, and was
///    written there before the call asks.
/// 2. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait Pin {
    /// Names what is in memory of a range of whole pages, of [`PIECE_BYTES`] at most.
    fn resident_pieces(&self, addr: usize, len: usize, each: impl FnMut(usize, usize));

    /// Gives pages back that are not used; says how many bytes went, or that some could not be pinned, for
    /// which `is_unused` was not asked. `is_unused` is asked of each
    /// piece, by its address and length, after a barrier that every thread passes: whether nobody needs
    /// what was there before. Takes no signals meanwhile; closes its descriptors.
    ///
    /// # Safety
    /// 1. Each piece was mapped by `map` of this object, is private, and stays mapped.
    unsafe fn discard_unused(
        &self,
        pinned: &Pinned,
        is_unused: impl FnMut(usize, usize) -> bool,
    ) -> Result<usize, Error>;

    /// In the child of a fork: what another thread had pinned stays.
    fn keep_pinned(&self, pinned: &Pinned);
}

// SAFETY: (1) see above; (2) raw system calls, and writes that change nothing.
unsafe impl Pin for Linux {
    fn resident_pieces(&self, addr: usize, len: usize, mut each: impl FnMut(usize, usize)) {
        let page = super::Os::page_size(self).max(1);
        let mut flags = [0u8; PIECE_BYTES / 4096];
        let len = len.min(PIECE_BYTES);
        let args = [addr, len, flags.as_mut_ptr().addr(), 0, 0, 0];
        // SAFETY: (1) the kernel writes one byte for each page asked about.
        if unsafe { syscall(libc::SYS_mincore, args) } == 0 {
            let pages = flags.get(..len / page).unwrap_or(&[]);
            runs(pages, |first, count| each(addr + first * page, count * page));
        }
    }

    unsafe fn discard_unused(
        &self,
        pinned: &Pinned,
        mut is_unused: impl FnMut(usize, usize) -> bool,
    ) -> Result<usize, Error> {
        let (mut from, mut gone) = (0, Ok(0));
        while from < pinned.pieces().len() {
            let room = pinned.open().unwrap_or(0);
            let to = from + pin_some(pinned, from, room);
            // SAFETY: (1) the caller's; what is freed is pinned.
            let bytes = unsafe { self.discard_some(pinned, from..to, &mut is_unused) };
            pinned.close();
            // A piece that cannot be pinned is gone round.
            gone = if to == from { Err(Error::NoMemory) } else { gone.map(|gone| gone + bytes) };
            from = to.max(from + 1);
        }
        gone
    }

    fn keep_pinned(&self, pinned: &Pinned) {
        if pinned.end(0).is_some() {
            let page = super::Os::page_size(self).max(1);
            pinned.pieces().for_each(|(address, len)| keep(address, len, page));
            pinned.close();
        }
        pinned.clear();
    }
}

/// Pins pieces from number `from` on, as many as there is room for; says how many.
fn pin_some(pinned: &Pinned, from: usize, mut room: usize) -> usize {
    let fits = |&(address, len): &(usize, usize)| {
        let fits = len <= room && pinned.pin(address, len);
        room = room.saturating_sub(len);
        fits
    };
    pinned.pieces().skip(from).take_while(fits).count()
}

impl Linux {
    /// Gives back what is not used of pieces that are pinned; unpins them; says how many bytes went.
    ///
    /// # Safety
    /// 1. The pieces are pinned, private and ours.
    unsafe fn discard_some(
        &self,
        pinned: &Pinned,
        numbers: core::ops::Range<usize>,
        is_unused: &mut impl FnMut(usize, usize) -> bool,
    ) -> usize {
        let page = super::Os::page_size(self).max(1);
        let some = || pinned.pieces().enumerate().skip(numbers.start).take(numbers.len());
        // SAFETY: (1) of pages that are ours, as duty 1 says: they change by it only where nobody needs them.
        let advise = |(address, len), advice: i32| unsafe {
            syscall(libc::SYS_madvise, [address, len, advice as usize, 0, 0, 0]) == 0
        };
        let mut goes = [false; PIECES];
        for (goes, (_, piece)) in goes.iter_mut().zip(some()) {
            *goes = advise(piece, libc::MADV_FREE);
        }
        let seen = thread::barrier();
        for (goes, (_, (address, len))) in goes.iter_mut().zip(some()) {
            *goes &= seen && is_unused(address, len);
            if !*goes {
                keep(address, len, page);
            }
        }
        pinned.close();
        let mut gone = 0;
        for (goes, (_, (address, len))) in goes.iter().zip(some()) {
            if *goes && advise((address, len), libc::MADV_PAGEOUT) {
                gone += len;
                self.resident_pieces(address, len, |_, stays| gone -= stays);
            }
        }
        gone
    }
}

/// Writes to each page of a range, and changes nothing.
fn keep(address: usize, len: usize, page: usize) {
    for at in (address..address + len).step_by(page) {
        // SAFETY: a byte of a page that is mapped. Whoever uses it meanwhile: to the processor this is one
        // step, by which the byte stays what it is.
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
