//! Release of unused pages in the fake. The fake records the contents of pages when they are freed.
//! It takes the pages that have not changed since. The kernel does the same, because it sees
//! writes.

extern crate std;

use super::super::filter::Permit;
use super::super::{Error, PIECE_BYTES, Pin, Pinned};
use super::faults::Verdict;
use super::{Fake, PageState, Request};
use std::boxed::Box;
use std::vec::Vec;

/// A moment at which other threads may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Pages are freed, and not checked yet.
    Freed,
    /// Pages were checked, and are about to be taken.
    Looked,
}

/// The actions of other threads at these moments.
pub(super) struct Meanwhile(Box<dyn FnMut(Moment) + Send>);

impl core::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Fake {
    /// Sets the actions of other threads while unused pages are released.
    pub fn while_unused_go(&self, act: impl FnMut(Moment) + Send + 'static) {
        self.state().while_unused_go = Some(Meanwhile(Box::new(act)));
    }

    fn play(&self, moment: Moment) {
        let Some(mut meanwhile) = self.state().while_unused_go.take() else { return };
        (meanwhile.0)(moment);
        self.state().while_unused_go.get_or_insert(meanwhile);
    }

    fn bytes(&self, address: usize, len: usize) -> Vec<u8> {
        let start: *const u8 = core::ptr::with_exposed_provenance(address);
        // SAFETY: callers pass open pages of the host.
        (0..len).map(|at| unsafe { start.add(at).read_volatile() }).collect()
    }
}

// SAFETY: (1) changed contents stay, and so do pages that are reported as used; (2) as for `Os`.
unsafe impl Pin for Fake {
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

    fn may_be_in_swap(&self) -> bool {
        false
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

    unsafe fn discard_unused<'a>(
        &self,
        pinned: &Pinned,
        permit: &dyn Fn() -> Option<Permit<'a>>,
        mut is_unused: impl FnMut(usize, usize) -> bool,
    ) -> Result<usize, Error> {
        for (address, len) in pinned.pieces() {
            self.check_range(address, len);
            assert!(len <= PIECE_BYTES, "too large a piece");
            let state = self.state();
            assert!(state.space.is_all(address..address + len, PageState::Mapped), "not private");
        }
        if let Verdict::Fail(_) = self.state().faults.judge(Request::DiscardUnused) {
            return Err(Error::NoMemory);
        }
        let before: Vec<_> = pinned.pieces().map(|(at, len)| (at, self.bytes(at, len))).collect();
        if permit().is_none() {
            return Err(Error::Unsupported);
        }
        self.play(Moment::Freed);
        let unused: Vec<_> =
            before.into_iter().filter(|(at, bytes)| is_unused(*at, bytes.len())).collect();
        self.play(Moment::Looked);
        let mut gone = 0;
        for (at, bytes) in unused {
            if self.bytes(at, bytes.len()) == bytes {
                gone += self.host.resident(at..at + bytes.len());
                self.host.clear(at..at + bytes.len());
            }
        }
        Ok(gone)
    }

    fn keep_pinned(&self, pinned: &Pinned) {
        pinned.clear();
    }
}
