//! The fake's mappings.

use super::faults::{Request, Verdict};
use super::{Fake, PageState};
use crate::os::filter::Permit;
use crate::os::release::{Piece, Release};
use crate::os::{Error, Memory, PageSharing};
use core::ops::Range;

// SAFETY: (1) `place` maps only free pages. The host has never opened them, or has closed and so
// zeroed them; (2) the ranges are passed on unchanged; (3) the fake allocates through the test's
// own allocator. Its lock is held for a few instructions. It panics only in a test that is to fail.
unsafe impl Memory for Fake {
    fn page_size(&self) -> usize {
        self.machine.page_size
    }

    fn has_hooks(&self) -> bool {
        self.state().hooks
    }

    fn address_space(&self) -> Range<usize> {
        self.host.range()
    }

    fn map(&self, addr: usize, len: usize) -> Result<(), Error> {
        self.check_range(addr, len);
        let meanwhile = self.state().at_map.clone();
        if let Some(meanwhile) = meanwhile {
            (meanwhile.0)(addr..addr + len);
        }
        let mut state = self.state();
        match state.faults.judge(Request::Map) {
            Verdict::Proceed => {}
            Verdict::Fail(error) => return Err(error),
            Verdict::Obstruct => {
                let page = self.machine.page_size;
                let middle = addr + len / 2 / page * page;
                if state.space.is_free(addr..addr + len) {
                    state.space.set(middle..middle + page, PageState::Foreign);
                }
            }
        }
        self.place(&mut state, addr, len)
    }

    fn reserve(&self, len: usize) -> Result<usize, Error> {
        let mut state = self.state();
        // Where something foreign is in the way of a mapping, the kernel finds another place.
        if let Verdict::Fail(_) = state.faults.judge(Request::Map) {
            return Err(Error::NoMemory);
        }
        let start = state.space.highest_hole(self.host.range(), len).ok_or(Error::NoMemory)?;
        self.check_range(start, len);
        if state.mapped_bytes().saturating_add(len) > state.limit {
            return Err(Error::NoMemory);
        }
        state.space.set(start..start + len, PageState::Forbidden);
        Ok(start)
    }

    unsafe fn open_table(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: the caller's duty.
        unsafe { self.renew(addr, len) }
    }

    unsafe fn unmap(&self, addr: usize, len: usize) -> Result<(), Error> {
        let mut state = self.admit(Request::Unmap, addr, len)?;
        self.host.close(addr..addr + len);
        state.space.set(addr..addr + len, PageState::Free);
        state.huge.forget(&(addr..addr + len));
        Ok(())
    }

    unsafe fn discard(&self, addr: usize, len: usize) -> Result<(), Error> {
        let _state = self.admit(Request::Discard, addr, len)?;
        self.host.clear(addr..addr + len);
        Ok(())
    }

    unsafe fn discard_all(
        &self,
        _release: &mut Release,
        pieces: &mut [Piece],
        _permit: Option<&Permit<'_>>,
    ) {
        // Each piece is a separate request, which a fault may strike.
        for piece in pieces {
            // SAFETY: (1) the caller's duty.
            piece.done = unsafe { self.discard(piece.address, piece.len) }.is_ok();
        }
    }

    unsafe fn populate(&self, addr: usize, len: usize) -> Result<(), Error> {
        let mut state = self.admit(Request::Populate, addr, len)?;
        if !state.space.is_all(addr..addr + len, PageState::Mapped) {
            // The kernel fails in the same way at the first guard.
            return Err(Error::NoMemory);
        }
        state.huge.populated += len;
        drop(state);
        self.host.touch(addr..addr + len);
        Ok(())
    }

    unsafe fn guard(&self, addr: usize, len: usize) -> Result<(), Error> {
        let mut state = self.admit(Request::Guard, addr, len)?;
        if !self.machine.guards {
            return Err(Error::Unsupported);
        }
        self.host.close(addr..addr + len);
        state.space.set(addr..addr + len, PageState::Guarded);
        Ok(())
    }

    unsafe fn unguard(&self, addr: usize, len: usize) -> Result<(), Error> {
        let mut state = self.admit(Request::Unguard, addr, len)?;
        if !self.machine.guards {
            return Err(Error::Unsupported);
        }
        if !self.host.open(addr..addr + len) {
            return Err(Error::NoMemory);
        }
        state.space.set(addr..addr + len, PageState::Mapped);
        Ok(())
    }

    unsafe fn forbid(&self, addr: usize, len: usize) -> Result<(), Error> {
        let mut state = self.admit(Request::Forbid, addr, len)?;
        self.host.close(addr..addr + len);
        state.space.set(addr..addr + len, PageState::Forbidden);
        Ok(())
    }

    unsafe fn allow(&self, addr: usize, len: usize) -> Result<(), Error> {
        let state = self.admit(Request::Allow, addr, len)?;
        assert!(
            state.space.is_all(addr..addr + len, PageState::Mapped),
            "rights to what is not there"
        );
        if self.host.allow(addr..addr + len) { Ok(()) } else { Err(Error::NoMemory) }
    }

    unsafe fn extend(&self, addr: usize, old_len: usize, new_len: usize) -> Result<(), Error> {
        self.check_range(addr + old_len, new_len - old_len);
        let mut state = self.admit(Request::Extend, addr, old_len)?;
        self.place(&mut state, addr + old_len, new_len - old_len)
    }

    unsafe fn relocate(
        &self,
        old: usize,
        old_len: usize,
        new: usize,
        new_len: usize,
    ) -> Result<(), Error> {
        self.check_range(new, new_len);
        let mut state = self.admit(Request::Relocate, old, old_len)?;
        self.place(&mut state, new, new_len)?;
        self.host.copy(old, new, old_len.min(new_len));
        self.host.close(old..old + old_len);
        state.space.set(old..old + old_len, PageState::Free);
        Ok(())
    }

    unsafe fn transfer(&self, from: usize, to: usize, len: usize) -> Result<(), Error> {
        assert!(from + len <= to || to + len <= from, "a transfer onto itself");
        self.check_range(from, len);
        assert!(self.state().space.is_ours(from..from + len), "a transfer from what is not mapped");
        match self.admit(Request::Transfer, to, len) {
            Ok(_state) => {
                self.host.copy(from, to, len);
                self.host.clear(from..from + len);
                Ok(())
            }
            Err(Error::Unsupported) => Err(Error::Unsupported),
            Err(error) => {
                let mut state = self.state();
                self.host.close(to..to + len);
                state.space.set(to..to + len, PageState::Free);
                Err(error)
            }
        }
    }
}
