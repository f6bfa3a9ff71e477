//! The steps of compaction on the units of held slabs: a unit leaves a store, a unit joins a store,
//! and unused pages of stores are returned to the OS.

use super::batch::Batch;
use super::batch::is_empty;
use super::batch::pages;
use super::batch::put;
use crate::keeper::compact::Compactor;
use crate::os::Os;
use crate::reclaim::BATCH;
use crate::remote::announce;
use crate::slab::{Slab, SlotIndex, SlotSet, either, has_slot};

impl<O: Os> Compactor<'_, O> {
    /// Gives separate pages to each shared unit in which its slab has no block left.
    pub(crate) fn leave_groups(self, batch: &mut Batch) {
        for slab in batch.slabs.iter().flatten().filter(|slab| slab.is_shared()) {
            for unit in slab.units().sharing(batch.page) {
                let slots = batch.slots(slab, unit);
                if is_empty(&slab.units().occupied(slots)) {
                    self.leave_group(batch, slab, unit, slots);
                }
            }
        }
    }

    /// Gives one unit separate pages, and the memory that it leaves in the store to other members.
    fn leave_group(
        self,
        batch: &Batch,
        slab: &'static Slab,
        unit: usize,
        (first, end): (usize, usize),
    ) {
        let (address, len) = batch.range(slab, unit);
        let group = slab.units().share(unit);
        // SAFETY: (1) a view of a store; all slots there are held or lent, and if this is the only
        // view no other slab needs the store.
        unsafe {
            if self.groups.members(group).nth(1).is_none() {
                let _ = self.os.empty_store(address, len);
            }
            if self.os.renew(address, len).is_err() {
                return;
            }
        }
        self.mapper().keep_small(address, len);
        let shares = batch.entry.remove(slab, unit);
        for slot in SlotIndex::range(first..end) {
            if batch.entry.may_have(slab, slot, batch.page) {
                slab.units().redeem(slot, true);
            }
        }
        if !shares {
            slab.units().is_private_again();
        }
        // The memory of each slot in the store goes to the first other member that may use it.
        for other in self.groups.members(group) {
            let held = batch.holds(other);
            let mut any = false;
            for slot in SlotIndex::range(first..end) {
                if other.units().is_lent(slot) && batch.entry.may_have(other, slot, batch.page) {
                    other.units().redeem(slot, held);
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

    /// Joins each private unit to the first other unit that uses none of the same slots.
    pub(crate) fn join_groups(self, batch: &mut Batch) {
        let mut partners = [BATCH; BATCH];
        let units =
            batch.slabs.iter().flatten().next().map_or(0, |slab| slab.units().count(batch.page));
        for unit in 0..units {
            let mut used_sets = self.used_by_groups(batch, unit);
            for number in 0..BATCH {
                let Some(Some(slab)) = batch.slabs.get(number).copied() else { continue };
                let Some(Some(used)) = used_sets.get(number).copied() else { continue };
                if slab.units().share(unit) != 0 {
                    continue;
                }
                let fits = |other: usize| {
                    let with = batch.slabs.get(other).copied().flatten()?;
                    let other_used = used_sets.get(other).copied().flatten()?;
                    let group = with.units().share(unit);
                    let open = if group == 0 { other < number } else { self.groups.takes(group) };
                    (open && other != number && batch.gain(slab, unit, &used, &other_used) != 0)
                        .then_some((other, with, other_used))
                };
                let partner = partners.get(number).copied().unwrap_or(BATCH);
                let found = fits(partner).or_else(|| (0..BATCH).find_map(fits));
                let Some((other, with, other_used)) = found else { continue };
                if !self.groups.has_room() {
                    batch.full = true;
                    return;
                }
                let gain = batch.gain(slab, unit, &used, &other_used);
                if self.join(batch, (slab, used), (other, with, other_used), unit) {
                    batch.bytes += gain;
                    put(&mut used_sets, other, Some(either(&other_used, &used)));
                    put(&mut used_sets, number, None);
                    put(&mut partners, number, other);
                }
            }
        }
    }

    /// Returns for each slab of the batch the slots of a unit that its group uses. The entry is
    /// `None` if the group uses no slot, or an earlier slab of the batch has the group's entry.
    fn used_by_groups(self, batch: &Batch, unit: usize) -> [Option<SlotSet>; BATCH] {
        let mut used_sets = [None; BATCH];
        for (number, slab) in batch.slabs.iter().enumerate() {
            let Some(slab) = *slab else { continue };
            let slots = batch.slots(slab, unit);
            let group = slab.units().share(unit);
            let is_member = |other: &&Slab| other.units().share(unit) == group;
            let used = if group == 0 {
                slab.units().occupied(slots)
            } else if batch.slabs.iter().take(number).flatten().any(is_member) {
                continue;
            } else {
                self.groups.members(group).fold(SlotSet::default(), |used, member| {
                    either(&used, &member.units().occupied(slots))
                })
            };
            if !is_empty(&used) {
                put(&mut used_sets, number, Some(used));
            }
        }
        used_sets
    }

    /// Makes a unit of `slab` a view of the store of `with`, and creates that store if `with` has
    /// none. Returns false if the OS refuses or there is no free group.
    fn join(
        self,
        batch: &Batch,
        (slab, used): (&'static Slab, SlotSet),
        (number, with, with_used): (usize, &'static Slab, SlotSet),
        unit: usize,
    ) -> bool {
        let (address, len) = batch.range(slab, unit);
        let (there, _) = batch.range(with, unit);
        if with.units().share(unit) == 0 {
            let Some(group) = batch.entry.empty_group() else { return false };
            let copy = |to| copy_slots(with, &with_used, there, len, to);
            let offset = number * with.pages().mapped_bytes(batch.page) + (there - with.base());
            // SAFETY: (1) the unit of `with` is private, and all its slots are held or copied; (2)
            // each slab of the batch has a separate part of the store.
            if unsafe { self.os.share(batch.sharing, offset, there, len, copy) }.is_err() {
                return false;
            }
            batch.entry.add(group, with, unit);
        }
        let copy = |to| copy_slots(slab, &used, address, len, to);
        // SAFETY: (1) as above; (2) `with` shares its unit, and no slab in the group uses the slots
        // that this slab uses: they are held or lent there.
        if unsafe { self.os.share_with(batch.sharing, there, address, len, copy) }.is_err() {
            return false;
        }
        let (first, end) = batch.slots(slab, unit);
        for slot in SlotIndex::range(first..end) {
            if has_slot(&used, slot) {
                self.groups
                    .members(with.units().share(unit))
                    .for_each(|member| member.units().lend(slot));
            } else {
                slab.units().lend(slot);
            }
        }
        batch.entry.add(with.units().share(unit), slab, unit);
        true
    }

    /// Returns to the OS the pages of stores on which no slab uses a slot.
    pub(crate) fn empty_pages(self, batch: &mut Batch) {
        let mut bytes = 0;
        for slab in batch.slabs.iter().flatten().filter(|slab| slab.is_shared()) {
            for unit in slab.units().sharing(batch.page) {
                let (address, len) = batch.range(slab, unit);
                for offset in pages(len, batch.page) {
                    let start = address - slab.base() + offset;
                    let stop = start + batch.page;
                    let slots @ (first, end) = slab.units().slots_within(start, stop);
                    let within = SlotIndex::range(first..end);
                    let mut members = self.groups.members(slab.units().share(unit));
                    if !within.clone().any(|slot| slab.units().is_held_soiled(slot))
                        || !members.all(|member| is_empty(&member.units().occupied(slots)))
                    {
                        continue;
                    }
                    // SAFETY: (1) a page of a store of which all slots are held or lent in all
                    // views.
                    if unsafe { self.os.empty_store(address + offset, batch.page) }.is_ok() {
                        bytes += batch.page;
                        let whole = |slot: &SlotIndex| {
                            slot.begin(slab.size()) >= start && slot.end(slab.size()) <= stop
                        };
                        within.filter(whole).for_each(|slot| slab.units().is_zero_again(slot));
                    }
                }
            }
        }
        batch.bytes += bytes;
    }
}

/// Copies the slots of a set to `to`, as far as they are in the `len` bytes from `start` on.
fn copy_slots(slab: &Slab, set: &SlotSet, start: usize, len: usize, to: usize) {
    let (first, end) = slab.units().slots_within(start - slab.base(), start - slab.base() + len);
    for slot in SlotIndex::range(first..end).filter(|&slot| has_slot(set, slot)) {
        copy_slot(slab, slot, start, len, to);
    }
}

/// Copies a slot to its place in `to`, as far as it is in the `len` bytes from `start` on.
pub(crate) fn copy_slot(slab: &Slab, slot: SlotIndex, start: usize, len: usize, to: usize) {
    let begin = (slab.slot_address(slot)).max(start);
    let end = (slab.base() + slot.end(slab.size())).min(start + len);
    let from: *const u8 = core::ptr::with_exposed_provenance(begin);
    let to: *mut u8 = core::ptr::with_exposed_provenance_mut(to + (begin - start));
    // SAFETY: both ranges are mapped and disjoint; writers to the first are stopped, and no thread
    // uses the second.
    unsafe { core::ptr::copy_nonoverlapping(from, to, end.saturating_sub(begin)) };
}
