//! Groups of units of slabs that share pages: which slabs are in which.
//!
//! Invariants:
//! - G1 a unit of a slab names a group exactly where the group names the slab.
//! - G2 all members of a group are the same unit of slabs of one partition and class.
//! - G3 of each slot's memory in the unit, one member has the use; of a slot in two units, one at
//!   most.
//! - G4 only a thread that has [`Entry`] changes groups, or what is lent.

use crate::slab::{SLAB_BYTES, Slab, UNITS, Violation};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, StoreChanged};
use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Slabs that share pages of one unit, at most.
pub const MEMBERS: usize = 8;
/// Groups, and units in groups, at most. Each of these units may cost two mappings, and a process
/// has 65 530 by default, of which large blocks and slabs with moved pages have their part.
pub const GROUPS_MAX: usize = 8191;
pub const UNITS_MAX: usize = 16_384;
/// Slabs that one pass scans.
pub const CANDIDATES: usize = 65_536;

/// Why nothing was compacted the last time, or that something could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// No thread has tried.
    Untried = 0,
    /// It went well.
    Done = 1,
    /// The program has other threads, and the system does not let us stop their writes.
    CannotStopWriters = 2,
    /// Threads cannot be made to pass a barrier.
    NoBarrier = 3,
    /// As many units share pages as may.
    Full = 4,
}

impl Status {
    /// For a person.
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

/// The members of a group. The thread that has the entry.
#[derive(Debug)]
struct Group {
    unit: AtomicU32,
    count: AtomicU32,
    /// Numbers of slabs.
    members: [AtomicU32; MEMBERS],
}

/// Lives in the metadata tables, zero at first.
#[derive(Debug)]
struct State {
    /// Not zero while a thread changes groups.
    entered: AtomicU32,
    /// Forks under way: nothing is shared meanwhile.
    forks: AtomicU32,
    /// The system's means to stop writers: see `Os::begin_sharing`.
    kept: AtomicU32,
    /// Groups with members, units in them, and where the next search for an empty one begins.
    groups: AtomicU32,
    units: AtomicU32,
    cursor: AtomicU32,
    status: AtomicU8,
    /// Passes, and bytes of pages that they have given back.
    passes: AtomicUsize,
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
    /// The status's name.
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

/// What is shared, for statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Groups with members.
    pub groups: u32,
    /// Units in them.
    pub units: u32,
    /// Passes so far.
    pub passes: usize,
    /// Bytes of pages that they have given back, by calculation.
    pub given: usize,
    /// What the last came to.
    pub status: Status,
}

/// The right to change groups, while it lasts.
#[derive(Debug)]
pub struct Entry<'a>(&'a Groups);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.state().entered.store(0, SeqCst);
    }
}

impl Groups {
    /// Bytes of tables that `new` needs, zeroed. Only touched pages of it are there.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Before anything is known.
    pub const fn none() -> Groups {
        Groups { state: core::ptr::null(), slabs: 0 }
    }

    /// The groups of a process.
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

    /// Takes the right to change groups; no, while another thread has it or a fork is under way.
    pub fn enter(&self) -> Option<Entry<'_>> {
        let state = self.state();
        if state.entered.compare_exchange(0, 1, SeqCst, Relaxed).is_err() {
            return None;
        }
        let entry = Entry(self);
        // Either a fork that begins now sees us, or we see it: both write first, and look then.
        (state.forks.load(SeqCst) == 0).then_some(entry)
    }

    /// A fork begins: from now on no thread enters that is not in already.
    pub fn fork_begins(&self) {
        self.state().forks.fetch_add(1, SeqCst);
    }

    /// For the thread that forks: enters, unless another is in.
    pub fn enter_to_fork(&self) -> Option<Entry<'_>> {
        let entered = &self.state().entered;
        entered.compare_exchange(0, 1, SeqCst, Relaxed).ok().map(|_| Entry(self))
    }

    /// Whether some thread has the right to change groups.
    pub fn is_entered(&self) -> bool {
        self.state().entered.load(Relaxed) != 0
    }

    /// The fork is done, in the parent.
    pub fn fork_ends(&self) {
        self.state().forks.fetch_sub(1, AcqRel);
    }

    /// In the child of a fork, in which nothing is shared.
    pub fn repair(&self) {
        self.state().forks.store_changed(0, Relaxed);
        self.state().entered.store_changed(0, Relaxed);
    }

    /// For `Os::begin_sharing`.
    pub fn kept(&self) -> &AtomicU32 {
        &self.state().kept
    }

    /// What is shared.
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

    /// Remembers the result of a pass.
    pub fn conclude(&self, status: Status, bytes: usize) {
        let state = self.state();
        state.status.store(status as u8, Relaxed);
        state.passes.fetch_add(1, Relaxed);
        state.given.fetch_add(bytes, Relaxed);
    }

    /// The candidates of a pass: for the thread that has the reclaimer's turn.
    pub fn candidates(&self) -> &[AtomicU64] {
        &self.state().candidates
    }

    /// The number of a slab.
    pub fn number(&self, slab: &Slab) -> u32 {
        (((&raw const *slab).addr() - self.slabs) / SLAB_BYTES) as u32
    }

    /// The slab of a number that `number` has given.
    pub fn slab(&self, number: u32) -> &'static Slab {
        let address = self.slabs + number as usize * SLAB_BYTES;
        // SAFETY: `new` duty 2.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    fn group(&self, group: u32) -> &Group {
        let [nobody, table @ ..] = &self.state().table;
        // Group zero, and what is beyond the table, has no members.
        (group as usize).checked_sub(1).and_then(|at| table.get(at)).unwrap_or(nobody)
    }

    /// The members of a group.
    pub fn members(&self, group: u32) -> impl Iterator<Item = &'static Slab> {
        let group = self.group(group);
        let count = group.count.load(Acquire) as usize;
        group.members.iter().take(count).map(|member| self.slab(member.load(Relaxed)))
    }

    /// Whether another unit may share.
    pub fn has_room(&self) -> bool {
        (self.state().units.load(Relaxed) as usize) < UNITS_MAX
    }

    /// Whether another slab may be put into a group.
    pub fn takes(&self, group: u32) -> bool {
        self.has_room() && (self.group(group).count.load(Relaxed) as usize) < MEMBERS
    }
}

impl Entry<'_> {
    /// The number of a group without members.
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

    /// Puts a slab's unit into a group that takes it.
    pub fn add(&self, group: u32, slab: &Slab, unit: usize) {
        let entry = self.0.group(group);
        let count = entry.count.load(Relaxed);
        if let Some(member) = entry.members.get(count as usize) {
            member.store(self.0.number(slab), Relaxed);
            entry.unit.store(unit as u32, Relaxed);
            entry.count.store(count + 1, Release);
            self.0.state().units.fetch_add(1, Relaxed);
            self.0.state().groups.fetch_add(u32::from(count == 0), Relaxed);
            slab.set_share(unit, group);
        }
    }

    /// Takes a slab's unit out of its group. Returns true if the slab is in others.
    pub fn remove(&self, slab: &Slab, unit: usize) -> bool {
        let entry = self.0.group(slab.share(unit));
        let number = self.0.number(slab);
        let count = entry.count.load(Relaxed) as usize;
        let place = entry.members.iter().take(count).position(|m| m.load(Relaxed) == number);
        if let Some(place) = place {
            // The others keep their order: the first has what is free.
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
        slab.set_share(unit, 0)
    }

    /// Whether the slab may have the use of a slot: no other member of any group that has a part of
    /// the slot's memory has it (G3).
    pub fn may_have(&self, slab: &Slab, slot: usize, page: usize) -> bool {
        let unit = slab.unit_bytes(page).max(1);
        let (first, last) = (slot * slab.size() / unit, ((slot + 1) * slab.size() - 1) / unit);
        (first..=last).filter(|&unit| slab.share(unit) != 0).all(|unit| {
            let mut others =
                self.0.members(slab.share(unit)).filter(|other| !core::ptr::eq(*other, slab));
            others.all(|other| other.is_lent(slot))
        })
    }

    /// A slab that shares something, if any does, from group `from` on; with the group.
    pub fn any_member(&self, from: u32) -> Option<(&'static Slab, u32)> {
        (from.max(1)..=GROUPS_MAX as u32)
            .find_map(|group| Some((self.0.members(group).next()?, group)))
    }

    /// Whether nothing is shared.
    pub fn is_empty(&self) -> bool {
        self.0.state().groups.load(Relaxed) == 0
    }
}

impl Groups {
    /// Verifies G1 to G3. No other thread may be using them.
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
            let bytes = first.unit_bytes(page);
            let (begin, end) = first.slots_within(unit * bytes, (unit + 1) * bytes);
            let mut used = [0u8; crate::slab::SLOTS_MAX];
            for slab in self.members(number) {
                units += 1;
                ensure(unit < UNITS && slab.share(unit) == number, "G1: not named by the slab")?;
                let same = slab.partition() == first.partition() && slab.class() == first.class();
                ensure(same, "G2: of another partition or class")?;
                for (slot, used) in used.iter_mut().enumerate().take(end).skip(begin) {
                    *used += u8::from(!slab.is_lent(slot));
                }
            }
            ensure(used.iter().all(|&users| users <= 1), "G3: a slot's memory used twice")?;
            let size = first.size();
            let within = |slot: usize| {
                slot * size >= unit * bytes && (slot + 1) * size <= (unit + 1) * bytes
            };
            let lost = (begin..end).any(|slot| within(slot) && used.get(slot) == Some(&0));
            ensure(!lost, "G3: a slot's memory lost")?;
        }
        let state = self.state();
        ensure(state.groups.load(Relaxed) == groups, "G1: groups")?;
        ensure(state.units.load(Relaxed) == units, "G1: units")
    }
}
