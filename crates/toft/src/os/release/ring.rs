//! io_uring: the pieces as a list in memory shared with the kernel, the answers as another.
//!
//! The ring is the calling thread's: it is registered with the kernel under a small number of that
//! thread's, and its descriptor closed again. So nothing stays open in a program that may believe
//! to know all its descriptors, and no later file of the same number is taken for it. The child of
//! a fork has no such registration. It differs from its parent by its numbers, and gives up what it
//! has inherited, its own copy of the mapping of shared memory: it writes nothing there.
//!
//! Invariants:
//! - Q1 outside of `discard_all` nothing is in the ring: every piece that the kernel has taken has
//!   been answered. A piece that was lost would be made zero at some later time, with whatever is
//!   there by then.
//! - Q2 there are at most `entries` pieces in the ring, and it has room for twice as many answers:
//!   none is ever dropped.
//! - Q3 the kernel reads the list during a call of ours only (no polling thread was asked for), so
//!   what a call has left there can be taken back.

use super::kernel::{Answer, Parameters, Registration, Request, map, refused, unmap};
use super::{Piece, Unavailable, plain};
use crate::os::{Linux, Os, process, syscall};
use crate::sync::AtomicU32;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// Pieces in the ring at a time: a power of two.
const DEPTH: usize = 64;

const OP_MADVISE: u8 = 25;
const OFFSET_OF_REQUESTS: usize = 0x1000_0000;
const FEATURE_SINGLE_MAPPING: u32 = 1;
const ENTER_GET_ANSWERS: usize = 1;
const ENTER_REGISTERED: usize = 16;
const REGISTER_RING: usize = 20;
const UNREGISTER_RING: usize = 21;

/// A ring, or none: where it is, and whose.
#[derive(Debug)]
pub(super) struct Ring {
    /// The thread that the kernel knows it by, and its process; zero without a ring.
    thread: u32,
    process: u32,
    /// The thread's number for it.
    number: u32,
    entries: u32,
    /// Addresses: of the two mappings, and of the parts of the first.
    rings: usize,
    rings_len: usize,
    requests: usize,
    requests_len: usize,
    request_tail: usize,
    answer_head: usize,
    answer_tail: usize,
    answers: usize,
    answer_mask: u32,
}

/// A word of the shared memory. The side that writes it does so by `Release` and the other reads it
/// by `Acquire`; a side reads its own by `Relaxed`.
fn word<'a>(address: usize) -> &'a AtomicU32 {
    // SAFETY: callers pass addresses within mappings of a ring that exists; the kernel writes
    // to them atomically.
    unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(address) }
}

impl Ring {
    pub(super) const fn none() -> Ring {
        Ring {
            thread: 0,
            process: 0,
            number: 0,
            entries: 0,
            rings: 0,
            rings_len: 0,
            requests: 0,
            requests_len: 0,
            request_tail: 0,
            answer_head: 0,
            answer_tail: 0,
            answers: 0,
            answer_mask: 0,
        }
    }

    /// Makes sure that there is a ring of the calling thread.
    fn ready(&mut self) -> Result<(), Unavailable> {
        let (process, thread) = (process::pid() as u32, process::thread_number());
        if self.process != process {
            self.forget();
        }
        if self.thread == 0 {
            *self = Ring::new(process, thread)?;
        }
        if self.thread == thread { Ok(()) } else { Err(Unavailable::Elsewhere) }
    }

    fn new(process: u32, thread: u32) -> Result<Ring, Unavailable> {
        let mut parameters = Parameters::default();
        let args = [DEPTH, (&raw mut parameters).expose_provenance(), 0, 0, 0, 0];
        // SAFETY: (1) the kernel writes the parameters, and makes a descriptor.
        let descriptor = refused(unsafe { syscall(libc::SYS_io_uring_setup, args) })?;
        let mut ring = Ring { process, thread, ..Ring::none() };
        let done = ring.share(descriptor, &parameters);
        process::close(descriptor as i32);
        if let Err(why) = done {
            ring.forget();
            return Err(why);
        }
        Ok(ring)
    }

    /// Maps the lists, and registers the ring.
    fn share(&mut self, descriptor: usize, of: &Parameters) -> Result<(), Unavailable> {
        if of.features & FEATURE_SINGLE_MAPPING == 0 {
            return Err(Unavailable::TooOld);
        }
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (entries, offsets) = (of.requests as usize, &of.answer_offsets);
        let array = of.request_offsets.array as usize;
        let rings_len = (array + entries * size_of::<u32>())
            .max(offsets.answers as usize + of.answers as usize * size_of::<Answer>());
        self.rings = map(rings_len, flags, descriptor as isize, 0)?;
        self.rings_len = rings_len;
        let requests_len = entries * size_of::<Request>();
        self.requests = map(requests_len, flags, descriptor as isize, OFFSET_OF_REQUESTS)?;
        self.requests_len = requests_len;

        self.entries = of.requests;
        self.request_tail = self.rings + of.request_offsets.tail as usize;
        self.answer_head = self.rings + offsets.head as usize;
        self.answer_tail = self.rings + offsets.tail as usize;
        self.answers = self.rings + offsets.answers as usize;
        self.answer_mask = of.answers.wrapping_sub(1);
        for place in 0..entries {
            // Requests are always in the order in which they lie.
            word(self.rings + array + place * size_of::<u32>()).store(place as u32, Relaxed);
        }
        let mut registration =
            Registration { number: u32::MAX, reserved: 0, descriptor: descriptor as u64 };
        let at = (&raw mut registration).expose_provenance();
        let args = [descriptor, REGISTER_RING, at, 1, 0, 0];
        // SAFETY: (1) the kernel reads and writes the registration.
        match refused(unsafe { syscall(libc::SYS_io_uring_register, args) }) {
            // Linux 5.18.
            Err(Unavailable::Refused(libc::EINVAL)) => Err(Unavailable::TooOld),
            Err(why) => Err(why),
            Ok(_) => {
                self.number = registration.number;
                Ok(())
            }
        }
    }

    /// Gives the ring up, if it is the calling thread's; else what of it is in this process.
    pub(super) fn close(&mut self) {
        // Without a ring no call is made: there may be a filter by now.
        if self.process == 0 {
            return;
        }
        let mine = (process::pid() as u32, process::thread_number());
        if (self.process, self.thread) == mine {
            let registration = Registration { number: self.number, reserved: 0, descriptor: 0 };
            let at = (&raw const registration).expose_provenance();
            let args = [self.number as usize, UNREGISTER_RING | 1 << 31, at, 1, 0, 0];
            // SAFETY: (1) the kernel reads the registration; nothing is in the ring (Q1).
            unsafe { syscall(libc::SYS_io_uring_register, args) };
        }
        self.forget();
    }

    /// Unmaps the shared memory. The kernel's side lives until its thread ends.
    pub(super) fn forget(&mut self) {
        unmap(self.rings, self.rings_len);
        unmap(self.requests, self.requests_len);
        *self = Ring::none();
    }

    fn request(&self, place: u32) -> *mut Request {
        let place = (place & (self.entries - 1)) as usize;
        core::ptr::with_exposed_provenance_mut(self.requests + place * size_of::<Request>())
    }

    /// Gives pieces back. What it has not done where it fails is as it was.
    ///
    /// # Safety
    /// 1. As for [`super::Release::discard_all`].
    pub(super) unsafe fn discard_all(
        &mut self,
        page: usize,
        pieces: &mut [Piece],
    ) -> Result<(), Unavailable> {
        self.ready()?;
        let mut next = 0;
        // In the list and not taken by the kernel; and taken, and not answered.
        let (mut listed, mut taken) = (0u32, 0u32);
        let mut trouble = None;
        loop {
            while trouble.is_none()
                && listed + taken < self.entries
                && let Some(piece) = pieces.get_mut(next)
            {
                if piece.is_exact(page) && u32::try_from(piece.len).is_ok() {
                    self.list(listed, piece, next);
                    listed += 1;
                } else {
                    // SAFETY: (1) the caller's.
                    unsafe { plain::discard(page, piece) };
                }
                next += 1;
            }
            if listed + taken == 0 {
                return trouble.map_or(Ok(()), Err);
            }
            let before = listed + taken;
            let accepted = self.enter(listed, listed + taken);
            match accepted {
                Ok(count) => {
                    let count = (count as u32).min(listed);
                    listed -= count;
                    taken += count;
                    // It takes no more, and does not say why.
                    if count == 0 && listed != 0 {
                        trouble = Some(Unavailable::TooOld);
                    }
                }
                Err(Unavailable::Refused(libc::EINTR)) => {}
                // Nothing was taken. What was taken before is waited for however long it takes, as
                // one waits for `madvise` to return (Q1).
                Err(why) => {
                    if listed == 0 {
                        Linux::undetected().wait_briefly();
                    }
                    trouble = Some(why);
                }
            }
            if trouble.is_some() && listed != 0 {
                self.take_back(listed);
                listed = 0;
            }
            taken -= self.answers(pieces, taken);
            debug_assert!(listed + taken <= before);
        }
    }

    /// Writes a request into the list, behind `listed` others that the kernel does not know of.
    fn list(&self, listed: u32, piece: &Piece, number: usize) {
        let tail = word(self.request_tail);
        let request = Request {
            opcode: OP_MADVISE,
            flags: 0,
            priority: 0,
            descriptor: -1,
            offset: 0,
            address: piece.address as u64,
            len: piece.len as u32,
            advice: libc::MADV_DONTNEED as u32,
            user_data: number as u64,
            rest: [0; 3],
        };
        // SAFETY: a place of the list that the kernel has read already (Q2), in memory that it
        // shares with this thread only.
        unsafe { self.request(tail.load(Relaxed)).write(request) };
        debug_assert!(listed < self.entries);
        // pairs: with the kernel's read at the next call.
        tail.store(tail.load(Relaxed).wrapping_add(1), Release);
    }

    /// Takes the last requests out of the list again (Q3).
    fn take_back(&self, listed: u32) {
        let tail = word(self.request_tail);
        tail.store(tail.load(Relaxed).wrapping_sub(listed), Release);
    }

    /// Hands over requests, and waits for `answers` answers; returns the number of requests taken.
    fn enter(&self, requests: u32, answers: u32) -> Result<usize, Unavailable> {
        let flags = ENTER_GET_ANSWERS | ENTER_REGISTERED;
        let args = [self.number as usize, requests as usize, answers as usize, flags, 0, 0];
        // SAFETY: (1) the kernel does to each listed piece what the caller of `discard_all` wants.
        refused(unsafe { syscall(libc::SYS_io_uring_enter, args) })
    }

    /// Takes the answers that are there, `most` at most; returns their number.
    fn answers(&self, pieces: &mut [Piece], most: u32) -> u32 {
        let head = word(self.answer_head);
        let mut at = head.load(Relaxed);
        let mut count = 0;
        // pairs: with the kernel, which writes an answer and then the tail.
        while count < most && at != word(self.answer_tail).load(Acquire) {
            let place = (at & self.answer_mask) as usize * size_of::<Answer>();
            let answer: *const Answer = core::ptr::with_exposed_provenance(self.answers + place);
            // SAFETY: within the mapping, and written by the kernel before the tail.
            let answer = unsafe { answer.read() };
            if let Some(piece) = pieces.get_mut(answer.user_data as usize) {
                piece.done = answer.result == 0;
            }
            at = at.wrapping_add(1);
            count += 1;
        }
        head.store(at, Release);
        count
    }
}

#[cfg(test)]
impl Ring {
    pub(super) fn is_there(&self) -> bool {
        self.thread != 0
    }

    pub(super) fn owner(&self) -> (u32, u32) {
        (self.process, self.thread)
    }

    /// How far both lists have come.
    pub(super) fn position(&self) -> [u32; 3] {
        [self.request_tail, self.answer_head, self.answer_tail].map(|at| word(at).load(Relaxed))
    }

    /// From now on the kernel does not know the ring.
    pub(super) fn spoil(&mut self) {
        self.number += 9;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::filter::Filter;

    const PAGE: usize = 4096;

    /// A kernel may take some of the requests and leave the others in the list.
    #[test]
    fn what_the_kernel_has_not_taken_is_taken_back() {
        let filter = Filter::new();
        filter.watch();
        let Some(_permit) = filter.permit(&Linux::detect(), crate::os::seccomp::Calls::NONE, false)
        else {
            return;
        };
        let mut ring = Ring::none();
        if ring.ready().is_err() {
            return;
        }
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = map(4 * PAGE, private, -1, 0).unwrap();
        let byte = |page: usize| core::ptr::with_exposed_provenance_mut::<u8>(start + page * PAGE);
        // SAFETY: the test's own pages.
        (0..4).for_each(|page| unsafe { byte(page).write(1) });
        let mut pieces = [0, 1, 2, 3].map(|page| Piece::new(start + page * PAGE, PAGE));
        for (number, piece) in pieces.iter().enumerate() {
            ring.list(number as u32, piece, number);
        }
        assert_eq!(ring.enter(1, 1), Ok(1));
        ring.take_back(3);
        assert_eq!(ring.answers(&mut pieces, 4), 1);
        assert_eq!(ring.enter(3, 0), Ok(0), "nothing is in the list any more");
        assert_eq!(pieces.map(|piece| piece.done), [true, false, false, false]);
        // The ring goes on where it was, round and round.
        for _ in 0..DEPTH {
            // SAFETY: (1) the test's own pages.
            unsafe { ring.discard_all(PAGE, &mut pieces[1..3]) }.unwrap();
        }
        assert_eq!(pieces.map(|piece| piece.done), [true, true, true, false]);
        // SAFETY: the test's own pages.
        let left = [0, 1, 2, 3].map(|page| unsafe { byte(page).read() });
        assert_eq!(left, [0, 0, 0, 1]);
        unmap(start, 4 * PAGE);
        ring.close();
    }
}
