//! How much there is of large blocks: counters of blocks, bytes and mappings.

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, AtomicUsize};

/// The counters; in the metadata tables, and zero at first. Any thread adds to and subtracts from
/// any of them; they publish nothing, so their order does not matter, and a limit that is held by
/// them may be passed by what threads are doing at that moment.
#[derive(Debug, Default)]
pub struct Figures {
    /// Resident bytes of free blocks that no thread holds.
    kept: AtomicUsize,
    /// Usable bytes of live blocks, and the most that they ever were.
    live_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    /// The most usable bytes that were live in this period of `decay`, and in the last one.
    recent: [AtomicUsize; 2],
    /// Resident bytes of freed blocks that were given back at once, because there was no room for
    /// them.
    refused: AtomicUsize,
    /// Resident bytes of live blocks behind what the program may use.
    slack: AtomicUsize,
    /// Mapped bytes of blocks with a separate mapping.
    mapped: AtomicUsize,
    /// How many of those there are.
    separate: AtomicUsize,
    live_blocks: AtomicUsize,
    allocations: AtomicU64,
}

impl Figures {
    /// Counts a block that the program gets.
    pub(super) fn count_allocation(&self) {
        self.allocations.fetch_add(1, Relaxed);
    }

    /// Counts a block of `bytes` as live, which has `resident` bytes.
    pub(super) fn begin(&self, bytes: usize, resident: usize) {
        self.live_blocks.fetch_add(1, Relaxed);
        if resident > bytes {
            self.slack.fetch_add(resident - bytes, Relaxed);
        }
        let live = self.live_bytes.fetch_add(bytes, Relaxed) + bytes;
        for most in [&self.peak_bytes, &self.recent[0]] {
            if most.load(Relaxed) < live {
                most.fetch_max(live, Relaxed);
            }
        }
    }

    /// Counts a block of `bytes` as live no more.
    pub(super) fn end(&self, bytes: usize, resident: usize) {
        let slack = resident - bytes;
        self.live_blocks.fetch_sub(1, Relaxed);
        self.live_bytes.fetch_sub(bytes, Relaxed);
        if slack > 0 {
            self.slack.fetch_sub(slack, Relaxed);
        }
    }

    /// Counts that a live block has lost `bytes` of its slack.
    pub(super) fn trim(&self, bytes: usize) {
        self.slack.fetch_sub(bytes, Relaxed);
    }

    /// Counts the resident bytes of a free block that the caller is about to put down.
    pub(super) fn put(&self, resident: usize) {
        self.kept.fetch_add(resident, Relaxed);
    }

    /// Counts those of one that the caller has taken up.
    pub(super) fn take(&self, resident: usize) {
        self.kept.fetch_sub(resident, Relaxed);
    }

    /// Counts that a separate mapping of `before` bytes has `after` bytes now.
    pub(super) fn change_mapping(&self, before: usize, after: usize) {
        if after > before {
            self.mapped.fetch_add(after - before, Relaxed);
        } else {
            self.mapped.fetch_sub(before - after, Relaxed);
        }
        match (before, after) {
            (0, 0) => 0,
            (0, _) => self.separate.fetch_add(1, Relaxed),
            (_, 0) => self.separate.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// A period begins: what is live now is the most of it so far.
    pub(super) fn begin_period(&self) {
        let [this, last] = &self.recent;
        last.store(this.swap(self.live_bytes(), Relaxed), Relaxed);
    }

    /// The most usable bytes that were live in this period or the last one.
    pub(super) fn recent_bytes(&self) -> usize {
        self.recent.iter().map(|most| most.load(Relaxed)).fold(0, usize::max)
    }

    /// Counts `bytes` of free blocks that were given back because there was no room for them.
    pub(super) fn refuse(&self, bytes: usize) {
        self.refused.fetch_add(bytes, Relaxed);
    }

    /// How large a program is by its large blocks: the most bytes that were live a moment ago, or
    /// the bytes that could not be kept so far. A program that uses one block again and again has
    /// not much live.
    pub fn extent_of_use(&self) -> usize {
        self.recent_bytes().max(self.refused.load(Relaxed))
    }

    /// Bytes that may be resident of live blocks, and of what follows them.
    pub(super) fn in_use(&self) -> usize {
        self.live_bytes() + self.slack.load(Relaxed)
    }

    /// Mapped bytes of blocks with a separate mapping.
    pub(super) fn separately_mapped(&self) -> usize {
        self.mapped.load(Relaxed)
    }

    /// The number of separate mappings.
    pub(super) fn separate_mappings(&self) -> usize {
        self.separate.load(Relaxed)
    }

    /// Verifies L4: those of these counters that are sums over all blocks are those of `sums`.
    pub(super) fn check(&self, sums: &Figures) -> Result<(), &'static str> {
        type Counter = fn(&Figures) -> &AtomicUsize;
        let counters: [(Counter, _); 6] = [
            (|f| &f.live_blocks, "L4: live blocks"),
            (|f| &f.live_bytes, "L4: live bytes"),
            (|f| &f.slack, "L4: slack"),
            (|f| &f.kept, "L4: kept"),
            (|f| &f.mapped, "L4: mapped"),
            (|f| &f.separate, "L4: separate mappings"),
        ];
        let value = |of: Counter, figures| of(figures).load(Relaxed);
        let wrong = counters.iter().find(|(of, _)| value(*of, self) != value(*of, sums));
        wrong.map_or(Ok(()), |(_, what)| Err(*what))
    }

    /// Bytes that are mapped for blocks, or more: those that share a mapping may count twice.
    pub fn mapped_at_most(&self) -> usize {
        self.separately_mapped() + self.live_bytes() + self.kept_bytes()
    }

    /// Live blocks.
    pub fn live_blocks(&self) -> usize {
        self.live_blocks.load(Relaxed)
    }

    /// Usable bytes of live blocks.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes.load(Relaxed)
    }

    /// The most usable bytes that were ever live.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Relaxed)
    }

    /// Allocations ever.
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Relaxed)
    }

    /// Resident bytes of free blocks that no thread holds.
    pub fn kept_bytes(&self) -> usize {
        self.kept.load(Relaxed)
    }
}
