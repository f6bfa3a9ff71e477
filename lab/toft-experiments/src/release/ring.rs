//! io_uring: requests in a list that the kernel shares, and completions in another.
//!
//! - Q1 Between two calls of `release` nothing is in the ring. Each request that the kernel has
//!   taken has its completion read. A forgotten one would empty pages that are in use again.
//! - Q2 At most `entries` requests are in the ring, which has room for twice as many completions.

use super::engine::{Calls, Piece};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The number of requests in the ring at a time.
const DEPTH: usize = 64;
/// `IORING_OP_MADVISE`.
const MADVISE: u8 = 25;
/// `IORING_OFF_SQES`: the offset of the mapping of requests.
const REQUESTS_OFFSET: i64 = 0x1000_0000;
/// `IORING_FEAT_SINGLE_MMAP`: both rings are in one mapping.
const SINGLE_MAPPING: u32 = 1;
/// `IORING_ENTER_GETEVENTS`: wait for completions.
const GET_COMPLETIONS: usize = 1;

/// The kernel's `struct io_uring_sqe`.
#[repr(C)]
struct Request {
    opcode: u8,
    flags: u8,
    priority: u16,
    descriptor: i32,
    offset: u64,
    address: u64,
    len: u32,
    advice: u32,
    user_data: u64,
    rest: [u64; 3],
}

/// The kernel's `struct io_uring_cqe`.
#[repr(C)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// The kernel's `struct io_uring_params`. The kernel writes it.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    requests: u32,
    completions: u32,
    flags: [u32; 3],
    features: u32,
    reserved: [u32; 4],
    /// head, tail, mask, entries, flags, dropped, array
    request_offsets: [u32; 10],
    /// head, tail, mask, entries, overflow, completions
    completion_offsets: [u32; 10],
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Completion>() == 16);
const _: () = assert!(size_of::<Parameters>() == 120);

/// A ring of this process, with the addresses of its shared words.
#[derive(Debug)]
pub struct Ring {
    descriptor: i32,
    _open: OwnedFd,
    entries: usize,
    requests: usize,
    request_tail: usize,
    completion_head: usize,
    completion_tail: usize,
    completions: usize,
    completion_mask: u32,
}

/// Returns a word of the shared memory. The side that writes it uses `Release`, and the other side
/// reads it by `Acquire`.
fn word<'a>(address: usize) -> &'a AtomicU32 {
    // SAFETY: callers pass addresses of words in the mappings of a ring, which stay for ever.
    unsafe { &*with_exposed_provenance::<AtomicU32>(address) }
}

/// Maps a part of a ring for the life of the process.
fn map(bytes: usize, descriptor: i32, offset: i64) -> Result<usize, i32> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: new memory, at a place that the kernel chooses.
    let start = unsafe { libc::mmap(null_mut(), bytes, access, flags, descriptor, offset) };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    Ok(start.expose_provenance())
}

impl Ring {
    /// Creates a ring. Fails with the kernel's error code.
    pub fn new(calls: &mut Calls) -> Result<Ring, i32> {
        let mut of = Parameters::default();
        let arguments = [DEPTH, (&raw mut of).expose_provenance(), 0, 0, 0, 0];
        // SAFETY: (1) the kernel writes the parameters.
        let descriptor = unsafe { calls.make(libc::SYS_io_uring_setup, arguments)? } as i32;
        // SAFETY: a new descriptor, which no other value owns.
        let open = unsafe { OwnedFd::from_raw_fd(descriptor) };
        if of.features & SINGLE_MAPPING == 0 {
            return Err(libc::ENOSYS);
        }
        let entries = of.requests as usize;
        let [array, completions] = [of.request_offsets[6], of.completion_offsets[5]];
        let after_array = array as usize + entries * size_of::<u32>();
        let after_all = completions as usize + of.completions as usize * size_of::<Completion>();
        let rings = map(after_array.max(after_all), descriptor, 0)?;
        let requests = map(entries * size_of::<Request>(), descriptor, REQUESTS_OFFSET)?;
        for place in 0..entries {
            // The list has the requests in the order of their places.
            let at = rings + array as usize + place * size_of::<u32>();
            word(at).store(place as u32, Relaxed);
        }
        Ok(Ring {
            descriptor,
            _open: open,
            entries,
            requests,
            request_tail: rings + of.request_offsets[1] as usize,
            completion_head: rings + of.completion_offsets[0] as usize,
            completion_tail: rings + of.completion_offsets[1] as usize,
            completions: rings + completions as usize,
            completion_mask: of.completions - 1,
        })
    }

    /// Releases pieces, and waits for all completions. Fails if the kernel refuses a call as such.
    ///
    /// # Safety
    /// 1. As for [`super::engine::Engine::release`].
    pub unsafe fn release(&mut self, calls: &mut Calls, pieces: &mut [Piece]) -> Result<(), i32> {
        for pieces in pieces.chunks_mut(self.entries) {
            for (number, piece) in pieces.iter().enumerate() {
                self.list(piece, number)?;
            }
            let (mut listed, mut open) = (pieces.len(), pieces.len());
            while open != 0 {
                let arguments = [self.descriptor as usize, listed, open, GET_COMPLETIONS, 0, 0];
                // SAFETY: (1) the caller wants the listed pieces released.
                match unsafe { calls.make(libc::SYS_io_uring_enter, arguments) } {
                    Ok(taken) => listed -= taken.min(listed),
                    Err(libc::EINTR) => {}
                    Err(code) => return Err(code),
                }
                open -= self.completed(pieces);
            }
        }
        Ok(())
    }

    /// Adds a request to the list.
    fn list(&self, piece: &Piece, number: usize) -> Result<(), i32> {
        let len = u32::try_from(piece.bytes()).map_err(|_| libc::EINVAL)?;
        let tail = word(self.request_tail);
        let place = tail.load(Relaxed) as usize & (self.entries - 1);
        let request = Request {
            opcode: MADVISE,
            flags: 0,
            priority: 0,
            descriptor: -1,
            offset: 0,
            address: piece.address as u64,
            len,
            advice: libc::MADV_DONTNEED as u32,
            user_data: number as u64,
            rest: [0; 3],
        };
        let at: *mut Request =
            with_exposed_provenance_mut(self.requests + place * size_of::<Request>());
        // SAFETY: a place of the list that the kernel does not read until `tail` has moved (Q2).
        unsafe { at.write(request) };
        // pairs: with the kernel's read at the next call.
        tail.store(tail.load(Relaxed).wrapping_add(1), Release);
        Ok(())
    }

    /// Reads the completions that are there. Returns their number.
    fn completed(&self, pieces: &mut [Piece]) -> usize {
        let head = word(self.completion_head);
        let mut at = head.load(Relaxed);
        let mut count = 0;
        // pairs: with the kernel, which writes a completion and then the tail.
        while at != word(self.completion_tail).load(Acquire) {
            let place = (at & self.completion_mask) as usize * size_of::<Completion>();
            let completion: *const Completion = with_exposed_provenance(self.completions + place);
            // SAFETY: within the mapping, and written by the kernel before the tail.
            let completion = unsafe { completion.read() };
            pieces[completion.user_data as usize].done = completion.result == 0;
            at = at.wrapping_add(1);
            count += 1;
        }
        head.store(at, Release);
        count
    }
}
