//! The three engines that release pieces. Each marks a piece as done only if the kernel has
//! confirmed that very piece, and counts its system calls.

use super::area::PAGE;
use super::ring::Ring;
use std::io::Error;

/// A range of whole pages, and the result of its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The address of its first page.
    pub address: usize,
    /// The number of its pages.
    pub pages: usize,
    /// True if the kernel has confirmed the release.
    pub done: bool,
}

impl Piece {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.pages * PAGE
    }
}

/// A way to release pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `madvise` for each piece.
    Madvise,
    /// `process_madvise` on this process, for up to 64 pieces or 4 MiB, as the library calls it.
    ProcessMadvise,
    /// A request of io_uring for each piece, 64 at a time.
    IoUring,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Madvise, Kind::ProcessMadvise, Kind::IoUring];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Madvise => "madvise",
            Kind::ProcessMadvise => "process_madvise",
            Kind::IoUring => "io_uring",
        }
    }
}

/// Counts the system calls of an engine.
#[derive(Debug, Default)]
pub struct Calls(u64);

impl Calls {
    /// Makes a system call. Returns its result, or the error code.
    ///
    /// # Safety
    /// 1. The call does nothing to memory except what its caller wants done to the memory that the
    ///    arguments name.
    pub unsafe fn make(&mut self, number: i64, arguments: [usize; 6]) -> Result<usize, i32> {
        self.0 += 1;
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: (1) the caller's duty.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        usize::try_from(result).map_err(|_| Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// An engine that works here.
#[derive(Debug)]
pub struct Engine {
    kind: Kind,
    calls: Calls,
    ring: Option<Ring>,
}

impl Engine {
    /// Returns an engine, or the reason why this kernel does not have it.
    pub fn new(kind: Kind) -> Result<Engine, String> {
        let mut calls = Calls::default();
        let code = |what: &str, code| format!("{what}: {}", Error::from_raw_os_error(code));
        let ring = match kind {
            Kind::IoUring => Some(Ring::new(&mut calls).map_err(|it| code("io_uring_setup", it))?),
            Kind::Madvise => None,
            Kind::ProcessMadvise => {
                vector(&mut calls, &[]).map_err(|it| code("process_madvise", it))?;
                None
            }
        };
        Ok(Engine { kind, calls, ring })
    }

    /// Returns which engine it is.
    #[cfg(test)]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number of system calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.0
    }

    /// Releases pieces. A piece that the kernel refuses is not done, and all others are. Fails if
    /// the kernel refuses the calls as such.
    ///
    /// # Safety
    /// 1. The pieces are private anonymous memory, or not mapped. Their contents are not needed any
    ///    more, and no thread uses them until this returns.
    pub unsafe fn release(&mut self, pieces: &mut [Piece]) -> Result<(), i32> {
        pieces.iter_mut().for_each(|piece| piece.done = false);
        // SAFETY: (1) the caller's duty, for each of the three.
        unsafe {
            match (self.kind, &mut self.ring) {
                (Kind::IoUring, Some(ring)) => ring.release(&mut self.calls, pieces),
                (Kind::ProcessMadvise, _) => by_vector(&mut self.calls, pieces),
                _ => {
                    pieces.iter_mut().for_each(|piece| one(&mut self.calls, piece));
                    Ok(())
                }
            }
        }
    }
}

/// Releases a piece by `madvise`.
///
/// # Safety
/// 1. As for [`Engine::release`].
unsafe fn one(calls: &mut Calls, piece: &mut Piece) {
    let advice = libc::MADV_DONTNEED as usize;
    let arguments = [piece.address, piece.bytes(), advice, 0, 0, 0];
    // SAFETY: (1) the caller's duty.
    piece.done = unsafe { calls.make(libc::SYS_madvise, arguments) } == Ok(0);
}

/// The most pieces of one call, and the most bytes unless a piece has more.
const PIECES: usize = 64;
const BYTES: usize = 4 << 20;

/// `PIDFD_SELF_THREAD`, the constant that stands for this process since Linux 6.14.
const SELF: isize = -10000;

/// Advises the kernel about a list of ranges. Returns the number of bytes that it has released.
fn vector(calls: &mut Calls, list: &[libc::iovec]) -> Result<usize, i32> {
    let advice = libc::MADV_DONTNEED as usize;
    let at = list.as_ptr().expose_provenance();
    let call = |calls: &mut Calls, target: isize| {
        let arguments = [target as usize, at, list.len(), advice, 0, 0];
        // SAFETY: (1) the callers of `by_vector` want the ranges of the list released.
        unsafe { calls.make(libc::SYS_process_madvise, arguments) }
    };
    match call(calls, SELF) {
        Err(libc::EBADF) => {
            // SAFETY: (1) no memory is named. The descriptor is closed below.
            let descriptor = unsafe {
                let process = std::process::id() as usize;
                calls.make(libc::SYS_pidfd_open, [process, 0, 0, 0, 0, 0])?
            };
            let done = call(calls, descriptor as isize);
            // SAFETY: (1) no memory is named, and no other code knows the descriptor.
            unsafe { calls.make(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])? };
            done
        }
        done => done,
    }
}

/// Releases pieces by `process_madvise`. The kernel stops at a range that it refuses, which
/// `madvise` is then tried on.
///
/// # Safety
/// 1. As for [`Engine::release`].
unsafe fn by_vector(calls: &mut Calls, pieces: &mut [Piece]) -> Result<(), i32> {
    let mut rest = pieces;
    while !rest.is_empty() {
        let mut list = Vec::with_capacity(PIECES);
        let mut bytes = 0;
        for piece in rest.iter().take(PIECES) {
            if !list.is_empty() && bytes + piece.bytes() > BYTES {
                break;
            }
            bytes += piece.bytes();
            let iov_base = std::ptr::with_exposed_provenance_mut(piece.address);
            list.push(libc::iovec { iov_base, iov_len: piece.bytes() });
        }
        let mut released = match vector(calls, &list) {
            Ok(released) => released,
            // The first range of the list is not mapped, or the machine has no memory for tables.
            Err(libc::ENOMEM) => 0,
            Err(code) => return Err(code),
        };
        let mut confirmed = 0;
        for piece in rest.iter_mut().take(list.len()) {
            let Some(left) = released.checked_sub(piece.bytes()) else { break };
            (released, piece.done) = (left, true);
            confirmed += 1;
        }
        if confirmed < list.len() {
            // SAFETY: (1) the caller's duty.
            unsafe { one(calls, &mut rest[confirmed]) };
            confirmed += 1;
        }
        rest = &mut rest[confirmed..];
    }
    Ok(())
}
