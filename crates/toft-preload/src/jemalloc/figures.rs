//! The figures of the last epoch. They change only when a program writes to `epoch`.
//!
//! They are on a page that is mapped when the first figure is asked for. Any thread reads and
//! writes; the words are independent of each other, so `Relaxed` is enough. A figure read during
//! another thread's refresh is of either epoch.

use crate::process;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use toft_core::stats::{Totals, totals};

/// The page's content, all zero at first.
#[derive(Debug)]
#[repr(C)]
pub struct Figures {
    epoch: AtomicU64,
    live: AtomicU64,
    active: AtomicU64,
    kept: AtomicU64,
    metadata: AtomicU64,
    mapped: AtomicU64,
    unused: AtomicU64,
    /// The arenas and the thread caches that the program has created. None of them is separate.
    arenas: AtomicU32,
    caches: AtomicU32,
}

impl Figures {
    /// Returns the page; `None` if there is no memory.
    pub fn get() -> Option<&'static Figures> {
        let page = process::interface_page()?;
        // SAFETY: the page lives for ever, is aligned and longer than the figures, and zero is a
        // valid value. Only this function leads to it.
        Some(unsafe { page.cast::<Figures>().as_ref() })
    }

    /// Counts again.
    pub fn refresh(&self) {
        let counted = process::inside(|| process::instance().map(totals)).unwrap_or_default();
        let Totals { live, active, kept, metadata, mapped, unused } = counted;
        for (word, bytes) in [
            (&self.live, live),
            (&self.active, active),
            (&self.kept, kept),
            (&self.metadata, metadata),
            (&self.mapped, mapped),
            (&self.unused, unused),
        ] {
            word.store(bytes as u64, Relaxed);
        }
    }

    /// Begins a new epoch.
    pub fn advance(&self) {
        self.refresh();
        self.epoch.fetch_add(1, Relaxed);
    }

    /// Returns the epoch. The first call begins the first one.
    pub fn epoch(&self) -> u64 {
        if self.epoch.load(Relaxed) == 0 {
            self.advance();
        }
        self.epoch.load(Relaxed)
    }

    /// Returns the figures of the epoch.
    pub fn totals(&self) -> Totals {
        self.epoch();
        let bytes = |word: &AtomicU64| word.load(Relaxed) as usize;
        Totals {
            live: bytes(&self.live),
            active: bytes(&self.active),
            kept: bytes(&self.kept),
            metadata: bytes(&self.metadata),
            mapped: bytes(&self.mapped),
            unused: bytes(&self.unused),
        }
    }

    /// Returns the number of arenas: the heap, and those that the program has created.
    pub fn arenas(&self) -> u32 {
        self.arenas.load(Relaxed).saturating_add(1)
    }

    /// Returns the number of a new arena.
    pub fn create_arena(&self) -> u32 {
        self.arenas.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// Returns the number of a new thread cache.
    pub fn create_cache(&self) -> u32 {
        self.caches.fetch_add(1, Relaxed)
    }
}

/// The resident bytes, at most: jemalloc's figure is such a bound, too.
pub fn resident(t: &Totals) -> usize {
    t.active + t.kept + t.metadata
}
