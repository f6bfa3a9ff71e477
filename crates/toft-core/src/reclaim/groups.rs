//! Groups of units of slabs that share pages, with their members.
//!
//! Invariants:
//! - G1 a unit of a slab names a group exactly if the group names the slab.
//! - G2 all members of a group are the same unit of slabs of one partition, class and length.
//! - G3 exactly one member has the use of each slot's memory in the unit; for a slot in two units,
//!   at most one.
//! - G4 only a thread that has [`Entry`] changes groups or lent slots.

use crate::slab::{SLAB_BYTES, Slab, SlotIndex, UNITS, Violation};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, StoreChanged};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The most slabs that share pages of one unit.
pub const MEMBERS: usize = 8;
/// The most groups.
pub const GROUPS_MAX: usize = 8191;
/// The most units in groups. Each may cost two mappings. A process has 65 530 by default, and large
/// blocks and slabs with moved pages also need some.
pub const UNITS_MAX: usize = 16_384;
/// The number of slabs that one pass scans.
pub const CANDIDATES: usize = 65_536;

/// The result of the last pass: done, or the reason why nothing could be compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// No thread has tried.
    Untried = 0,
    /// The last pass was completed.
    Done = 1,
    /// The program has other threads, and the system cannot stop their writes.
    CannotStopWriters = 2,
    /// The threads cannot be made to pass a barrier.
    NoBarrier = 3,
    /// The number of units that share pages has reached its limit.
    Full = 4,
}

impl Status {
    /// Returns a text for a person.
    pub fn text(self) -> &'static str {
        match self {
            Status::Untried => "not tried",
            Status::Done => "done",
            Status::CannotStopWriters => {
                "not possible: other threads' writes cannot be stopped (userfaultfd)"
            }
            Status::NoBarrier => "not possible: no membarrier",
            Status::Full => "as much as may be is shared",
        }
    }
}

/// The members of a group. Written by the thread that has the entry.
#[derive(Debug)]
struct Group {
    unit: AtomicU32,
    count: AtomicU32,
    /// The numbers of the slabs.
    members: [AtomicU32; MEMBERS],
}

/// The shared data of all groups. In the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// Not zero while a thread has the entry.
    entered: AtomicU32,
    /// The number of forks in progress. Nothing is shared meanwhile.
    forks: AtomicU32,
    /// The system's means to stop writers (`Os::begin_sharing`).
    kept: AtomicU32,
    /// The number of groups with members.
    groups: AtomicU32,
    /// The number of units in groups.
    units: AtomicU32,
    /// The group at which the next search for an empty group begins.
    cursor: AtomicU32,
    status: AtomicU8,
    /// The number of passes.
    passes: AtomicUsize,
    /// The bytes of pages that the passes have returned to the OS.
    given: AtomicUsize,
    table: [Group; GROUPS_MAX + 1],
    candidates: [AtomicU64; CANDIDATES],
}

/// All groups.
#[derive(Debug)]
pub struct Groups {
    state: *const State,
    slabs: usize,
}

impl Status {
    /// Returns the status's name.
    pub fn name(self) -> &'static str {
        match self {
            Status::Untried => "untried",
            Status::Done => "done",
            Status::CannotStopWriters => "cannot stop writers",
            Status::NoBarrier => "no barrier",
            Status::Full => "full",
        }
    }
}

/// The figures about sharing, for statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The number of groups with members.
    pub groups: u32,
    /// The number of units in groups.
    pub units: u32,
    /// The number of passes so far.
    pub passes: usize,
    /// The bytes of pages that the passes have returned to the OS. Computed, not measured.
    pub given: usize,
    /// The result of the last pass.
    pub status: Status,
}

/// The right to change groups. It ends when this value is dropped.
#[derive(Debug)]
pub struct Entry<'a>(&'a Groups);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.state().entered.store(0, SeqCst);
    }
}

impl Groups {
    /// The number of bytes of zeroed tables that `new` needs. Only the touched pages have memory.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns a value without groups, for the time before the start.
    pub const fn none() -> Groups {
        Groups { state: core::ptr::null(), slabs: 0 }
    }

    /// Returns the groups of a process.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. Descriptors of slabs are at multiples of `SLAB_BYTES` from `slabs` on, live for ever, and
    ///    are less than 2^32.
    pub unsafe fn new(tables: usize, slabs: usize) -> Groups {
        Groups { state: core::ptr::with_exposed_provenance(tables), slabs }
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    /// Takes the right to change groups. Returns `None` while another thread has it or a fork is in
    /// progress.
    pub fn enter(&self) -> Option<Entry<'_>> {
        let state = self.state();
        if state.entered.compare_exchange(0, 1, SeqCst, Relaxed).is_err() {
            return None;
        }
        let entry = Entry(self);
        // Either a fork that begins now sees this entry, or this thread sees the fork. Both sides
        // write first and then read.
        (state.forks.load(SeqCst) == 0).then_some(entry)
    }

    /// Notes that a fork begins. From now on no thread takes the entry, except by `enter_to_fork`.
    pub fn fork_begins(&self) {
        self.state().forks.fetch_add(1, SeqCst);
    }

    /// Takes the entry for the thread that forks. Returns `None` if another thread has it.
    pub fn enter_to_fork(&self) -> Option<Entry<'_>> {
        let entered = &self.state().entered;
        entered.compare_exchange(0, 1, SeqCst, Relaxed).ok().map(|_| Entry(self))
    }

    /// Returns true if some thread has the right to change groups.
    pub fn is_entered(&self) -> bool {
        self.state().entered.load(Relaxed) != 0
    }

    /// Notes that a fork is done. In the parent.
    pub fn fork_ends(&self) {
        self.state().forks.fetch_sub(1, AcqRel);
    }

    /// In the child of a fork, in which nothing is shared: resets the forks and the entry.
    pub fn repair(&self) {
        self.state().forks.store_changed(0, Relaxed);
        self.state().entered.store_changed(0, Relaxed);
    }

    /// Returns the word for `Os::begin_sharing`.
    pub fn kept(&self) -> &AtomicU32 {
        &self.state().kept
    }

    /// Returns the figures about sharing.
    pub fn figures(&self) -> Shared {
        let state = self.state();
        Shared {
            groups: state.groups.load(Relaxed),
            units: state.units.load(Relaxed),
            passes: state.passes.load(Relaxed),
            given: state.given.load(Relaxed),
            status: match state.status.load(Relaxed) {
                0 => Status::Untried,
                1 => Status::Done,
                2 => Status::CannotStopWriters,
                3 => Status::NoBarrier,
                _ => Status::Full,
            },
        }
    }

    /// Stores the result of a pass.
    pub fn conclude(&self, status: Status, bytes: usize) {
        let state = self.state();
        state.status.store(status as u8, Relaxed);
        state.passes.fetch_add(1, Relaxed);
        state.given.fetch_add(bytes, Relaxed);
    }

    /// Returns the table of candidates of a pass, for the thread that has the reclaimer's turn.
    pub fn candidates(&self) -> &[AtomicU64] {
        &self.state().candidates
    }

    /// Returns the number of a slab.
    pub fn number(&self, slab: &Slab) -> u32 {
        (((&raw const *slab).addr() - self.slabs) / SLAB_BYTES) as u32
    }

    /// Returns the slab with a number that `number` has returned.
    pub fn slab(&self, number: u32) -> &'static Slab {
        let address = self.slabs + number as usize * SLAB_BYTES;
        // SAFETY: `new` duty 2.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    fn group(&self, group: u32) -> &Group {
        let [nobody, table @ ..] = &self.state().table;
        // Group zero has no members, and neither has a group after the table.
        (group as usize).checked_sub(1).and_then(|at| table.get(at)).unwrap_or(nobody)
    }

    /// Returns the members of a group.
    pub fn members(&self, group: u32) -> impl Iterator<Item = &'static Slab> {
        let group = self.group(group);
        let count = group.count.load(Acquire) as usize;
        group.members.iter().take(count).map(|member| self.slab(member.load(Relaxed)))
    }

    /// Returns true if another unit may share pages.
    pub fn has_room(&self) -> bool {
        (self.state().units.load(Relaxed) as usize) < UNITS_MAX
    }

    /// Returns true if a group has room for another slab.
    pub fn takes(&self, group: u32) -> bool {
        self.has_room() && (self.group(group).count.load(Relaxed) as usize) < MEMBERS
    }
}

impl Entry<'_> {
    /// Returns the number of a group without members, or `None` if there is none.
    pub fn empty_group(&self) -> Option<u32> {
        let state = self.0.state();
        let begin = state.cursor.load(Relaxed) as usize;
        if state.groups.load(Relaxed) as usize >= GROUPS_MAX {
            return None;
        }
        let found = (0..GROUPS_MAX)
            .map(|step| ((begin + step) % GROUPS_MAX + 1) as u32)
            .find(|&group| self.0.group(group).count.load(Relaxed) == 0)?;
        state.cursor.store(found, Relaxed);
        Some(found)
    }

    /// Adds a slab's unit to a group that has room for it.
    pub fn add(&self, group: u32, slab: &Slab, unit: usize) {
        let entry = self.0.group(group);
        let count = entry.count.load(Relaxed);
        if let Some(member) = entry.members.get(count as usize) {
            member.store(self.0.number(slab), Relaxed);
            entry.unit.store(unit as u32, Relaxed);
            entry.count.store(count + 1, Release);
            self.0.state().units.fetch_add(1, Relaxed);
            self.0.state().groups.fetch_add(u32::from(count == 0), Relaxed);
            slab.units().set_share(unit, group);
        }
    }

    /// Removes a slab's unit from its group. Returns true if the slab has units in other groups.
    pub fn remove(&self, slab: &Slab, unit: usize) -> bool {
        let entry = self.0.group(slab.units().share(unit));
        let number = self.0.number(slab);
        let count = entry.count.load(Relaxed) as usize;
        let place = entry.members.iter().take(count).position(|m| m.load(Relaxed) == number);
        if let Some(place) = place {
            // The other members keep their order: the first has the use of free slots' memory.
            for next in place + 1..count {
                if let (Some(to), Some(from)) =
                    (entry.members.get(next - 1), entry.members.get(next))
                {
                    to.store(from.load(Relaxed), Relaxed);
                }
            }
            entry.count.store(count as u32 - 1, Release);
            self.0.state().units.fetch_sub(1, Relaxed);
            self.0.state().groups.fetch_sub(u32::from(count == 1), Relaxed);
        }
        slab.units().set_share(unit, 0)
    }

    /// Returns true if a slab may get the use of a slot's memory. No other member of a group that
    /// covers a part of that memory has the use of the slot then (G3).
    pub fn may_have(&self, slab: &Slab, slot: SlotIndex, page: usize) -> bool {
        let units = slab.units();
        let unit = units.unit_bytes(page).max(1);
        let (first, last) = (slot.begin(slab.size()) / unit, (slot.end(slab.size()) - 1) / unit);
        (first..=last).filter(|&unit| units.share(unit) != 0).all(|unit| {
            let mut others =
                self.0.members(units.share(unit)).filter(|other| !core::ptr::eq(*other, slab));
            others.all(|other| other.units().is_lent(slot))
        })
    }

    /// Returns a slab that shares pages and its group, from group `from` on. Returns `None` if
    /// there is none.
    pub fn any_member(&self, from: u32) -> Option<(&'static Slab, u32)> {
        (from.max(1)..=GROUPS_MAX as u32)
            .find_map(|group| Some((self.0.members(group).next()?, group)))
    }

    /// Returns true if nothing is shared.
    pub fn is_empty(&self) -> bool {
        self.0.state().groups.load(Relaxed) == 0
    }
}

impl Groups {
    /// Verifies G1 to G3. No other thread may use the groups.
    pub fn check(&self, page: usize) -> Result<(), Violation> {
        let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(Violation(what)) };
        if self.figures().groups == 0 {
            return ensure(self.figures().units == 0, "G1: units");
        }
        let (mut groups, mut units) = (0, 0);
        for number in 1..=GROUPS_MAX as u32 {
            let unit = self.group(number).unit.load(Relaxed) as usize;
            let Some(first) = self.members(number).next() else { continue };
            groups += 1;
            let bytes = first.units().unit_bytes(page);
            let (begin, end) = first.units().slots_within(unit * bytes, (unit + 1) * bytes);
            let mut used = [0u8; crate::slab::SLOTS_MAX];
            for slab in self.members(number) {
                units += 1;
                ensure(
                    unit < UNITS && slab.units().share(unit) == number,
                    "G1: not named by the slab",
                )?;
                let same = slab.partition() == first.partition()
                    && slab.class() == first.class()
                    && slab.slots() == first.slots();
                ensure(same, "G2: of another partition, class or length")?;
                for (slot, used) in used.iter_mut().enumerate().take(end).skip(begin) {
                    *used += u8::from(!slab.units().is_lent(SlotIndex::new(slot)));
                }
            }
            ensure(used.iter().all(|&users| users <= 1), "G3: a slot's memory used twice")?;
            let size = first.size();
            let within = |slot: SlotIndex| {
                slot.begin(size) >= unit * bytes && slot.end(size) <= (unit + 1) * bytes
            };
            let unused = |slot: SlotIndex| used.get(slot.number()) == Some(&0);
            let lost = SlotIndex::range(begin..end).any(|slot| within(slot) && unused(slot));
            ensure(!lost, "G3: a slot's memory lost")?;
        }
        let state = self.state();
        ensure(state.groups.load(Relaxed) == groups, "G1: groups")?;
        ensure(state.units.load(Relaxed) == units, "G1: units")
    }
}
