//! The fake's shared pages, which are real ones of the host.

use super::faults::{Request, Verdict};
use super::{Fake, PageState};
use crate::os::{Error, PageSharing, Sharing, share};
use crate::sync::AtomicU32;

// SAFETY: (1), (2), (3) as for Linux, whose functions do the work; the pages are the host's.
unsafe impl PageSharing for Fake {
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
}
