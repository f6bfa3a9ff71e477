//! What is remembered of the profiles that were written (the crate `toft-watch`).

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicUsize, StoreChanged};

/// What is remembered of the profiles that were written. All zero at first; in the tables, because
/// the library's own data is read-only.
#[derive(Debug)]
#[repr(C)]
pub struct Written {
    /// The process that has the name to itself; set at the start, by the thread that loads the
    /// library. A child that was forked since writes beside it.
    pub first: AtomicUsize,
    /// How many were written beside the one at exit. The thread that writes one counts it up.
    pub number: AtomicUsize,
    /// Bytes beyond which the next one is written for growth; the thread that writes it raises it
    /// by exchange.
    pub mark: AtomicUsize,
    /// The number of the thread that writes, or zero: taken by exchange (`Acquire`), and released
    /// by whom it was taken (`Release`).
    pub busy: AtomicU32,
}

impl Written {
    /// In the child of a fork: no other thread writes.
    pub(crate) fn repair(&self) {
        self.busy.store_changed(0, Relaxed);
    }
}
