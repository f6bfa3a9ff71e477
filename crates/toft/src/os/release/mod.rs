//! Giving many ranges back at once.
//!
//! By `process_madvise` on this process for 64 pieces at a time (`vector`), and where that does not
//! work, by one `madvise` for each piece (`plain`). The first is an unusual call, which needs a
//! [`Permit`]. Every kernel and every filter knows the second. io_uring was measured, and is
//! slower: [experiment][e].
//!
//! Guarantees of both:
//! - exactly the bytes that a piece names, which are whole pages, or none;
//! - a piece says `done` only where the kernel has confirmed that very piece. Otherwise what is in
//!   its pages is not known;
//! - when the call returns nothing of it is under way any more.
//!
//! [e]: https://github.com/toft-malloc/toft/blob/main/docs/experiments/release.md

mod plain;
mod vector;

#[cfg(test)]
mod tests;

use super::filter::Permit;

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
enum Method {
    /// `madvise`, once for each piece.
    Plain,
    /// `process_madvise` on this process.
    Vector,
}

// A `Release` in zeroed memory gives back by the method that always works.
const _: () = assert!(Method::Plain as u32 == 0);

/// The kernel refuses a call that a method needs, with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused(i32);

/// What giving back in batches keeps from one batch to the next: the method. One caller at a time.
/// All zero is a value: by `madvise`.
#[derive(Debug)]
pub struct Release {
    method: Method,
}

impl Release {
    /// By `process_madvise`, as long as it works.
    pub const fn new() -> Release {
        Release { method: Method::Vector }
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
        unsafe {
            if method == Method::Vector && vector::discard_all(page, pieces).is_ok() {
                return;
            }
            // What has been done is not done again.
            plain::discard_all(page, pieces);
        }
        if method == Method::Vector {
            self.method = Method::Plain;
        }
    }
}

impl Default for Release {
    fn default() -> Release {
        Release::new()
    }
}
