//! Slabs that are set aside: what they have that was never touched, or has been given back, does
//! not count against the limit, and malloc must ask before it draws from them again.
//!
//! ```text
//!            set_aside               call_back
//! awake  ------------------> aside ------------> awake        `uncounted` bytes go off the count and,
//!    '--- lie_dormant ---> dormant --- wake ------^           when the slab is called back or woken, on
//!                                                         it again
//! ```
//!
//! Only slots that the owner has claimed may be handed out meanwhile. So when every thread has
//! passed a barrier after `set_aside`, what is neither claimed nor touched stays so until the slab
//! is called back. The exception is an owner in the middle of claiming, which can be seen. Only the
//! owner calls a slab back, so that it never takes one for full that was aside a moment ago.
//!
//! A thread that calls a slab back adds to the count what it takes out of `uncounted`. A thread
//! that puts something there checks afterwards if the slab still is aside, and takes it out again
//! if not. So the count and all that is uncounted add up to the same sum at every moment at which
//! no thread is about it.

use super::slab::{ASIDE, AWAKE, GROUP_SLOTS, GROUPS, Slab};
use super::states::{REMOTE_CLEAN, SOILED, TAKEN};
use crate::policy::HARDENED;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

impl Slab {
    /// Whether slots may be claimed.
    pub fn is_awake(&self) -> bool {
        self.awake.load(Relaxed) == AWAKE
    }

    /// Whether the slab's bytes may be left uncounted: malloc asks before it draws from it.
    pub fn must_be_asked_for(&self) -> bool {
        self.awake.load(SeqCst) != AWAKE
    }

    /// Whether the slab is set aside: it has its pages, and must be called back before it is used.
    pub fn is_aside(&self) -> bool {
        self.awake.load(SeqCst) == ASIDE
    }

    /// Sets the slab aside. Returns true if it is.
    pub fn set_aside(&self) -> bool {
        let before = self.awake.compare_exchange(AWAKE, ASIDE, SeqCst, Relaxed);
        before.map_or_else(|now| now == ASIDE, |_| true)
    }

    /// Slots may be claimed again, of a slab that was set aside. Holder of the slab only.
    pub fn call_back(&self) {
        self.is_not_counted();
        let _ = self.awake.compare_exchange(ASIDE, AWAKE, SeqCst, Relaxed);
    }

    /// Whether counting the slab would find nothing new: since that was done last, no slot was
    /// freed, no pages went, and no thread was let draw from it.
    pub fn is_counted(&self) -> bool {
        if self.is_dormant() {
            return self.uncounted() == self.slot_bytes();
        }
        self.counted_at.load(Relaxed) == self.freed_so_far()
    }

    /// The slab is about to be counted exactly: what was freed since its pages were last given back
    /// makes that void, at once or later.
    pub fn note_count(&self) {
        // pairs: counted no more. Who overwrites that, sees in the states what went.
        self.counted_at.swap(self.tidy_at.load(Relaxed), AcqRel);
    }

    /// Counting the slab may give less than it did.
    pub fn is_not_counted(&self) {
        // counted no more.
        self.counted_at.store(0, Release);
    }

    /// Bytes of the slab's slots that do not count.
    pub fn uncounted(&self) -> usize {
        self.uncounted.load(Acquire) as usize
    }

    /// Takes the bytes that do not count, which count from here on: the caller adds them.
    pub fn count_again(&self) -> usize {
        if self.uncounted.load(SeqCst) == 0 { 0 } else { self.uncounted.swap(0, AcqRel) as usize }
    }

    /// `bytes` bytes, at most all, do not count from here on: the caller takes them off. Returns
    /// the number that have not counted before, which the caller adds.
    pub fn leave_uncounted(&self, bytes: usize) -> usize {
        self.uncounted.swap(bytes as u32, SeqCst) as usize
    }

    /// Bytes that `count_again` has named, and that the caller has not added, do not count after
    /// all.
    pub fn count_less(&self, bytes: usize) {
        self.uncounted.fetch_add(bytes as u32, SeqCst);
    }

    /// Whether a slot is free. Owner, or a hint.
    pub fn has_free(&self) -> bool {
        (0..GROUPS).any(|group| self.free_bits(group) != 0)
    }

    /// Bytes of the slots, but for the pages among them that are walls.
    pub fn slot_bytes(&self) -> usize {
        self.slots() * self.size() - if HARDENED { self.walled_bytes() } else { 0 }
    }

    /// The model checker's slabs have no walls.
    #[cfg(loom)]
    fn walled_bytes(&self) -> usize {
        0
    }

    /// Bytes of whole pages within the slots in which no byte was written since they were zero,
    /// those of claimed slots left out.
    pub fn untouched_bytes(&self, page: usize) -> usize {
        let claim = self.claimed();
        let bytes = self.untouched_beside(claim, page);
        // A free takes the claim away for a moment.
        let now = self.claimed();
        if now & !claim == 0 { bytes } else { self.untouched_beside(now | claim, page) }
    }

    fn untouched_beside(&self, claim: u64, page: usize) -> usize {
        let group = self.claimed_group();
        let untouched = |slot| {
            let state = self.state_of(slot).load(Acquire);
            let zero = state & (TAKEN | SOILED) == 0 || state == REMOTE_CLEAN;
            let claimed = slot / GROUP_SLOTS == group && claim >> (slot % GROUP_SLOTS) & 1 != 0;
            // To `runs` it is a page to be had.
            (zero && !claimed).then_some(true)
        };
        let (mut bytes, all) = (0, self.slots() * self.size());
        self.runs(page, untouched, |_, (start, stop)| bytes += stop.min(all).saturating_sub(start));
        bytes
    }
}
