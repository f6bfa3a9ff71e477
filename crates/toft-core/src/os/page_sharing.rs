//! Pages that ranges of addresses share, as compaction needs them (`share.rs` has how).

use super::{Error, Linux, Sharing, share};
use crate::sync::AtomicU32;

/// The part of [`super::Os`] for shared pages.
///
/// # Safety
///
/// An implementation promises:
/// 1. while `copy` runs, no thread writes to the range that it copies, and every read sees the
///    range complete;
/// 2. no other range is changed;
/// 3. no method allocates through this allocator, panics, or waits for another thread.
pub unsafe trait PageSharing {
    /// Prepares for `share`, `share_with` and `unshare`.
    ///
    /// `own` is the number of Toft's threads beside the calling one. `None` means that the program
    /// certainly has other threads. If `bytes` is not zero, this makes a store of that size. Fails
    /// if writers cannot be stopped. `kept` is zero at first, and only these functions use it.
    fn begin_sharing(
        &self,
        own: Option<u32>,
        kept: &AtomicU32,
        bytes: usize,
    ) -> Result<Sharing, Error>;

    /// Ends the work that `begin_sharing` began.
    fn end_sharing(&self, mut sharing: Sharing) {
        sharing.end();
    }

    /// Resets `kept` in the child of a fork, where it is the parent's.
    fn forget_sharing(&self, kept: &AtomicU32) {
        share::forget(kept);
    }

    /// Makes private pages a view of the store from `offset` on. `copy` gets the address to which
    /// it must copy the needed contents. Meanwhile no thread can write to the range, and every read
    /// sees it complete. After an error nothing has changed.
    ///
    /// # Safety
    /// 1. The range was mapped by `map` of this object; what is not copied is not needed.
    /// 2. No other view uses that part of the store.
    unsafe fn share(
        &self,
        sharing: &Sharing,
        offset: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error>;

    /// Makes private pages a view of the same store as the range at `with`.
    ///
    /// # Safety
    /// 1. As for `share`.
    /// 2. At `with` there is a view of `len` bytes, in which no slab uses what `copy` writes.
    unsafe fn share_with(
        &self,
        sharing: &Sharing,
        with: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error>;

    /// Makes views private again.
    ///
    /// # Safety
    /// 1. The range consists of views; what is not copied is not needed.
    unsafe fn unshare(
        &self,
        sharing: &Sharing,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error>;

    /// Makes a range that may be a view private and zero.
    ///
    /// # Safety
    /// 1. As for `discard`; no thread uses the range meanwhile.
    unsafe fn renew(&self, addr: usize, len: usize) -> Result<(), Error>;

    /// Releases pages of a store: all views read as zero there.
    ///
    /// # Safety
    /// 1. The range is a view, and the contents are needed in no view.
    unsafe fn empty_store(&self, addr: usize, len: usize) -> Result<(), Error>;
}

// SAFETY: (1) `share.rs` stops writers by userfaultfd, and puts new pages in place by one call; (2)
// the ranges are passed on unchanged; (3) raw system calls.
unsafe impl PageSharing for Linux {
    fn begin_sharing(
        &self,
        own: Option<u32>,
        kept: &AtomicU32,
        bytes: usize,
    ) -> Result<Sharing, Error> {
        Sharing::begin(own, kept, bytes)
    }

    unsafe fn share(
        &self,
        sharing: &Sharing,
        offset: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        // SAFETY: the caller's duties 1 and 2.
        unsafe { sharing.move_to_store(offset, addr, len, copy) }
    }

    unsafe fn share_with(
        &self,
        sharing: &Sharing,
        with: usize,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        // SAFETY: the caller's duties 1 and 2.
        unsafe { sharing.join(with, addr, len, copy) }
    }

    unsafe fn unshare(
        &self,
        sharing: &Sharing,
        addr: usize,
        len: usize,
        copy: impl FnOnce(usize),
    ) -> Result<(), Error> {
        // SAFETY: the caller's duty 1.
        unsafe { sharing.make_private(addr, len, copy) }
    }

    unsafe fn renew(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: the caller's duty 1.
        unsafe { share::renew(addr, len) }
    }

    unsafe fn empty_store(&self, addr: usize, len: usize) -> Result<(), Error> {
        // SAFETY: the caller's duty 1.
        unsafe { share::empty(addr, len) }
    }
}
