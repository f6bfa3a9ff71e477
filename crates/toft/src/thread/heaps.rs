//! All heaps: birth, adoption, and the orphans between.
//!
//! ```text
//!            birth                      exit
//!   (none) --------> LIVE(a thread's) -------> ORPHAN <--- release --- HELD
//!                      ^------- adoption ---------|  '--- hold --------^
//! ```
//!
//! Each heap's state is one byte of a separate table. The change from ORPHAN is a compare and
//! exchange,
//! so exactly one thread becomes the holder.
//!
//! Shared heaps are in state SHARED for ever (`shared.rs`).
//!
//! A thread takes a number before it maps that heap's pages, which no other heap shares. So a
//! mapping that it finds there is foreign, and no thread waits for another one's. A number whose
//! heap could not be mapped is VACANT, and is tried again first.

use super::shared::Places;
use super::{Heap, Quarantine};
use crate::bin::{BIN_WORDS, ROW_WORDS};
use crate::harden::PAGE_LEAST;
use crate::keyed::Secret;
use crate::os::{Error, Os};
use crate::policy::HARDENED;
use crate::region::{Carve, STEP};
use crate::site::{Cache, SiteHash, Sites};
use crate::sync::{AtomicU8, AtomicU32, AtomicUsize, Ordering, StoreChanged};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Who has a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HeapState {
    /// Not born yet.
    None = 0,
    /// A running thread's.
    Live = 1,
    /// Unowned: its thread has exited.
    Orphan = 2,
    /// Held by a thread that takes something out of an orphan, or checks in `orphan_the_dead`
    /// whether the owner runs.
    Held = 3,
    /// A number without a heap.
    Vacant = 4,
    /// No thread's, and for all of them to draw from (`shared.rs`).
    Shared = 5,
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// Numbers given out; a heap is there when its state says so.
    count: AtomicU32,
    /// Heaps that are orphans; a hint.
    orphans: AtomicU32,
    /// Where the next search for an orphan begins.
    cursor: AtomicU32,
    /// Numbers that are vacant; a hint.
    vacant: AtomicU32,
    /// Bytes mapped for heaps. Any thread adds.
    mapped: AtomicUsize,
    states: Carve,
    /// Not zero once the program has the thread key that told of exits. Set by any thread, and
    /// never cleared. SeqCst: a birth arms the key and then reads this; the thread that sets it
    /// then deletes the key. So either the birth sees it, or what it armed is deleted.
    keyless: AtomicU32,
    shared: Places,
}

/// Where heaps are found from outside the process, next to where the first one lies.
#[derive(Clone, Copy, Debug)]
pub struct HeapPlaces {
    /// Bytes from one heap to the next.
    pub stride: usize,
    /// Address of the first heap's state, a byte as [`HeapState`] says.
    pub states: usize,
    /// Address of the 32-bit number of heaps.
    pub count: usize,
}

/// The offset in a heap of `partitions` where its thread remembers call sites: after the bins, and
/// after the quarantine of the hardened build; from the start of a page on, because every thread
/// needs all of it soon.
fn cache_offset(partitions: usize) -> usize {
    let bins = partitions * ROW_WORDS * size_of::<usize>();
    (size_of::<Heap>() + bins + Quarantine::BYTES).next_multiple_of(PAGE_LEAST)
}

/// How many orphans one search looks into.
const SEARCH: u32 = 4;

/// All heaps.
#[derive(Debug)]
pub struct Heaps {
    base: usize,
    stride: usize,
    limit: u32,
    states: usize,
    partitions: usize,
    hash: SiteHash,
    sites: Sites,
    secret: Secret,
    state: *const State,
}

impl Heaps {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Before anything is known.
    pub const fn none() -> Heaps {
        Heaps {
            base: 0,
            stride: 0,
            limit: 0,
            states: 0,
            partitions: 1,
            hash: SiteHash::single(),
            sites: Sites::none(),
            secret: Secret::none(),
            state: core::ptr::null(),
        }
    }

    /// Heaps from `base` to `end`, with one byte of state each from `states` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. `base..end`, and a byte from `states` on for each heap, are address space for this object
    ///    alone.
    pub unsafe fn new(
        os: &impl Os,
        (base, end): (usize, usize),
        states: usize,
        partitions: usize,
        (hash, sites, secret): (SiteHash, Sites, Secret),
        tables: usize,
    ) -> Result<Heaps, Error> {
        let page_size = os.page_size();
        let bytes = cache_offset(partitions) + if sites.is_exact() { Cache::BYTES } else { 0 };
        // A page is a power of two: there is no division here that could be by zero.
        let stride = (bytes + page_size - 1) & !(page_size - 1);
        let heaps = Heaps {
            base,
            stride,
            limit: ((end - base) / stride.max(1)).min(1 << 24) as u32,
            states,
            partitions,
            // The hardened build asks the cache first, and finds the quarantine by the hash.
            hash: if sites.is_exact() && !HARDENED { SiteHash::single() } else { hash },
            sites,
            secret,
            state: core::ptr::with_exposed_provenance(tables),
        };
        // As many as most processes ever need, before there is a second thread.
        heaps.state().states.reach(os, states, states + 1, STEP)?;
        Ok(heaps)
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    pub(super) fn shared(&self) -> &Places {
        &self.state().shared
    }

    fn state_of(&self, number: u32) -> &AtomicU8 {
        // SAFETY: `new` duty 2, and `birth` maps the byte before it counts the heap.
        unsafe { &*core::ptr::with_exposed_provenance(self.states + number as usize) }
    }

    /// The heap of a number below `count`.
    pub fn heap(&self, number: u32) -> &'static Heap {
        let address = self.base + number as usize * self.stride;
        // SAFETY: `new` duty 2, and `birth` writes the heap before it counts it.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Numbers given to heaps so far.
    pub fn count(&self) -> u32 {
        self.state().count.load(Acquire)
    }

    /// All heaps that are there.
    pub fn all(&self) -> impl Iterator<Item = &'static Heap> {
        (0..self.count()).filter(|&number| self.is_there(number)).map(|number| self.heap(number))
    }

    /// The heap at an address that a slab names as its owner.
    pub(crate) fn heap_at(&self, address: usize) -> Option<&'static Heap> {
        let number = address.checked_sub(self.base)? / self.stride.max(1);
        let number = u32::try_from(number).ok().filter(|&number| number < self.count())?;
        self.is_there(number).then(|| self.heap(number))
    }

    /// Number of partitions that anything may be in: rows of bins in each heap that need to be
    /// looked at.
    pub fn partitions(&self) -> usize {
        self.sites.rows(self.partitions)
    }

    /// Where a heap's thread remembers call sites; zero where they are hashed.
    fn cache_of(&self, heap: usize) -> usize {
        if self.sites.is_exact() { heap + cache_offset(self.partitions) } else { 0 }
    }

    /// Who has a heap.
    pub fn who(&self, number: u32) -> HeapState {
        match self.state_of(number).load(Acquire) {
            0 => HeapState::None,
            1 => HeapState::Live,
            2 => HeapState::Orphan,
            3 => HeapState::Held,
            4 => HeapState::Vacant,
            _ => HeapState::Shared,
        }
    }

    fn is_there(&self, number: u32) -> bool {
        !matches!(self.who(number), HeapState::None | HeapState::Vacant)
    }

    /// Heaps that running threads have.
    pub fn live(&self) -> usize {
        (0..self.count()).filter(|&number| self.who(number) == HeapState::Live).count()
    }

    /// A heap for a new thread: an orphan if there is one, else a new one. Who gets it mends it, if
    /// it is torn.
    pub(crate) fn acquire(&self, os: &impl Os) -> Result<&'static Heap, Error> {
        if self.state().orphans.load(Relaxed) != 0 {
            for number in 0..self.count() {
                if self.change(number, HeapState::Orphan, HeapState::Live) {
                    self.state().orphans.fetch_sub(1, Relaxed);
                    let heap = self.heap(number);
                    heap.exit_rounds.store(0, Relaxed);
                    if heap.is_torn() {
                        self.leave_shared_of_the_dead(number);
                    }
                    heap.look_again(self.partitions());
                    return Ok(heap);
                }
            }
        }
        self.birth(os)
    }

    fn change(&self, number: u32, from: HeapState, to: HeapState) -> bool {
        // hold heap: Acquire pairs with the Release by which the last holder let go.
        self.state_of(number).compare_exchange(from as u8, to as u8, AcqRel, Relaxed).is_ok()
    }

    /// A new heap.
    pub(crate) fn birth(&self, os: &impl Os) -> Result<&'static Heap, Error> {
        let number = self.take_number(os)?;
        let address = self.base + number as usize * self.stride;
        if let Err(error) = os.map(address, self.stride) {
            self.give_number(number);
            return Err(error);
        }
        self.state().mapped.fetch_add(self.stride, Relaxed);
        let heap: *mut Heap = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the memory is mapped, aligned to a page, and this number is ours alone. Until the
        // state says otherwise no other thread reads it, not even the child of a fork.
        unsafe {
            let cache = self.cache_of(address);
            heap.write(Heap::new(self.hash, cache, number, os.ticks()))
        };
        self.seed(self.heap(number), 0);
        self.heap(number).touch_first();
        self.state_of(number).store(HeapState::Live as u8, Release);
        Ok(self.heap(number))
    }

    /// A number without a heap, which is the caller's.
    fn take_number(&self, os: &impl Os) -> Result<u32, Error> {
        let state = self.state();
        if state.vacant.load(Relaxed) != 0 {
            let take = |&number: &u32| self.change(number, HeapState::Vacant, HeapState::None);
            if let Some(number) = (0..self.count()).find(take) {
                state.vacant.fetch_sub(1, Relaxed);
                return Ok(number);
            }
        }
        loop {
            let number = state.count.load(Acquire);
            if number >= self.limit {
                return Err(Error::NoMemory);
            }
            state.states.reach(os, self.states, self.states + number as usize + 1, STEP)?;
            if state.count.compare_exchange(number, number + 1, AcqRel, Relaxed).is_ok() {
                return Ok(number);
            }
        }
    }

    /// The caller's number has got no heap.
    fn give_number(&self, number: u32) {
        let state = self.state();
        if state.count.compare_exchange(number + 1, number, AcqRel, Relaxed).is_err() {
            self.state_of(number).store(HeapState::Vacant as u8, Release);
            state.vacant.fetch_add(1, Relaxed);
        }
    }

    /// Whether all threads draw from a heap.
    pub(crate) fn is_shared(&self, heap: &Heap) -> bool {
        !heap.is_nobodys() && self.who(heap.number) == HeapState::Shared
    }

    /// Makes a new heap a shared one.
    pub(super) fn set_shared(&self, heap: &Heap) {
        self.state_of(heap.number).store(HeapState::Shared as u8, Release);
    }

    /// Makes an orphan of a heap whose thread has exited. Clears the thread's number:
    /// `orphan_the_dead` would take the heap from its next owner by it.
    pub fn orphan(&self, heap: &Heap) {
        heap.set_thread(0);
        heap.note_exit();
        self.state_of(heap.number).store(HeapState::Orphan as u8, Release);
        self.state().orphans.fetch_add(1, Relaxed);
    }

    /// Notes that no key tells of exits any more; returns true for the first caller.
    pub fn lose_key(&self) -> bool {
        self.state().keyless.swap(1, SeqCst) == 0
    }

    /// Returns true if the key that told of exits is the program's by now.
    pub fn has_lost_key(&self) -> bool {
        self.state().keyless.load(SeqCst) != 0
    }

    /// Makes orphans of heaps whose remembered thread does not run any more.
    pub fn orphan_the_dead(&self, runs: impl Fn(u32) -> bool) {
        for number in 0..self.count() {
            if self.who(number) != HeapState::Live {
                continue;
            }
            let heap = self.heap(number);
            let is_dead = || heap.thread().is_some_and(|thread| !runs(thread));
            if !is_dead() || !self.change(number, HeapState::Live, HeapState::Held) {
                continue;
            }
            // hold heap: another thread may have taken the heap over since the first check. What it
            // wrote is visible now, either no number or its own.
            if is_dead() {
                // Nor did anybody say what it was at: this may be the child of a fork without
                // handlers.
                heap.cut_off();
                self.orphan(heap);
            } else {
                self.change(number, HeapState::Held, HeapState::Live);
            }
        }
    }

    /// Offers a few orphans to `each`, one at a time, held; stops when it says true.
    pub fn search_orphans(&self, mut each: impl FnMut(&'static Heap) -> bool) -> bool {
        let state = self.state();
        let orphans = state.orphans.load(Relaxed);
        if orphans == 0 {
            return false;
        }
        let count = self.count().max(1);
        let mut left = SEARCH.min(orphans);
        let begin = state.cursor.load(Relaxed);
        for step in 0..count {
            let number = (begin.wrapping_add(step)) % count;
            if !self.change(number, HeapState::Orphan, HeapState::Held) {
                continue;
            }
            state.cursor.store(number + 1, Relaxed);
            let done = each(self.heap(number));
            self.state_of(number).store(HeapState::Orphan as u8, Release);
            left -= 1;
            if done || left == 0 {
                return done;
            }
        }
        false
    }

    /// Runs `body` with the heap of a number held, if it is an orphan.
    pub fn with_orphan(&self, number: u32, body: impl FnOnce(&'static Heap)) {
        if self.change(number, HeapState::Orphan, HeapState::Held) {
            body(self.heap(number));
            self.state_of(number).store(HeapState::Orphan as u8, Release);
        }
    }

    /// Gives back the pages of an orphan that hold nothing: bins without a slab, a quarantine that
    /// is not in use, and what its thread remembered of call sites. They are zero afterwards, which
    /// means the same. Calls `discard` with the start and the length of each range. The caller
    /// holds the orphan.
    pub(crate) fn discard_unused(
        &self,
        heap: &Heap,
        page: usize,
        mut discard: impl FnMut(usize, usize),
    ) {
        const WORD: usize = size_of::<usize>();
        // A page is a power of two: there is no division here that could be by zero.
        let up = |address: usize| (address + page - 1) & !(page - 1);
        let bins = heap.address() + size_of::<Heap>();
        let quarantine = bins + self.partitions * ROW_WORDS * WORD;
        let used = bins + self.partitions() * ROW_WORDS * WORD;
        let mut start = up(bins);
        let mut at = start;
        while at + page <= quarantine && at < used {
            let first = (at - bins) / WORD;
            let mut indices = (first..first + page / WORD).step_by(BIN_WORDS);
            if indices.any(|index| heap.bins().has_slab(index)) {
                if at > start {
                    discard(start, at - start);
                }
                start = at + page;
            }
            at += page;
        }
        if at > start {
            discard(start, at - start);
        }
        if HARDENED && !heap.quarantine().is_used() {
            // Not the word by which another thread may have shut it.
            let start = up(quarantine + 1);
            let end = (quarantine + Quarantine::BYTES) & !(page - 1);
            discard(start, end.saturating_sub(start));
        }
        if self.sites.is_exact() {
            let end = heap.address() + self.stride;
            let start = up(self.cache_of(heap.address()));
            discard(start, end - start);
        }
    }

    /// In the child of a fork: finishes what a thread that is no more had set out to map.
    pub(crate) fn repair(&self, os: &impl Os) {
        self.state().states.repair(os, self.states);
    }

    /// In the child of a fork: every heap but `mine` and the shared ones is an orphan, whatever its
    /// thread was doing.
    pub(crate) fn orphan_all_but(&self, mine: Option<u32>) {
        let mut orphans = 0;
        for number in 0..self.count() {
            let is_shared = || self.is_shared(self.heap(number)) && self.has_place(number);
            if !self.is_there(number) || is_shared() {
                continue;
            }
            if Some(number) == mine {
                // A thread of the parent may have held it in `orphan_the_dead`.
                self.state_of(number).store(HeapState::Live as u8, Relaxed);
                continue;
            }
            self.state_of(number).store(HeapState::Orphan as u8, Relaxed);
            self.heap(number).set_thread(0);
            self.heap(number).cut_off();
            orphans += 1;
        }
        self.state().orphans.store_changed(orphans, Relaxed);
    }

    /// In the child of a fork: its dice fall otherwise than its parent's.
    pub(crate) fn seed_anew(&self, process: u32) {
        if HARDENED {
            self.all().for_each(|heap| self.seed(heap, process));
        }
    }

    /// Without a system call, which a filter might forbid: the secret is the kernel's, and no two
    /// heaps of two processes have a number and a process in common.
    fn seed(&self, heap: &Heap, process: u32) {
        if HARDENED {
            heap.seed(self.secret.word((process as usize) << 32 | heap.number as usize));
        }
    }

    /// Where heaps are found from outside the process.
    pub fn places(&self) -> HeapPlaces {
        let count = (&raw const self.state().count).addr();
        HeapPlaces { stride: self.stride, states: self.states, count }
    }

    /// Counts less for a new shared heap. It serves 8 of each 32 partitions, so most pages of its
    /// bins are never used.
    pub(super) fn count_part_of_shared(&self) {
        self.state().mapped.fetch_sub(self.stride / 8 * 5, Relaxed);
    }

    /// Bytes of metadata for heaps: mapped, but of shared heaps the part that can be in use.
    pub fn mapped_bytes(&self) -> usize {
        self.state().mapped.load(Relaxed) + self.state().states.mapped()
    }
}
