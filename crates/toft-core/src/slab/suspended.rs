//! Slabs that are suspended by the limit. Their memory that was never touched, or was given back,
//! does not count against the limit. Malloc must ask before it draws from such a slab again.
//!
//! ```text
//! awake --- suspend -------> suspended --- resume ---> awake
//!    '----- make_dormant ---> dormant ---- wake --------^
//! ```
//!
//! The `uncounted` bytes of a suspended or dormant slab are subtracted from the count. They are
//! added again when the slab is resumed or woken.
//!
//! Only slots that the owner has claimed may be handed out meanwhile. So when every thread has
//! passed a barrier after `suspend`, memory that is neither claimed nor touched stays so until the
//! slab is resumed. The exception is an owner in the middle of claiming, which can be seen. Only
//! the owner resumes a slab, so it never takes a slab for full that was suspended a moment ago.
//!
//! A thread that resumes a slab adds to the count what it takes out of `uncounted`. A thread that
//! adds to `uncounted` checks afterwards if the slab is still suspended, and takes the bytes out
//! again if not. So the count plus all uncounted bytes is the same sum whenever no thread is in the
//! middle of this.

use super::slab::{AWAKE, SUSPENDED, Slab, view};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

view! {
    /// The bytes of a slab that count against the limit.
    LimitCount, limit_count
}

impl LimitCount<'_> {
    /// Returns true if bytes of the slab may be uncounted: malloc asks before it draws from the
    /// slab.
    pub fn may_be_uncounted(&self) -> bool {
        self.awake.load(SeqCst) != AWAKE
    }

    /// Returns true if the slab is suspended: it has its pages, and must be resumed before use.
    pub fn is_suspended(&self) -> bool {
        self.awake.load(SeqCst) == SUSPENDED
    }

    /// Suspends the slab. Returns true if it is then suspended.
    pub fn suspend(&self) -> bool {
        let before = self.awake.compare_exchange(AWAKE, SUSPENDED, SeqCst, Relaxed);
        before.map_or_else(|now| now == SUSPENDED, |_| true)
    }

    /// Lets slots of a suspended slab be claimed again. Holder of the slab only.
    pub fn resume(&self) {
        self.is_not_counted();
        let _ = self.awake.compare_exchange(SUSPENDED, AWAKE, SeqCst, Relaxed);
    }

    /// Returns true if counting the slab again would find nothing new. Since the last count, no
    /// slot was freed, no pages were given back, and no thread was allowed to draw from the slab.
    pub fn is_counted(&self) -> bool {
        if self.is_dormant() {
            return self.uncounted() == self.pages().slot_bytes();
        }
        self.counted_at.load(Relaxed) == self.freed_so_far()
    }

    /// Records that the slab is about to be counted exactly. Frees since its pages were last given
    /// back make the record invalid, at once or later.
    pub fn note_count(&self) {
        // pairs: counted no more. A thread that overwrites that zero sees in the states what was
        // given back.
        self.counted_at.swap(self.discarded_at(), AcqRel);
    }

    /// Records that counting the slab again may find fewer bytes.
    pub fn is_not_counted(&self) {
        // counted no more.
        self.counted_at.store(0, Release);
    }

    /// Returns the number of bytes of the slab's slots that do not count.
    pub fn uncounted(&self) -> usize {
        self.uncounted.load(Acquire) as usize
    }

    /// Takes the bytes that do not count, and returns their number. They count from here on: the
    /// caller adds them.
    pub fn take_uncounted(&self) -> usize {
        if self.uncounted.load(SeqCst) == 0 { 0 } else { self.uncounted.swap(0, AcqRel) as usize }
    }

    /// Leaves `bytes` bytes of the slab uncounted from here on: the caller subtracts them. Returns
    /// the number of bytes that did not count before, which the caller adds.
    pub fn set_uncounted(&self, bytes: usize) -> usize {
        self.uncounted.swap(bytes as u32, SeqCst) as usize
    }

    /// Leaves bytes uncounted after all that `take_uncounted` has returned and the caller has not
    /// added.
    pub fn add_uncounted(&self, bytes: usize) {
        self.uncounted.fetch_add(bytes as u32, SeqCst);
    }
}
