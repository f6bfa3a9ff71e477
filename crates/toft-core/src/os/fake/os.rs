//! The fake's implementation of the allocator's requests.

extern crate std;

use super::faults::{Request, Verdict};
use super::{Fake, PageState};
use crate::os::filter::Permit;
use crate::os::release::{Piece, Release};
use crate::os::seccomp::Answers;
use crate::os::{Error, Group, Os, Sharing, share};
use crate::sync::AtomicU32;
use core::ops::Range;
use std::string::String;

// SAFETY: (1) `place` maps only free pages. The host has never opened them, or has closed and so
// zeroed them; (2) the ranges are passed on unchanged; (3) the fake allocates through the test's
// own allocator. Its lock is held for a few instructions. It panics only in a test that is to fail.
unsafe impl Os for Fake {
    fn page_size(&self) -> usize {
        self.machine.page_size
    }

    fn address_space(&self) -> Range<usize> {
        self.host.range()
    }

    fn map(&self, addr: usize, len: usize) -> Result<(), Error> {
        self.check_range(addr, len);
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

    fn ticks(&self) -> u32 {
        self.state().ticks
    }

    fn counter(&self) -> u64 {
        self.state().ticks.into()
    }

    fn process(&self) -> u32 {
        self.state().process
    }

    unsafe fn spawn(&self, _: unsafe extern "C" fn(usize) -> !, _: usize) -> Option<u32> {
        None
    }

    fn settle_in(&self) {}

    fn barrier(&self) -> bool {
        let Some(mut meanwhile) = self.state().at_barrier.take() else { return true };
        let passed = (meanwhile.0)();
        let mut state = self.state();
        if state.at_barrier.is_none() {
            state.at_barrier = Some(meanwhile);
        }
        passed
    }

    fn sleep_on(&self, _: &AtomicU32, _: u32, _: u32) {}

    fn wake(&self, _: &AtomicU32) {}

    fn is_filtered(&self) -> Option<bool> {
        self.state().filtered
    }

    fn probe_filter(&self, _: bool) -> Option<Answers> {
        let mut state = self.state();
        state.probes += 1;
        state.probe
    }

    fn shut_out_signals(&self) -> u64 {
        share::shut_out_signals()
    }

    fn let_in_signals(&self, before: u64) {
        share::set_mask(before);
    }

    fn begin_sharing(
        &self,
        _: Option<u32>,
        kept: &AtomicU32,
        bytes: usize,
    ) -> Result<Sharing, Error> {
        if let Verdict::Fail(error) = self.state().faults.judge(Request::BeginSharing) {
            return Err(error);
        }
        // The other threads of the test do not use the range, so all threads count as Toft's.
        Sharing::begin(Some(u32::MAX), kept, bytes)
    }

    fn end_sharing(&self, mut sharing: Sharing) {
        sharing.end();
    }

    fn forget_sharing(&self, kept: &AtomicU32) {
        share::forget(kept);
    }

    unsafe fn share(
        &self,
        sharing: &Sharing,
        offset: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        drop(self.admit(Request::Share, addr, len)?);
        // SAFETY: the caller's duties; the pages are the host's.
        unsafe { sharing.move_to_store(offset, addr, len, copy) }?;
        self.state().space.set(addr..addr + len, PageState::Shared);
        Ok(())
    }

    unsafe fn share_with(
        &self,
        sharing: &Sharing,
        with: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        assert!(self.state().space.is_all(with..with + len, PageState::Shared), "not a view");
        drop(self.admit(Request::ShareWith, addr, len)?);
        // SAFETY: the caller's duties; the pages are the host's.
        unsafe { sharing.join(with, addr, len, copy) }?;
        self.state().space.set(addr..addr + len, PageState::Shared);
        Ok(())
    }

    unsafe fn unshare(
        &self,
        sharing: &Sharing,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        self.admit_views(Request::Unshare, addr, len)?;
        // SAFETY: the caller's duty; the pages are the host's.
        unsafe { sharing.make_private(addr, len, copy) }?;
        let mut state = self.state();
        state.space.set(addr..addr + len, PageState::Mapped);
        state.huge.forget(&(addr..addr + len));
        Ok(())
    }

    unsafe fn renew(&self, addr: usize, len: usize) -> Result<(), Error> {
        let mut state = self.admit(Request::Renew, addr, len)?;
        // SAFETY: the caller's duty; the pages are the host's.
        unsafe { share::renew(addr, len) }?;
        state.space.set(addr..addr + len, PageState::Mapped);
        state.huge.forget(&(addr..addr + len));
        Ok(())
    }

    unsafe fn empty_store(&self, addr: usize, len: usize) -> Result<(), Error> {
        self.admit_views(Request::EmptyStore, addr, len)?;
        // SAFETY: the caller's duty; the pages are the host's.
        unsafe { share::empty(addr, len) }
    }

    fn group<'a>(&self, permit: &dyn Fn() -> Option<Permit<'a>>) -> Group {
        permit().map(|_permit| self.state().group).unwrap_or_default()
    }

    fn memory_there_is(&self) -> Option<usize> {
        self.state().memory
    }

    fn random(&self) -> Result<u64, Error> {
        let mut state = self.state();
        if let Verdict::Fail(error) = state.faults.judge(Request::Random) {
            return Err(error);
        }
        // SplitMix64: every seed gives a good sequence.
        state.random = state.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Ok(word ^ (word >> 31))
    }

    fn wait_briefly(&self) {
        self.state().waits += 1;
    }

    fn report(&self, line: &[u8]) {
        self.state().reports.push(String::from_utf8_lossy(line).into_owned());
    }

    fn abort(&self) -> ! {
        let last = self.state().reports.last().cloned().unwrap_or_default();
        panic!("the allocator ends the process: {last}")
    }
}
