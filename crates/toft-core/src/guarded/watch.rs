//! The reports of uninitialized reads, and what they do to the pages.
//!
//! The pages of a watched block are registered with the kernel (`os/userfault.rs`). A thread that
//! first accesses such a page waits until the watcher, a thread of the library, has filled it with
//! zeros. If that access is a read, the watcher first makes the page inaccessible. The reader then
//! faults, and the report is made where the program's registers are known.

use super::pool::Guarded;
use super::{Access, Slot};
use crate::os::{process, userfault};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

const NOBODY: usize = 0;
const STARTING: usize = 1;
const REFUSED: usize = 2;
/// A descriptor is stored with this number added to it.
const FIRST: usize = 16;

/// The state of the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watcher {
    /// No watcher was started yet.
    Nobody,
    /// There is one, with this descriptor.
    At(i32),
    /// There cannot be one, it is being started, or it is another process's.
    None,
}

impl Guarded {
    /// Returns the state of the watcher, for the process of this number.
    pub fn watcher(&self, process: usize) -> Watcher {
        match self.head().watcher.load(Acquire) {
            NOBODY => Watcher::Nobody,
            STARTING | REFUSED => Watcher::None,
            _ if self.head().watcher_of.load(Relaxed) != process => Watcher::None,
            file => Watcher::At((file - FIRST) as i32),
        }
    }

    /// Returns true if the caller is the one to start the watcher.
    pub fn begin_watcher(&self) -> bool {
        self.head().watcher.compare_exchange(NOBODY, STARTING, AcqRel, Relaxed).is_ok()
    }

    /// Stores the watcher of the process of this number, or that there cannot be one.
    pub fn set_watcher(&self, file: Option<i32>, process: usize) {
        self.head().watcher_of.store(process, Relaxed);
        let word = file.map_or(REFUSED, |file| file as usize + FIRST);
        self.head().watcher.store(word, Release);
    }

    /// Stores the number of the watcher's thread.
    pub fn set_watcher_thread(&self, number: u32) {
        self.head().watcher_thread.store(number as usize, Release);
    }

    /// Returns the number of the watcher's thread, if there was ever one in this process.
    pub fn watcher_thread(&self, process: usize) -> Option<u32> {
        if !self.is_on() || self.head().watcher_of.load(Relaxed) != process {
            return None;
        }
        let number = self.head().watcher_thread.load(Acquire);
        (number != 0).then_some(number as u32)
    }

    /// Forgets the watcher, in the child of a fork. The pages are ordinary ones there, and the
    /// watcher is the parent's.
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

    /// Ends all reports, for good. Memory that was never written is then zero, and no thread waits.
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

    /// Returns true if uninitialized reads are reported for the block at an address.
    pub fn is_watched(&self, address: usize) -> bool {
        self.live_at(address).is_some_and(Slot::is_watched)
    }

    /// Ends the reports for a block. Its memory that was never written is then zero.
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

    /// Returns the watched block whose page a thread waits for.
    pub fn wanted(&self, address: usize) -> Option<&Slot> {
        match self.access(address)? {
            Access::Within(slot) | Access::Before(slot, _) | Access::Beyond(slot, _) => {
                Some(slot).filter(|slot| slot.is_watched())
            }
            Access::AfterFree(_) | Access::Wild => None,
        }
    }

    /// Makes the page of an address inaccessible until `let_in`, because it is about to be read and
    /// was never written. Returns true if that was possible.
    pub fn shut_out(&self, slot: &Slot, address: usize) -> bool {
        let page = self.down(address);
        slot.uninitialized_page.compare_exchange(0, page, AcqRel, Relaxed).is_ok()
            && (process::shut(page, self.page) || {
                slot.uninitialized_page.store(0, Release);
                false
            })
    }

    /// Returns true if an access to an address has faulted because of `shut_out`.
    pub fn is_shut_out(&self, slot: &Slot, address: usize) -> bool {
        slot.uninitialized_page.load(Acquire) == self.down(address)
    }

    /// Makes the page of `shut_out` accessible again.
    pub fn let_in(&self, slot: &Slot) {
        let page = slot.uninitialized_page.swap(0, AcqRel);
        if page != 0 {
            process::allow(page, self.page);
        }
    }

    /// Fills the page of an address, and releases the threads that wait for it.
    pub fn fill(&self, file: i32, address: usize) {
        let page = self.down(address);
        // Another thread may have filled it already; then no thread waits any more.
        userfault::fill(file, page, self.page);
    }
}
