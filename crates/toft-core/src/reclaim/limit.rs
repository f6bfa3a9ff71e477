//! The limit of the resident bytes, and the promises of bytes to threads.
//!
//! ```text
//! counted | promised | room        <= the limit
//! ```
//!
//! A thread that is about to raise the count first gets a promise for the bytes. It gives the
//! promise back after the count has risen. A thread reads the sum of all promises and then the
//! count. It makes the promise by one compare and exchange of the sum. The exchange fails if
//! another thread has given a promise back meanwhile.
//!
//! The counted and the promised bytes together therefore never exceed the limit, with one
//! exception. A large block is counted nowhere while a thread frees or grows it. That is at most
//! one block for each thread.

use crate::os::thread::thread_block;
use crate::sync::StoreChanged;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The shared data of the limit. In the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// The bytes that are promised and not counted yet. Any thread, by compare and exchange. The
    /// Release when a promise ends pairs with the Acquire of the thread that then reads the count.
    promised: AtomicUsize,
    /// The control block of the thread that got the last promise, of those that have not ended, or
    /// zero. Any thread.
    promised_to: AtomicUsize,
    /// The number of refused requests. Any thread.
    refusals: AtomicUsize,
    /// The number of times that everything was counted. Any thread.
    counts: AtomicUsize,
    /// Not zero if the group of processes is short of memory. Written by the reclaimer's thread.
    group_pressure: AtomicU32,
    /// The tick of the last check of the group, or zero. Written by the reclaimer's thread.
    looked_at: AtomicU32,
}

/// A limit, or the absence of one.
#[derive(Debug)]
pub struct Limit {
    state: *const State,
    bytes: usize,
}

/// The bytes that the holder may add to the count. The promise ends when this value is dropped.
#[derive(Debug)]
pub struct Promise<'a> {
    limit: Option<&'a State>,
    bytes: usize,
    /// The thread that had got the last promise before.
    before: usize,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.limit {
            // Not below zero: a signal handler may have forked while the promise was held.
            let less = |all: usize| Some(all.saturating_sub(self.bytes));
            let (me, before) = (thread_block(), self.before);
            let _ = state.promised_to.compare_exchange(me, before, Relaxed, Relaxed);
            let _ = state.promised.fetch_update(Release, Relaxed, less);
        }
    }
}

impl Limit {
    /// The number of bytes of zeroed tables that `new` needs.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns the absence of a limit, without state.
    pub const fn none() -> Limit {
        Limit { state: core::ptr::null(), bytes: usize::MAX }
    }

    /// Returns a limit of `bytes` bytes, or none if that is `usize::MAX`.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    pub unsafe fn new(tables: usize, bytes: usize) -> Limit {
        Limit { state: core::ptr::with_exposed_provenance(tables), bytes }
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    /// Returns true if there is a limit.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.bytes != usize::MAX
    }

    /// Returns the limit, or `usize::MAX` if there is none.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Promises `bytes` bytes. If the limit does not allow that, returns the number of bytes in
    /// excess.
    pub fn promise(&self, bytes: usize, counted: impl Fn() -> usize) -> Result<Promise<'_>, usize> {
        // A caller that adds nothing needs no promise.
        if !self.is_set() || bytes == 0 {
            return Ok(Promise { limit: None, bytes, before: 0 });
        }
        let state = self.state();
        loop {
            let promised = state.promised.load(Acquire);
            let all = counted().saturating_add(promised).saturating_add(bytes);
            if let Some(excess) = all.checked_sub(self.bytes).filter(|&excess| excess != 0) {
                return Err(excess);
            }
            let more = promised + bytes;
            if state.promised.compare_exchange(promised, more, AcqRel, Relaxed).is_ok() {
                let before = state.promised_to.swap(thread_block(), Relaxed);
                return Ok(Promise { limit: Some(state), bytes, before });
            }
        }
    }

    /// Returns true if any promise is held. Its bytes may then be in both the count and the
    /// promises.
    pub fn is_promised(&self) -> bool {
        self.state().promised.load(Acquire) != 0
    }

    /// Returns true if the calling thread got the last promise that is held.
    pub fn is_own_promise(&self) -> bool {
        self.is_promised() && self.state().promised_to.load(Relaxed) == thread_block()
    }

    /// Counts a refused request. Returns true if it is the first.
    pub fn note_refusal(&self) -> bool {
        self.state().refusals.fetch_add(1, Relaxed) == 0
    }

    /// Counts a count of everything.
    pub fn note_count(&self) {
        self.state().counts.fetch_add(1, Relaxed);
    }

    /// Returns the number of refused requests, and the number of times that everything was counted.
    pub fn figures(&self) -> (usize, usize) {
        (self.state().refusals.load(Relaxed), self.state().counts.load(Relaxed))
    }

    /// Returns true if the group of processes is short of memory.
    pub fn has_group_pressure(&self) -> bool {
        self.state().group_pressure.load(Relaxed) != 0
    }

    /// Sets the result of `has_group_pressure`.
    pub fn set_group_pressure(&self, pressure: bool) {
        self.state().group_pressure.store_changed(u32::from(pressure), Relaxed);
    }

    /// Returns true if a check of the group is due at tick `now`: there was none yet, or the last
    /// one was at least `ticks` ago.
    pub fn is_due(&self, now: u32, ticks: u32) -> bool {
        // Zero means that there was no check.
        let last = self.state().looked_at.load(Relaxed);
        let due = last == 0 || now.wrapping_sub(last) >= ticks;
        if due {
            self.state().looked_at.store(now.max(1), Relaxed);
        }
        due
    }

    /// In the child of a fork: ends all promises, because their threads do not exist any more. The
    /// group counts as never checked.
    pub fn repair(&self) {
        self.state().promised.store_changed(0, Relaxed);
        self.state().promised_to.store_changed(0, Relaxed);
        self.state().looked_at.store_changed(0, Relaxed);
        self.set_group_pressure(false);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    extern crate std;
    use std::boxed::Box;

    #[repr(align(64))]
    struct Table(#[expect(dead_code, reason = "zeros")] [u8; Limit::TABLE_BYTES]);

    fn limit(bytes: usize) -> Limit {
        let table = Box::leak(Box::new(Table([0; Limit::TABLE_BYTES])));
        // SAFETY: (1) zeros that are never freed, aligned, and not used otherwise.
        unsafe { Limit::new((&raw mut *table).expose_provenance(), bytes) }
    }

    #[test]
    fn what_is_promised_is_nobody_elses_until_the_promise_goes() {
        let limit = limit(100);
        let first = limit.promise(60, || 0).unwrap();
        assert_eq!(limit.promise(60, || 0).unwrap_err(), 20);
        let second = limit.promise(40, || 0).unwrap();
        assert_eq!(limit.promise(1, || 0).unwrap_err(), 1);
        drop(first);
        assert!(limit.is_promised());
        assert_eq!(limit.promise(1, || 60).unwrap_err(), 1);
        drop(second);
        assert!(!limit.is_promised());
        assert_eq!(limit.promise(usize::MAX, || usize::MAX).unwrap_err(), usize::MAX - 100);
        // A caller that adds nothing needs no promise.
        assert!(limit.promise(0, || 1000).is_ok());
        assert!(Limit::none().promise(1 << 60, || panic!("not asked")).is_ok());
    }

    #[test]
    fn a_thread_knows_its_own_promise() {
        let limit = limit(100);
        let state = limit.state.expose_provenance();
        let outer = limit.promise(60, || 0).unwrap();
        drop(limit.promise(10, || 0).unwrap());
        assert!(limit.is_own_promise());
        let seen_by_another = std::thread::spawn(move || {
            let limit = Limit { state: core::ptr::with_exposed_provenance(state), bytes: 100 };
            let before = limit.is_own_promise();
            core::mem::forget(limit.promise(10, || 0).unwrap());
            (before, limit.is_own_promise())
        });
        assert_eq!(seen_by_another.join().unwrap(), (false, true));
        assert!(!limit.is_own_promise());
        drop(outer);
        assert!(limit.is_promised() && !limit.is_own_promise());
        limit.repair();
        assert!(!limit.is_own_promise());
    }

    #[test]
    fn whoever_keeps_a_promise_meanwhile_is_noticed() {
        let limit = limit(100);
        let held = core::cell::Cell::new(None);
        // Another thread is promised 60 bytes after the count was read.
        let late = limit.promise(60, || {
            if held.take().is_none() {
                held.set(Some(limit.promise(60, || 0).unwrap()));
            }
            0
        });
        assert_eq!(late.unwrap_err(), 20);
    }

    #[test]
    fn a_child_has_none_of_its_parents_promises() {
        let limit = limit(100);
        core::mem::forget(limit.promise(100, || 0).unwrap());
        limit.repair();
        assert!(limit.promise(100, || 0).is_ok());
        // A signal handler forks while its thread holds a promise. That thread drops the promise in
        // the child after the repair.
        let held = limit.promise(60, || 0).unwrap();
        limit.repair();
        drop(held);
        assert!(limit.promise(100, || 0).is_ok());
    }

    #[test]
    fn the_group_is_looked_at_first_and_then_from_time_to_time() {
        let limit = limit(100);
        assert!(limit.is_due(0, 40));
        assert!(!limit.is_due(40, 40));
        assert!(limit.is_due(41, 40));
        assert!(limit.is_due(u32::MAX - 5, 40));
        assert!(!limit.is_due(4, 40) && limit.is_due(34, 40));
    }
}
