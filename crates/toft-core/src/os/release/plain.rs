//! One `madvise` for each piece.

use super::Piece;
use crate::os::syscall;

/// Releases the pieces that are not done yet.
///
/// # Safety
/// 1. As for [`super::Release::discard_all`].
pub(super) unsafe fn discard_all(page: usize, pieces: &mut [Piece]) {
    for piece in pieces.iter_mut().filter(|piece| !piece.done) {
        // SAFETY: (1) the caller's duty.
        unsafe { discard(page, piece) };
    }
}

/// Releases one piece.
///
/// # Safety
/// 1. As for [`super::Release::discard_all`].
pub(super) unsafe fn discard(page: usize, piece: &mut Piece) {
    if piece.is_exact(page) {
        let advice = libc::MADV_DONTNEED as usize;
        let args = [piece.address, piece.len, advice, 0, 0, 0];
        // SAFETY: (1) the caller's duty; whole pages, so the kernel rounds nothing up.
        piece.done = unsafe { syscall(libc::SYS_madvise, args) } == 0;
    }
}
