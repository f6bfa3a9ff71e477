//! The pages of a slab after its last slot, in the secure builds. No slot is there, so malloc never
//! hands these addresses out. A slab of the default build ends with its last slot.
//!
//! A slab has at most [`SLOTS_MAX`](super::SLOTS_MAX) slots. Small slots fill only a part of it: 4
//! KiB of 64 KiB at 16 bytes. When the system refuses memory, the slab's holder unmaps the rest,
//! which stays unmapped until the process ends.
//!
//! ```text
//! | slot slot slot ... slot |  tail   | next slab
//! base                 whole pages    base + slab_bytes
//! ```
//!
//! Other code may then map the addresses of the tail. No request to the system may include them:
//! each ends at [`SlabPages::mapped_bytes`]. A page of the tail stays, as the guard page at the
//! slab's end.

use super::pages::SlabPages;
use super::slab::{HOLDING, SHARED};
use crate::policy::SECURE;
use crate::sync::Ordering::SeqCst;

impl SlabPages<'_> {
    /// Returns the number of bytes from the slab's start on that are mapped while the slab is not
    /// dormant.
    pub fn mapped_bytes(&self, page: usize) -> usize {
        let bytes = self.span().next_multiple_of(page.max(1));
        if self.is_without_tail() { self.tail_start(page).min(bytes) } else { bytes }
    }

    /// Returns the number of bytes from the slab's start on that are mapped, which is zero for a
    /// dormant slab.
    pub fn present_bytes(&self, page: usize) -> usize {
        if self.is_dormant() { 0 } else { self.mapped_bytes(page) }
    }

    /// Returns true if the slab's tail was unmapped, or is about to be.
    pub fn is_without_tail(&self) -> bool {
        self.without_tail.load(SeqCst) != 0
    }

    /// Unmaps the tail by `unmap`, which gets its address and length and returns true if it
    /// succeeds. Returns the bytes unmapped: zero if there is no tail, or if the reclaimer may be
    /// using its pages. Returns `None` if `unmap` fails. For the slab's holder, while the slab is
    /// not dormant.
    pub fn give_up_tail(
        &self,
        page: usize,
        unmap: impl FnOnce(usize, usize) -> bool,
    ) -> Option<usize> {
        let (start, end) = (self.tail_start(page), self.mapped_bytes(page));
        let Some(len) = end.checked_sub(start).filter(|&len| len != 0) else { return Some(0) };
        // tail: the thread that sets HOLDING or SHARED reads `without_tail` afterwards. Both sides
        // write first and then read, all SeqCst. So either that thread sees that the tail goes, or
        // this call sees the flag and leaves the tail. The byte is set before the unmapping, so
        // that the child of a fork never uses a tail that is gone.
        self.without_tail.store(1, SeqCst);
        let engaged = self.owner.load(SeqCst) & (HOLDING | SHARED) != 0;
        if !engaged && unmap(self.base() + start, len) {
            return Some(len);
        }
        self.without_tail.store(0, SeqCst);
        engaged.then_some(0)
    }

    /// Returns the number of bytes from the slab's start to its tail.
    fn tail_start(&self, page: usize) -> usize {
        let guard = if SECURE { page } else { 0 };
        (self.slots() * self.size()).next_multiple_of(page.max(1)) + guard
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::policy::SECURE;
    use crate::slab::memory::slab_memory;
    use crate::slab::slab::{HOLDING, SHARED};
    use crate::slab::{SizeClass, Slab};

    const PAGE: usize = 4096;

    #[test]
    fn whole_pages_after_the_last_slot_go_once() {
        let guard = if SECURE { PAGE } else { 0 };
        for class in SizeClass::all() {
            let slab = Slab::zeroed();
            let all = class.span();
            let slots = slab.open_for_test(slab_memory(), class.size());
            slab.publish(64, slots);
            let used = slots * class.size() + guard;
            let has_tail = used + PAGE <= all;
            assert_eq!(slab.pages().give_up_tail(PAGE, |_, _| false), (!has_tail).then_some(0));
            assert_eq!(slab.pages().mapped_bytes(PAGE), all, "a refusal changes nothing");
            let mut tail = None;
            let gone = slab.pages().give_up_tail(PAGE, |start, len| {
                tail = Some((start - slab.base(), len));
                true
            });
            assert_eq!(gone, Some(tail.map_or(0, |(_, len)| len)));
            let Some((start, len)) = tail else {
                assert!(!has_tail && !slab.pages().is_without_tail());
                continue;
            };
            assert!(start >= used && start - used < PAGE && start + len == all, "{class:?}");
            assert_eq!(slab.pages().mapped_bytes(PAGE), start);
            assert_eq!(slab.pages().give_up_tail(PAGE, |_, _| panic!("again")), Some(0));
        }
    }
    /// The reclaimer is at work in the slab, so its pages stay mapped.
    #[test]
    #[cfg_attr(not(feature = "secure-light"), ignore = "slabs of the default build have no tail")]
    fn an_engaged_slab_keeps_its_tail() {
        for flag in [HOLDING, SHARED] {
            let slab = Slab::zeroed();
            let slots = slab.open_for_test(slab_memory(), 16);
            slab.publish(64, slots);
            slab.set_owner_flag(flag);
            assert_eq!(slab.pages().give_up_tail(PAGE, |_, _| panic!("unmapped")), Some(0));
            assert_eq!(slab.pages().mapped_bytes(PAGE), 64 << 10);
            slab.clear_owner_flag(flag);
            assert!(slab.pages().give_up_tail(PAGE, |_, _| true).is_some_and(|len| len != 0));
        }
    }
}
