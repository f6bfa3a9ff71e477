//! The window of zones: its place, the owners of its addresses, and the source of descriptors and
//! records. It is chosen when the first zone is created. A program without zones has no window.

use crate::lock::{Held, Lock, Mine, Undisturbed};
use crate::lot::{GRAIN, Kind, LOT_BYTES, LOT_SHIFT, Lot, Number};
use crate::record::Record;
use crate::zones::Refusal;
use Ordering::{Acquire, Relaxed, Release};
use core::ops::Range;
use toft_core::keyed::Key;
use toft_core::os::{Error, Os};
use toft_core::region::{Carve, STEP};
use toft_core::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The largest window, in bytes of addresses.
const SPAN_MAX: usize = 4 << 40;
/// The smallest window that is worth having.
const SPAN_MIN: usize = 16 << 20;
/// The number of attempts to find a place for the window at each size. Also the number of attempts
/// to find a place for a stretch if foreign mappings are in the way.
const TRIES: u32 = 64;
/// The largest number of zones at a time, which is the number that a handle can distinguish.
const ZONES_MAX: usize = 1 << super::handle::NUMBER_BITS;
/// The largest number of lots between two stretches. The number is random, and at least one.
const GAP_MAX: u64 = 4;
/// The number of bytes of the lot table for each lot.
const PLACE_BYTES: usize = size_of::<AtomicU32>();

/// The state of the window. It is in the metadata tables, and begins as zero. Unless a field's
/// comment differs, the holder of `lock` writes it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) lock: Lock,
    /// The first address. It is written last, so a thread that loads it by Acquire sees the fields
    /// below.
    pub(crate) base: AtomicUsize,
    span: AtomicUsize,
    places_at: AtomicUsize,
    lots_at: AtomicUsize,
    records_at: AtomicUsize,
    tags_at: AtomicUsize,
    key: [AtomicU64; 3],
    places: Carve,
    lots: Carve,
    records: Carve,
    /// The lot where the next search for addresses begins.
    cursor: AtomicUsize,
    /// The number of descriptors, and of records, that were ever in use. They are the first ones of
    /// their table. Any thread reads these two.
    lots_used: AtomicU32,
    records_used: AtomicU32,
    /// The heads of the lists of free descriptors and free records.
    pub(crate) free_lots: AtomicU32,
    pub(crate) free_records: AtomicU32,
    drawn: AtomicU64,
}

/// The window, whose lock the current thread holds.
#[derive(Debug)]
pub(crate) struct Open<'a, O: Os> {
    pub(crate) state: &'a State,
    pub(crate) os: &'a O,
    _held: Held<'a, O>,
    /// Dropped after the lock.
    _undisturbed: Undisturbed<'a, O>,
}

impl State {
    /// Takes the lock of the window. Signals of the calling thread are blocked until it is open
    /// again, because a handler may create and use zones, which needs this lock. The holder maps or
    /// unmaps memory, so two more system calls cost little.
    pub(crate) fn open<'a, O: Os>(&'a self, os: &'a O, me: usize) -> Result<Open<'a, O>, Refusal> {
        let undisturbed = Undisturbed::begin(os);
        let held = self.lock.take(os, me).map_err(|Mine| Refusal::InHandler)?;
        Ok(Open { state: self, os, _held: held, _undisturbed: undisturbed })
    }

    /// Returns true if there is a window.
    pub(crate) fn is_there(&self) -> bool {
        self.base.load(Acquire) != 0
    }

    pub(crate) fn base(&self) -> usize {
        self.base.load(Acquire)
    }

    /// Returns the key of the handles.
    pub(crate) fn key(&self) -> Key {
        let [first, middle, last] = &self.key;
        Key::of_words([first.load(Relaxed), middle.load(Relaxed), last.load(Relaxed)])
    }

    /// Returns the number of the lot at an address, or `None` outside the window.
    pub(crate) fn place_of(&self, address: usize) -> Option<usize> {
        let base = self.base.load(Acquire);
        let offset = address.wrapping_sub(base);
        (base != 0 && offset < self.span.load(Relaxed)).then_some(offset >> LOT_SHIFT)
    }

    pub(crate) fn address_of(&self, place: usize) -> usize {
        // A lot without a place has the highest number, so this wraps.
        self.base().wrapping_add(place << LOT_SHIFT)
    }

    /// Returns the address of the tag of the grain at an address.
    pub(crate) fn tag_at(&self, address: usize) -> usize {
        self.tags_at.load(Relaxed) + (address - self.base()) / GRAIN
    }

    /// Returns the lot table's entry for a lot. `None` means that it is not mapped, so the lot is
    /// not in use.
    pub(crate) fn entry(&self, place: usize) -> Option<&AtomicU32> {
        if (place + 1) * PLACE_BYTES > self.places.mapped() {
            return None;
        }
        let address = self.places_at.load(Relaxed) + place * PLACE_BYTES;
        // SAFETY: mapped for ever, as the comparison above shows. Zero bytes are such a word.
        Some(unsafe { &*core::ptr::with_exposed_provenance(address) })
    }

    /// Returns the descriptor of the lot at an address.
    pub(crate) fn lot_of(&self, address: usize) -> Option<&Lot> {
        self.lot(self.entry(self.place_of(address)?)?.load(Acquire))
    }

    /// Returns the descriptor with a number.
    pub(crate) fn lot(&self, number: Number) -> Option<&Lot> {
        if number == 0 || number > self.lots_used.load(Acquire) {
            return None;
        }
        let address = self.lots_at.load(Relaxed) + (number as usize - 1) * size_of::<Lot>();
        // SAFETY: descriptors that were ever in use are mapped for ever. Zero bytes are a free
        // descriptor.
        Some(unsafe { &*core::ptr::with_exposed_provenance(address) })
    }

    /// Returns all descriptors that were ever in use, with their numbers.
    pub(crate) fn all_lots(&self) -> impl Iterator<Item = (Number, &Lot)> {
        (1..=self.lots_used.load(Acquire)).filter_map(|number| Some((number, self.lot(number)?)))
    }

    /// Returns the record at a place in the table.
    pub(crate) fn record(&self, place: usize) -> Option<&Record> {
        if place >= self.records_used.load(Acquire) as usize {
            return None;
        }
        let address = self.records_at.load(Relaxed) + place * size_of::<Record>();
        // SAFETY: records that were ever in use are mapped for ever. Zero bytes are a free record.
        Some(unsafe { &*core::ptr::with_exposed_provenance(address) })
    }

    /// Returns all records that were ever in use, with their places.
    pub(crate) fn all_records(&self) -> impl Iterator<Item = (usize, &Record)> {
        let used = self.records_used.load(Acquire) as usize;
        (0..used).filter_map(|place| Some((place, self.record(place)?)))
    }

    /// Returns a random word that need not be secret.
    pub(crate) fn draw(&self) -> u64 {
        self.key().mix(self.drawn.fetch_add(1, Relaxed))
    }

    /// Returns the number of bytes that are mapped for the tables of zones.
    pub(crate) fn table_bytes(&self) -> usize {
        self.places.mapped() + self.lots.mapped() + self.records.mapped()
    }

    /// Repairs the tables in the child of a fork.
    pub(crate) fn repair_tables(&self, os: &impl Os) {
        if self.is_there() {
            self.places.repair(os, self.places_at.load(Relaxed));
            self.lots.repair(os, self.lots_at.load(Relaxed));
            self.records.repair(os, self.records_at.load(Relaxed));
        }
    }
}

impl<O: Os> Open<'_, O> {
    /// Chooses the window, clear of the ranges `taken`. Does nothing if there is a window.
    pub(crate) fn begin(&self, taken: &[Range<usize>]) -> Result<(), Refusal> {
        if self.state.is_there() {
            return Ok(());
        }
        let all = self.os.address_space();
        // The kernel or the processor may support fewer address bits. Malloc's windows were placed
        // within them, and its tables are always in the upper half.
        let ends = taken.iter().map(|range| range.end.saturating_sub(all.start));
        let end = ends.max().filter(|&end| end > 0);
        let there = end.and_then(usize::checked_next_power_of_two).unwrap_or(all.len());
        let all = all.start..all.start + there.min(all.len());
        let mut span = (all.len() / 32).min(SPAN_MAX);
        while span >= SPAN_MIN {
            for _ in 0..TRIES {
                if self.try_span(&all, span, taken)? {
                    return Ok(());
                }
            }
            span /= 2;
        }
        Err(Refusal::NoMemory)
    }

    fn random(&self) -> Result<u64, Refusal> {
        self.os.random().map_err(|_| Refusal::NoMemory)
    }

    fn try_span(
        &self,
        all: &Range<usize>,
        span: usize,
        taken: &[Range<usize>],
    ) -> Result<bool, Refusal> {
        let (page, part) = (self.os.page_size().max(1), all.len() / 128);
        let gap = 64 * page;
        let lots = span >> LOT_SHIFT;
        let whole = |bytes: usize| bytes.next_multiple_of(page) + gap;
        let lots_at = whole(lots * PLACE_BYTES);
        let records_at = lots_at + whole(lots * size_of::<Lot>());
        let tags_at = records_at + whole(lots.min(ZONES_MAX) * size_of::<Record>());
        let tables = tags_at + whole(span / GRAIN);
        let (low, high) = (81 * part, 20 * part);
        if span >= low || tables >= high {
            return Ok(false);
        }
        // Like malloc's windows, these are clear of the program, its libraries and its stacks.
        let data = all.start + part + toft_core::keyed::below(self.random()?, low - span);
        let data = data & !(LOT_BYTES - 1);
        let meta = all.start + 90 * part + toft_core::keyed::below(self.random()?, high - tables);
        let meta = meta & !(page - 1);
        let (ours, ours_too) = (data..data + span, meta..meta + tables);
        let apart = |range: &Range<usize>| {
            taken.iter().all(|other| range.end <= other.start || other.end <= range.start)
        };
        let ends = [data, ours.end - LOT_BYTES, meta, ours_too.end - page];
        if !apart(&ours) || !apart(&ours_too) || !ends.iter().all(|&at| self.can_map(at, page)) {
            return Ok(false);
        }
        let state = self.state;
        for word in &state.key {
            word.store(self.random()?, Relaxed);
        }
        state.span.store(span, Relaxed);
        state.places_at.store(meta, Relaxed);
        state.lots_at.store(meta + lots_at, Relaxed);
        state.records_at.store(meta + records_at, Relaxed);
        state.tags_at.store(meta + tags_at, Relaxed);
        state.base.store(data, Release);
        Ok(true)
    }

    fn can_map(&self, address: usize, len: usize) -> bool {
        // SAFETY: (1) mapped by the call before, and known to no other code.
        self.os.map(address, len).is_ok() && unsafe { self.os.unmap(address, len) }.is_ok()
    }

    /// Takes a free record, and returns it with its place.
    pub(crate) fn take_record(&self) -> Result<(usize, &Record), Refusal> {
        let state = self.state;
        let free = state.free_records.load(Relaxed);
        if let Some(place) = free.checked_sub(1)
            && let Some(record) = state.record(place as usize)
        {
            state.free_records.store(record.next.load(Relaxed), Relaxed);
            return Ok((place as usize, record));
        }
        let used = state.records_used.load(Relaxed) as usize;
        if used >= ZONES_MAX.min(state.span.load(Relaxed) >> LOT_SHIFT) {
            return Err(Refusal::NoMemory);
        }
        self.reach(&state.records, &state.records_at, (used + 1) * size_of::<Record>())?;
        state.records_used.store(used as u32 + 1, Release);
        Ok((used, state.record(used).ok_or(Refusal::NoMemory)?))
    }

    /// Puts a record that belongs to no zone any more on the list of free records.
    pub(crate) fn give_record(&self, place: usize, record: &Record) {
        record.next.store(self.state.free_records.load(Relaxed), Relaxed);
        self.state.free_records.store(place as u32 + 1, Relaxed);
    }

    fn reach(&self, run: &Carve, at: &AtomicUsize, bytes: usize) -> Result<(), Refusal> {
        let start = at.load(Relaxed);
        run.reach(self.os, start, start + bytes, STEP).map_err(|_| Refusal::NoMemory)
    }

    /// Takes a free descriptor, and returns it with its number.
    pub(crate) fn take_lot(&self) -> Result<(Number, &Lot), Refusal> {
        let state = self.state;
        let free = state.free_lots.load(Relaxed);
        if let Some(lot) = state.lot(free) {
            state.free_lots.store(lot.next.load(Relaxed), Relaxed);
            return Ok((free, lot));
        }
        let used = state.lots_used.load(Relaxed);
        if used as usize >= state.span.load(Relaxed) >> LOT_SHIFT {
            return Err(Refusal::NoMemory);
        }
        self.reach(&state.lots, &state.lots_at, (used as usize + 1) * size_of::<Lot>())?;
        state.lots_used.store(used + 1, Release);
        Ok((used + 1, state.lot(used + 1).ok_or(Refusal::NoMemory)?))
    }

    /// Puts a descriptor on the list of free descriptors.
    pub(crate) fn give_lot(&self, number: Number, lot: &Lot) {
        lot.set_kind(Kind::Free);
        lot.next.store(self.state.free_lots.load(Relaxed), Relaxed);
        self.state.free_lots.store(number, Relaxed);
    }

    /// Writes `number` into the entries of `lots` lots of the lot table.
    pub(crate) fn mark(&self, place: usize, lots: usize, number: Number) {
        for entry in (place..place + lots).filter_map(|place| self.state.entry(place)) {
            entry.store(number, Release);
        }
    }

    /// Finds addresses of `lots` lots that are not in use, starting at a multiple of `align` lots.
    pub(crate) fn find(&self, lots: usize, align: usize) -> Result<usize, Refusal> {
        let all = self.state.span.load(Relaxed) >> LOT_SHIFT;
        let gap = 1 + (self.state.draw() % GAP_MAX) as usize;
        let needed = lots.checked_add(gap).filter(|&n| n < all).ok_or(Refusal::NoMemory)?;
        let begin = self.state.cursor.load(Relaxed);
        // The alignment is that of the address, not that of the place in the window.
        let first = self.state.base() >> LOT_SHIFT;
        let (mut at, mut round) = (begin, false);
        loop {
            let aligned = (first + at).checked_next_multiple_of(align);
            at = aligned.map_or(all, |aligned| (aligned - first).min(all));
            if at + needed > all {
                if round {
                    return Err(Refusal::NoMemory);
                }
                (at, round) = (0, true);
                continue;
            }
            if round && at >= begin {
                return Err(Refusal::NoMemory);
            }
            let bytes = (at + needed) * PLACE_BYTES;
            self.reach(&self.state.places, &self.state.places_at, bytes)?;
            // The lot before is checked too: the lots next to a zone's are never in use.
            let taken = (at.saturating_sub(1)..at + needed).rev().find(|&place| {
                self.state.entry(place).is_some_and(|entry| entry.load(Relaxed) != 0)
            });
            match taken {
                Some(place) => at = place + 2,
                None => {
                    self.go_on_at(at + needed);
                    return Ok(at);
                }
            }
        }
    }

    /// Maps `bytes` bytes at addresses that are not in use, and returns the first lot. If something
    /// foreign is mapped there, the search moves on, by a distance that doubles each time.
    pub(crate) fn map(
        &self,
        bytes: usize,
        align: usize,
        mut claim: impl FnMut(usize),
        mut unclaim: impl FnMut(usize),
    ) -> Result<usize, Refusal> {
        let lots = bytes.div_ceil(LOT_BYTES);
        for tried in 0..TRIES {
            let place = self.find(lots, align)?;
            claim(place);
            match self.os.map(self.state.address_of(place), bytes) {
                Ok(()) => return Ok(place),
                Err(Error::Occupied) => {
                    unclaim(place);
                    self.go_on_at(place + lots + (1usize << tried.min(20)));
                }
                Err(_) => {
                    unclaim(place);
                    return Err(Refusal::NoMemory);
                }
            }
        }
        Err(Refusal::NoMemory)
    }

    /// Sets where the next search begins. If that is on another page of the lot table, discards the
    /// page of the previous place if it is empty.
    fn go_on_at(&self, place: usize) {
        let before = self.state.cursor.swap(place, Relaxed);
        if self.page_of(before) != self.page_of(place) {
            self.discard_table_page(before);
        }
    }

    fn page_of(&self, place: usize) -> usize {
        place * PLACE_BYTES / self.os.page_size().max(1)
    }

    /// Discards the page of the lot table that has a lot's entry, if all entries of the page are
    /// zero and the next search does not begin there.
    pub(crate) fn discard_table_page(&self, place: usize) {
        let page = self.os.page_size();
        let each = (page / PLACE_BYTES).max(1);
        if self.page_of(self.state.cursor.load(Relaxed)) == self.page_of(place) {
            return;
        }
        let first = place / each * each;
        let whole = self.state.entry(first + each - 1).is_some();
        let says_nothing = (first..first + each)
            .all(|place| self.state.entry(place).is_some_and(|entry| entry.load(Relaxed) == 0));
        if whole && says_nothing {
            let at = self.state.places_at.load(Relaxed) + first * PLACE_BYTES;
            // SAFETY: (1) mapped by `reach`. Zeros stay zeros, and only the lock's holder writes
            // other values.
            let _ = unsafe { self.os.discard(at, page) };
        }
    }
}
