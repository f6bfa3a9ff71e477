//! The heap of one thread.
//!
//! ```text
//! line 0  inbox      written by other threads
//! line 1  site hash  read by every malloc; busy, number, user
//! then    the head of the bins, and the bins: partitions x 64, zero at first
//! ```

use super::counters::Counters;
use super::shared::SHARE_FROM;
use super::{Demand, Leaving, PARTITIONS_FIRST, Patrol, Quarantine};
use crate::bin::{BinIndex, Bins, BinsHead, Distance, ROW_WORDS, Taken};
use crate::harden::touch;
use crate::policy::SECURE;
use crate::region::Site;
use crate::remote::{Inbox, Outbox};
use crate::site::{Cache, HeapHash, SiteHash};
use crate::slab::{SMALL_MAX, Slab, SlotIndex, SmallSize};
use crate::sync::{AtomicU32, AtomicUsize, Busy, Ordering, ReentrancyGuard, User};
use Ordering::Relaxed;

/// The heap of a thread. Only its holder uses it, except for the inbox and the fields that name
/// other readers or writers.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Heap {
    /// The slabs that other threads have freed into. The heap's address is the inbox's address.
    pub(crate) inbox: Inbox,
    /// The heap's number, or `NO_NUMBER` for the constant heaps.
    pub(crate) number: u32,
    /// Not zero while the holder changes lists. A signal handler, or the child of a fork, must not
    /// use the lists then.
    busy: Busy,
    /// The number of times that this thread's exit was postponed, so that other exit handlers run
    /// first.
    pub(crate) exit_rounds: AtomicU32,
    /// The number of the thread that owns the heap, or zero. That thread writes it after it has
    /// acquired the heap. The thread that makes an orphan of the heap clears it. `orphan_exited`
    /// reads it in any thread, and reads it again while it holds the heap. The heap's state orders
    /// the two.
    thread: AtomicU32,
    /// `CUT_OFF` in the child of a fork, from the fork until the heap is adopted, if the heap's
    /// thread was stopped by the fork. `LOOKED_AT` after the adoption, else zero. The child's
    /// handler and the adopting thread write it. Relaxed, because the child has no other thread
    /// then, and a thread that adopts a heap or holds an orphan has acquired it.
    doubtful: AtomicU32,
    /// The tick at which the last scan of this heap's slabs began. Holder only.
    pub(crate) maintained_at: AtomicU32,
    /// The bin at which that scan continues, or zero if it is complete. Holder only.
    pub(crate) maintain_next: AtomicU32,
    /// Of a shared heap: the number plus one of the heap whose thread uses this one, or the number
    /// of a thread without a heap (`shared.rs`). In the line of `busy`, because each use writes to
    /// both.
    pub(super) user: User,
    /// The address of the control block of the thread that had the heap last, for readers outside
    /// the process. Written at birth and adoption.
    thread_block: AtomicUsize,
    /// The exit of the heap's thread, as the reclaimer has seen it: [`EXITED`], [`SEEN`] or zero.
    /// The thread that makes an orphan of the heap writes it, and so does the reclaimer while it
    /// holds the heap.
    exit: AtomicU32,
    /// The bytes of blocks for which this heap's quarantine has places that count against the
    /// budget of threads that share. Holder only.
    own_places: AtomicUsize,
    /// The address of the thread's cache of call sites in exact mode, else zero. Written once, at
    /// birth.
    sites: usize,
    /// Read by every malloc. Where call sites are hashed, the holder writes it when there are more
    /// partitions ([`Heaps::row`](super::Heaps::row)).
    pub(crate) hash: HeapHash,
    /// The most bytes of a request whose row malloc finds by the hash: [`SMALL_MAX`], or zero in
    /// exact mode. Read by every malloc. Written once, at birth.
    hashed_most: usize,
    /// Counts of the slots lately drawn from shared heaps. Holder only.
    demand: Demand,
    /// The word of bits where the next search for a zero-size block begins, or zero. Holder only.
    zero_size: AtomicU32,
    /// What the heap's thread has allocated and freed. Holder only.
    counters: Counters,
    /// What the holder has freed in slabs of others and has not published. Default build only.
    outbox: [Outbox; OUTBOXES],
    bins: BinsHead,
}

const _: () = assert!(core::mem::offset_of!(Heap, inbox) == 0);
// A processor takes a load for one of an earlier store if the low twelve bits of both addresses are
// equal and the others are alike. One in fourteen pairs of a heap and a slab is alike, and malloc
// then takes twice as long (decision 0068). So the hash is where a descriptor has no word that
// malloc or free stores.
#[cfg(not(loom))]
const _: () = {
    let (hash, most) =
        (core::mem::offset_of!(Heap, hash), core::mem::offset_of!(Heap, hashed_most));
    assert!(!Slab::has_hot_store(hash) && !Slab::has_hot_store(hash + size_of::<HeapHash>() - 1));
    assert!(!Slab::has_hot_store(most));
};
// Each use of a shared heap writes to both.
#[cfg(not(loom))]
const _: () =
    assert!(core::mem::offset_of!(Heap, user) / 64 == core::mem::offset_of!(Heap, busy) / 64);
// The bins follow their head, which is the last part of a heap.
const _: () =
    assert!(core::mem::offset_of!(Heap, bins) + size_of::<BinsHead>() == size_of::<Heap>());

/// The number of bytes of the bins of one partition.
const ROW_BYTES: usize = ROW_WORDS * size_of::<usize>();

/// Values of `doubtful` for a heap whose thread a fork has stopped: not adopted since, or adopted
/// and repaired as far as possible.
const CUT_OFF: u32 = 1;
const LOOKED_AT: u32 = 2;

/// Values of `exit` for a heap whose thread has exited: after the last sweep, or before it.
const EXITED: u32 = 1;
const SEEN: u32 = 2;

/// The number of outboxes of a heap. In the secure build a free of another thread's slot waits in
/// the quarantine.
const OUTBOXES: usize = if SECURE { 0 } else { 1 };

/// The number of a constant heap.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

impl Heap {
    /// Returns a heap without memory: every allocation misses.
    pub const fn empty() -> Heap {
        Heap {
            inbox: Inbox::new(),
            number: NO_NUMBER,
            busy: Busy::never(),
            exit_rounds: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            doubtful: AtomicU32::new(0),
            maintained_at: AtomicU32::new(0),
            maintain_next: AtomicU32::new(0),
            user: User::new(),
            thread_block: AtomicUsize::new(0),
            exit: AtomicU32::new(0),
            own_places: AtomicUsize::new(0),
            sites: 0,
            hash: HeapHash::new(SiteHash::single()),
            hashed_most: SMALL_MAX,
            demand: Demand::new(),
            zero_size: AtomicU32::new(0),
            counters: Counters::new(),
            outbox: [const { Outbox::new() }; OUTBOXES],
            bins: BinsHead::new(),
        }
    }

    /// Returns a new heap at tick `now`. `sites` is the address of the thread's cache of call
    /// sites, or zero.
    pub(crate) fn new(hash: SiteHash, sites: usize, number: u32, now: u32) -> Heap {
        let maintained_at = AtomicU32::new(now);
        let hashed_most = if sites == 0 { SMALL_MAX } else { 0 };
        let busy = Busy::new();
        Heap {
            hash: HeapHash::new(hash),
            hashed_most,
            sites,
            number,
            busy,
            maintained_at,
            ..Heap::empty()
        }
    }

    /// Returns the thread's cache of call sites, or `None` if sites are hashed. Holder only.
    #[inline(always)]
    fn cache(&self) -> Option<&'static Cache> {
        // SAFETY: (1) written at birth by `Heaps`, which has put a cache there.
        (self.sites != 0).then(|| unsafe { Cache::at(self.sites) })
    }

    /// Returns true in exact mode, in which a site's row must be looked up. Row 0 is empty then.
    #[inline(always)]
    pub fn is_exact(&self) -> bool {
        self.sites != 0
    }

    /// Returns the index of the first bin of a site's row. In exact mode, returns that of the empty
    /// row 0 if the thread does not remember the site. Holder only.
    #[inline(always)]
    pub fn known_row(&self, site: Site) -> BinIndex {
        match self.cache() {
            None => self.hash.row(site),
            Some(cache) => BinIndex::row(cache.partition(site)),
        }
    }

    /// Returns the index of the first bin of a site's row, or `None` if the thread does not
    /// remember it. Holder only.
    #[inline(always)]
    pub fn remembered_row(&self, site: Site) -> Option<BinIndex> {
        match self.cache() {
            None => Some(self.hash.row(site)),
            Some(cache) => Some(BinIndex::row(cache.remembered(site)?)),
        }
    }

    /// Returns the number or code of a site, or zero if the thread does not remember it. Holder
    /// only.
    #[inline(always)]
    pub fn known_code(&self, site: Site) -> usize {
        self.cache().map_or(0, |cache| cache.code(site))
    }

    /// Removes a site from the cache. Holder only.
    pub(crate) fn forget(&self, site: Site) {
        if let Some(cache) = self.cache() {
            cache.forget(site);
        }
    }

    /// Remembers the partition of a site. Holder only.
    pub(crate) fn remember(&self, site: Site, number: usize) {
        if let Some(cache) = self.cache() {
            if SECURE && !self.shares() && (number + 1) * ROW_WORDS <= self.hash.bins() {
                // Malloc is about to read a bin of this row, and to fill it.
                let row = self.address() + size_of::<Heap>() + number * ROW_BYTES;
                // SAFETY: (1) the bins of a row of this heap, which only its holder writes; both
                // ends are multiples of a word.
                unsafe { touch(row, ROW_BYTES) };
            }
            cache.remember(site, number);
        }
    }

    /// Faults in the pages that a thread's first malloc and first free read and then write. Each
    /// page then costs one fault rather than two. These are the cache of call sites and the
    /// quarantine's rows, or in the first heap the bins of the partitions that a process begins
    /// with. Called once, at birth.
    pub(crate) fn touch_first(&self) {
        if !SECURE && self.number == 0 {
            let rows = (self.hash.bins() / ROW_WORDS).min(PARTITIONS_FIRST);
            // SAFETY: (1) bins of this heap, which are words, and not in use yet.
            unsafe { touch(self.address() + size_of::<Heap>(), rows * ROW_BYTES) };
        }
        if SECURE && self.is_exact() {
            // SAFETY: (1) after the heap's bins, and not in use yet; both ends are multiples of a
            // word.
            unsafe {
                touch(self.sites, Cache::BYTES);
                if !self.shares() {
                    touch(self.quarantine().address(), Quarantine::ROWS);
                }
            }
        }
    }

    /// Seeds the dice. Holder only.
    pub(crate) fn seed(&self, random: u64) {
        self.bins.dice().seed(random);
    }

    /// Stores the place of the program's call in progress, and its frame pointer. Holder only.
    pub fn set_call(&self, stack: usize, frame: usize) {
        if !self.is_sentinel() {
            self.bins
                .call()
                .iter()
                .zip([stack, frame])
                .for_each(|(to, from)| to.store(from, Relaxed));
        }
    }

    /// Returns the place of the program's call and its frame pointer, and forgets both. The next
    /// reader may be in another call. Holder only.
    pub fn take_call(&self) -> [usize; 2] {
        let call = self.bins.call().each_ref().map(|word| word.load(Relaxed));
        self.set_call(0, 0);
        call
    }

    /// Returns the distance to the next allocation that is reported, or `None` for the constant
    /// heaps, which are never written. Holder only.
    pub fn distance(&self) -> Option<&Distance> {
        (!self.is_sentinel()).then(|| self.bins.distance())
    }

    /// Returns the number of the word of bits where the next search for a zero-size block begins,
    /// which is zero at first. Returns `None` for the constant heaps, which are never written.
    /// Holder only.
    pub fn zero_size_cursor(&self) -> Option<&AtomicU32> {
        (!self.is_sentinel()).then_some(&self.zero_size)
    }

    /// Returns the quarantine: the slots that this heap's thread has freed and that are not free
    /// yet. Secure build only.
    #[inline(always)]
    pub(crate) fn quarantine(&self) -> &'static Quarantine {
        let bins = self.address() + size_of::<Heap>();
        // SAFETY: a heap of the table is followed by its bins and its quarantine, zero at first.
        // This is not called for the constant heaps, because no thread ever has their reentrancy
        // guards.
        unsafe { Quarantine::at(bins + self.hash.bins() * size_of::<usize>()) }
    }

    /// Returns the place of the next check of free slots. Full secure build only, for the holder of
    /// a heap that is not constant.
    pub(crate) fn patrol(&self) -> &'static Patrol {
        &self.quarantine().patrol
    }

    /// Puts an entry into the quarantine's line. Returns false if another entry must leave first.
    /// Holder only, of a heap that is not constant. The fast path of the secure build's free.
    #[inline(always)]
    pub(crate) fn enqueue(&self, class: usize, entry: usize) -> bool {
        self.quarantine().enqueue(class, entry)
    }

    /// Puts an entry into the quarantine. Adds to `leaving` what leaves the quarantine, except for
    /// the entries that `leaves` has finished. Returns false if the heap cannot be used now. Holder
    /// only.
    #[inline(always)]
    pub(crate) fn exchange(
        &self,
        (class, entry): (usize, usize),
        share: usize,
        leaving: &mut Leaving,
        leaves: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(guard) = self.enter() else { return false };
        let drawn = (share, self.bins.dice());
        self.quarantine().exchange(&guard, class, entry, drawn, leaving, leaves)
    }

    /// Returns the heap's address, which slabs store in `owner`.
    #[inline(always)]
    pub fn address(&self) -> usize {
        (&raw const *self).expose_provenance()
    }

    /// Stores the thread's number. If no key reports the thread's exit, the allocator asks the
    /// kernel by this number if the thread still runs.
    pub fn set_thread(&self, number: u32) {
        self.thread.store(number, Relaxed);
    }

    /// The offset of the address of the thread's control block, for readers outside the process.
    pub const THREAD_BLOCK: usize = core::mem::offset_of!(Heap, thread_block);

    /// Stores the address of the thread's control block, which identifies the thread. It costs no
    /// system call: a filter may forbid the call that returns the thread's number.
    pub fn set_thread_block(&self, address: usize) {
        self.thread_block.store(address, Relaxed);
    }

    /// Returns the thread's number, if it is stored.
    pub(crate) fn thread(&self) -> Option<u32> {
        Some(self.thread.load(Relaxed)).filter(|&number| number != 0)
    }

    /// Notes that the heap's thread has exited.
    pub(super) fn note_exit(&self) {
        self.exit.store(EXITED, Relaxed);
    }

    /// Returns true if the thread has exited and the heap was not cleared out since. Any thread; a
    /// hint.
    pub(crate) fn is_left(&self) -> bool {
        self.exit.load(Relaxed) != 0
    }

    /// Returns true if an earlier call has seen the exit of the heap's thread, and the heap was not
    /// used since. The caller, which holds the orphan, then clears it out.
    pub(crate) fn is_long_left(&self) -> bool {
        let exit = self.exit.load(Relaxed);
        self.exit.store(if exit == EXITED { SEEN } else { 0 }, Relaxed);
        exit == SEEN
    }

    /// Returns true if the heap's thread uses shared heaps.
    #[inline]
    fn shares(&self) -> bool {
        self.number >= SHARE_FROM && !self.is_sentinel()
    }

    /// Counts a slot that bin `index` needs at tick `now`. Returns true if the slot should come
    /// from a shared heap. Holder only.
    pub(crate) fn should_use_shared_heap(
        &self,
        index: BinIndex,
        now: impl FnOnce() -> u32,
    ) -> bool {
        self.shares() && self.demand.is_low(index.number(), now())
    }

    /// Returns true if a freed block of a class may wait in another heap. This heap's quarantine
    /// has no places for the class then, and its thread uses shared heaps. Holder only.
    pub(crate) fn may_wait_elsewhere(&self, class: usize) -> bool {
        self.shares() && !self.has_line(class)
    }

    /// Returns true if this heap's quarantine has places for a class. Holder only.
    pub(crate) fn has_line(&self, class: usize) -> bool {
        self.quarantine().has_line(class)
    }

    /// Counts `bytes` bytes of blocks for which the heap's quarantine has got places. Holder only.
    pub(crate) fn count_places(&self, bytes: usize) {
        self.own_places.store(self.own_places.load(Relaxed) + bytes, Relaxed);
    }

    /// Returns the number of bytes counted by `count_places`. Any thread; a hint.
    pub(crate) fn counted_places(&self) -> usize {
        self.own_places.load(Relaxed)
    }

    /// Returns the number of bytes counted by `count_places`, and resets it to zero. Holder only.
    pub(crate) fn uncount_places(&self) -> usize {
        self.own_places.swap(0, Relaxed)
    }

    /// Counts a block of a class that is freed at tick `now`. Returns true if the thread rarely
    /// frees blocks of the class. Holder only.
    pub(crate) fn rarely_frees(&self, class: usize, now: u32) -> bool {
        self.demand.is_low(Demand::of_frees(class), now)
    }

    /// Returns true for the constant heaps, which own nothing.
    #[inline]
    pub fn is_sentinel(&self) -> bool {
        self.number == NO_NUMBER
    }

    /// Returns the bins. Holder only.
    #[inline(always)]
    pub fn bins(&self) -> Bins {
        // SAFETY: (1) a heap is followed by its bins, zero at first; (2) the caller holds the heap;
        // (3) only `Bins` writes there.
        unsafe { Bins::behind(&self.bins) }
    }

    /// Returns the outbox, which the secure build does not have.
    #[inline]
    pub(crate) fn outbox(&self) -> Option<&Outbox> {
        self.outbox.first()
    }

    /// Returns the counters of what the heap's thread has allocated and freed, or `None` for the
    /// constant heaps, which are never written. Holder only.
    #[inline]
    pub(crate) fn counters(&self) -> Option<&Counters> {
        (!self.is_sentinel()).then_some(&self.counters)
    }

    /// Counts that a large block has another size from now on: as a block that is freed, and one
    /// that is allocated. Holder only.
    pub(crate) fn count_resize(&self, before: usize, now: usize) {
        if let Some(counters) = self.counters() {
            counters.allocated_apart(now);
            counters.freed_apart(before);
        }
    }

    /// Takes the reentrancy guard. Returns `None` if this thread already has it, in a call that a
    /// signal handler interrupted.
    #[inline]
    pub fn enter(&self) -> Option<ReentrancyGuard<'_>> {
        self.busy.enter()
    }

    /// Takes over the reentrancy guard that the heap's thread has not dropped before its exit. The
    /// caller holds the heap.
    pub(super) fn inherit_guard(&self) -> ReentrancyGuard<'_> {
        self.busy.inherit()
    }

    /// Returns the size of a small request whose row malloc finds by the hash. Holder only.
    #[inline(always)]
    pub fn hashed_size(&self, size: usize) -> Option<SmallSize> {
        // SAFETY: (1) `hashed_most` is SMALL_MAX or zero.
        (size <= self.hashed_most).then(|| unsafe { SmallSize::compared(size) })
    }

    /// Returns the index of the bin in row 0 of a small request. Holder only.
    #[inline(always)]
    pub fn small_class(&self, size: SmallSize) -> BinIndex {
        self.bins.small_bin(size)
    }

    /// Returns the index of the bin of a small request. Holder only.
    #[inline(always)]
    pub fn small_bin(&self, size: SmallSize, site: Site) -> BinIndex {
        self.hash.row(site).of_class_of(self.bins.small_bin(size))
    }

    /// Returns the index of the bin of a small request, in exact mode in the row that the site is
    /// known to draw from. Holder only.
    #[inline(always)]
    pub fn known_small_bin(&self, size: SmallSize, site: Site) -> BinIndex {
        self.known_row(site).of_class_of(self.bins.small_bin(size))
    }

    /// Returns the index of the bin of a small request, or `None` if the thread does not remember
    /// the site. Holder only. The fast path of the secure build's malloc.
    #[inline(always)]
    pub fn remembered_small_bin(&self, size: SmallSize, site: Site) -> Option<BinIndex> {
        Some(self.remembered_row(site)?.of_class_of(self.bins.small_bin(size)))
    }

    /// Returns the index of the bin of a class, in exact mode of an empty one. Holder only.
    #[inline(always)]
    pub fn bin(&self, class: usize, site: Site) -> BinIndex {
        self.hash.row(site).of_class(class)
    }

    /// Returns the index of the bin of a class, in exact mode in the row that the site is known to
    /// draw from. Holder only.
    #[inline(always)]
    pub fn known_bin(&self, class: usize, site: Site) -> BinIndex {
        self.known_row(site).of_class(class)
    }

    /// Hands out a claimed slot of a bin, if there is one. Holder only. The fast path of malloc.
    #[inline(always)]
    pub fn pop(&self, index: BinIndex) -> Option<usize> {
        self.bins().pop(index)
    }

    /// Claims more slots from a bin's current slab and hands one out. Holder only.
    #[inline(always)]
    pub fn pop_after_refill(&self, index: BinIndex) -> Option<usize> {
        let _guard = self.enter()?;
        self.bins().take_in_turn(index)
    }

    /// Hands out any claimed slot of a bin, if there is one. Holder only. The fast path of the
    /// secure build's malloc.
    #[inline(always)]
    pub fn take(&self, index: BinIndex) -> Option<Taken<'static>> {
        self.bins().take(index)
    }

    /// Claims more slots from a bin's current slab and hands out any of them. Holder only.
    #[inline]
    pub fn take_after_refill(&self, index: BinIndex) -> Option<Taken<'static>> {
        let (_guard, bins) = (self.enter()?, self.bins());
        if bins.current(index).should_collect() || !bins.refill(index) {
            return None;
        }
        bins.take(index)
    }

    /// Makes malloc hand out a freed slot next, if that keeps its slab packed. Holder only.
    #[inline(always)]
    pub fn push(&self, slab: &Slab, slot: SlotIndex, address: usize) {
        if let Some(_guard) = self.enter() {
            self.bins().push(Heap::bin_of(slab), slab, slot, address);
        }
    }

    /// Returns true if a slab is its bin's current one. Any thread; a hint unless the caller holds
    /// the heap.
    pub fn is_current(&self, slab: &Slab) -> bool {
        // SAFETY: (1) and (3) as in `bins`; (2) only `is_current` is called.
        let bins = unsafe { Bins::behind(&self.bins) };
        bins.is_current(Heap::bin_of(slab), slab)
    }

    /// Notes that the heap's thread does not exist in this child of a fork. The thread may have
    /// been stopped between two steps of malloc or free that take no reentrancy guard.
    pub(crate) fn cut_off(&self) {
        self.doubtful.store(CUT_OFF, Relaxed);
    }

    /// Returns true after `cut_off`, until the heap is adopted.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.doubtful.load(Relaxed) == CUT_OFF
    }

    /// Returns true after `cut_off`, also after the adoption. Until the adoption a slot may be both
    /// claimed and live. One free may stay uncounted for ever.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.doubtful.load(Relaxed) != 0
    }

    /// Repairs the steps of malloc that `cut_off` notes as half done. The caller has just adopted
    /// the heap.
    pub(crate) fn repair_cut_off(&self, partitions: usize) {
        if self.doubtful.load(Relaxed) == CUT_OFF {
            self.bins().repair_cut_off(partitions);
            self.doubtful.store(LOOKED_AT, Relaxed);
        }
    }

    /// Returns true if a change is in progress. For the reclaimer after a barrier, and for the
    /// child of a fork.
    pub(crate) fn is_torn(&self) -> bool {
        self.busy.is_taken()
    }

    pub(crate) fn clear_torn(&self) {
        self.busy.clear();
    }
}
