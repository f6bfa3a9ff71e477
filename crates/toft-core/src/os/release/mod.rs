//! Release of many ranges at once.
//!
//! `process_madvise` on this process releases 64 pieces at a time (`vector`). If that does not
//! work, one `madvise` releases each piece (`plain`). The first is an unusual call, which needs a
//! [`Permit`]. Every kernel and every filter allows the second. io_uring was measured, and is
//! slower: [experiment][e].
//!
//! Guarantees of both:
//! - exactly the bytes of a piece are released, if they are whole pages, or none;
//! - a piece is `done` only if the kernel has confirmed that very piece. Otherwise the contents of
//!   its pages are unknown;
//! - when the call returns, the kernel is no longer working on any piece.
//!
//! [e]: https://github.com/toft-malloc/toft/blob/main/docs/experiments/release.md

mod plain;
mod vector;

#[cfg(test)]
mod tests;

use super::filter::Permit;

/// A range to release, and the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The first address, which is the start of a page.
    pub address: usize,
    /// The number of bytes, which is whole pages, at least one.
    pub len: usize,
    /// True if the kernel has confirmed that the range now reads as zero.
    pub done: bool,
}

impl Piece {
    /// Returns a piece that has not been released.
    pub const fn new(address: usize, len: usize) -> Piece {
        Piece { address, len, done: false }
    }

    /// Returns true if the piece is whole pages. The kernel would round up the end of another
    /// piece.
    pub(super) fn is_exact(&self, page: usize) -> bool {
        self.len != 0
            && (self.address | self.len) & (page - 1) == 0
            && self.address.checked_add(self.len).is_some()
    }
}

/// A way to release pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Method {
    /// `madvise`, once for each piece.
    Plain,
    /// `process_madvise` on this process.
    Vector,
}

// A `Release` in zeroed memory uses the method that always works.
const _: () = assert!(Method::Plain as u32 == 0);

/// The error code with which the kernel refuses a call that a method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused(i32);

/// The state that is kept between batches of releases, which is the method. One caller at a time
/// uses it. All zero is a value, whose method is `madvise`.
#[derive(Debug)]
pub struct Release {
    method: Method,
}

impl Release {
    /// Returns a value that uses `process_madvise` as long as it works.
    pub const fn new() -> Release {
        Release { method: Method::Vector }
    }

    /// Releases ranges, and sets `done` for each that is zero now. Uses `madvise` if there is no
    /// permit.
    ///
    /// # Safety
    /// 1. Each piece that is whole pages is private anonymous memory of the caller's, or not
    ///    mapped. Its contents are not needed any more. No thread writes to it until this returns.
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
        // SAFETY: (1) (2) the caller's duties.
        unsafe {
            if method == Method::Vector && vector::discard_all(page, pieces).is_ok() {
                return;
            }
            // Finished pieces are not released again.
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
