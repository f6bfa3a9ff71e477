//! Compaction: sparse slabs of one (partition, class) come to share pages.
//!
//! ```text
//! choose    slabs that are at most half full, in order of (partition, class), up to 64 at a time
//! hold      all their free slots: none becomes fuller           (slab/hold.rs, slab/lend.rs)
//! leave     units in which a slab has nothing any more get pages of their own
//! join      units of which no slot is used by both become views of one store       (os/share.rs)
//! empty     pages of stores that nobody needs go back
//! let go    and tell the owners what they have overlooked
//! ```
//!
//! Addresses stay what they were: a slab is in its partition and class for ever (law 1), and each slot's
//! memory is at one slab's disposal at a time (G3). Before a fork everything is made private again.

use super::{Allocator, Call, Which};
use crate::os::{Os, Sharing, wait_for};
use crate::reclaim::{BATCH, Entry, Shared, Status, Turn, sort};
use crate::remote::announce;
use crate::slab::{FLAGS, Slab, SlotSet, are_disjoint, either, has_slot};
use crate::sync::Ordering::Relaxed;
use crate::thread::Heap;

/// Most slots of a slab that may be in use, as a divisor of all.
const SPARSE: u32 = 2;
/// What a pass has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of pages that have gone back, by calculation.
    pub bytes: usize,
    /// Whether there may be more for a later pass.
    pub more: bool,
}

/// When the reclaimer's thread compacts: at every fourth sweep, and more and more rarely while that is of
/// no use.
#[derive(Debug, Default)]
pub(super) struct Passes {
    left: u32,
    pause: u32,
}

const PAUSE_LEAST: u32 = 3;
const PAUSE_MOST: u32 = 63;

impl Passes {
    pub(super) fn are_due(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Says whether there may be more for a pass soon.
    pub(super) fn note(&mut self, done: Option<Compacted>) -> bool {
        let done = done.unwrap_or_default();
        let useful = done.bytes != 0;
        self.pause =
            if useful { PAUSE_LEAST } else { (2 * self.pause).clamp(PAUSE_LEAST, PAUSE_MOST) };
        self.left = self.pause;
        (useful || done.more) && self.pause < PAUSE_MOST
    }
}

/// Slabs whose free slots are held.
struct Batch<'a> {
    turn: &'a Turn<'a>,
    entry: &'a Entry<'a>,
    sharing: &'a Sharing,
    slabs: [Option<&'static Slab>; BATCH],
    page: usize,
    bytes: usize,
    full: bool,
}

impl<O: Os> Allocator<O> {
    /// Lets sparse slabs share pages: all, or what has lain idle since the pass before. Does nothing unless
    /// the option says so, or while another thread is at it.
    pub fn compact(&self, which: Which) -> Option<Compacted> {
        self.compact_beside(which, Some(self.reclaimer.threads()))
    }

    /// The same, where `own` threads of the process are ours, the calling one not counted; or the calling one
    /// is ours.
    pub(super) fn compact_beside(&self, which: Which, own: Option<u32>) -> Option<Compacted> {
        if !self.options.compact || self.os.process() != self.reclaimer.process() {
            return Some(Compacted::default());
        }
        let turn = self.reclaimer.begin()?;
        let mut done = Compacted::default();
        let status = self.compact_all(&turn, which, own, &mut done).err().unwrap_or(Status::Done);
        self.groups.conclude(status, done.bytes);
        Some(done)
    }

    /// What stops writers is asked for while the program has its rights: our thread has none.
    pub(super) fn prepare_to_compact(&self) {
        if self.options.compact
            && let Some(_permit) = self.permit()
            && let Ok(sharing) = self.os.begin_sharing(None, self.groups.kept(), 0)
        {
            self.os.end_sharing(sharing);
        }
    }

    /// The same, now, after others have had their turn.
    pub fn compact_now(&self, heap: &Heap) -> usize {
        let unclaim = |heap: &Heap| {
            let Some(_seat) = heap.sit() else { return };
            self.for_each_slab(|slab| {
                if heap.owns(slab) && slab.is_shared() {
                    slab.unclaim();
                }
            });
        };
        if self.options.compact {
            // What this thread, and threads that have ended, would have handed out next is free, too.
            unclaim(heap);
            (0..self.heaps.count()).for_each(|number| self.heaps.with_orphan(number, unclaim));
        }
        for _ in 0..2 {
            if let Some(done) = self.compact(Which::Free) {
                return done.bytes;
            }
            wait_for(&self.os, || !self.reclaimer.is_sweeping());
        }
        0
    }

    /// What is shared.
    pub fn shared(&self) -> Shared {
        self.groups.figures()
    }

    fn compact_all(
        &self,
        turn: &Turn,
        which: Which,
        own: Option<u32>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        // Unusual calls are made below.
        let Some(_permit) = self.permit() else { return Err(Status::CannotStopWriters) };
        if !self.barrier() {
            return Err(Status::NoBarrier);
        }
        let candidates = self.groups.candidates();
        let mut count = 0;
        let here = (&raw const count).addr();
        self.for_each_slab(|slab| {
            if self.may_be_compacted(slab, which, here, &mut done.more)
                && let Some(place) = candidates.get(count)
            {
                let pair = slab.partition() << 8 | slab.class().index();
                place.store((pair as u64) << 32 | u64::from(self.groups.number(slab)), Relaxed);
                count += 1;
            }
        });
        let candidates = candidates.get(..count).unwrap_or(&[]);
        sort(candidates);
        let mut rest = candidates;
        let mut result = Ok(());
        while let Some(first) = rest.first()
            && result.is_ok()
        {
            let pair = first.load(Relaxed) >> 32;
            let same =
                rest.iter().take(BATCH).take_while(|c| c.load(Relaxed) >> 32 == pair).count();
            let slabs = rest.get(..same).unwrap_or(&[]);
            rest = rest.get(same.max(1)..).unwrap_or(&[]);
            let slab_of = |number: u64| self.groups.slab(number as u32);
            if same > 1 || slabs.iter().any(|s| slab_of(s.load(Relaxed)).is_shared()) {
                let slabs = slabs.iter().map(|s| slab_of(s.load(Relaxed)));
                result = self.compact_some(turn, slabs, own, done);
            }
        }
        result
    }

    /// Whether a slab is sparse, or shares pages already; of idle ones only, where that is asked for.
    fn may_be_compacted(&self, slab: &Slab, which: Which, here: usize, more: &mut bool) -> bool {
        let owner = slab.owner.load(Relaxed) & !FLAGS;
        // What fills pages alone goes back page by page.
        let wanted = slab.size() < self.os.page_size()
            && !slab.is_dormant()
            && self.heaps.heap_at(owner).is_some()
            && (slab.is_shared() || slab.is_sparse(SPARSE));
        if !wanted {
            return false;
        }
        if which == Which::Idle && !slab.is_calm() {
            *more = true;
            return false;
        }
        // A thread whose stack is a block of ours must not stop its own writes.
        !(slab.base()..slab.base() + slab.tier().slab_bytes()).contains(&here)
    }

    /// Compacts slabs of one pair.
    fn compact_some(
        &self,
        turn: &Turn,
        slabs: impl Iterator<Item = &'static Slab> + Clone,
        own: Option<u32>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        let store = slabs.clone().map(|slab| slab.tier().slab_bytes()).sum();
        // A handler that forks would wait for this thread.
        let signals = self.os.shut_out_signals();
        let mut result = Ok(());
        if let Some(entry) = self.groups.enter() {
            result = match self.os.begin_sharing(own, self.groups.kept(), store) {
                Ok(sharing) => {
                    let result = self.compact_batch(turn, &entry, &sharing, slabs, done);
                    self.os.end_sharing(sharing);
                    result
                }
                Err(_) => Err(Status::CannotStopWriters),
            };
        }
        self.os.let_in_signals(signals);
        result
    }

    fn compact_batch(
        &self,
        turn: &Turn,
        entry: &Entry,
        sharing: &Sharing,
        slabs: impl Iterator<Item = &'static Slab>,
        done: &mut Compacted,
    ) -> Result<(), Status> {
        let (page, slots) = (self.os.page_size(), [None; BATCH]);
        let mut batch = Batch { turn, entry, sharing, slabs: slots, page, bytes: 0, full: false };
        self.hold_batch(&mut batch, slabs);
        self.leave_groups(&mut batch);
        self.join_groups(&mut batch);
        self.empty_pages(&mut batch);
        self.let_go(&mut batch);
        done.bytes += batch.bytes;
        if batch.full { Err(Status::Full) } else { Ok(()) }
    }

    fn hold_batch(&self, batch: &mut Batch, slabs: impl Iterator<Item = &'static Slab>) {
        let mut places = batch.slabs.iter_mut();
        for slab in slabs {
            batch.turn.add(slab);
            if !slab.hold_all() {
                batch.turn.take_back();
            } else if let Some(place) = places.next() {
                *place = Some(slab);
            }
        }
        let can = self.barrier();
        for place in &mut batch.slabs {
            let Some(slab) = *place else { continue };
            let quiet = can && self.is_quiet(slab);
            slab.settle(quiet);
            // What its owner is just changing is left alone: `turn` remembers to leave it.
            if !quiet || slab.is_dormant() {
                self.let_go_of(slab);
                *place = None;
            }
        }
    }

    /// Units in which a slab has nothing any more are its own again.
    fn leave_groups(&self, batch: &mut Batch) {
        for slab in batch.slabs.iter().flatten().filter(|slab| slab.is_shared()) {
            for unit in 0..slab.units(batch.page) {
                let slots = batch.slots(slab, unit);
                if slab.share(unit) != 0 && is_empty(&slab.occupied(slots)) {
                    self.leave_group(batch, slab, unit, slots);
                }
            }
        }
    }

    fn leave_group(
        &self,
        batch: &Batch,
        slab: &'static Slab,
        unit: usize,
        (first, end): (usize, usize),
    ) {
        let (address, len) = batch.range(slab, unit);
        let group = slab.share(unit);
        // SAFETY: (1) a view of a store; all slots there are held or lent, and if this is the only view
        // nobody needs the store.
        unsafe {
            if self.groups.members(group).nth(1).is_none() {
                let _ = self.os.empty_store(address, len);
            }
            if self.os.renew(address, len).is_err() {
                return;
            }
        }
        let shares = batch.entry.remove(slab, unit);
        for slot in first..end {
            if batch.entry.may_have(slab, slot, batch.page) {
                slab.redeem(slot, true);
            }
        }
        if !shares {
            slab.is_private_again();
        }
        // What it had the use of is for the first who may have it.
        for other in self.groups.members(group) {
            let held = batch.holds(other);
            let mut any = false;
            for slot in first..end {
                if other.is_lent(slot) && batch.entry.may_have(other, slot, batch.page) {
                    other.redeem(slot, held);
                    any = true;
                }
            }
            if any {
                other.disturb();
                if !held {
                    announce(other);
                }
            }
        }
        slab.disturb();
    }

    /// Each unit that is a slab's own joins the first other with which it has no slot in common.
    fn join_groups(&self, batch: &mut Batch) {
        let mut partners = [BATCH; BATCH];
        let units = batch.slabs.iter().flatten().next().map_or(0, |slab| slab.units(batch.page));
        for unit in 0..units {
            let mut spaces = self.spaces(batch, unit);
            for number in 0..BATCH {
                let Some(Some(slab)) = batch.slabs.get(number).copied() else { continue };
                let Some(Some(used)) = spaces.get(number).copied() else { continue };
                if slab.share(unit) != 0 {
                    continue;
                }
                let fits = |other: usize| {
                    let with = batch.slabs.get(other).copied().flatten()?;
                    let space = spaces.get(other).copied().flatten()?;
                    let group = with.share(unit);
                    let open = if group == 0 { other < number } else { self.groups.takes(group) };
                    (open && other != number && batch.gain(slab, unit, &used, &space) != 0)
                        .then_some((other, with, space))
                };
                let partner = partners.get(number).copied().unwrap_or(BATCH);
                let found = fits(partner).or_else(|| (0..BATCH).find_map(fits));
                let Some((other, with, space)) = found else { continue };
                if !self.groups.has_room() {
                    batch.full = true;
                    return;
                }
                let gain = batch.gain(slab, unit, &used, &space);
                if self.join(batch, (slab, used), (other, with, space), unit) {
                    batch.bytes += gain;
                    put(&mut spaces, other, Some(either(&space, &used)));
                    put(&mut spaces, number, None);
                    put(&mut partners, number, other);
                }
            }
        }
    }

    /// For each slab the slots of a unit that it or those that it shares with use; nothing where that is
    /// said with another slab of the group, or where there are none.
    fn spaces(&self, batch: &Batch, unit: usize) -> [Option<SlotSet>; BATCH] {
        let mut spaces = [None; BATCH];
        for (number, slab) in batch.slabs.iter().enumerate() {
            let Some(slab) = *slab else { continue };
            let slots = batch.slots(slab, unit);
            let group = slab.share(unit);
            let used = if group == 0 {
                slab.occupied(slots)
            } else if batch.slabs.iter().take(number).flatten().any(|s| s.share(unit) == group) {
                continue;
            } else {
                self.groups
                    .members(group)
                    .fold(SlotSet::default(), |used, member| either(&used, &member.occupied(slots)))
            };
            if !is_empty(&used) {
                put(&mut spaces, number, Some(used));
            }
        }
        spaces
    }

    /// Makes a unit a view of the store that another slab has, which gets one if it has none.
    fn join(
        &self,
        batch: &Batch,
        (slab, used): (&'static Slab, SlotSet),
        (number, with, space): (usize, &'static Slab, SlotSet),
        unit: usize,
    ) -> bool {
        let (address, len) = batch.range(slab, unit);
        let (there, _) = batch.range(with, unit);
        if with.share(unit) == 0 {
            let Some(group) = batch.entry.empty_group() else { return false };
            let copy = |to| copy_slots(with, &space, there, len, to);
            let offset = number * with.tier().slab_bytes() + (there - with.base());
            // SAFETY: (1) a part of a slab that is its own; all its slots are held, or copied; (2) each slab
            // of the batch has its part of the store.
            if unsafe { self.os.share(batch.sharing, offset, there, len, copy) }.is_err() {
                return false;
            }
            batch.entry.add(group, with, unit);
        }
        let copy = |to| copy_slots(slab, &used, address, len, to);
        // SAFETY: (1) as above; (2) `with` shares its unit, and nobody in the group uses the slots that
        // this slab uses: they are held or lent there.
        if unsafe { self.os.share_with(batch.sharing, there, address, len, copy) }.is_err() {
            return false;
        }
        let (first, end) = batch.slots(slab, unit);
        for slot in first..end {
            if has_slot(&used, slot) {
                self.groups.members(with.share(unit)).for_each(|member| member.lend(slot));
            } else {
                slab.lend(slot);
            }
        }
        batch.entry.add(with.share(unit), slab, unit);
        true
    }

    /// Gives pages of stores back of which nobody uses a slot.
    fn empty_pages(&self, batch: &mut Batch) {
        let mut bytes = 0;
        for slab in batch.slabs.iter().flatten().filter(|slab| slab.is_shared()) {
            for unit in (0..slab.units(batch.page)).filter(|&unit| slab.share(unit) != 0) {
                let (address, len) = batch.range(slab, unit);
                for offset in pages(len, batch.page) {
                    let start = address - slab.base() + offset;
                    let stop = start + batch.page;
                    let slots @ (first, end) = slab.slots_within(start, stop);
                    let mut members = self.groups.members(slab.share(unit));
                    if !(first..end).any(|slot| slab.is_held_soiled(slot))
                        || !members.all(|member| is_empty(&member.occupied(slots)))
                    {
                        continue;
                    }
                    // SAFETY: (1) a page of a store of which all slots are held or lent in all views.
                    if unsafe { self.os.empty_store(address + offset, batch.page) }.is_ok() {
                        bytes += batch.page;
                        let whole = |slot: &usize| {
                            slot * slab.size() >= start && (slot + 1) * slab.size() <= stop
                        };
                        (first..end).filter(whole).for_each(|slot| slab.is_zero_again(slot));
                    }
                }
            }
        }
        batch.bytes += bytes;
    }

    fn let_go(&self, batch: &mut Batch) {
        batch.slabs.iter().flatten().for_each(|slab| self.let_go_of(slab));
        let can = self.barrier();
        for slab in batch.turn.slabs() {
            if slab.is_overlooked(!can || !self.is_quiet(slab)) {
                announce(slab);
            }
            slab.leave();
        }
        batch.turn.clear();
    }

    fn let_go_of(&self, slab: &Slab) {
        if let Some(slot) = slab.let_go_all() {
            self.freed_twice(slab, slot, Call::RemoteFree);
        }
    }
}

impl Batch<'_> {
    fn slots(&self, slab: &Slab, unit: usize) -> (usize, usize) {
        let bytes = slab.unit_bytes(self.page);
        slab.slots_within(unit * bytes, (unit + 1) * bytes)
    }

    fn range(&self, slab: &Slab, unit: usize) -> (usize, usize) {
        let bytes = slab.unit_bytes(self.page);
        (slab.base() + unit * bytes, bytes)
    }

    fn holds(&self, slab: &Slab) -> bool {
        self.slabs.iter().flatten().any(|held| core::ptr::eq(*held, slab))
    }

    /// Bytes of pages that are saved where two sets of slots share them; none where they cannot.
    fn gain(&self, slab: &Slab, unit: usize, a: &SlotSet, b: &SlotSet) -> usize {
        if !are_disjoint(a, b) {
            return 0;
        }
        let bytes = slab.unit_bytes(self.page);
        let both = pages(bytes, self.page).filter(|offset| {
            let start = unit * bytes + offset;
            let (first, end) = slab.slots_within(start, start + self.page);
            let uses = |set| (first..end).any(|slot| has_slot(set, slot));
            uses(a) && uses(b)
        });
        both.count() * self.page
    }
}

/// The offsets of the pages of so many bytes. Not `step_by`, which may panic.
fn pages(bytes: usize, page: usize) -> impl Iterator<Item = usize> {
    (0..bytes / page.max(1)).map(move |number| number * page)
}

fn is_empty(set: &SlotSet) -> bool {
    set.iter().all(|&bits| bits == 0)
}

fn put<T>(places: &mut [T], number: usize, value: T) {
    if let Some(place) = places.get_mut(number) {
        *place = value;
    }
}

/// Copies what lies within `len` bytes from `start` on of the slots of a set to `to`.
fn copy_slots(slab: &Slab, set: &SlotSet, start: usize, len: usize, to: usize) {
    let (first, end) = slab.slots_within(start - slab.base(), start - slab.base() + len);
    for slot in (first..end).filter(|&slot| has_slot(set, slot)) {
        copy_slot(slab, slot, start, len, to);
    }
}

pub(super) fn copy_slot(slab: &Slab, slot: usize, start: usize, len: usize, to: usize) {
    let begin = (slab.base() + slot * slab.size()).max(start);
    let end = (slab.base() + (slot + 1) * slab.size()).min(start + len);
    let from: *const u8 = core::ptr::with_exposed_provenance(begin);
    let to: *mut u8 = core::ptr::with_exposed_provenance_mut(to + (begin - start));
    // SAFETY: both are mapped, and apart; nobody writes to the one (writers are stopped), and nobody
    // uses the other.
    unsafe { core::ptr::copy_nonoverlapping(from, to, end.saturating_sub(begin)) };
}
