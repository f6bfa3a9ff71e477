//! Giving many ranges back at once.
//!
//! Three ways, one file each: a `madvise` for each piece (`plain`), `process_madvise` on ourselves
//! for 64 at a time (`vector`), and io_uring (`ring`). The first is the one that every kernel and
//! every filter knows; the others are unusual calls, which need a [`Permit`], and whatever they do
//! not do the first does after them. The [experiment][e] says which is the default.
//!
//! What holds of all three:
//! - exactly the bytes that a piece names, which are whole pages, or none;
//! - a piece says `done` only where the kernel has confirmed that very piece. Otherwise what is in
//!   its pages is not known;
//! - when the call returns nothing of it is under way any more.
//!
//! [e]: https://github.com/toft-malloc/toft/blob/main/docs/experiments/release.md

mod kernel;
mod plain;
mod ring;
mod vector;

#[cfg(test)]
mod tests;

use super::filter::Permit;
use ring::Ring;

/// A range to be given back, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The first address: the start of a page.
    pub address: usize,
    /// Bytes: whole pages, at least one.
    pub len: usize,
    /// Whether the kernel has confirmed that the range reads as zero now.
    pub done: bool,
}

impl Piece {
    /// A piece that has not been given back.
    pub const fn new(address: usize, len: usize) -> Piece {
        Piece { address, len, done: false }
    }

    /// Whether it names whole pages. The kernel would round the end of another up.
    fn is_exact(&self, page: usize) -> bool {
        self.len != 0
            && (self.address | self.len) & (page - 1) == 0
            && self.address.checked_add(self.len).is_some()
    }
}

/// A way of giving pages back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Method {
    /// `madvise`, once for each piece.
    Plain,
    /// `process_madvise` on this process.
    Vector,
    /// io_uring.
    Ring,
}

impl Method {
    /// Every one.
    pub const ALL: [Method; 3] = [Method::Plain, Method::Vector, Method::Ring];
    /// The best as measured, where the kernel has it.
    pub const DEFAULT: Method = Method::Vector;

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Method::Plain => "madvise",
            Method::Vector => "process_madvise",
            Method::Ring => "io_uring",
        }
    }
}

// A `Release` in zeroed memory gives back by the method that always works.
const _: () = assert!(Method::Plain as u32 == 0);

/// Why a method does not work here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The kernel refuses a call that it needs, with this code.
    Refused(i32),
    /// The kernel knows the call, but not what is asked of it.
    TooOld,
    /// It belongs to another thread.
    Elsewhere,
}

/// What giving back in batches keeps from one batch to the next: plain numbers, and no descriptor.
/// One caller at a time. All zero is a value: by `madvise`.
#[derive(Debug)]
pub struct Release {
    method: Method,
    ring: Ring,
}

impl Release {
    /// By the default method.
    pub const fn new() -> Release {
        Release::by(Method::DEFAULT)
    }

    /// By this method, as long as it works.
    pub const fn by(method: Method) -> Release {
        Release { method, ring: Ring::none() }
    }

    /// The method in use: `madvise` once another has turned out not to work.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Gives ranges back, and says of each whether it is zero now. Without a permit by `madvise`.
    ///
    /// # Safety
    /// 1. Of each piece that is whole pages: it is private anonymous memory of the caller's, or not
    ///    mapped, and its contents are not needed any more. Not written to until this returns.
    /// 2. `page` is the kernel's page size.
    pub unsafe fn discard_all(
        &mut self,
        page: usize,
        pieces: &mut [Piece],
        permit: Option<&Permit<'_>>,
    ) {
        for piece in pieces.iter_mut() {
            piece.done = false;
        }
        let method = if permit.is_some() { self.method } else { Method::Plain };
        // SAFETY: (1) (2) the caller's.
        let worked = unsafe {
            match method {
                Method::Plain => {
                    plain::discard_all(page, pieces);
                    Ok(())
                }
                Method::Vector => vector::discard_all(page, pieces),
                Method::Ring => self.ring.discard_all(page, pieces),
            }
        };
        if let Err(why) = worked {
            // SAFETY: (1) (2) the caller's. What has been done is not done again.
            unsafe { plain::discard_all(page, pieces) };
            if why != Unavailable::Elsewhere {
                self.close();
                self.method = Method::Plain;
            }
        }
    }

    /// Gives up what the kernel holds for this: at the end of the thread that has used it.
    pub fn close(&mut self) {
        self.ring.close();
    }

    /// In the child of a fork: what the kernel holds is the parent's.
    pub fn repair(&mut self) {
        self.ring.forget();
    }
}

impl Default for Release {
    fn default() -> Release {
        Release::new()
    }
}

/// Whether a method works here, tried on a separate page; and why not. Takes a permit, because the
/// kernel has to be asked by the calls in question.
pub fn probe(method: Method, page: usize, _permit: &Permit<'_>) -> Result<(), Unavailable> {
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let memory = kernel::map(page, private, -1, 0)?;
    let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(memory);
    // SAFETY: the first byte of a page that was mapped a moment ago and that no other thread knows.
    unsafe { byte.write_volatile(1) };
    let mut pieces = [Piece::new(memory, page)];
    let mut ring = Ring::none();
    // SAFETY: (1) that page; (2) the caller's.
    let worked = unsafe {
        match method {
            Method::Plain => {
                plain::discard_all(page, &mut pieces);
                Ok(())
            }
            Method::Vector => vector::discard_all(page, &mut pieces),
            Method::Ring => ring.discard_all(page, &mut pieces),
        }
    };
    ring.close();
    // SAFETY: as above.
    let zero = unsafe { byte.read_volatile() } == 0;
    kernel::unmap(memory, page);
    worked?;
    // A kernel that takes the advice and does nothing is as good as none.
    if zero && pieces[0].done { Ok(()) } else { Err(Unavailable::TooOld) }
}
