//! How reads of what the program has not written are reported, and what that costs the pages.
//!
//! A watched block's pages are registered with the kernel (`os/userfault.rs`): a thread that
//! reaches one for the first time waits until the watcher, a thread of the library, has filled it
//! with zeros. If that access is a read, the page is made inaccessible first. The reader then
//! faults, and the report is made where the program's registers are known.

use super::pool::Guarded;
use super::{Access, Slot};
use crate::os::{process, userfault};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

const NOBODY: usize = 0;
const STARTING: usize = 1;
const REFUSED: usize = 2;
/// A descriptor is told by so much more.
const FIRST: usize = 16;

/// The watcher as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watcher {
    /// There is none yet.
    Nobody,
    /// It can be told by this descriptor.
    At(i32),
    /// There cannot be one, or it is not this process's.
    None,
}

impl Guarded {
    /// The watcher, for the process of this number.
    pub fn watcher(&self, process: usize) -> Watcher {
        match self.head().watcher.load(Acquire) {
            NOBODY => Watcher::Nobody,
            STARTING | REFUSED => Watcher::None,
            _ if self.head().watcher_of.load(Relaxed) != process => Watcher::None,
            file => Watcher::At((file - FIRST) as i32),
        }
    }

    /// Whether the caller is the one to start the watcher.
    pub fn begin_watcher(&self) -> bool {
        self.head().watcher.compare_exchange(NOBODY, STARTING, AcqRel, Relaxed).is_ok()
    }

    /// It was started, for the process of this number; or cannot be.
    pub fn set_watcher(&self, file: Option<i32>, process: usize) {
        self.head().watcher_of.store(process, Relaxed);
        let word = file.map_or(REFUSED, |file| file as usize + FIRST);
        self.head().watcher.store(word, Release);
    }

    /// It runs as the thread of this number.
    pub fn set_watcher_thread(&self, number: u32) {
        self.head().watcher_thread.store(number as usize, Release);
    }

    /// The number of its thread, if there has ever been one in this process.
    pub fn watcher_thread(&self, process: usize) -> Option<u32> {
        if !self.is_on() || self.head().watcher_of.load(Relaxed) != process {
            return None;
        }
        let number = self.head().watcher_thread.load(Acquire);
        (number != 0).then_some(number as u32)
    }

    /// In the child of a fork: the pages are as any others there, and the watcher is the parent's.
    pub fn forget_watcher(&self) {
        if !self.is_on() {
            return;
        }
        let watcher = &self.head().watcher;
        self.head().watcher_thread.store(0, Release);
        match watcher.swap(NOBODY, AcqRel) {
            NOBODY | STARTING => return,
            REFUSED => return watcher.store(REFUSED, Release),
            file => process::close((file - FIRST) as i32),
        }
        for slot in (0..self.slots).filter_map(|number| self.slot(number)) {
            if slot.unwatch() {
                self.let_in(slot);
            }
        }
    }

    /// Ends all reports, for good: what is not written is zero, and no thread waits.
    pub fn stop_watcher(&self) {
        if !self.is_on() {
            return;
        }
        let file = self.head().watcher.swap(REFUSED, AcqRel);
        if file >= FIRST {
            for slot in (0..self.slots).filter_map(|number| self.slot(number)) {
                self.unwatch_by(slot, file);
            }
        }
    }

    /// Whether reads of what was not written are reported for the block at an address.
    pub fn is_watched(&self, address: usize) -> bool {
        self.live_at(address).is_some_and(Slot::is_watched)
    }

    /// Ends the reports for a block: what was not written is zero.
    pub fn unwatch(&self, slot: &Slot) {
        self.unwatch_by(slot, self.head().watcher.load(Acquire));
    }

    fn unwatch_by(&self, slot: &Slot, file: usize) {
        if slot.unwatch() && file >= FIRST {
            self.let_in(slot);
            let (from, to) = self.pages(slot.begin(), slot.bytes());
            userfault::unregister((file - FIRST) as i32, from, to - from);
        }
    }

    /// The watched block whose page a thread waits for.
    pub fn wanted(&self, address: usize) -> Option<&Slot> {
        match self.access(address)? {
            Access::Within(slot) | Access::Before(slot, _) | Access::Beyond(slot, _) => {
                Some(slot).filter(|slot| slot.is_watched())
            }
            Access::AfterFree(_) | Access::Wild => None,
        }
    }

    /// The page of an address was to be read, and was never written: from now on no thread reaches
    /// it until `let_in`. Returns true if that could be done.
    pub fn shut_out(&self, slot: &Slot, address: usize) -> bool {
        let page = self.down(address);
        slot.unset.compare_exchange(0, page, AcqRel, Relaxed).is_ok()
            && (process::shut(page, self.page) || {
                slot.unset.store(0, Release);
                false
            })
    }

    /// Whether that is why an access to an address has faulted.
    pub fn is_shut_out(&self, slot: &Slot, address: usize) -> bool {
        slot.unset.load(Acquire) == self.down(address)
    }

    /// The page can be reached again.
    pub fn let_in(&self, slot: &Slot) {
        let page = slot.unset.swap(0, AcqRel);
        if page != 0 {
            process::allow(page, self.page);
        }
    }

    /// Fills the page of an address, and lets go on who waits for it.
    pub fn fill(&self, file: i32, address: usize) {
        let page = self.down(address);
        // Another thread may have filled it already; then no thread waits any more.
        userfault::fill(file, page, self.page);
    }
}
