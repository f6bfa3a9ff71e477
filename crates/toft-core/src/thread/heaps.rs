//! All heaps: birth, adoption, and orphans.
//!
//! ```text
//!            birth                      exit
//!   (none) --------> LIVE(a thread's) -------> ORPHAN <--- release --- HELD
//!                      ^------- adoption ---------|  '--- hold --------^
//! ```
//!
//! Each heap's state is one byte of a separate table. The change from ORPHAN is a compare and
//! exchange, so exactly one thread becomes the holder.
//!
//! Shared heaps are in state SHARED for ever (`shared.rs`).
//!
//! A thread takes a number before it maps the pages of that heap, which no other heap shares. A
//! mapping that it finds there is therefore foreign, and no thread waits for another. A number
//! whose heap could not be mapped is VACANT, and is tried again first.

use super::partition_count::PartitionCount;
use super::shared::Places;
use super::{Heap, PARTITIONS_FIRST, Quarantine};
use crate::bin::{BIN_WORDS, BinIndex, ROW_WORDS};
use crate::harden::PAGE_LEAST;
use crate::keyed::Secret;
use crate::os::{Error, Os};
use crate::policy::SECURE;
use crate::region::{Carve, STEP, Site};
use crate::site::{Cache, SiteHash, Sites};
use crate::slab::{FLAGS, Slab};
use crate::sync::{AtomicU8, AtomicU32, AtomicUsize, Ordering, StoreChanged};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The state of a heap, which determines the thread that may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HeapState {
    /// The heap does not exist yet.
    None = 0,
    /// A running thread owns the heap.
    Live = 1,
    /// The heap is unowned: its thread has exited.
    Orphan = 2,
    /// A thread holds the heap for a short time, to take something out of an orphan, or to check in
    /// `orphan_exited` if the owner runs.
    Held = 3,
    /// The number has no heap, and may be used again.
    Vacant = 4,
    /// No thread owns the heap, and all threads draw from it (`shared.rs`).
    Shared = 5,
}

/// The shared data of all heaps. In the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// The number of heap numbers given out. A heap exists if its state says so.
    count: AtomicU32,
    /// The number of orphans. A hint.
    orphans: AtomicU32,
    /// The number at which the next search for an orphan begins.
    cursor: AtomicU32,
    /// The number of vacant numbers. A hint.
    vacant: AtomicU32,
    /// The bytes mapped for heaps. Any thread adds.
    mapped: AtomicUsize,
    states: Carve,
    /// Not zero if the system locked the pages of the last heap when it was mapped. Any thread that
    /// maps a large heap writes it.
    is_locked: AtomicU32,
    /// Not zero after the program has taken over the thread key that reported exits. Any thread
    /// sets it, and it is never cleared. SeqCst: a birth arms the key and then reads this. The
    /// thread that sets this then deletes the key. So either the birth sees it, or what the birth
    /// armed is deleted.
    keyless: AtomicU32,
    partitions: PartitionCount,
    shared: Places,
}

/// Address space for heaps.
#[derive(Clone, Copy, Debug)]
pub struct HeapSpace {
    /// The address of the first heap.
    pub first: usize,
    /// The first address of heaps by number, and the end. The place of the first is not used.
    pub others: (usize, usize),
    /// The address of the states of the first heaps, [`Heaps::STATES_FIRST`] bytes.
    pub first_states: usize,
    /// The address of the states of the others.
    pub other_states: usize,
}

/// The addresses by which readers outside the process find heaps.
#[derive(Clone, Copy, Debug)]
pub struct HeapPlaces {
    /// The address of the first heap.
    pub first: usize,
    /// The number of bytes from one heap to the next.
    pub stride: usize,
    /// The address of the first heap's state, a byte with a value of [`HeapState`]. Those of the
    /// heaps below a number follow.
    pub states: usize,
    /// That number.
    pub first_states: usize,
    /// The address at which the states of all heaps would begin if none were apart from the others.
    pub other_states: usize,
    /// The address of the 32-bit number of heaps.
    pub count: usize,
}

/// Returns the offset of the cache of call sites in a heap of `partitions`. It is after the bins,
/// and after the quarantine of the secure build. It begins on a page, because every thread soon
/// needs all of it.
fn cache_offset(partitions: usize) -> usize {
    let bins = partitions * ROW_WORDS * size_of::<usize>();
    (size_of::<Heap>() + bins + Quarantine::BYTES).next_multiple_of(PAGE_LEAST)
}

/// The number of heaps whose states are mapped before they are needed: half a step.
const STATES_AHEAD: usize = STEP / 2;

/// A heap of this number of bytes or more is tested for pages that the system has locked. It has
/// many more pages than a thread uses.
const TEST_LEAST: usize = 1 << 20;

/// The most orphans that one search visits.
const SEARCH: u32 = 4;

/// All heaps.
#[derive(Debug)]
pub struct Heaps {
    first: usize,
    base: usize,
    stride: usize,
    limit: u32,
    /// The states of the first heaps, and the address at which those of all heaps would begin if
    /// the others were not apart from them.
    first_states: usize,
    states: usize,
    /// The number of partitions that there can be.
    partitions: usize,
    /// True if the number of partitions in use depends on the size of the heap.
    by_demand: bool,
    /// A hash into all partitions.
    hash: SiteHash,
    sites: Sites,
    secret: Secret,
    state: *const State,
}

impl Heaps {
    /// The number of bytes of zeroed tables that `new` needs.
    pub const TABLE_BYTES: usize = size_of::<State>();
    /// The number of bytes of states that the caller of `new` maps, which is whole pages. Most
    /// processes never need more.
    pub const STATES_FIRST: usize = STEP;

    /// Returns the number of bytes of each heap, which is whole pages.
    pub fn bytes_of_heap(partitions: usize, exact: bool, page: usize) -> usize {
        let bytes = cache_offset(partitions) + if exact { Cache::BYTES } else { 0 };
        // A page is a power of two, so this needs no division, which could be by zero.
        (bytes + page - 1) & !(page - 1)
    }

    /// Returns a value without heaps, for the time before the start.
    pub const fn none() -> Heaps {
        Heaps {
            first: 0,
            base: 0,
            stride: 0,
            limit: 0,
            first_states: 0,
            states: 0,
            partitions: 1,
            by_demand: false,
            hash: SiteHash::single(),
            sites: Sites::none(),
            secret: Secret::none(),
            state: core::ptr::null(),
        }
    }

    /// Returns the heaps of this address space. Each has a state of one byte. With `by_demand`, few
    /// of the partitions are in use at first.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. The space is for this object alone, with a byte of states for each heap. The first heap,
    ///    which has `bytes_of_heap`, and the first states are mapped, and zero.
    pub unsafe fn new(
        os: &impl Os,
        space: HeapSpace,
        (partitions, by_demand): (usize, bool),
        (hash, sites, secret): (SiteHash, Sites, Secret),
        tables: usize,
    ) -> Heaps {
        let stride = Self::bytes_of_heap(partitions, sites.is_exact(), os.page_size());
        let (base, end) = space.others;
        let heaps = Heaps {
            first: space.first,
            base,
            stride,
            limit: ((end - base) / stride.max(1)).min(1 << 24) as u32,
            first_states: space.first_states,
            states: space.other_states - Self::STATES_FIRST,
            partitions,
            by_demand: by_demand && partitions > PARTITIONS_FIRST && !sites.is_exact(),
            // The secure build uses the cache first, and finds the quarantine by the hash's
            // number of bins.
            hash: if sites.is_exact() && !SECURE { SiteHash::single() } else { hash },
            sites,
            secret,
            state: core::ptr::with_exposed_provenance(tables),
        };
        heaps.state().states.begin_with(Heaps::STATES_FIRST);
        heaps
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    pub(super) fn shared(&self) -> &Places {
        &self.state().shared
    }

    fn state_of(&self, number: u32) -> &AtomicU8 {
        let is_first = (number as usize) < Self::STATES_FIRST;
        let states = if is_first { self.first_states } else { self.states };
        // SAFETY: `new` duty 2, and `birth` maps the byte before it counts the heap.
        unsafe { &*core::ptr::with_exposed_provenance(states + number as usize) }
    }

    /// Returns the address of the heap of a number.
    fn place(&self, number: u32) -> usize {
        match number {
            0 => self.first,
            _ => self.base + number as usize * self.stride,
        }
    }

    /// Returns the heap of a number below `count`.
    pub fn heap(&self, number: u32) -> &'static Heap {
        // SAFETY: `new` duty 2, and `birth` writes the heap before it counts it.
        unsafe { &*core::ptr::with_exposed_provenance(self.place(number)) }
    }

    /// Returns the number of heap numbers given out so far.
    pub fn count(&self) -> u32 {
        self.state().count.load(Acquire)
    }

    /// Returns all heaps that exist.
    pub fn all(&self) -> impl Iterator<Item = &'static Heap> {
        (0..self.count()).filter(|&number| self.is_there(number)).map(|number| self.heap(number))
    }

    /// Returns true if the slab's owner is not in the middle of a change.
    pub(crate) fn is_quiet(&self, slab: &Slab) -> bool {
        self.owner_of(slab).is_some_and(|heap| !heap.is_torn())
    }

    /// Returns the heap that owns a slab. Another thread may take the slab at any moment.
    pub(crate) fn owner_of(&self, slab: &Slab) -> Option<&'static Heap> {
        self.heap_at(slab.owner.load(Relaxed) & !FLAGS)
    }

    /// Returns the heap at an address from a slab's owner word.
    pub(crate) fn heap_at(&self, address: usize) -> Option<&'static Heap> {
        let number = match address {
            first if first == self.first => 0,
            other => {
                let number = other.checked_sub(self.base)? / self.stride.max(1);
                u32::try_from(number).ok().filter(|&number| 0 < number && number < self.count())?
            }
        };
        self.is_there(number).then(|| self.heap(number))
    }

    /// Returns the number of partitions in use. Only the bins of these rows need a scan in each
    /// heap.
    pub fn partitions(&self) -> usize {
        match self.by_demand {
            true => self.state().partitions.now(self.partitions),
            false => self.sites.rows(self.partitions),
        }
    }

    /// Returns the number of partitions that were in use in any thread of the parent, in the child
    /// of a fork.
    pub(crate) fn partitions_after_fork(&self) -> usize {
        match self.by_demand {
            true => self.state().partitions.after_fork(self.partitions),
            false => self.partitions(),
        }
    }

    /// Returns the index of the first bin of a site's row, where sites are hashed. The holder of
    /// `heap` calls this when a bin is empty, so that the heap learns of more partitions.
    pub(crate) fn row(&self, heap: &Heap, site: Site) -> BinIndex {
        let hash = self.hash_now();
        if self.by_demand && !heap.is_sentinel() {
            heap.hash.set(hash);
        }
        hash.row(site)
    }

    /// Returns the first bins of the rows that a site had when fewer partitions were in use. Blocks
    /// that it has freed since may be there.
    pub(crate) fn earlier_rows(&self, site: Site) -> impl Iterator<Item = BinIndex> {
        let now = if self.by_demand { self.partitions() } else { 0 };
        let numbers = core::iter::successors(Some(PARTITIONS_FIRST), |number| Some(2 * number));
        numbers
            .take_while(move |&number| number < now)
            .map(move |number| self.hash.of_first(number).row(site))
    }

    fn hash_now(&self) -> SiteHash {
        if self.by_demand { self.hash.of_first(self.partitions()) } else { self.hash }
    }

    /// Notes that a bin has filled a slab of this number of bytes and gets a new one.
    pub(crate) fn note_filled(&self, bytes: usize) {
        if self.by_demand {
            self.state().partitions.note_filled(bytes, self.partitions);
        }
    }

    /// Returns the address of a heap's cache of call sites, or zero if sites are hashed.
    fn cache_of(&self, heap: usize) -> usize {
        if self.sites.is_exact() { heap + cache_offset(self.partitions) } else { 0 }
    }

    /// Returns the state of a heap.
    pub fn heap_state(&self, number: u32) -> HeapState {
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
        !matches!(self.heap_state(number), HeapState::None | HeapState::Vacant)
    }

    /// Returns the number of heaps that running threads own.
    pub fn live(&self) -> usize {
        (0..self.count()).filter(|&number| self.heap_state(number) == HeapState::Live).count()
    }

    /// Returns a heap for a new thread: an orphan if there is one, else a new heap. The caller
    /// repairs the heap if it is torn.
    ///
    /// If the system locks pages when they are mapped, `release` gets the address and length of
    /// the new heap's, which are not in use yet.
    pub(crate) fn acquire(
        &self,
        os: &impl Os,
        release: impl FnOnce(usize, usize),
    ) -> Result<&'static Heap, Error> {
        if self.state().orphans.load(Relaxed) != 0 {
            for number in 0..self.count() {
                if self.change(number, HeapState::Orphan, HeapState::Live) {
                    self.state().orphans.fetch_sub(1, Relaxed);
                    let heap = self.heap(number);
                    heap.exit_rounds.store(0, Relaxed);
                    if heap.is_torn() {
                        self.leave_shared_of_exited(number);
                    }
                    heap.repair_cut_off(self.partitions_after_fork());
                    return Ok(heap);
                }
            }
        }
        self.birth(os, release)
    }

    fn change(&self, number: u32, from: HeapState, to: HeapState) -> bool {
        // hold heap: Acquire pairs with the Release by which the last holder let go.
        self.state_of(number).compare_exchange(from as u8, to as u8, AcqRel, Relaxed).is_ok()
    }

    /// Creates a heap. Its pages go to `release` as in [`Heaps::acquire`].
    pub(crate) fn birth(
        &self,
        os: &impl Os,
        release: impl FnOnce(usize, usize),
    ) -> Result<&'static Heap, Error> {
        let number = self.take_number(os)?;
        let address = self.place(number);
        // The first is mapped, and no number is taken twice before its heap exists.
        if number != 0
            && let Err(error) = os.map(address, self.stride)
        {
            self.give_number(number);
            return Err(error);
        }
        self.state().mapped.fetch_add(self.stride, Relaxed);
        if self.stride >= TEST_LEAST && number != 0 {
            let last = address + self.stride - os.page_size();
            // SAFETY: (1) mapped above, and not in use yet.
            let is_locked = unsafe { os.discard(last, os.page_size()) }.is_err();
            self.state().is_locked.store_changed(u32::from(is_locked), Relaxed);
            if is_locked {
                release(address, self.stride);
            }
        }
        let heap: *mut Heap = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the memory is mapped, aligned to a page, and this number belongs to this thread
        // alone. No other thread reads the heap before its state changes, not even the child of a
        // fork.
        unsafe {
            let cache = self.cache_of(address);
            heap.write(Heap::new(self.hash_now(), cache, number, os.ticks()))
        };
        self.seed(self.heap(number), 0);
        self.heap(number).touch_first();
        self.state_of(number).store(HeapState::Live as u8, Release);
        Ok(self.heap(number))
    }

    /// Returns true if the system locks pages when they are mapped, as after
    /// `mlockall(MCL_FUTURE)`. All pages of a new heap are then present. Always false if heaps are
    /// small.
    pub(super) fn is_locked(&self) -> bool {
        self.state().is_locked.load(Relaxed) != 0
    }

    /// Takes a number without a heap for the caller.
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
            // States are mapped before they are needed, so that a thread that is stopped while it
            // maps them keeps no other thread from its heap.
            let end = self.states + number as usize + 1;
            let ahead = end.saturating_add(STATES_AHEAD).min(self.states + self.limit as usize);
            let _ = state.states.reach(os, self.states, ahead, STEP);
            state.states.reach(os, self.states, end, STEP)?;
            if state.count.compare_exchange(number, number + 1, AcqRel, Relaxed).is_ok() {
                return Ok(number);
            }
        }
    }

    /// Gives back the caller's number, which has got no heap.
    fn give_number(&self, number: u32) {
        let state = self.state();
        if state.count.compare_exchange(number + 1, number, AcqRel, Relaxed).is_err() {
            self.state_of(number).store(HeapState::Vacant as u8, Release);
            state.vacant.fetch_add(1, Relaxed);
        }
    }

    /// Returns true if all threads draw from a heap.
    pub(crate) fn is_shared(&self, heap: &Heap) -> bool {
        !heap.is_sentinel() && self.heap_state(heap.number) == HeapState::Shared
    }

    /// Turns a new heap into a shared heap.
    pub(super) fn set_shared(&self, heap: &Heap) {
        self.state_of(heap.number).store(HeapState::Shared as u8, Release);
    }

    /// Turns a heap whose thread has exited into an orphan. Clears the thread's number, by which
    /// `orphan_exited` would take the heap from its next owner.
    pub fn orphan(&self, heap: &Heap) {
        heap.set_thread(0);
        heap.note_exit();
        self.state_of(heap.number).store(HeapState::Orphan as u8, Release);
        self.state().orphans.fetch_add(1, Relaxed);
    }

    /// Notes that no key reports exits any more. Returns true for the first caller.
    pub fn lose_key(&self) -> bool {
        self.state().keyless.swap(1, SeqCst) == 0
    }

    /// Returns true if the program has taken over the key that reported exits.
    pub fn has_lost_key(&self) -> bool {
        self.state().keyless.load(SeqCst) != 0
    }

    /// Turns each heap whose stored thread does not run any more into an orphan.
    pub fn orphan_exited(&self, runs: impl Fn(u32) -> bool) {
        for number in 0..self.count() {
            if self.heap_state(number) != HeapState::Live {
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
                // The thread may have been stopped in the middle of a call: this may be the child
                // of a fork without handlers.
                heap.cut_off();
                self.orphan(heap);
            } else {
                self.change(number, HeapState::Held, HeapState::Live);
            }
        }
    }

    /// Passes a few orphans to `each`, one at a time. Each orphan is held meanwhile. Ends when
    /// `each` returns true, and returns the last result.
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

    /// Holds heap `number` while it runs `body` with the heap, if the heap is an orphan.
    pub fn with_orphan(&self, number: u32, body: impl FnOnce(&'static Heap)) {
        if self.change(number, HeapState::Orphan, HeapState::Held) {
            body(self.heap(number));
            self.state_of(number).store(HeapState::Orphan as u8, Release);
        }
    }

    /// Gives back the unused pages of an orphan that the caller holds. These are bins without a
    /// slab, a quarantine that is not in use, and the cache of call sites. The pages are zero
    /// afterwards, which means the same. Calls `discard` with the start and the length of each
    /// range.
    pub(crate) fn discard_unused(
        &self,
        heap: &Heap,
        page: usize,
        mut discard: impl FnMut(usize, usize),
    ) {
        const WORD: usize = size_of::<usize>();
        // A page is a power of two, so this needs no division, which could be by zero.
        let up = |address: usize| (address + page - 1) & !(page - 1);
        let bins = heap.address() + size_of::<Heap>();
        let quarantine = bins + self.partitions * ROW_WORDS * WORD;
        let used = bins + self.partitions() * ROW_WORDS * WORD;
        let mut start = up(bins);
        let mut at = start;
        while at + page <= quarantine && at < used {
            let first = (at - bins) / WORD;
            let mut indices = (first..first + page / WORD).step_by(BIN_WORDS);
            if indices.any(|index| heap.bins().has_slab(BinIndex::at_word(index))) {
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
        if SECURE && !heap.quarantine().is_used() {
            // The first word stays: another thread may have shut the quarantine by it. So does
            // what the next checks of free slots need.
            let start = up(quarantine + Quarantine::KEPT);
            let end = (quarantine + Quarantine::BYTES) & !(page - 1);
            discard(start, end.saturating_sub(start));
        }
        if self.sites.is_exact() {
            let end = heap.address() + self.stride;
            let start = up(self.cache_of(heap.address()));
            discard(start, end - start);
        }
    }

    /// In the child of a fork: finishes a mapping that a thread of the parent had begun.
    pub(crate) fn repair(&self, os: &impl Os) {
        self.state().states.repair(os, self.states);
    }

    /// In the child of a fork: turns every heap into an orphan, whatever its thread was doing,
    /// except for `mine` and the shared heaps.
    pub(crate) fn orphan_all_but(&self, mine: Option<u32>) {
        let mut orphans = 0;
        for number in 0..self.count() {
            let is_shared = || self.is_shared(self.heap(number)) && self.has_place(number);
            if !self.is_there(number) || is_shared() {
                continue;
            }
            if Some(number) == mine {
                // A thread of the parent may have held it in `orphan_exited`.
                self.state_of(number).store_changed(HeapState::Live as u8, Relaxed);
                continue;
            }
            self.state_of(number).store(HeapState::Orphan as u8, Relaxed);
            self.heap(number).set_thread(0);
            self.heap(number).cut_off();
            orphans += 1;
        }
        self.state().orphans.store_changed(orphans, Relaxed);
    }

    /// In the child of a fork: gives the dice other seeds than the parent's.
    pub(crate) fn seed_anew(&self, process: u32) {
        if SECURE {
            self.all().for_each(|heap| self.seed(heap, process));
        }
    }

    /// Seeds a heap's dice. Needs no system call, which a filter might forbid. The secret is from
    /// the kernel, and the pair of process and heap number is unique.
    fn seed(&self, heap: &Heap, process: u32) {
        if SECURE {
            heap.seed(self.secret.word((process as usize) << 32 | heap.number as usize));
        }
    }

    /// Acts as if `count` numbers were given out, whose heaps do not exist.
    #[cfg(test)]
    pub(super) fn skip(&self, count: u32) {
        self.state().count.store(count, Release);
    }

    /// Returns the addresses by which readers outside the process find heaps.
    pub fn places(&self) -> HeapPlaces {
        let count = (&raw const self.state().count).addr();
        HeapPlaces {
            first: self.first,
            stride: self.stride,
            states: self.first_states,
            first_states: Self::STATES_FIRST,
            other_states: self.states,
            count,
        }
    }

    /// Counts only a part of the bytes of a new shared heap. It serves 8 of each 32 partitions, so
    /// most pages of its bins are never used.
    pub(super) fn count_part_of_shared(&self) {
        self.state().mapped.fetch_sub(self.stride / 8 * 5, Relaxed);
    }

    /// Returns the bytes of metadata for heaps: all mapped bytes, but for shared heaps only the
    /// part that can be in use.
    pub fn mapped_bytes(&self) -> usize {
        self.state().mapped.load(Relaxed) + self.state().states.mapped()
    }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use super::*;
    use crate::allocator::Allocator;
    use crate::options::Options;
    use crate::os::fake::{Fake, Machine};
    use std::collections::BTreeSet;
    extern crate std;

    /// The first heap, and the states of the first ones, are apart from the others.
    #[test]
    fn each_heap_has_its_place_and_its_state() {
        let fake = Fake::new(Machine::LARGE);
        let allocator = Allocator::new(fake.clone(), Options::DEFAULT, false).unwrap();
        let heaps = &allocator.heaps;
        let mut addresses = BTreeSet::new();
        let mut births = |number: u32| {
            let heap = heaps.birth(&fake, |_, _| ()).unwrap();
            assert_eq!((heap.number, heaps.heap_state(number)), (number, HeapState::Live));
            assert!(addresses.insert(heap.address()));
            assert!(core::ptr::eq(heaps.heap_at(heap.address()).unwrap(), heap));
            // No other heap has this state.
            heaps.orphan(heap);
            assert_eq!(heaps.heap_state(number), HeapState::Orphan);
        };
        (0..3).for_each(&mut births);
        let first = Heaps::STATES_FIRST as u32;
        // Heaps of the secure builds are so large that there is no address space for more.
        if heaps.limit > first + 3 {
            heaps.skip(first - 2);
            (first - 2..first + 3).for_each(&mut births);
        }
        let orphans = (0..heaps.count()).filter(|&it| heaps.heap_state(it) == HeapState::Orphan);
        assert_eq!(orphans.count(), addresses.len());
        let places = heaps.places();
        assert_eq!(heaps.heap_at(places.first).unwrap().number, 0);
        // The place that the first heap would have among the others.
        assert!(heaps.heap_at(heaps.base).is_none());
        assert!(places.other_states + Heaps::STATES_FIRST == allocator.layout().more_states);
    }
}
