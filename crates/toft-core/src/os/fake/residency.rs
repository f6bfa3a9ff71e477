//! Which pages of the fake are in memory.

use super::super::{PIECE_BYTES, Residency};
use super::Fake;

// SAFETY: (1) as for `Os`.
unsafe impl Residency for Fake {
    fn resident_pieces(&self, addr: usize, len: usize, mut each: impl FnMut(usize, usize)) -> bool {
        self.check_range(addr, len);
        assert!(len <= PIECE_BYTES, "too large a piece");
        let page = self.machine.page_size;
        let residents = self.host.residents(addr..addr + len, page);
        for (at, _) in (addr..).step_by(page).zip(residents).filter(|&(_, bytes)| bytes != 0) {
            each(at, page);
        }
        true
    }

    fn resident_prefix(&self, addr: usize, len: usize) -> usize {
        self.check_range(addr, len);
        let page = self.machine.page_size;
        // This reads piece by piece, because the range may be long, and its resident prefix short.
        let (end, piece) = (addr + len, PIECE_BYTES.max(page));
        let residents = (addr..end)
            .step_by(piece)
            .flat_map(|at| self.host.residents(at..end.min(at + piece), page));
        residents.take_while(|&bytes| bytes != 0).count() * page
    }

    fn may_be_in_swap(&self) -> bool {
        false
    }
}
