//! The heap of one thread.
//!
//! ```text
//! line 0  inbox      written by other threads
//! line 1  site hash  read by every malloc; busy, number
//! then    the head of the bins, and the bins: partitions x 64, zero at first
//! ```

use super::shared::SHARE_FROM;
use super::{Demand, Leaving, Quarantine};
use crate::bin::{BIN_WORDS, Bins, BinsHead, Distance, ROW_WORDS, Taken};
use crate::harden::touch;
use crate::policy::HARDENED;
use crate::remote::Inbox;
use crate::site::{Cache, SiteHash};
use crate::slab::Slab;
use crate::sync::{AtomicU32, AtomicUsize, Busy, Ordering, Seat};
use Ordering::Relaxed;

/// What a thread owns. Only its holder uses it, but for the inbox and the number.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Heap {
    /// Slabs that others have freed into. The heap's address is the inbox's address.
    pub(crate) inbox: Inbox,
    /// Written once, at birth.
    pub(crate) hash: SiteHash,
    /// The heap's number; `NO_NUMBER` for the two constant heaps.
    pub(crate) number: u32,
    /// Not zero while the holder changes lists: a signal handler that finds it so, or a child made
    /// by fork, must not trust them.
    busy: Busy,
    /// How often this thread's exit was postponed, so that other exit handlers come first.
    pub(crate) exit_rounds: AtomicU32,
    /// The number of the thread that owns the heap, or zero. Written by that thread after it has
    /// acquired the heap, and cleared by the thread that makes an orphan of it. `orphan_the_dead`
    /// reads it in any thread, and again while it holds the heap: the state orders the two.
    thread: AtomicU32,
    /// Whether the heap is that of a thread that was stopped by a fork: `CUT_OFF` in the child
    /// until it is adopted, and `LOOKED_AT` from then on; else zero. Written in the child's
    /// handler, and by the adopting thread. Relaxed, because no other thread is there in the one
    /// case, and a thread that adopts a heap or holds an orphan has acquired it.
    doubtful: AtomicU32,
    /// The tick at which this heap's slabs were last looked at, and the bin at which that goes on,
    /// or
    /// 0. Holder only.
    pub(crate) tended_at: AtomicU32,
    pub(crate) tend_next: AtomicU32,
    /// Address of the control block of the thread that had the heap last: whose it is, for those
    /// who look from outside. Written at birth and adoption.
    thread_block: AtomicUsize,
    /// What the reclaimer knows of the exit of the heap's thread: [`EXITED`], [`SEEN`] or 0.
    /// Written by the thread that makes an orphan of the heap, and by the reclaimer while it holds
    /// the heap.
    exit: AtomicU32,
    /// Bytes of blocks for which this heap's quarantine has places that count against the budget of
    /// threads that share. Holder only.
    own_places: AtomicUsize,
    /// Slots lately drawn from shared heaps. Holder only.
    demand: Demand,
    /// Address of what its thread remembers of call sites, in exact mode; else zero. Written once,
    /// at birth.
    sites: usize,
    bins: BinsHead,
}

const _: () = assert!(core::mem::offset_of!(Heap, inbox) == 0);
// The bins follow their head, and that is the last part of a heap.
const _: () =
    assert!(core::mem::offset_of!(Heap, bins) + size_of::<BinsHead>() == size_of::<Heap>());

/// Bytes of the bins of one partition.
const ROW_BYTES: usize = ROW_WORDS * size_of::<usize>();

/// Of a heap whose thread a fork has stopped: not in use since; or what can be put right has been.
const CUT_OFF: u32 = 1;
const LOOKED_AT: u32 = 2;

/// Of a heap whose thread has exited: since the last sweep, or before it.
const EXITED: u32 = 1;
const SEEN: u32 = 2;

/// Number of an unowned heap.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

impl Heap {
    /// A heap without memory: every allocation misses.
    pub const fn empty() -> Heap {
        Heap {
            inbox: Inbox::new(),
            hash: SiteHash::single(),
            number: NO_NUMBER,
            busy: Busy::never(),
            exit_rounds: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            doubtful: AtomicU32::new(0),
            tended_at: AtomicU32::new(0),
            tend_next: AtomicU32::new(0),
            thread_block: AtomicUsize::new(0),
            exit: AtomicU32::new(0),
            own_places: AtomicUsize::new(0),
            demand: Demand::new(),
            sites: 0,
            bins: BinsHead::new(),
        }
    }

    /// A new heap, at tick `now`, whose thread remembers call sites at the address `sites`, if that
    /// is not zero.
    pub(crate) fn new(hash: SiteHash, sites: usize, number: u32, now: u32) -> Heap {
        let tended_at = AtomicU32::new(now);
        Heap { hash, sites, number, busy: Busy::new(), tended_at, ..Heap::empty() }
    }

    /// What this heap's thread remembers of call sites; `None` where they are hashed. Holder only.
    #[inline(always)]
    fn cache(&self) -> Option<&'static Cache> {
        // SAFETY: (1) written at birth, by `Heaps`, which has put a cache there.
        (self.sites != 0).then(|| unsafe { Cache::at(self.sites) })
    }

    /// Whether the rows of call sites are to be asked for: then row 0 is empty.
    #[inline(always)]
    pub fn is_exact(&self) -> bool {
        self.sites != 0
    }

    /// Index of the first bin of a site's row, if that is known without the table; of the empty row
    /// 0 otherwise. Holder only.
    #[inline(always)]
    pub fn known_row(&self, site: usize) -> usize {
        match self.cache() {
            None => self.hash.row(site),
            Some(cache) => cache.number(site) * ROW_WORDS,
        }
    }

    /// As `known_row`, where it is known; `None` otherwise: the caller then goes another way.
    /// Holder only.
    #[inline(always)]
    pub fn remembered_row(&self, site: usize) -> Option<usize> {
        match self.cache() {
            None => Some(self.hash.row(site)),
            Some(cache) => Some(cache.remembered(site)? * ROW_WORDS),
        }
    }

    /// The number or code of a site; zero where it is not remembered. Holder only.
    #[inline(always)]
    pub fn known_code(&self, site: usize) -> usize {
        self.cache().map_or(0, |cache| cache.code(site))
    }

    /// Forgets what is remembered of a site. Holder only.
    pub(crate) fn forget(&self, site: usize) {
        if let Some(cache) = self.cache() {
            cache.forget(site);
        }
    }

    /// Remembers the partition of a site. Holder only.
    pub(crate) fn remember(&self, site: usize, number: usize) {
        if let Some(cache) = self.cache() {
            if HARDENED && !self.shares() && (number + 1) * ROW_WORDS <= self.hash.bins() {
                // malloc is about to look into a bin of this row, and to fill it.
                let row = self.address() + size_of::<Heap>() + number * ROW_BYTES;
                // SAFETY: (1) the bins of a row of this heap, which its holder alone writes to;
                // words.
                unsafe { touch(row, ROW_BYTES) };
            }
            cache.remember(site, number);
        }
    }

    /// Gets the pages that the first malloc and the first free of a thread read and then write, so
    /// that each costs one fault and not two: of what is remembered of call sites, and of the
    /// quarantine's rows. Once, at birth.
    pub(crate) fn touch_first(&self) {
        if HARDENED && self.is_exact() {
            // SAFETY: (1) after the heap's bins, not in use yet; both are of words.
            unsafe {
                touch(self.sites, Cache::BYTES);
                if !self.shares() {
                    touch(self.quarantine().address(), Quarantine::ROWS);
                }
            }
        }
    }

    /// Seeds the dice again. Holder only.
    pub(crate) fn seed(&self, random: u64) {
        self.bins.dice().seed(random);
    }

    /// Says where the call lies that the thread is in, and its frame pointer. Holder only.
    pub fn set_call(&self, stack: usize, frame: usize) {
        if !self.is_nobodys() {
            self.bins
                .call()
                .iter()
                .zip([stack, frame])
                .for_each(|(to, from)| to.store(from, Relaxed));
        }
    }

    /// Where the call lies, and its frame pointer: once, for who comes next may be in another.
    /// Holder only.
    pub fn take_call(&self) -> [usize; 2] {
        let call = self.bins.call().each_ref().map(|word| word.load(Relaxed));
        self.set_call(0, 0);
        call
    }

    /// The distance to the next allocation that is reported. Holder only; not of the constant
    /// heaps, which are not written to.
    pub fn distance(&self) -> Option<&Distance> {
        (!self.is_nobodys()).then(|| self.bins.distance())
    }

    /// What this heap's thread has freed and what is not free yet. Of the hardened build.
    #[inline(always)]
    pub(crate) fn quarantine(&self) -> &'static Quarantine {
        let bins = self.address() + size_of::<Heap>();
        // SAFETY: a heap of the table is followed by its bins and its quarantine, zero at first;
        // the two constant heaps are not asked, because no thread ever has their seats.
        unsafe { Quarantine::at(bins + self.hash.bins() * size_of::<usize>()) }
    }

    /// Lets something stand in the quarantine's line; no, where something has to leave for it.
    /// Holder only, of a heap that owns something. The fast path of the hardened build's free.
    #[inline(always)]
    pub(crate) fn line_up(&self, class: usize, entry: usize) -> bool {
        self.quarantine().line_up(class, entry)
    }

    /// Puts something into the quarantine, and says what leaves it for that, but for what `leaves`
    /// is done with; no, where the heap cannot be used now. Holder only.
    #[inline(always)]
    pub(crate) fn exchange(
        &self,
        (class, entry): (usize, usize),
        share: usize,
        leaving: &mut Leaving,
        leaves: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(seat) = self.sit() else { return false };
        let drawn = (share, self.bins.dice());
        self.quarantine().exchange(&seat, class, entry, drawn, leaving, leaves)
    }

    /// The heap's address, as slabs keep it in `owner`.
    #[inline(always)]
    pub fn address(&self) -> usize {
        (&raw const *self).expose_provenance()
    }

    /// Remembers the thread, to ask the kernel whether it still runs if no key tells of its exit.
    pub fn set_thread(&self, number: u32) {
        self.thread.store(number, Relaxed);
    }

    /// The offset of the control block of the thread that has the heap, for readers from outside.
    pub const THREAD_BLOCK: usize = core::mem::offset_of!(Heap, thread_block);

    /// Remembers whose the heap is. By its control block, which costs no system call: a filter may
    /// forbid to ask for the thread's number.
    pub fn set_thread_block(&self, address: usize) {
        self.thread_block.store(address, Relaxed);
    }

    /// The thread's number, if it is remembered.
    pub(crate) fn thread(&self) -> Option<u32> {
        Some(self.thread.load(Relaxed)).filter(|&number| number != 0)
    }

    /// Notes that the heap's thread has exited.
    pub(super) fn note_exit(&self) {
        self.exit.store(EXITED, Relaxed);
    }

    /// Whether the heap was not cleared out since its thread exited. Any thread; a hint.
    pub(crate) fn is_left(&self) -> bool {
        self.exit.load(Relaxed) != 0
    }

    /// Returns true if an earlier call has seen the exit of the heap's thread, and the heap was not
    /// used since: then it is time to clear it out. Who holds the orphan.
    pub(crate) fn is_long_left(&self) -> bool {
        let exit = self.exit.load(Relaxed);
        self.exit.store(if exit == EXITED { SEEN } else { 0 }, Relaxed);
        exit == SEEN
    }

    /// Whether the heap's thread uses shared heaps.
    #[inline]
    fn shares(&self) -> bool {
        self.number >= SHARE_FROM && !self.is_nobodys()
    }

    /// Counts a slot that bin `index` needs at tick `now`. Returns true if the slot should come
    /// from a shared heap. Holder only.
    pub(crate) fn should_draw(&self, index: usize, now: impl FnOnce() -> u32) -> bool {
        self.shares() && self.demand.is_low(index, now())
    }

    /// Whether a freed block of a class may wait elsewhere, because this heap's quarantine has no
    /// places for the class and its thread uses shared heaps. Holder only.
    pub(crate) fn may_wait_elsewhere(&self, class: usize) -> bool {
        self.shares() && !self.has_line(class)
    }

    /// Whether this heap's quarantine has places for a class. Holder only.
    pub(crate) fn has_line(&self, class: usize) -> bool {
        self.quarantine().has_line(class)
    }

    /// Counts places of the heap's quarantine for `bytes` bytes of blocks. Holder only.
    pub(crate) fn count_places(&self, bytes: usize) {
        self.own_places.store(self.own_places.load(Relaxed) + bytes, Relaxed);
    }

    /// What is counted. Any thread; a hint.
    pub(crate) fn counted_places(&self) -> usize {
        self.own_places.load(Relaxed)
    }

    /// Returns what was counted, and counts nothing any more. Holder only.
    pub(crate) fn uncount_places(&self) -> usize {
        self.own_places.swap(0, Relaxed)
    }

    /// Counts a block of a class that is freed at tick `now`. Returns true if the thread rarely
    /// frees such blocks. Holder only.
    pub(crate) fn rarely_frees(&self, class: usize, now: u32) -> bool {
        self.demand.is_low(Demand::of_frees(class), now)
    }

    /// Whether this is one of the two constant heaps, which own nothing.
    #[inline]
    pub fn is_nobodys(&self) -> bool {
        self.number == NO_NUMBER
    }

    /// The bins. Holder only.
    #[inline(always)]
    pub fn bins(&self) -> Bins {
        // SAFETY: (1) a heap is followed by its bins, zero at first; (2) the caller holds the heap;
        // (3) only `Bins` writes there.
        unsafe { Bins::behind(&self.bins) }
    }

    /// Takes the seat; `None` when this very thread already has it, in a call that a signal handler
    /// has interrupted.
    #[inline]
    pub fn sit(&self) -> Option<Seat<'_>> {
        self.busy.sit()
    }

    /// The seat that its thread, which has ended, has not left. For who holds the heap.
    pub(super) fn inherit_seat(&self) -> Seat<'_> {
        self.busy.inherit()
    }

    /// Index of the bin of a small request. Holder only.
    #[inline(always)]
    pub fn small_bin(&self, size: usize, site: usize) -> usize {
        self.hash.row(site) + self.bins.class_words(size)
    }

    /// As `small_bin`, but in exact mode of the row that the site is known to draw from. Holder
    /// only.
    #[inline(always)]
    pub fn known_small_bin(&self, size: usize, site: usize) -> usize {
        self.known_row(site) + self.bins.class_words(size)
    }

    /// As `known_small_bin`, where it is known. Holder only. The fast path of the hardened build's
    /// malloc.
    #[inline(always)]
    pub fn remembered_small_bin(&self, size: usize, site: usize) -> Option<usize> {
        Some(self.remembered_row(site)? + self.bins.class_words(size))
    }

    /// Index of the bin of a class; in exact mode, of an empty one. Holder only.
    #[inline(always)]
    pub fn bin(&self, class: usize, site: usize) -> usize {
        self.hash.row(site) + class * BIN_WORDS
    }

    /// As `bin`, but in exact mode of the row that the site is known to draw from. Holder only.
    #[inline(always)]
    pub fn known_bin(&self, class: usize, site: usize) -> usize {
        self.known_row(site) + class * BIN_WORDS
    }

    /// Hands out a slot of a bin, if one is claimed. Holder only. The fast path of malloc.
    #[inline(always)]
    pub fn pop(&self, index: usize) -> Option<usize> {
        self.bins().pop(index)
    }

    /// Claims more slots from a bin's current slab and hands one out. Holder only.
    #[inline(always)]
    pub fn pop_after_refill(&self, index: usize) -> Option<usize> {
        let _seat = self.sit()?;
        if self.bins().refill(index) { self.bins().pop(index) } else { None }
    }

    /// Takes any slot that a bin has claimed, if there is one. Holder only. The fast path of the
    /// hardened build's malloc.
    #[inline(always)]
    pub fn take(&self, index: usize) -> Option<Taken<'static>> {
        self.bins().take(index)
    }

    /// Claims more slots from the bin's current slab and takes any one. Holder only.
    #[inline]
    pub fn take_after_refill(&self, index: usize) -> Option<Taken<'static>> {
        let _seat = self.sit()?;
        if self.bins().refill(index) { self.bins().take(index) } else { None }
    }

    /// Lets malloc hand out next what was just freed, if that keeps its slab packed. Holder only.
    #[inline(always)]
    pub fn push(&self, slab: &Slab, slot: usize, address: usize) {
        if let Some(_seat) = self.sit() {
            self.bins().push(Heap::bin_of(slab), slab, slot, address);
        }
    }

    /// Whether its bin draws from a slab just now. Any thread; to others than the holder, a hint.
    pub fn draws_from(&self, slab: &Slab) -> bool {
        // SAFETY: (1) and (3) as in `bins`; (2) nothing else is asked.
        let bins = unsafe { Bins::behind(&self.bins) };
        bins.draws_from(Heap::bin_of(slab), slab)
    }

    /// Its thread does not exist in this child of a fork, and may have been stopped between two
    /// steps of malloc or free that take no seat.
    pub(crate) fn cut_off(&self) {
        self.doubtful.store(CUT_OFF, Relaxed);
    }

    /// Whether that was so, and the heap was not adopted since.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.doubtful.load(Relaxed) == CUT_OFF
    }

    /// Whether that was so: then a slot may be both claimed and live until the heap is adopted, and
    /// a free not counted for ever.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.doubtful.load(Relaxed) != 0
    }

    /// Puts right what malloc may have left half done then. Who has just adopted it.
    pub(crate) fn look_again(&self, partitions: usize) {
        if self.doubtful.load(Relaxed) == CUT_OFF {
            self.bins().repair_cut_off(partitions);
            self.doubtful.store(LOOKED_AT, Relaxed);
        }
    }

    /// Whether a change is under way: for the reclaimer, behind a barrier, and for the child of a
    /// fork.
    pub(crate) fn is_torn(&self) -> bool {
        self.busy.is_taken()
    }

    pub(crate) fn clear_torn(&self) {
        self.busy.clear();
    }
}
